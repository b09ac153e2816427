"""A map that grows along its height or its width is put together end to end, not made wider (TVP's learned frame)."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.operation_labels import lies_end_to_end


class Framed(nn.Module):
    """Learned numbers around zeros, added to each of several images whose axes are told."""

    def __init__(self, dim):
        super().__init__()
        sizes = [1, 1, 3, 8, 8]
        self.middle, self.dim = [*sizes[:dim], sizes[dim] - 2, *sizes[dim + 1 :]], dim
        self.frame = nn.Parameter(torch.zeros(*sizes[:dim], 1, *sizes[dim + 1 :]))

    def forward(self, images):
        frame = torch.cat((self.frame, torch.zeros(self.middle), self.frame), dim=self.dim)
        return images + frame


def name_axes(step):
    """A step of which it is known which axis of what it makes holds channels."""
    made = tuple(replace(one, axes=("", "", "channels", "height", "width")) for one in step.outputs)
    return replace(step, outputs=made)


@pytest.mark.parametrize(("dim", "is_end_to_end"), [(3, True), (4, True), (2, False)])
def test_maps_are_put_together_end_to_end_but_along_their_channels(dim, is_end_to_end):
    (one,) = xray.trace(Framed(dim), torch.zeros(2, 4, 3, 8, 8)).passes
    flow = read_flow(replace(one, steps=tuple(map(name_axes, one.steps))))
    (joined,) = (place for place, step in enumerate(flow.steps) if step.op == "cat")

    assert lies_end_to_end(flow, joined) is is_end_to_end
