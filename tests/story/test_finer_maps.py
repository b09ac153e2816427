"""Behind a tower, a map is made larger, and what an earlier layer gave is added to it: a pyramid (SAM 2's neck)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, WIDTH, FeedForwardPart
from story.charts.test_windows_of_maps import InPooledWindows
from torch import nn
from torch.nn.functional import interpolate

import xray
from xray.story.sheet.columns import read_columns

SIDE, FINER = 16, 5


class Pyramid(nn.Module):
    """Three layers, each of which makes a map half as high and wide, and convolutions of what some of them gave."""

    def __init__(self, levels):
        super().__init__()
        self.into, self.levels = nn.Linear(7, WIDTH), levels
        self.layers = nn.ModuleList(nn.Sequential(InPooledWindows(), FeedForwardPart()) for _ in range(3))
        self.necks = nn.ModuleList(nn.Conv2d(WIDTH, FINER, 1) for _ in range(levels))

    def forward(self, x):
        given = [self.into(x)]
        for layer in self.layers:
            given.append(layer(given[-1]))
        maps = [one.permute(0, 3, 1, 2) for one in reversed(given)]
        found = self.necks[0](maps[0])
        for neck, finer in zip(self.necks[1:], maps[1:], strict=False):
            found = neck(finer) + interpolate(found, scale_factor=2.0, mode="nearest")
        return found


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_maps_of_earlier_layers_that_are_added_behind_a_tower_are_drawn(levels):
    (column,) = read_columns(xray.trace(Pyramid(levels), torch.randn(BATCH, SIDE, SIDE, 7)))

    assert len({(frame.params, len(frame.panels)) for frame in column.frames}) == 1
    told = [(node.label, node.record.shape[1:], node.extra) for node in column.exit.nodes]
    counted = f"{FINER * (WIDTH + 1)} parameters"
    assert told[0] == ("CONVOLUTION 1×1", (FINER, 2, 2), counted)
    assert told[1:] == [
        one
        for place, layer in enumerate((2, 1)[: levels - 1])
        for size in [4 * 2**place]
        for one in [
            ("RESIZED (nearest)", (FINER, size, size), ""),
            (f"+ CONVOLUTION 1×1 OF WHAT LAYER {layer} GAVE", (FINER, size, size), counted),
        ]
    ]
