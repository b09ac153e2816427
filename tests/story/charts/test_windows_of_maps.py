"""Maps that are cut into windows of as many places as a map has columns (Swin2SR)."""

from functools import partial

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import max_pool2d, pad, scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns

SIDE, PIECE = 4, 2


class InWindows(nn.Module):
    """Places of a map, rolled by one, look at those of their own window."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        rows = self.norm(x).view(BATCH, SIDE, SIDE, WIDTH).roll((-1, -1), dims=(1, 2))
        cut = rows.view(BATCH, SIDE // PIECE, PIECE, SIDE // PIECE, PIECE, WIDTH).transpose(2, 3)
        pieces = cut.reshape(-1, PIECE * PIECE, WIDTH)
        split = [one(pieces).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value)]
        made = self.out(scaled_dot_product_attention(*split).transpose(1, 2).flatten(2))
        back = made.view(BATCH, SIDE // PIECE, SIDE // PIECE, PIECE, PIECE, WIDTH).transpose(2, 3)
        whole = back.reshape(BATCH, SIDE, SIDE, WIDTH).roll((1, 1), dims=(1, 2))
        return x + whole.view(BATCH, SIDE * SIDE, WIDTH)


def test_rows_that_are_laid_out_as_a_map_before_they_are_cut_into_windows_say_so():
    parts = nn.Linear(7, WIDTH), InWindows(), FeedForwardPart(), InWindows(), FeedForwardPart()
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.randn(BATCH, SIDE * SIDE, 7))
    charts = [panel.chart for column in read_columns(trace) for frame in column.frames for panel in frame.panels]
    labels = [node.label for node in charts[0].nodes]

    assert labels.count("CUT INTO WINDOWS OF 4") == 1
    assert "LAID OUT IN 4 ROWS OF 4" in labels


class InPaddedWindows(InWindows):
    """Places of a map, with rows and columns of padding around it, look at those of their own window of a map."""

    def forward(self, x):
        side = SIDE + PIECE
        rows = pad(self.norm(x), (0, 0, 0, 1, 0, 1))
        cut = rows.view(BATCH, side // PIECE, PIECE, side // PIECE, PIECE, WIDTH).transpose(2, 3)
        pieces = cut.reshape(-1, PIECE, PIECE, WIDTH)
        split = [self.cut_into_heads(one(pieces)) for one in (self.query, self.key, self.value)]
        seen = scaled_dot_product_attention(*split).transpose(1, 2)
        made = self.out(seen.reshape(-1, PIECE, PIECE, WIDTH))
        back = made.view(BATCH, side // PIECE, side // PIECE, PIECE, PIECE, WIDTH).transpose(2, 3)
        return x + back.reshape(BATCH, side, side, WIDTH)[:, : SIDE + 1, : SIDE + 1, :]

    def cut_into_heads(self, pieces):
        return pieces.view(-1, PIECE * PIECE, HEADS, WIDTH // HEADS).transpose(1, 2)


class InPooledWindows(InPaddedWindows):
    """The same, with the queries of a window pooled to one, and so the places that go on (SAM 2)."""

    def forward(self, x):
        kept, many = x.shape[1] // PIECE, x.shape[1] // PIECE + 1
        rows = pad(self.norm(x), (0, 0, 0, PIECE, 0, PIECE))
        pieces = rows.view(BATCH, many, PIECE, many, PIECE, WIDTH).transpose(2, 3).reshape(-1, PIECE, PIECE, WIDTH)
        query, key, value = (one(pieces) for one in (self.query, self.key, self.value))
        split = [one.reshape(len(one), -1, HEADS, WIDTH // HEADS).transpose(1, 2) for one in (pool(query), key, value)]
        made = self.out(scaled_dot_product_attention(*split).transpose(1, 2).reshape(-1, 1, 1, WIDTH))
        back = made.view(BATCH, many, many, 1, 1, WIDTH).transpose(2, 3).reshape(BATCH, many, many, WIDTH)
        return pool(x) + back[:, :kept, :kept, :]


def pool(x):
    return max_pool2d(x.permute(0, 3, 1, 2), PIECE).permute(0, 2, 3, 1)


@pytest.mark.parametrize(("part", "side"), [(InPaddedWindows, SIDE + 1), (InPooledWindows, 2 * SIDE)])
def test_windows_that_are_a_map_again_without_its_padding_say_so(part, side):
    parts = nn.Linear(7, WIDTH), part(), FeedForwardPart(), part(), FeedForwardPart()
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.randn(BATCH, side, side, 7))
    charts = [panel.chart for column in read_columns(trace) for frame in column.frames for panel in frame.panels]
    labels = [node.label for chart in charts for node in chart.nodes]

    assert labels[labels.index("WINDOWS JOINED, PADDING OFF") + 1] == "ADD"
    assert "CUT ANEW" not in labels


class InRolledWindows(InPaddedWindows):
    """The same, with places rolled before they are cut into windows and rolled back behind (MONAI's Swin)."""

    def __init__(self, *, in_front):
        super().__init__()
        self.around = (0, 0, 1, 0, 1, 0) if in_front else (0, 0, 0, 1, 0, 1)

    def forward(self, x):
        side = SIDE + PIECE
        rows = pad(self.norm(x), self.around).roll((-1, -1), dims=(1, 2))
        cut = rows.view(BATCH, side // PIECE, PIECE, side // PIECE, PIECE, WIDTH).transpose(2, 3)
        pieces = cut.reshape(-1, PIECE * PIECE, WIDTH)
        split = [self.cut_into_heads(one(pieces)) for one in (self.query, self.key, self.value)]
        made = self.out(scaled_dot_product_attention(*split).transpose(1, 2).reshape(-1, PIECE * PIECE, WIDTH))
        back = made.view(BATCH, side // PIECE, side // PIECE, PIECE, PIECE, WIDTH).transpose(2, 3)
        whole = back.reshape(BATCH, side, side, WIDTH).roll((1, 1), dims=(1, 2))
        return x + whole[:, : SIDE + 1, : SIDE + 1, :]


@pytest.mark.parametrize(("in_front", "told"), [(False, "PADDING CUT OFF"), (True, "CUT SMALLER")])
def test_a_map_that_is_rolled_back_and_cut_is_not_said_to_be_cut_anew(in_front, told):
    part = partial(InRolledWindows, in_front=in_front)
    parts = nn.Linear(7, WIDTH), part(), FeedForwardPart(), part(), FeedForwardPart()
    trace = xray.trace(nn.Sequential(*parts).eval(), torch.randn(BATCH, SIDE + 1, SIDE + 1, 7))
    charts = [panel.chart for column in read_columns(trace) for frame in column.frames for panel in frame.panels]
    labels = [node.label for chart in charts for node in chart.nodes]

    assert labels[labels.index(told) - 1 :][:3] == ["ROLLED BACK", told, "ADD"]
    assert "CUT ANEW" not in labels
