"""Rows that are cut out of what was put side by side."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.cut_rows import find_cut_part, list_cut_makers, list_cut_parts
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.index_spans import read_span


class Cut(nn.Module):
    """Three rows of one layer before five of another, and some cut out of them."""

    def __init__(self, rows):
        super().__init__()
        self.three, self.five, self.rows = nn.Linear(7, 11), nn.Linear(7, 11), rows

    def forward(self, x):
        return torch.cat([self.three(x[:, :3]), self.five(x)], dim=-2)[self.rows]


def read_cut(*rows):
    flow = read_flow(xray.trace(Cut(rows), torch.zeros(2, 5, 7)).passes[0])
    place = max(place for place, step in enumerate(flow.steps) if step.op == "index")
    found = find_cut_part(flow, place)
    return None if found is None else flow.steps[found[1]].path


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ((slice(None), slice(3)), "three"),
        ((slice(None), slice(1, 3)), "three"),
        ((slice(None), slice(3, None), slice(None)), "five"),
        ((slice(None), 0), "three"),
        ((slice(None), -1), "five"),
    ],
)
def test_rows_come_from_the_part_that_has_them_all(rows, part):
    assert read_cut(*rows) == part


class Stacked(nn.Module):
    """What two layers made, stacked along a new axis, and one of them."""

    def __init__(self, rows):
        super().__init__()
        self.first, self.second, self.rows = nn.Linear(7, 7), nn.Linear(7, 7), rows

    def forward(self, x):
        return torch.stack([self.first(x), self.second(x)], dim=1)[self.rows]


@pytest.mark.parametrize(
    ("rows", "part"), [((slice(None), 0), "first"), ((slice(None), -1), "second"), ((0,), None), ((slice(None),), None)]
)
def test_one_of_several_that_are_stacked_is_found(rows, part):
    flow = read_flow(xray.trace(Stacked(rows), torch.zeros(2, 5, 7)).passes[0])
    place = max(place for place, step in enumerate(flow.steps) if step.op == "index")
    found = find_cut_part(flow, place)

    assert (None if found is None else flow.steps[found[1]].path) == part


@pytest.mark.parametrize("rows", [(slice(None), slice(2, 4)), (slice(1),), (slice(None), slice(None, None, 2))])
def test_a_cut_across_parts_tells_none(rows):
    assert read_cut(*rows) is None


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ((slice(None), slice(2, 4)), ["three", "five"]),
        ((slice(None), slice(4, 6)), ["five"]),
        ((slice(1),), []),
    ],
)
def test_a_cut_across_parts_lists_them(rows, parts):
    flow = read_flow(xray.trace(Cut(rows), torch.zeros(2, 5, 7)).passes[0])
    place = max(place for place, step in enumerate(flow.steps) if step.op == "index")

    assert [flow.steps[maker].path for _, maker in list_cut_parts(flow, place)] == parts


@pytest.mark.parametrize("index", ["[0, 1, 0], :3", "(0, 1), :3", "True, :3", "None, :3", "..., :3", "0:2:1:0, :3"])
def test_pieces_that_take_no_one_axis_tell_none(index):
    assert read_span(index, (2, 8, 11), 1) is None


def test_nothing_is_taken_along_an_empty_axis():
    assert read_span(":, 0", (2, 0, 11), 1) is None


class Changed(nn.Module):
    """Five rows of one layer, of which all but the first get more of another one, and some of them."""

    def __init__(self, rows):
        super().__init__()
        self.first, self.more, self.rows = nn.Linear(7, 7), nn.Linear(7, 7), rows

    def forward(self, x):
        made = self.first(x)
        made[:, 1:] += self.more(made[:, 0]).unsqueeze(1)
        return made[:, self.rows].exp()


@pytest.mark.parametrize(("rows", "makers"), [(0, ["linear"]), (-1, ["index_put_"]), (slice(2), ["index_put_"])])
def test_rows_beside_those_that_were_changed_are_as_they_were_before(rows, makers):
    flow = read_flow(xray.trace(Changed(rows), torch.zeros(2, 5, 7)).passes[0])
    place = max(place for place, step in enumerate(flow.steps) if step.op == "index")

    assert [flow.op(maker) for maker in list_cut_makers(flow, place)] == makers
