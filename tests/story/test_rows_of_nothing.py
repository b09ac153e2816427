"""Rows that a mask lets through, changed and put back, where it lets none through: no box tells of what did nothing."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Dropped(nn.Module):
    """Rows of a table of which some are made nothing, put into layers (GLM-Image's tokens of an image)."""

    def __init__(self):
        super().__init__()
        self.words, self.lead, self.out = nn.Embedding(17, 12), nn.Linear(12, 12), nn.Linear(12, 3)
        self.layers = nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(2))

    def forward(self, ids, dropped):
        x = self.words(ids)
        x[dropped] *= 0.5
        x = self.lead(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


@pytest.mark.parametrize("some", [False, True])
def test_steps_that_make_no_number_have_no_box(some):
    dropped = torch.zeros(2, 7, dtype=torch.bool)
    dropped[0, 3:] = some
    (column,) = read_columns(xray.trace(Dropped(), torch.arange(14).view(2, 7), dropped))

    labels = [node.label for node in column.entrance.nodes if node.key.startswith("in")]
    assert (labels == ["TABLE LOOKUP", "LINEAR"]) == (not some)
