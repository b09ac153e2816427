"""Rows that are multiplied by a mask of what counts have a box that says so, and so a mean of several sums."""

import pytest
import torch
from story.charts.test_operations_chart import PLACES, WIDTH, labels_of, rows
from torch import nn

from xray.story.charts.operation_labels import MASKED

TURNS = 3


class Masked(nn.Module):
    """Convolutions of rows that a mask multiplies first, with a residual sum each: WaveNet (VITS)."""

    def __init__(self, turns):
        super().__init__()
        self.turns = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(turns))

    def forward(self, x, lengths):
        x, mask = x.mT, (torch.arange(PLACES) < lengths[:, None])[:, None].to(x.dtype)
        for turn in self.turns:
            x = (x + turn(x)) * mask
        return x


def test_rows_that_a_mask_multiplies_have_a_box():
    assert MASKED in labels_of(Masked(1), rows(), torch.tensor([PLACES, 3]))


def test_rows_that_a_mask_multiplies_turn_by_turn_are_no_state():
    labels = labels_of(Masked(TURNS), rows(), torch.tensor([PLACES, 3]))

    assert labels == ["CONVOLUTION 3", "ADDED UP", MASKED] * TURNS


class Several(nn.Module):
    """Several linear layers of the same rows, whose sum is made smaller (HiFi-GAN)."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.ways = factor, nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.last((self.ways[0](x) + self.ways[1](x) + self.ways[2](x)) / self.factor)


@pytest.mark.parametrize(("factor", "told"), [(3, "ADDED UP, ÷ 3"), (1, "ADDED UP"), (0.5, "ADDED UP, × 2")])
def test_a_sum_says_by_what_number_it_is_divided(factor, told):
    assert labels_of(Several(factor), rows())[-2:] == [told, "LINEAR"]
