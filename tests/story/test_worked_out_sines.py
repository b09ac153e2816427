"""Places that are worked out are called sines where they are sines and cosines of what was counted out."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.passages.added_places import label_places

BATCH, PLACES, WIDTH = 2, 5, 14
BOTH = torch.sin, torch.cos


class Counting(nn.Module):
    """Rows to which waves of their places are added, laid side by side."""

    def __init__(self, waves=BOTH, learned=False):
        super().__init__()
        speeds = 1 / 100 ** (torch.arange(WIDTH // 2) / WIDTH)
        self.waves, self.speeds = waves, nn.Parameter(speeds) if learned else None

    def forward(self, x):
        speeds = 1 / 100 ** (torch.arange(WIDTH // 2) / WIDTH) if self.speeds is None else self.speeds
        angles = torch.ones(len(x), PLACES).cumsum(1)[..., None] / speeds
        return x + torch.stack([wave(angles) for wave in self.waves], dim=-1).flatten(-2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "+ SINES OF PLACES"),
        ({"waves": (torch.sin, torch.sin)}, "+ PLACES"),
        ({"learned": True}, "+ PLACES"),
    ],
    ids=["both waves", "one wave", "of learned speeds"],
)
def test_places_that_are_sines_of_what_was_counted_out_are_called_so(settings, told):
    flow = read_flow(xray.trace(Counting(**settings), torch.rand(BATCH, PLACES, WIDTH)).passes[0])

    last = max(node for node, step in enumerate(flow.steps) if step.op in SUMS)
    assert label_places(flow, last) == told
