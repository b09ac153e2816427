"""Stacks of layers with a sum around each: what comes behind the last layer stands between none."""

from dataclasses import replace

import torch
from story.entrances import WIDTH, make_layers
from torch import nn

import xray
from xray.story.cards.boxless import find_unsaid
from xray.story.sheet.columns import read_columns


class Stack(nn.Module):
    """Layers along one side of a map and a norm of all; what they began with is added to that (SepFormer)."""

    def __init__(self, *, across):
        super().__init__()
        self.layers, self.last = make_layers(WIDTH, 2), nn.LayerNorm(WIDTH)
        self.norm, self.across = nn.GroupNorm(1, WIDTH), across

    def forward(self, x):
        sides = (0, 2, 3, 1) if self.across else (0, 3, 2, 1)
        rows = x.permute(sides).contiguous()
        y = rows.view(-1, *rows.shape[2:])
        for layer in self.layers:
            y = layer(y)
        y = self.last(y)
        return self.norm(y.view(rows.shape).permute((0, 3, 1, 2) if self.across else (0, 3, 2, 1)).contiguous()) + x


def test_a_norm_behind_the_last_layer_stands_in_no_box_of_the_exit():
    model = nn.Sequential(nn.Conv2d(1, WIDTH, 1), Stack(across=False), Stack(across=True), nn.Conv2d(WIDTH, 2, 1))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 1, 5, 7)))

    undrawn = find_unsaid([replace(column, exit=None)])
    found = {flow.steps[node].id: part for part, flow, nodes in undrawn for node in nodes}
    assert (found["1.norm#0"], found["2.norm#0"]) == ("between layers", "exit")
