"""Rows that are cut out of what was put end to end: from where a box of them is led to."""

import pytest
import torch
from story.charts.entrance_operations import rows
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.operations_chart import chart_operations


class Tracks(nn.Module):
    """A head reads the last rows of those that a model puts end to end and hands out (OSTrack)."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second, self.head = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        joined = torch.cat([self.first(x[:, :2]), self.second(x[:, 2:])], 1)
        return self.head(joined[:, -3:]), joined


@pytest.mark.parametrize(
    ("told", "led"),
    [
        ("3 OF 5 ROWS", [("cat#0", "index#2"), ("index#2", "head#0")]),
        (None, [("second#0", "head#0")]),
    ],
    ids=["drawn", "not drawn"],
)
def test_rows_that_are_cut_out_of_a_join_in_a_box_of_their_own_come_from_the_box_of_all(told, led):
    flow = read_flow(xray.trace(Tracks(rows().shape[-1]), rows()).passes[0])
    nodes = [place for place in range(1, flow.ends[0]) if flow.is_leaf(place)]
    (cut,) = (place for place in nodes if flow.steps[place].id == "Tracks.index#2")
    chart = chart_operations(flow, nodes, nodes[-1], {cut: told} if told else {})
    names = {node.key: node.steps[0].id.removeprefix("Tracks.") for node in chart.nodes}
    joining = [("first#0", "cat#0"), ("second#0", "cat#0")]

    assert sorted((names[edge.source], names[edge.target]) for edge in chart.edges) == sorted([*joining, *led])
