"""A convolution that looks back alone says so, also where what it made of places behind the last is cut off later."""

import pytest
import torch
from story.charts.entrance_operations import chart_of
from torch import nn
from torch.nn import functional

PLACES, CHANNELS = 11, 5


class LooksBack(nn.Module):
    """Places mixed by channel, then channels at each place, and the end cut off behind both (Phi-4 multimodal)."""

    def __init__(self, cut, kernel):
        super().__init__()
        self.cut = cut
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=2, groups=CHANNELS)
        self.each = nn.Conv1d(CHANNELS, CHANNELS, kernel, padding=kernel // 2)
        self.last = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x):
        mixed = self.each(self.mix(x))
        return self.last(functional.silu(mixed[:, :, self.cut]).transpose(1, 2))


@pytest.mark.parametrize(
    ("cut", "kernel", "is_back"),
    [(slice(-2), 1, True), (slice(PLACES), 1, True), (slice(2, None), 1, False), (slice(-2), 3, False)],
)
def test_the_end_that_is_cut_off_is_that_of_the_last_of_the_convolutions(cut, kernel, is_back):
    chart = chart_of(LooksBack(cut, kernel), torch.ones(2, CHANNELS, PLACES))
    mixed, each = (node for node in chart.nodes if node.label.startswith("CONVOLUTION"))

    assert mixed.label == f"CONVOLUTION {'OF THE LAST 3' if is_back else '3'} BY CHANNEL"
    assert each.record.shape[-1] == (PLACES if is_back else PLACES + 2)
