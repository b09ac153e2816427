"""Tables of biases that layers share, and weights that one layer works with twice (RegionViT)."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import text_of
from story.parameter_bars import bars_of, count, poster_of
from torch import nn

WIDTH, HEADS, PLACES = 15, 3, 7


class Biased(Attention):
    """Attention that adds to its scores the mask that it is given, here a learned bias."""

    def forward(self, x, memory=None, mask=None):
        q, k, v = (
            one(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for one in (self.first, self.second, self.third)
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = scores if mask is None else scores + mask
        return self.last((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Twice(Layer):
    """A layer that looks twice with one set of weights, with a bias the second time."""

    def __init__(self, inner):
        super().__init__(WIDTH, Biased(WIDTH, HEADS), norm="before")
        self.two = nn.Sequential(nn.Linear(WIDTH, inner), nn.GELU(), nn.Linear(inner, WIDTH))

    def forward(self, x, memory=None, mask=None):
        x = x + self.one(self.three(x))
        x = x + self.one(self.three(x), mask=mask)
        return x + self.two(self.four(x))


class Stage(nn.Module):
    """Layers that are alike, and one table for all of them."""

    def __init__(self, inner, layers):
        super().__init__()
        self.table = nn.Embedding(2 * PLACES - 1, HEADS)
        self.layers = nn.ModuleList(Twice(inner) for _ in range(layers))

    def forward(self, x):
        far = torch.arange(PLACES)
        bias = self.table(far[:, None] - far + PLACES - 1).permute(2, 0, 1)[None]
        for layer in self.layers:
            x = layer(x, mask=bias)
        return x


@pytest.fixture(scope="module")
def stages():
    return nn.Sequential(nn.Embedding(31, WIDTH), Stage(61, 3), Stage(37, 2))


@pytest.fixture(scope="module")
def poster(stages):
    return poster_of(stages, torch.arange(2 * PLACES).view(2, PLACES))


def test_a_table_of_which_a_closed_box_tells_is_not_told_as_not_drawn(poster):
    told = [(box, text_of(line)) for box in poster.boxes for line in box.lines]
    closed = [box for box, line in told if "added to scores" in line]

    assert ["forward/2.table#0" in box.steps for box in closed] == [True]
    assert not [line for _, line in told if "Not drawn" in line or "table" in line]


def test_of_how_many_the_weights_are_is_not_said_where_some_have_new_ones_and_such_as_were_there_before(stages, poster):
    layers = [layer for stage in stages[1:] for layer in stage.layers]
    parts = [part for layer in layers for part in (layer.one, layer.three)]

    assert bars_of(poster)["self-attention × 10"] == count(*parts, *(stage.table for stage in stages[1:]))
