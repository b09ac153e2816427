"""A layer that is a module of a list holds what that module does, wherever its parts stand on the poster."""

from itertools import pairwise

import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames
from xray.story.sheet.shares import list_shares

WIDTH = 12


class Norm(nn.Module):
    """A norm written out."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        off = x - x.mean(-1, keepdim=True)
        return off / (off.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * self.weight + self.bias


class Thinking(nn.Module):
    """An attention and a feed-forward with norms written out before them."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.look = Norm(), Norm(), Attention(WIDTH, 3)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        normed = self.first(x)
        x = x + self.look(normed, normed)
        return x + self.think(self.second(x))


class Again(nn.Module):
    """One layer that runs three times (the universal transformer)."""

    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(31, WIDTH), Thinking()

    def forward(self, ids):
        x = self.words(ids)
        for _ in range(3):
            x = self.layer(x)
        return x


class Skipping(nn.Module):
    """Blocks that all have a linear layer for what an earlier one gave, of which the later ones alone use theirs."""

    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(31, WIDTH), nn.ModuleList(SkippingBlock() for _ in range(4))

    def forward(self, ids):
        x, given = self.words(ids), []
        for number, block in enumerate(self.blocks):
            x = block(x, given.pop() if number >= 2 else None)
            given += [x] if number < 2 else []
        return x


class SkippingBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.join, self.layer = nn.Linear(2 * WIDTH, WIDTH), Layer(WIDTH, Attention(WIDTH, 3), norm="before")

    def forward(self, x, given):
        return self.layer(x if given is None else self.join(torch.cat([x, given], dim=-1)))


class Matching(nn.Module):
    """Two clouds that go through the same layers by turns, at themselves, and at each other (GeoTransformer)."""

    def __init__(self):
        super().__init__()
        self.first, self.other = nn.Linear(3, WIDTH), nn.Linear(3, WIDTH)
        self.layers = nn.ModuleList(Meeting() for _ in range(4))

    def forward(self, one, other):
        one, other = self.first(one), self.other(other)
        for number, layer in enumerate(self.layers):
            if number % 2:
                one = layer(one, other)
                other = layer(other, one)
            else:
                one, other = layer(one, one), layer(other, other)
        return one, other


class Meeting(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.norm, self.last = Attention(WIDTH, 3), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, memory):
        x = self.norm(x + self.look(x, memory))
        return self.last(x + self.think(x))


def count(module):
    return sum(one.numel() for one in module.parameters())


def told(model):
    trace = xray.trace(model.eval(), torch.arange(14).view(2, 7))
    return " ".join(" ".join(lines_of(compose_poster(trace, text_width))).split())


def test_norms_of_a_layer_that_runs_again_and_again_are_its_own():
    assert f"{count(Again().layer):,} parameters" in told(Again())


def test_layers_do_not_differ_by_what_some_hold_and_do_not_use():
    words = told(Skipping())

    assert f"{count(Skipping().blocks[0]):,} parameters" in words
    assert "fewer" not in words
    assert " more" not in words


def test_layers_that_two_streams_go_through_count_what_each_is_and_nothing_of_those_before():
    trace = xray.trace(Matching().eval(), torch.rand(2, 7, 3), torch.rand(2, 5, 3))
    columns = read_columns(trace)
    counted = [count_frames(one.reading, one.towering, one.frames, {}) for one in columns]

    whole = count(Meeting())
    frames = [frame for frames in counted for frame in frames]
    assert frames
    assert {frame.params for frame in frames} == {whole}
    assert all(sum(panel.params for panel in frame.panels) <= whole for frame in frames)


class Wrapped(nn.Module):
    """A block in a list of its own, with a norm and linear layers around it, past which the stream goes (UNet 3D)."""

    def __init__(self):
        super().__init__()
        self.norm, self.enter, self.leave = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Layer(WIDTH, Attention(WIDTH, 3), norm="before")])

    def forward(self, x):
        inner = self.enter(self.norm(x))
        for block in self.blocks:
            inner = block(inner)
        return x + self.leave(inner)


class Filmed(nn.Module):
    """Such a one before layers."""

    def __init__(self):
        super().__init__()
        self.words, self.wrapped = nn.Embedding(31, WIDTH), Wrapped()
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.wrapped(self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_layer_around_a_list_of_one_block_has_what_stands_around_that_too():
    model = Filmed()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    (first, others) = count_frames(column.reading, column.towering, column.frames, {})

    assert first.params == first.panels[0].params == count(model.wrapped)
    assert others.params == count(model.layers[0])


class Spreading(nn.Module):
    """Convolutions beside a stream that both go on from a norm, and a stream that gets wider on its way if need be."""

    def __init__(self, given, width):
        super().__init__()
        self.norm, self.past = nn.BatchNorm2d(given), nn.Conv2d(given, width, 1) if given != width else nn.Identity()
        self.mix = nn.Sequential(
            nn.Conv2d(given, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, x):
        x = self.norm(x).relu()
        return self.mix(x) + self.past(x)


def test_layers_count_the_norm_in_which_they_end_and_none_before_them():
    blocks = nn.Sequential(*(Spreading(*widths) for widths in pairwise((6, 10, 14, 14, 14, 14, 18))))
    head = (nn.BatchNorm2d(18), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(18, 5))
    trace = xray.trace(nn.Sequential(nn.Conv2d(3, 6, 3), blocks, *head).eval(), torch.rand(2, 3, 7, 7))
    (column,) = read_columns(trace)
    counted = [frame.params for frame in column.frames for _ in frame.group.layers]

    assert counted[0] == count(blocks[0]) - count(blocks[0].norm)
    assert counted[1] == count(blocks[1]) + count(blocks[2].norm)
    assert sum(counted) == {name: n for name, _, n in list_shares([column], trace)}["convolution × 6"]
