"""Layers of fewer rows in the middle, around which a sum goes, are layers as those before them (Squeezeformer)."""

import pytest
import torch
from printed import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS, ROWS = 14, 2, 9


class Added(nn.Module):
    """What a module makes of rows, added to these."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + x


class Looks(nn.Module):
    """Each row looks at all."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x, need_weights=False)[0]


class Convolves(nn.Module):
    """Each row is mixed with those next to it."""

    def __init__(self):
        super().__init__()
        self.around = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        return self.around(x.mT).mT


def think():
    return nn.Sequential(nn.Linear(WIDTH, 31), nn.SiLU(), nn.Linear(31, WIDTH))


class Block(nn.Module):
    """Attention, a feed-forward, a convolution and a feed-forward, each added and normed."""

    def __init__(self):
        super().__init__()
        parts = (Looks(), think(), Convolves(), think())
        self.parts = nn.Sequential(*(one for part in parts for one in (Added(part), nn.LayerNorm(WIDTH))))

    def forward(self, x):
        return self.parts(x)


class Squeezes(nn.Module):
    """Blocks, half as many rows for two of them, and as many again; what each of these reads may be added to it."""

    def __init__(self, *, wrapped):
        super().__init__()
        self.first, self.last, self.less = nn.Linear(5, WIDTH), nn.Linear(WIDTH, 4), nn.Linear(2 * WIDTH, WIDTH)
        self.more = nn.Linear(WIDTH, WIDTH)
        inner = (Added(Block()) if wrapped else Block() for _ in range(2))
        self.layers = nn.ModuleList([Block(), Block(), *inner, Block()])

    def forward(self, x):
        x = self.first(x)
        for number, layer in enumerate(self.layers):
            if number == 2:
                before, x = x, self.less(x[:, : ROWS - 1].reshape(len(x), ROWS // 2, -1))
            if number == 4:
                x = self.more(x.repeat_interleave(2, dim=1)) + before[:, : ROWS - 1]
            x = layer(x)
        return self.last(x)


def record(*, wrapped):
    torch.manual_seed(0)
    return xray.trace(Squeezes(wrapped=wrapped).eval(), torch.rand(2, ROWS, 5))


@pytest.fixture(scope="module")
def wrapped():
    return record(wrapped=True)


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_each_block_is_a_layer(is_wrapped):
    (tower,) = xray.anatomy(record(wrapped=is_wrapped)).towers
    parts = {tuple(branch.part for stage in group.stages for branch in stage.branches) for group in tower.groups}

    assert tower.layers == 5
    assert parts == {("attention", "feed_forward", "convolution", "feed_forward")}


def test_rows_that_are_left_out_of_what_is_added_are_told_with_the_sum(wrapped):
    words = words_of(compose_poster(wrapped, text_width))

    assert "+ THE FIRST 8 OF 9 ROWS OF WHAT LAYER 2 GAVE" in words
    assert "lists" not in words


def test_it_is_said_behind_which_layers_what_they_began_with_is_added(wrapped):
    told = "Behind layers 3–4 of the stack tower, what each began with is added."

    assert told in words_of(compose_poster(wrapped, text_width))
    assert "Behind layer" not in words_of(compose_poster(record(wrapped=False), text_width))
