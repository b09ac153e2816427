"""Where rows are cut behind the heads, the box of the cut tells the part that goes on, be it not the first one."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.attention.end import cut_tail

WORDS, PLACES, WIDTH = 3, 5, 7


class CutBehind(nn.Module):
    """Rows of two kinds lie end to end; those of one go on (Mochi's words behind the heads)."""

    def __init__(self, number):
        super().__init__()
        self.number, self.last = number, nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.last(x.split([WORDS, PLACES], dim=1)[self.number])


@pytest.mark.parametrize(("number", "rows"), [(0, WORDS), (1, PLACES)])
def test_a_cut_behind_the_heads_gives_on_the_part_that_is_read(number, rows):
    (forward,) = xray.trace(CutBehind(number), torch.rand(2, WORDS + PLACES, WIDTH)).passes
    flow = read_flow(forward)

    cut, linear = cut_tail(flow, {place for place in range(len(flow.steps)) if flow.is_leaf(place)})
    assert (cut.kind, linear.kind) == ("heads", "linear")
    assert cut.record.shape == (2, rows, WIDTH)
