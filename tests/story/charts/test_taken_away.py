"""What a sublayer begins with, brought together again with what is made of it, and the numbers that scale the end."""

import pytest
import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

CHANNELS, LAYERS = 6, 3


class Pools(nn.Module):
    """Places become the mean of their neighbours, less themselves, times learned numbers (PoolFormer)."""

    def __init__(self):
        super().__init__()
        self.norm, self.next = nn.GroupNorm(1, CHANNELS), nn.GroupNorm(1, CHANNELS)
        self.pool = nn.AvgPool2d(3, 1, 1)
        self.up, self.down = nn.Conv2d(CHANNELS, 23, 1), nn.Conv2d(23, CHANNELS, 1)
        self.scale = nn.Parameter(torch.ones(CHANNELS))

    def forward(self, x):
        normed = self.norm(x)
        x = x + self.scale[:, None, None] * (self.pool(normed) - normed)
        return x + self.down(torch.relu(self.up(self.next(x))))


@pytest.fixture(scope="module")
def chart():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), *(Pools() for _ in range(LAYERS)))
    (column,) = read_columns(xray.trace(model.eval(), torch.randn(2, 3, 13, 13)))
    return column.frames[0].panels[0].chart


def test_what_is_taken_away_from_a_pool_and_what_scales_it_have_boxes(chart):
    labels = [node.label for node in chart.nodes]
    assert labels == ["GROUP NORM IN 1 GROUP", "MEAN POOL 3×3, STEP 1", "SUBTRACTED", "× LEARNED NUMBERS", "ADD"]
    assert chart.nodes[3].extra == f"{CHANNELS} parameters"


def test_the_norm_is_led_to_the_pool_and_to_what_takes_it_away(chart):
    (taken,) = [node.key for node in chart.nodes if node.label == "SUBTRACTED"]
    (pool,) = [node.key for node in chart.nodes if node.label.startswith("MEAN POOL")]
    assert {edge.target for edge in chart.edges if edge.source == "opening"} == {taken, pool}
