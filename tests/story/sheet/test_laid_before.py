"""Moves that lay the rows as the first block reads them are no part of the layer, which begins behind them."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 12


class PlacesFirst(nn.Module):
    """torch's layer, between moves that put the places first (DPTNet)."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 3, 17)

    def forward(self, x):
        return self.layer(x.permute(1, 0, 2).contiguous()).permute(1, 0, 2)


class Segments(nn.Module):
    """A map of which each column is a sequence of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Conv2d(2, WIDTH, 1), nn.Sequential(*(PlacesFirst() for _ in range(2)))

    def forward(self, x):
        rows = self.first(x).permute(0, 3, 2, 1).contiguous()
        return self.layers(rows.view(-1, x.shape[2], WIDTH))


def test_a_box_of_moves_holds_those_behind_the_layer_s_input_alone():
    (column,) = read_columns(xray.trace(Segments().train(), torch.rand(2, 2, 7, 5)))

    moves = column.frames[0].panels[0].chart.nodes[0]
    assert (moves.label, [step.op for step in moves.steps]) == ("AXES SWAPPED", ["contiguous", "permute"])
