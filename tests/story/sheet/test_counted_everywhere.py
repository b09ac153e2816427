"""Each learned number that a pass reads is in a box or named as not drawn: the boxes come to what a panel says."""

import re

import pytest
import torch
from handwritten import Attention, Layer
from recorded import FOLDER, recorded
from torch import nn

import xray
from xray.story.cards.boxless import find_unsaid, list_learned_aside
from xray.story.charts.counted_weights import count_params
from xray.story.charts.stage_names import name_stage
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_in

NAMES = sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir())
COUNTED = re.compile(r"([\d,]+) parameters?\b")


def count_box(flow, node):
    """What a box says that it has, or what its steps have where there is no room to say it."""
    said = [int(found.replace(",", "")) for found in COUNTED.findall(" ".join((node.label, node.extra, *node.told)))]
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    return sum(said) if said else count_params(flow, *places) if places else 0


def list_places(flow, node):
    """The steps of a box that belong to its own pass."""
    return [flow.places[step.id] for step in node.steps if step.id in flow.places]


def list_twice(flow, nodes):
    """What boxes say beyond the first that works with the same module, and what others lend them (a shared table)."""
    seen, twice = set(), 0
    for node in nodes:
        steps = [flow.steps[place] for place in list_places(flow, node) if flow.is_leaf(place)]
        paths = {step.path: step.params for step in steps if step.params}
        twice += sum(params for path, params in paths.items() if path in seen)
        seen |= paths.keys()
    return twice


def list_off(columns):
    """The panels of which the boxes, with what is named as not drawn, do not come to the number, with both numbers."""
    aside, found = list_learned_aside(columns, find_unsaid(columns)), []
    for phase in (phase for column in columns for phase in column.phases):
        flow = phase.reading.flow
        for panel in (panel for frame in phase.frames for panel in frame.panels if panel.is_open):
            own = {*panel.staging.nodes}
            nodes = [node for node in panel.chart.nodes if not node.key.startswith("given")]
            boxes = sum(count_box(flow, node) for node in nodes) - list_twice(flow, nodes)
            lent = sum(count_params(flow, *outer) for node in nodes if (outer := {*list_places(flow, node)} - own))
            left = sum(count_in(flow).paths([aside[id(flow)] & own]).values())
            if panel.params not in (boxes + left, boxes + left - lent):
                found.append((name_stage(panel.staging), boxes, left, lent, panel.params))
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_the_boxes_of_a_panel_of_a_recorded_run_come_to_its_number(name):
    assert list_off(read_columns(recorded(name))) == []


class Bare(nn.Module):
    """A feed-forward of weights and biases that no layer holds."""

    def __init__(self):
        super().__init__()
        self.up, self.more = nn.Parameter(torch.rand(15, 60)), nn.Parameter(torch.rand(60))
        self.down, self.less = nn.Parameter(torch.rand(60, 15)), nn.Parameter(torch.rand(15))

    def forward(self, x):
        return x + torch.relu(torch.einsum("bpd,de->bpe", x, self.up) + self.more) @ self.down + self.less


def test_a_bias_that_is_added_before_a_bend_belongs_to_its_layer():
    model = nn.Sequential(*(one for _ in range(3) for one in (Layer(15, Attention(15, 3), norm="before"), Bare())))
    columns = read_columns(xray.trace(model.eval(), torch.rand(2, 7, 15)))

    assert list_off(columns) == []
    panels = [panel for column in columns for frame in column.frames for panel in frame.panels if panel.is_open]
    said = [node.extra for panel in panels for node in panel.chart.nodes if node.label == "LINEAR + ReLU"]
    assert said == ["960 parameters"]
