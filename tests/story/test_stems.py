"""Maps that a stem makes for the layers of one tower, and for another one too, a level of its own (D-FINE)."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Levels(nn.Module):
    """What a stem gives, and what blocks make of it, are rows of one stream."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(3)
        )
        self.first, self.last = nn.Conv2d(16, 15, 1), nn.Conv2d(16, 15, 1)
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(2))

    def forward(self, x):
        first = last = self.stem(x)
        for block in self.blocks:
            last = last + block(last)
        rows = torch.cat([self.first(first).flatten(2).mT, self.last(last).flatten(2).mT], dim=1)
        for layer in self.layers:
            rows = layer(rows)
        return rows


def test_what_a_stem_makes_for_two_towers_is_drawn_once():
    image, rows = read_columns(xray.trace(Levels().eval(), torch.rand(2, 3, 11, 13)))

    assert [node.label for node in image.entrance.nodes] == ["IMAGE", "CONVOLUTION 3×3, STEP 2", "BATCH NORM", "ReLU"]
    assert [node.label for node in rows.entrance.nodes] == ["CONVOLUTION 1×1", "CONVOLUTION 1×1", "END TO END"]
