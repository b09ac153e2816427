"""Which parts with parameters nothing was said of: a weight that is worked out belongs to the layer that has it."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.ends import list_untold


@pytest.mark.parametrize(("told", "apart"), [(("0", "1"), []), (("0",), ["1"]), (("1",), ["0"])])
def test_a_weight_that_is_worked_out_is_told_with_its_layer(told, apart):
    model = nn.Sequential(nn.Linear(3, 5), nn.utils.parametrizations.weight_norm(nn.Linear(5, 7)))
    flow = read_flow(xray.trace(model, torch.rand(2, 3)).passes[0])

    linears = {place for place, step in enumerate(flow.steps) if step.op == "linear" and step.path[:1] in told}
    assert [one.path for one in list_untold([(flow, linears)])] == apart
