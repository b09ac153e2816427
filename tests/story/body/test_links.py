"""What is taken from another tower: of rows that were put one behind the other those alone that are cut out again."""

import pytest
import torch
from story.body.test_mistaken import WIDTH as LATER
from story.body.test_mistaken import AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.tree import Link
from xray.story.body.links import list_taken_from

WIDTH, ASKING, READING = 6, 3, 5
PARTS = AttentionPart, FeedForwardPart


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


class Coded(nn.Module):
    """A stack of layers, the code nearest to each of its rows, and a stack that begins with the codes, or both."""

    def __init__(self, *, by_ids):
        super().__init__()
        self.lay, self.by_ids = nn.Linear(7, LATER), by_ids
        self.first, self.then = (nn.Sequential(*(part() for part in 2 * PARTS)) for _ in range(2))
        self.book = nn.Embedding(17, LATER)

    def forward(self, rows):
        heard = self.first(self.lay(rows))
        codes = torch.cdist(heard, self.book.weight).argmin(-1)
        return self.then(
            self.book(codes) if self.by_ids else self.lay(rows).tanh() * heard.mean(1, keepdim=True) + self.book(codes)
        )


@pytest.mark.parametrize(("by_ids", "kind"), [(True, "chosen"), (False, "joined")])
def test_ids_that_are_worked_out_of_a_tower_put_nothing_of_it_into_another_stream(by_ids, kind):
    anatomy = xray.anatomy(xray.trace(Coded(by_ids=by_ids).eval(), torch.rand(2, 5, 7)))

    first, then = (tower.name for tower in anatomy.towers)
    assert anatomy.links == (Link(kind, first, then),)
