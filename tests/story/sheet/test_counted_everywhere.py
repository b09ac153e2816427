"""Each learned number that a pass reads is in a box or named as not drawn: the boxes come to what a panel says."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from handwritten import Attention, Layer
from recorded import FOLDER, recorded
from torch import nn

import xray
from xray.ir.flow.weights import gather_weights, list_above
from xray.story.cards.undrawn import list_unboxed
from xray.story.charts.counted_weights import weights_of_box
from xray.story.charts.stage_names import name_stage
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import list_apart, list_condition

NAMES = sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir())
COUNTED = re.compile(r"^([\d,]+) parameters?$")


def list_off(columns):
    """The open panels with parameters that stand in no box and are not named as not drawn, and boxes that say others.

    With how many numbers these hold.
    """
    undrawn, found = {one.path for one in list_unboxed(columns)}, []
    for phase in (phase for column in columns for phase in column.phases):
        flow, towering = phase.reading.flow, phase.towering
        apart = list_condition(towering) | list_apart(flow, towering, phase.reading.towers)
        for panel in (panel for frame in phase.frames for panel in frame.panels if panel.is_open):
            if panel.staging not in towering.stagings:
                continue  # of a later pass
            nodes = [node for node in panel.chart.nodes if not node.key.startswith("given")]
            held = [weights_of_box(flow, node.steps) for node in nodes]
            drawn = {name.partition(" ")[0].partition("[")[0] for weights in held for name in weights}
            own = gather_weights(flow, panel.staging.nodes - apart)
            own = {name: count for name, count in own.items() if undrawn.isdisjoint((name, *list_above(name)))}
            left = {name: count for name, count in own.items() if name.partition("[")[0] not in drawn}
            said = [(node, COUNTED.match(node.extra)) for node in nodes]
            wrong = [
                (node.label, node.extra, sum(weights.values()))
                for (node, count), weights in zip(said, held, strict=True)
                if count and int(count[1].replace(",", "")) != sum(weights.values())
            ]
            found += [(name_stage(panel.staging), left, wrong)] if left or wrong else []
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


class NormOfOnePlus(nn.LayerNorm):
    """A norm that multiplies by one more than its weight (Nemotron)."""

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape, self.weight + 1, self.bias, self.eps)


def test_a_weight_that_one_is_added_to_belongs_to_its_norm():
    layers = [Layer(15, Attention(15, 3), norm="before") for _ in range(3)]
    for layer in layers:
        layer.three, layer.four = NormOfOnePlus(15), NormOfOnePlus(15)
    columns = read_columns(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 7, 15)))

    panels = [panel for column in columns for frame in column.frames for panel in frame.panels if panel.is_open]
    said = {node.extra for panel in panels for node in panel.chart.nodes if node.label == "LAYER NORM"}
    assert said == {"30 parameters"}
    assert list_unboxed(columns) == ()


class Placed(Attention):
    """Attention that adds rows for the places to what queries and keys are made of (DETR)."""

    def forward(self, x, memory, mask=None):
        q, k, v = (
            made(rows).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for made, rows in ((self.first, x + mask), (self.second, x + mask), (self.third, x))
        )
        return self.last(((q @ k.mT / 5**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


class AskingRows(nn.Module):
    """Layers that begin with zeros, each of which adds the same learned rows, laid out for the batch (Moment-DETR)."""

    def __init__(self):
        super().__init__()
        self.asked = nn.Embedding(7, 15)
        self.layers = nn.ModuleList(Layer(15, Placed(15, 3), norm="after") for _ in range(3))

    def forward(self, given):
        places = self.asked.weight.unsqueeze(0).repeat(len(given), 1, 1)
        x = torch.zeros_like(places)
        for layer in self.layers:
            x = layer(x, None, places)
        return x


def test_learned_rows_that_a_sum_adds_are_drawn_there():
    columns = read_columns(xray.trace(AskingRows().eval(), torch.rand(2, 7, 15)))

    assert list_unboxed(columns) == ()


class Block(nn.Module):
    """Two convolutions with their norms, to which rows are added where they keep their width (TextNet)."""

    def __init__(self, channels, out):
        super().__init__()
        stride = 1 if channels == out else 2
        self.main, self.norm = nn.Conv2d(channels, out, 3, stride, 1), nn.BatchNorm2d(out)
        self.more, self.more_norm = nn.Conv2d(channels, out, 3, stride, 1), nn.BatchNorm2d(out)
        self.keep = nn.BatchNorm2d(out) if channels == out else None

    def forward(self, x):
        made = self.norm(self.main(x)) + self.more_norm(self.more(x))
        return torch.relu(made if self.keep is None else made + self.keep(x))


def test_a_block_between_layers_tells_nothing_of_what_layers_in_its_list_have():
    stages = (nn.Sequential(Block(one, two), *(Block(two, two) for _ in "abc")) for one, two in pairwise((4, 6, 8, 10)))
    begun = (nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
    model = nn.Sequential(*begun, nn.Sequential(*stages), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 2))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 3, 64, 64)))
    column = replace(column, frames=tuple(replace(frame, bridge=None) for frame in column.frames))

    assert {one.path for one in list_unboxed([column])} == {"3.1.0", "3.2.0"}
