"""Layers that take turns at rows of a picture and of a time, a norm behind each, are one stream (MixSTE)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WIDTH, TIMES, JOINTS = 12, 5, 7


class Turns(nn.Module):
    """Each layer looks along other rows than the one before, and a norm of all stands behind it; or once alone."""

    def __init__(self, layers):
        super().__init__()
        self.lead = nn.Linear(2, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.times = nn.Parameter(torch.rand(1, TIMES, WIDTH))

    def forward(self, x):
        x = self.lead(x)
        for number, layer in enumerate(self.layers):
            if number == 1:
                x = x + self.times
            x = self.norms[number % 2](layer(x)).transpose(0, 1).contiguous()
        return x


@pytest.mark.parametrize(("layers", "towers"), [(2, [1, 1]), (4, [4])])
def test_rows_that_are_put_back_behind_a_norm_stay_on_one_stream(layers, towers):
    torch.manual_seed(0)
    trace = xray.trace(Turns(layers).eval(), torch.rand(TIMES, JOINTS, 2))

    assert [tower.layers for tower in xray.anatomy(trace).towers] == towers
