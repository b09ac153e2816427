"""Padding that one query reads is told as padding, be it that many queries read the very same mask or not."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS = 12, 3


class Attention(nn.Module):
    def __init__(self, hide):
        super().__init__()
        self.query, self.both, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.hide = hide

    def forward(self, x, looked_at, seen):
        ways = (self.query(x), *self.both(looked_at).chunk(2, dim=-1))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in ways)
        return x + self.out(self.hide(query, key, value, seen).transpose(1, 2).flatten(2))


class Layers(nn.Module):
    """Layers whose words look at each other, and then one learned row looks at the words, be it by the same mask."""

    def __init__(self, hide, *, is_same=True):
        super().__init__()
        self.words, self.row, self.is_same = nn.Embedding(9, WIDTH), nn.Parameter(torch.rand(1, 1, WIDTH)), is_same
        self.first, self.second = Attention(hide), Attention(hide)
        self.one, self.other = Attention(hide), Attention(hide)

    def forward(self, ids):
        seen = (ids != 0)[:, None]
        x = self.words(ids)
        if self.is_same:
            x = self.second(self.first(x, x, seen), x, seen)
        row = self.row.expand(len(ids), -1, -1)
        return self.other(self.one(row, x, seen), x, seen)


def weigh(scores, value):
    return scores.softmax(-1) @ value


HIDING = [
    lambda q, k, v, seen: functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None]),
    lambda q, k, v, seen: weigh((q @ k.mT).masked_fill(seen.unsqueeze(1) == 0, -torch.inf), v),
    lambda q, k, v, seen: weigh((q @ k.mT).masked_fill(~seen[:, None], -1e9), v),
    lambda q, k, v, seen: weigh(torch.where(seen.unsqueeze(1), q @ k.mT, -torch.inf), v),
]


def list_remarks(model):
    ids = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 0, 0]])
    layout = compose_poster(xray.trace(model.eval(), ids), text_width)
    lines = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    return {line.split(":")[0] for line in lines if line.startswith("hides ")}


@pytest.mark.parametrize("hide", HIDING)
@pytest.mark.parametrize("is_same", [True, False])
def test_what_ids_are_held_to_hides_padding_from_one_query_too(hide, is_same):
    assert list_remarks(Layers(hide, is_same=is_same)) == {"hides padding"}
