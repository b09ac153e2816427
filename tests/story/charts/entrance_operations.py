"""The chart of operations of a small model, its labels, and rows that come in."""

import torch
from story.body.test_mistaken import WIDTH

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.operations_chart import chart_operations

PLACES = 5


def chart_of(model, *given, within=None):
    """The chart of all steps of a model, or of those of one of its modules."""
    flow = read_flow(xray.trace(model.eval(), *given).passes[0])
    block = next((place for place, step in enumerate(flow.steps) if step.path == within), 0)
    nodes = [place for place in range(block, flow.ends[block]) if flow.is_leaf(place)]
    return chart_operations(flow, nodes, nodes[-1])


def labels_of(model, *given, within=None):
    return [node.label for node in chart_of(model, *given, within=within).nodes]


def rows(width=WIDTH):
    return torch.arange(2.0 * PLACES * width).reshape(2, PLACES, width)
