"""Which modules are linear layers by the number of their parameters, and which only have as many by chance."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.projections import is_projection

WIDE, CHANNELS = 16, 128


class Own(nn.Module):
    """A linear layer of a kind of its own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDE, WIDE))

    def forward(self, x):
        return x @ self.weight


@pytest.mark.parametrize(
    ("module", "is_linear"),
    [
        (nn.BatchNorm2d(CHANNELS), False),  # 2 for each channel: 16 times 16
        (nn.GroupNorm(4, CHANNELS), False),
        (nn.Conv2d(CHANNELS, CHANNELS, 1, groups=CHANNELS), False),
        (nn.Linear(WIDE, WIDE), True),
        (Own(), True),
    ],
)
def test_a_norm_or_a_convolution_with_the_parameters_of_a_linear_layer_is_none(module, is_linear):
    model = nn.Sequential(nn.Identity(), module, nn.ReLU())
    (forward,) = xray.trace(model.eval(), torch.rand(2, CHANNELS, WIDE, WIDE)).passes

    flow = read_flow(forward)
    found = [
        flow.steps[node].path for node in range(len(flow.steps)) if flow.is_leaf(node) and is_projection(flow, node)
    ]
    assert bool(found) == is_linear
