"""What is taken from another tower: of rows that were put one behind the other those alone that are cut out again."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.body.links import list_taken_from

WIDTH, ASKING, READING = 6, 3, 5


class CutsOut(nn.Module):
    """Rows of two kinds, worked on apart and put one behind the other; some of them are handed on (InstructBLIP)."""

    def __init__(self, taken):
        super().__init__()
        self.ask, self.read, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.taken = taken

    def forward(self, x):
        rows = torch.cat((self.ask(x[:, :ASKING]), self.read(x[:, ASKING:])), dim=1)
        return self.out(rows[:, self.taken, :])


@pytest.mark.parametrize(
    ("taken", "paths"),
    [(slice(ASKING), {"ask"}), (slice(ASKING, None), {"read"}), (slice(ASKING + 1), {"ask", "read"})],
)
def test_a_cut_takes_from_the_rows_that_it_cuts_out(taken, paths):
    flow = read_flow(xray.trace(CutsOut(taken), torch.rand(2, ASKING + READING, WIDTH)).passes[0])
    end = flow.places["out#0"]

    here = [place for maker in list_taken_from(flow, end) for place in list_taken_from(flow, maker)]
    found = {flow.steps[place].path for one in here for place in (one, *list_taken_from(flow, one))}
    assert found & {"ask", "read"} == paths
