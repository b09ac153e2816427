"""Arrows that no recorded step proves are not drawn; where a box would be left without any, nothing is drawn so."""

from dataclasses import replace

import pytest
import torch
from recorded import recorded
from story.body.arrows import list_unproven
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.charts.between_chart import list_places
from xray.story.charts.chart import MIDDLE, Chart, Edge, Node
from xray.story.poster import compose_poster
from xray.story.sheet import compose
from xray.story.sheet.columns import read_columns
from xray.story.sheet.proof import find_missing, keep_proven, prove_arrows


def change(columns, **parts):
    """The columns with the chart of the first panel changed."""
    (column, *others) = columns
    (frame, *frames) = column.frames
    (panel, *panels) = frame.panels
    changed = replace(panel, chart=replace(panel.chart, **parts))
    return [replace(column, frames=(replace(frame, panels=(changed, *panels)), *frames)), *others]


def chart_of(columns):
    return columns[0].frames[0].panels[0].chart


def find(columns, label):
    return next(node for node in chart_of(columns).nodes if node.label.startswith(label))


@pytest.fixture(name="columns")
def read():
    return read_columns(recorded("GPT-2, inference"))


def test_a_sheet_without_false_arrows_stays_as_it_is(columns):
    assert keep_proven(columns) == columns


def test_a_false_arrow_is_dropped(columns):
    arrow = Edge(find(columns, "LAYER NORM").key, find(columns, "WEIGHTS · V").key)
    false = change(columns, edges=(*chart_of(columns).edges, arrow))

    assert [names[1:] for names in list_unproven(false)] == [("LAYER NORM", "WEIGHTS · V")]
    assert keep_proven(false) == columns


def test_an_arrow_that_is_missing_is_put_back(columns):
    softmax = find(columns, "SOFTMAX").key
    kept = [edge for edge in chart_of(columns).edges if edge.source != softmax]
    led = keep_proven(change(columns, edges=tuple(kept)))

    assert {*kept} < {*chart_of(columns).edges} == {*chart_of(led).edges}


def test_an_arrow_over_what_stands_in_a_box_elsewhere_is_dropped(columns):
    flow, whole, softmax = columns[0].reading.flow, chart_of(columns), find(columns, "SOFTMAX")
    (upper,) = [edge.target for edge in whole.edges if edge.source == softmax.key]
    over = [Edge(edge.source, upper) for edge in whole.edges if edge.target == softmax.key]
    kept = [edge for edge in whole.edges if softmax.key not in {edge.source, edge.target}]
    chart = replace(whole, nodes=tuple(one for one in whole.nodes if one != softmax), edges=(*kept, *over))

    assert {*prove_arrows(flow, chart).edges} == {*kept, *over}
    assert {*prove_arrows(flow, chart, frozenset(list_places(flow, softmax))).edges} == {*kept}


def test_a_sheet_with_a_box_that_nothing_leads_to_is_none(columns, monkeypatch):
    sums = find(columns, "WEIGHTS · V")
    nodes = [
        replace(node, steps=find(columns, "LAYER NORM").steps) if node == sums else node
        for node in chart_of(columns).nodes
    ]
    false = change(columns, nodes=tuple(nodes))
    assert keep_proven(false) is None

    monkeypatch.setattr(compose, "read_columns", lambda trace, all_layers: false)
    assert compose_poster(recorded("GPT-2, inference"), text_width) is None


class Shared(nn.Module):
    """Rows that are laid out anew for one way, and read so by another one as well (AFMoE's experts)."""

    def __init__(self):
        super().__init__()
        self.norm, self.shared, self.own = nn.LayerNorm(5), nn.Linear(5, 7), nn.Linear(5, 7)

    def forward(self, x):
        normed = self.norm(x)
        laid = normed.view(-1, 5)
        return self.shared(laid), self.own(laid)


def test_what_a_box_only_moves_on_leads_no_arrow_from_it():
    flow = read_flow(xray.trace(Shared(), torch.rand(2, 3, 5)).passes[0])
    boxes = {"norm": ["layer_norm"], "shared": ["view", "linear"], "own": ["linear"]}
    steps = {
        name: [
            step
            for step in flow.steps
            if flow.is_leaf(flow.places[step.id]) and step.op in ops and (step.op != "linear" or step.path == name)
        ]
        for name, ops in boxes.items()
    }
    nodes = tuple(Node(name, name, row, MIDDLE, tuple(held)) for row, (name, held) in enumerate(steps.items()))
    found = find_missing(flow, Chart(nodes, (Edge("norm", "shared"), Edge("norm", "own")), ("norm",), "own"))

    assert [len(held) for held in steps.values()] == [1, 2, 1]
    assert found == []
