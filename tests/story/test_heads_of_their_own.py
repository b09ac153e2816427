"""Attentions side by side, each a module with linear layers of its own: what each found lies beside the others'."""

import pytest
import torch
from printed import lines_of
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

COUNT, PLACES = 3, 5


class Head(nn.Module):
    """One head, its keys turned to columns (the video lecture of nanoGPT)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH // COUNT) for _ in range(3))

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).transpose(-2, -1) * (WIDTH // COUNT) ** -0.5).softmax(-1)
        return weights @ self.v(x)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.heads = nn.ModuleList(Head() for _ in range(COUNT))

    def forward(self, x):
        read = self.norm(x)
        return x + self.out(torch.cat([head(read) for head in self.heads], dim=-1))


def test_attentions_that_lie_side_by_side_are_counted_and_keys_of_no_heads_are_turned():
    model = nn.Sequential(Heads(), FeedForwardPart(), Heads(), FeedForwardPart())
    (column,) = read_columns(xray.trace(model, torch.rand(2, PLACES, WIDTH)))

    names = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert f"WITH {COUNT - 1} OTHER ATTENTIONS BESIDE IT" in names
    assert "TRANSPOSE K^T" in names
    assert not any("CUT ANEW" in name for name in names)


class Halves(nn.Module):
    """Two attentions, each of half the channels, with a convolution of its values (CSWin), or one and a convolution."""

    def __init__(self, *heads):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.near, self.heads = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=1) for _ in heads), heads

    def look(self, near, heads, *three):
        q, k, v = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in three)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        mixed = near(three[-1].mT).mT
        return (weights @ v + mixed.unflatten(-1, (heads, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)

    def forward(self, x):
        halves = zip(*(one.chunk(2, -1) for one in self.qkv(self.norm(x)).chunk(3, -1)), strict=True)
        given = zip(self.near, self.heads, halves, strict=True)
        made = [self.look(near, heads, *half) if heads else near(half[-1].mT).mT for near, heads, half in given]
        return x + self.out(torch.cat(made, -1))


@pytest.mark.parametrize(
    ("heads", "beside", "all_heads"),
    [((2, 2), "ANOTHER ATTENTION", 4), ((2, 4), "ANOTHER ATTENTION", None), ((2, 0), "A CONVOLUTION", 2)],
)
def test_another_attention_with_a_convolution_of_its_values_is_no_convolution(heads, beside, all_heads):
    trace = xray.trace(nn.Sequential(Halves(*heads), nn.LayerNorm(16), Halves(*heads)), torch.rand(2, PLACES, 16))
    columns = read_columns(trace)
    panels = [panel for column in columns for frame in column.frames for panel in frame.panels]
    labels = {node.label for panel in panels for node in panel.chart.nodes}
    found = [one for one in anatomy(trace).towers[0].branches if isinstance(one, Attention)]

    assert f"WITH {beside} BESIDE IT" in labels
    assert "CONCAT HEADS" in labels
    assert {one.heads for one in found} == {all_heads}
    assert any("convolution" in name for name, *_ in list_shares(columns, trace)) == (0 in heads)


class Crossed(nn.Module):
    """Two attentions, each of half the channels: one in rows, one in columns of a map, cut elsewhere or not (CAT)."""

    def __init__(self, rolled):
        super().__init__()
        self.norm, self.qkv, self.out, self.rolled = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), rolled

    def look(self, sizes, *three):
        down, across = (8 // size for size in sizes)
        cut = (one.reshape(-1, down, sizes[0], across, sizes[1], 8).transpose(2, 3) for one in three)
        rows = (one.reshape(-1, sizes[0] * sizes[1], 2, 4).transpose(1, 2) for one in cut)
        q, k, v = rows
        found = (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v
        laid = found.transpose(1, 2).reshape(-1, down, across, *sizes, 8)
        return laid.transpose(2, 3).reshape(-1, 8, 8, 8)

    def forward(self, x):
        halves = zip(*(one.chunk(2, -1) for one in self.qkv(self.norm(x)).chunk(3, -1)), strict=True)
        made = []
        for sizes, three in zip(((2, 8), (8, 2)), halves, strict=True):
            maps = [one.unflatten(1, (8, 8)) for one in three]
            maps = [one.roll((1, 1), (1, 2)) for one in maps] if self.rolled else maps
            found = self.look(sizes, *maps)
            made.append(found.roll((-1, -1), (1, 2)) if self.rolled else found)
        return x + self.out(torch.cat(made, -1).flatten(1, 2))


def test_heads_in_windows_of_two_shapes_are_all_counted_and_no_window_is_told():
    trace = xray.trace(nn.Sequential(*map(Crossed, (False, True, False, True))), torch.rand(2, 64, 16))
    found = [one for one in anatomy(trace).towers[0].branches if isinstance(one, Attention)]

    assert {(one.heads, one.window, one.partial) for one in found} == {(4, None, True)}
    assert [one.rolled for one in found] == [False, True]  # each rolls its own rows, and these back
    assert "Windows:" not in " ".join(lines_of(compose_poster(trace, text_width)))


class Between(Crossed):
    """The same, but the second half looks at means of its windows, which have looked at all rows of these (GRL)."""

    def look(self, sizes, *three):
        if sizes == (2, 8):
            return super().look(sizes, *three)
        q, k, v = (one.flatten(1, 2).unflatten(-1, (2, 4)).transpose(1, 2) for one in three)
        means = q.unflatten(2, (-1, 4)).mean(3)
        found = (means @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v
        found = (q @ means.transpose(-2, -1) * 0.5).softmax(-1) @ found
        return found.transpose(1, 2).reshape(-1, 8, 8, 8)


def test_a_window_is_not_all_that_a_place_sees_where_others_look_through_rows_between():
    trace = xray.trace(nn.Sequential(*map(Between, (False, True, False, True))), torch.rand(2, 64, 16))
    found = [one for one in anatomy(trace).towers[0].branches if isinstance(one, Attention)]

    assert [(one.window, one.rolled) for one in found] == [(None, False), (None, True)]
    assert "no more than" not in " ".join(lines_of(compose_poster(trace, text_width)))
