"""What the heads found in two halves, of which one is taken from the other (DiffLlama)."""

import pytest
import torch
from handwritten import make_writer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS = 24, 4


class Halved(nn.Module):
    """One half less the other, or less itself, which is multiplied by one learned number first, or by none."""

    def __init__(self, is_scaled, is_other):
        super().__init__()
        self.number, self.back = nn.Parameter(torch.ones(())), nn.Linear(WIDTH // 2, WIDTH)
        self.is_scaled, self.is_other = is_scaled, is_other

    def forward(self, x):
        one, other = x.chunk(2, dim=-1)
        taken = other if self.is_other else one
        return self.back(one - (self.number.exp() * taken if self.is_scaled else taken))


@pytest.mark.parametrize(
    ("is_scaled", "is_other", "told"),
    [(True, True, "ONE HALF × ONE NUMBER, SUBTRACTED"), (False, True, "SUBTRACTED"), (True, False, "SUBTRACTED")],
    ids=["scaled", "plain", "itself"],
)
def test_the_number_of_a_half_that_is_taken_off_the_other_is_said(is_scaled, is_other, told):
    torch.manual_seed(0)
    model = make_writer(WIDTH, HEADS)
    for layer in model.rows:
        layer.one.last = Halved(is_scaled, is_other)
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))

    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    assert [label for label in labels if "SUBTRACTED" in label] == [told]
