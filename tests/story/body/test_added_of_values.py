"""A number of each value that is added to the scores of its key is told, with what makes it (Doge)."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, softplus

import xray
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions

WIDTH, HEADS, D_K = 15, 3, 5
TOLD = "A number for each head, made of a key's value, is added to its scores: "


class Meets(nn.Module):
    """Attention to whose scores a number of each key is added, made of its value or of the row that asks."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.count, self.slopes = nn.Linear(WIDTH, HEADS), nn.Parameter(torch.rand(HEADS))

    def forward(self, x):
        q, k, v = (made(x).view(*x.shape[:2], HEADS, D_K).transpose(1, 2) for made in (self.q, self.k, self.v))
        numbers = self.count(x if self.how == "of the rows" else v.transpose(1, 2).flatten(2))
        numbers = torch.exp(self.slopes * softplus(numbers)) if self.how == "bent" else numbers
        bias = numbers.transpose(-1, -2)[:, :, None, :].expand(-1, -1, x.shape[1], -1)
        found = scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.look, self.norm, self.again = Meets(how), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH))

    def forward(self, x):
        x = x + self.look(self.norm(x))
        return x + self.think(self.again(x))


def anatomy_of(how):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(31, WIDTH), Layer(how), Layer(how))
    return xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7)))


@pytest.mark.parametrize(
    ("how", "steps", "formula"),
    [
        ("plain", ("linear",), "linear of V."),
        (
            "bent",
            ("linear", "softplus", "learned", "exp"),
            "exp(A · softplus(linear of V)), where A is learned.",
        ),
    ],
)
def test_a_number_of_each_value_in_the_scores_is_told_as_a_formula(how, steps, formula):
    found = anatomy_of(how)

    assert {one.added_of_values for one in attentions(found)} == {steps}
    assert TOLD + formula in list_sentences(found)


def test_a_number_that_is_not_made_of_values_is_not_called_that():
    found = anatomy_of("of the rows")

    assert {one.added_of_values for one in attentions(found)} == {None}
    assert not any(text.startswith(TOLD) for text in list_sentences(found))
