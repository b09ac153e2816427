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
from xray.story.sheet.arrows.proof import find_missing, keep_proven, prove_arrows
from xray.story.sheet.columns import read_columns


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


class Scaled(nn.Module):
    """What comes in is multiplied by a share that is worked out beside it (EDM)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(5, 7)

    def forward(self, x, noise):
        return self.lead(x * (noise**2).sqrt()).relu()


def chart_scaled(head):
    """The boxes of the powers, the root, the product and linear layer, and what bends this; the arrow of one is false.

    The root leads into the product, which stands in a box below that of the layer.
    """
    flow = read_flow(xray.trace(Scaled(), torch.rand(2, 3, 5), torch.rand(2, 3, 1)).passes[0])
    steps = {step.op: step for step in flow.steps}
    rows = {"mul": 0, "pow": 1, "sqrt": 2, "linear": 3, "relu": 4}
    nodes = tuple(Node(name, name, row, MIDDLE, (steps[name],)) for name, row in rows.items())
    pairs = [("mul", "linear"), ("pow", "sqrt"), ("sqrt", "linear"), ("linear", "relu")]
    return flow, Chart(nodes, tuple(Edge(*pair) for pair in pairs), ("mul", "pow"), head)


def test_a_box_that_would_lead_to_nothing_is_left_out_with_those_that_led_to_it():
    kept = prove_arrows(*chart_scaled("relu"))

    assert [(node.key, node.row) for node in kept.nodes] == [("mul", 0), ("linear", 1), ("relu", 2)]
    assert [(edge.source, edge.target) for edge in kept.edges] == [("mul", "linear"), ("linear", "relu")]
    assert kept.feet == ("mul",)


def test_a_box_whose_result_goes_on_is_not_left_out():
    flow, chart = chart_scaled("relu sqrt")

    assert [node.key for node in prove_arrows(flow, chart).nodes] == [node.key for node in chart.nodes]


def test_a_chart_of_which_all_that_goes_in_would_be_left_out_is_none():
    flow, chart = chart_scaled("relu")

    assert prove_arrows(flow, replace(chart, feet=("pow",))) is None
