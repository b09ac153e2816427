"""Rows that ids of several axes lay out, and the mean of them along one of these axes."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.exits.handed_rows import find_mean_of_laid


class Laid(nn.Module):
    """A linear layer, of whose rows some are laid out by ids, and a mean taken along an axis."""

    def __init__(self, ids, axis):
        super().__init__()
        self.linear, self.axis = nn.Linear(5, 11), axis
        self.register_buffer("ids", ids)

    def forward(self, x):
        return self.linear(x)[self.ids].mean(self.axis)


@pytest.mark.parametrize(
    ("ids", "axis", "is_told"),
    [
        (torch.arange(42).view(7, 3, 2), 1, True),
        (torch.arange(42).view(7, 3, 2), 3, False),  # of the numbers of each row
        (torch.arange(30).view(5, 3, 2), 1, False),  # not all rows
        (torch.arange(42), 0, False),
    ],
)
def test_a_mean_of_all_rows_that_are_laid_out_is_known_where_it_is_one_of_rows(ids, axis, is_told):
    flow = read_flow(xray.trace(Laid(ids, axis).eval(), torch.rand(42, 5)).passes[0])

    found = [find_mean_of_laid(flow, node) for node in range(len(flow.steps)) if flow.op(node) == "index"]
    assert [one is not None and flow.op(one) == "mean" for one in found] == [is_told]
