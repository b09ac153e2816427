"""Convolutions that are added before and behind all blocks of a list, where these are held, are no layers (Allegro)."""

import pytest
import torch
from torch import nn

import xray

CHANNELS, LAYERS = 6, 5


class Block(nn.Module):
    """Two convolutions that are added to a map."""

    def __init__(self):
        super().__init__()
        self.norm, self.one, self.two = (
            nn.GroupNorm(2, CHANNELS),
            *(nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1) for _ in "12"),
        )

    def forward(self, x):
        return x + self.two(torch.nn.functional.silu(self.one(self.norm(x))))


class Maps(nn.Module):
    def __init__(self, *, around):
        super().__init__()
        self.enter, self.blocks = nn.Conv2d(3, CHANNELS, 3), nn.ModuleList(Block() for _ in range(LAYERS))
        self.around = [nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1) for _ in range(2)] if around else []
        for number, one in enumerate(self.around):
            self.register_module(f"around_{'ab'[number]}", one)

    def forward(self, x):
        x = self.enter(x)
        x = x + self.around[0](x) if self.around else x
        for block in self.blocks:
            x = block(x)
        return x + self.around[1](x) if self.around else x


@pytest.mark.parametrize("around", [True, False])
def test_convolutions_added_around_all_blocks_are_no_layers(around):
    (tower,) = xray.anatomy(xray.trace(Maps(around=around).eval(), torch.randn(2, 3, 9, 9))).towers

    assert tower.layers == LAYERS
