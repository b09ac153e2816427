"""Weights that are worked on by thousands of steps, one behind the other, are followed to the end (TimesFM 2.5)."""

import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.recognition.between import list_working_on_weights

STEPS = 3000


class Summed(nn.Module):
    """A learned number to which another is added again and again, before rows meet it."""

    def __init__(self):
        super().__init__()
        self.held, self.more = nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(5))

    def forward(self, x):
        held = self.held + self.more
        for _ in range(STEPS - 1):
            held = held + self.more
        return x * held


def test_weights_that_are_worked_on_in_thousands_of_steps_are_known_as_such():
    flow = read_flow(xray.trace(Summed(), torch.ones(2, 5)).passes[0])
    adds = [place for place, op in enumerate(flow.ops) if op == "add"]

    assert len(adds) == STEPS
    assert list_working_on_weights(flow) == {*adds}
