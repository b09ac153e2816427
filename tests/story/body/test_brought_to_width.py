"""A feed-forward before the first attention is of the entrance only where a linear layer beside it brings rows on."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray

BATCH, CHANNELS, WIDTH, SIDE, PLACES, LAYERS = 2, 3, 15, 4, 7, 2


class Conforming(nn.Module):
    """A feed-forward, an attention, and another feed-forward on columns of a map, whose channels stand first."""

    def __init__(self):
        super().__init__()
        self.norm, self.rest = nn.LayerNorm(WIDTH), Layer(WIDTH, Attention(WIDTH, 3), norm="before")
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        turned = x.permute(0, 3, 2, 1).contiguous()
        rows = turned.view(-1, SIDE, WIDTH)
        made = self.rest(rows + self.think(self.norm(rows))) + rows
        return made.view(turned.shape).permute(0, 3, 2, 1)


class Mapped(nn.Module):
    """Such layers on what a convolution makes of a sound (CMGAN)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(CHANNELS, WIDTH, 1), nn.ReLU())
        self.layers = nn.ModuleList(Conforming() for _ in range(LAYERS))

    def forward(self, sound):
        x = self.patches(sound)
        for layer in self.layers:
            x = layer(x)
        return x


class Brought(nn.Module):
    """Numbers brought to the width of layers by linear layers, and by one beside them (TimesFM)."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.beside = nn.Linear(SIDE, 31), nn.Linear(31, WIDTH), nn.Linear(SIDE, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(LAYERS))

    def forward(self, pieces):
        x = self.back(self.wide(pieces).relu()) + self.beside(pieces)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("model", "given", "parts"),
    [
        (Mapped, torch.rand(BATCH, CHANNELS, SIDE, PLACES), ["feed_forward", "attention", "feed_forward"]),
        (Brought, torch.rand(BATCH, PLACES, SIDE), ["attention", "feed_forward"]),
    ],
)
def test_a_first_feed_forward_is_of_its_layer_unless_it_brings_rows_to_a_width(model, given, parts):
    (tower,) = xray.anatomy(xray.trace(model().eval(), given)).towers
    (group,) = tower.groups

    assert (group.layers, [branch.part for stage in group.stages for branch in stage.branches]) == ((0, 1), parts)
