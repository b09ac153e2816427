"""What the heads found in two halves, of which one is taken from the other (DiffLlama)."""

import pytest
import torch
from handwritten import make_writer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 24, 4


class Halved(nn.Module):
    """One half less the other, which is multiplied by one learned number first, or by none."""

    def __init__(self, is_scaled):
        super().__init__()
        self.number, self.back, self.is_scaled = nn.Parameter(torch.ones(())), nn.Linear(WIDTH // 2, WIDTH), is_scaled

    def forward(self, x):
        one, other = x.chunk(2, dim=-1)
        return self.back(one - (self.number.exp() * other if self.is_scaled else other))


@pytest.mark.parametrize(
    ("is_scaled", "told"), [(True, "ONE HALF × ONE NUMBER, SUBTRACTED"), (False, "SUBTRACTED")], ids=["scaled", "plain"]
)
def test_the_number_of_a_half_that_is_taken_off_is_said(is_scaled, told):
    torch.manual_seed(0)
    model = make_writer(WIDTH, HEADS)
    for layer in model.rows:
        layer.one.last = Halved(is_scaled)
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))

    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert [label for label in labels if "SUBTRACTED" in label] == [told]
