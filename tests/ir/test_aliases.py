"""An operation that torch knows by several names has one in the data flow."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow


class Joined(nn.Module):
    def __init__(self, join):
        super().__init__()
        self.join = join

    def forward(self, x):
        return self.join([x, x], dim=-1)


@pytest.mark.parametrize("join", [torch.cat, torch.concat, torch.concatenate])
def test_rows_put_side_by_side_are_known_by_one_name(join):
    flow = read_flow(xray.trace(Joined(join), torch.ones(2, 3)).passes[0])

    assert flow.op(len(flow.steps) - 1) == "cat"
