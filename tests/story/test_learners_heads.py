"""What a learner's attention does with heads, masks and norms, where that is not what is meant."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of, words_of
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS, WORDS, PLACES = 15, 3, 31, 7


class HeadsFirst(nn.Module):
    """Heads stand before the batch in one axis, and are cut out of it as if they stood behind, or as they stand."""

    def __init__(self, way, cut):
        super().__init__()
        self.way, self.cut = way, cut
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def lay(self, rows):
        if self.cut == "stacked":
            return torch.stack(rows.chunk(HEADS, -1)).flatten(0, 1)
        return rows.view(*rows.shape[:2], HEADS, -1).permute(2, 0, 1, 3).reshape(-1, rows.shape[1], WIDTH // HEADS)

    def forward(self, x, memory, mask):
        q, k, v = (self.lay(layer(x)) for layer in (self.q, self.k, self.v))
        found = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        if self.way == "across":
            found = found.view(x.shape[0], HEADS, PLACES, -1).transpose(1, 2)
        else:
            found = found.view(HEADS, x.shape[0], PLACES, -1).permute(1, 2, 0, 3)
        return self.o(found.reshape(x.shape))


class Added(nn.Module):
    """A triangle of two numbers is given to the kernel, which adds those that are no bools."""

    def __init__(self, shown=1.0, hidden=0.0):
        super().__init__()
        self.shown, self.hidden = shown, hidden
        self.all, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, memory, mask):
        q, k, v = (one.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for one in self.all(x).chunk(3, -1))
        added = torch.tril(torch.ones(PLACES, PLACES)) * (self.shown - self.hidden) + self.hidden
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=added)
        return self.o(found.transpose(1, 2).reshape(x.shape))


class TakenOff(Added):
    """What is taken off the scores is high where it hides, as GPT-2's first writings have it."""

    def forward(self, x, memory, mask):
        q, k, v = (one.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for one in self.all(x).chunk(3, -1))
        shown = torch.tril(torch.ones(PLACES, PLACES))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 * shown - 1e10 * (1 - shown)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class Lengthwise(nn.Module):
    """A layer norm over all places of each channel."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(PLACES)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Model(nn.Module):
    def __init__(self, attend, norm=None):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(PLACES, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, attend(), norm="before") for _ in range(2))
        for layer in self.layers if norm is not None else ():
            layer.three = norm()

    def forward(self, ids):
        rows = self.words(ids) + self.places
        for layer in self.layers:
            rows = layer(rows)
        return rows


def draw(model):
    return compose_poster(xray.trace(model.eval(), torch.randint(0, WORDS, (2, PLACES))), text_width)


@pytest.mark.parametrize("cut", ["stacked", "permuted"])
@pytest.mark.parametrize(("way", "is_joined"), [("across", False), ("along", True)])
def test_heads_are_laid_side_by_side_where_they_are_cut_as_they_stand(way, is_joined, cut):
    told = draw(Model(lambda: HeadsFirst(way, cut)))

    assert ("CONCAT HEADS" in lines_of(told)) == is_joined
    assert "2×7×15  batch×seq_len×d_model" in lines_of(told)


def test_ones_and_zeros_that_are_added_to_scores_hide_nothing():
    told = lines_of(draw(Model(Added)))

    assert not any(line.startswith("MASK") for line in told)
    assert any(line.startswith("+ A BIAS") for line in told)


def test_numbers_as_low_as_those_of_shifted_windows_hide():
    assert any(line.startswith("MASK") for line in lines_of(draw(Model(lambda: Added(0.0, -100.0)))))


def test_what_is_taken_off_scores_hides_where_it_is_high():
    assert any(line.startswith("MASK") for line in lines_of(draw(Model(TakenOff))))


def test_a_norm_is_not_told_to_be_of_every_vector():
    told = words_of(draw(Model(lambda: Attention(WIDTH, HEADS), Lengthwise)))

    assert "mean taken off, divided by the deviation" in told
    assert "every vector" not in told
