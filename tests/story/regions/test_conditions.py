"""Lines of conditions: from the box that makes what a norm or a gate reads to the box of that."""

from functools import cache

import pytest
import torch
from story.body.elsewhere import kept
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

CORNER = 7


class Layer(nn.Module):
    """Norms before and behind each sublayer, scaled by parts of one linear layer, two of them through tanh (Lumina)."""

    def __init__(self):
        super().__init__()
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(12, 48))
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(4))
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        self.wider, self.back = nn.Linear(12, 29), nn.Linear(29, 12)

    def forward(self, rows, time):
        first, gate, second, last = (one[:, None] for one in self.condition(time).chunk(4, -1))
        read = self.norms[0](rows) * (1 + first)
        rows = rows + gate.tanh() * self.norms[1](self.attention(read, read, read, need_weights=False)[0])
        read = self.norms[2](rows) * (1 + second)
        return rows + last.tanh() * self.norms[3](self.back(self.wider(read).relu()))


class Diffusion(nn.Module):
    """Layers with a condition of their own; the last norm is scaled and shifted by what comes before these (PixArt)."""

    def __init__(self, layers=2):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(5, 12), nn.SiLU(), nn.Linear(12, 12))
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.table = nn.LayerNorm(12, elementwise_affine=False), nn.Parameter(torch.rand(2, 12))
        self.out = nn.Linear(12, 2)

    def forward(self, rows, time):
        time = self.time(time)
        for layer in self.layers:
            rows = layer(rows, time)
        shift, scale = (self.table + time[:, None]).chunk(2, 1)
        return self.out(self.norm(rows) * (1 + scale) + shift)


@cache
def record_diffusion():
    return xray.trace(Diffusion(), torch.rand(2, 7, 12), torch.rand(2, 5))


def list_led(trace):
    """The boxes that each line of a condition leads from and to; a branch comes from where its line does.

    A line that comes from below the frames of a column comes from no box.
    """
    layout = compose_poster(trace, text_width)
    shaped = [box for box in layout.boxes if box.steps]
    lanes, found = {}, []
    for curve in (one for one in layout.curves if one.kind == "condition"):
        (x, y), (right, level) = curve.points[0], curve.points[-1]
        below = [point for point in curve.points if point[1] < level - CORNER]
        begun = [box for box in shaped if is_edge(box, x, y) and below]
        if begun:
            lanes[round(max(below, key=lambda point: point[1])[0], 1)] = begun[0]
        (end,) = (box for box in shaped if is_edge(box, right, level))
        found += [(one, end) for one in (begun or [lanes.get(round(x, 1))]) if one is not None]
    return found


def is_edge(box, x, y):
    return (abs(box.top - y) < 0.1 and box.left + CORNER < x < box.right - CORNER) or (
        abs(box.y - y) < 0.1 and min(abs(box.left - x), abs(box.right - x)) < 0.1
    )


def name_box(box):
    return "".join(run.text for run in box.lines[0]).split("  ")[0].strip()


def test_each_norm_is_led_from_the_box_that_makes_what_it_is_scaled_by():
    led = [(begin.steps[0], end.steps[0]) for begin, end in list_led(record_diffusion())]

    assert sorted(led) == [
        ("forward/layers.0.condition.1#0", "forward/layers.0.mul#0"),
        ("forward/layers.0.condition.1#0", "forward/layers.0.mul#2"),
        ("forward/layers.0.tanh#0", "forward/layers.0.mul#1"),
        ("forward/layers.0.tanh#1", "forward/layers.0.mul#3"),
        ("forward/time.2#0", "forward/norm#0"),
    ]


def test_a_norm_that_ends_a_feed_forward_and_is_scaled_by_a_condition_is_no_gate_before_it_too():
    boxes = compose_poster(record_diffusion(), text_width).boxes

    assert [name_box(box) for box in boxes if "forward/layers.0.mul#3" in box.steps] == ["LAYER NORM, SCALED"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "trace",
    [
        record_diffusion,
        *(
            pytest.param(lambda name=name: kept(name)[0], id=name)
            for name in (
                "DiTTransformer2DModel",
                "PixArtTransformer2DModel",
                "SD3Transformer2DModel",
                "FluxTransformer2DModel",
                "AuraFlowTransformer2DModel",
            )
        ),
    ],
)
def test_between_the_two_ends_of_a_condition_line_stands_no_other_box_of_the_condition(trace):
    one = trace()
    columns = [column for column in read_columns(one) if column.condition is not None]
    flow = columns[0].reading.flow
    beside = frozenset().union(*(column.towering.condition.nodes for column in columns))
    drawn = {flow.places[step.id] for column in columns for node in column.condition.nodes for step in node.steps}

    led = list_led(one)
    assert led
    for begin, end in led:
        starts, ends = ({flow.places[step.partition("/")[2]] for step in box.steps} for box in (begin, end))
        between = beside - (drawn - starts)
        read = [maker for place in ends for maker in flow.makers[place]]
        assert not starts.isdisjoint(flow.behind(*read, within=between.__contains__))


class OfLabels(Diffusion):
    """Layers whose condition is the row of a label, which is put in front of the stream too (VAR)."""

    def __init__(self):
        super().__init__()
        self.labels, self.enter, self.places = nn.Embedding(5, 12), nn.Linear(3, 12), nn.Parameter(torch.rand(8, 12))

    def forward(self, rows, time):
        label = self.labels(time)
        rows = torch.cat((label[:, None], self.enter(rows)), dim=1) + self.places
        for layer in self.layers:
            rows = layer(rows, label)
        return self.out(self.norm(rows))


def test_a_condition_is_led_from_the_rows_that_are_looked_up_and_not_from_their_ids():
    trace = xray.trace(OfLabels(), torch.rand(2, 7, 3), torch.tensor([3, 1]))
    layout = compose_poster(trace, text_width)
    named = {name_box(box): box for box in layout.boxes if box.steps}
    (line,) = [curve for curve in layout.curves if curve.head and curve.points[-1][0] == named["SiLU"].left]
    ids, table = named["IDS"], named["LOOKUP IN 5"]

    assert is_edge(table, *line.points[0])
    assert not is_edge(ids, *line.points[0])
