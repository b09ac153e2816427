"""Weights that work several times in a layer count in the first box that works with them, and the others say so."""

import torch
from handwritten import Attention, Layer
from story.body.counted import count_in_boxes
from torch import nn
from torch.nn import functional

import xray
from xray.story.charts.steps.same_weights import PART, SAME_WEIGHTS
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames

WIDTH = 12


class Shared(nn.Module):
    """Attention and a feed-forward, one norm before both."""

    def __init__(self):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)
        self.think = nn.Sequential(nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, WIDTH))

    def forward(self, x):
        rows = self.norm(x)
        x = x + self.attend(rows, rows)
        return x + self.think(self.norm(x))


def test_a_norm_that_sublayers_share_counts_once_in_a_layer():
    model = nn.Sequential(nn.Embedding(31, WIDTH), Shared(), Shared()).eval()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    (frame,) = count_frames(column.reading, column.towering, column.frames, {})

    norms = [node.extra for panel in frame.panels for node in panel.chart.nodes if node.label == "LAYER NORM"]
    assert norms == [f"{2 * WIDTH} parameters", SAME_WEIGHTS]
    assert sum(panel.params for panel in frame.panels) == frame.params
    assert frame.params == sum(one.numel() for one in model[1].parameters())


class NormedBoth(nn.Module):
    """Rows look at those of another tower, both behind one norm (CROMA)."""

    def __init__(self):
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x, others):
        return x + self.attend(self.norm(x), self.norm(others))


class Looking(nn.Module):
    """An encoder, and layers that look at what it gives."""

    def __init__(self):
        super().__init__()
        self.given, self.words = (nn.Embedding(31, WIDTH) for _ in range(2))
        self.first, self.own = (nn.ModuleList(Shared() for _ in range(2)) for _ in range(2))
        self.look = nn.ModuleList(NormedBoth() for _ in range(2))

    def forward(self, ids, words):
        x, y = self.given(ids), self.words(words)
        for layer in self.first:
            x = layer(x)
        for own, look in zip(self.own, self.look, strict=True):
            y = look(own(y), x)
        return y


def test_a_norm_of_queries_and_of_keys_counts_once_in_its_panel():
    trace = xray.trace(Looking().eval(), torch.arange(14).view(2, 7), torch.arange(10).view(2, 5))
    panels = [panel for column in read_columns(trace) for frame in column.frames for panel in frame.panels]

    told = {node.label: node.extra for panel in panels for node in panel.chart.nodes}
    assert told["NORM BEFORE K, V"] == SAME_WEIGHTS


class Sliced(nn.Module):
    """A bias of places is made with a part of the weights that make queries, keys and values (STTR)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.weight = nn.Parameter(torch.rand(3 * WIDTH, WIDTH))
        self.register_buffer("places", torch.arange(7.0)[:, None] / torch.arange(1.0, WIDTH + 1))

    def forward(self, x):
        rows = self.norm(x)
        query, key, value = functional.linear(rows, self.weight).chunk(3, -1)
        places = functional.linear(self.places.sin(), self.weight[:WIDTH])
        scores = (query @ key.transpose(-2, -1) + query @ places.T) / WIDTH**0.5
        return x + self.out(scores.softmax(-1) @ value)


def test_a_part_of_weights_counts_where_all_of_them_work():
    model = nn.Sequential(nn.Embedding(31, WIDTH), Sliced(), Sliced()).eval()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    (frame,) = count_frames(column.reading, column.towering, column.frames, {})

    (panel,) = frame.panels
    assert [node.extra for node in panel.chart.nodes if "BIAS" in node.label] == [f"{PART}{SAME_WEIGHTS}"]
    assert count_in_boxes(panel.chart) == panel.params == sum(one.numel() for one in model[1].parameters())


class Repeated(nn.Module):
    """Many steps by their operations, among them one linear layer again and again."""

    def __init__(self):
        super().__init__()
        self.first, self.then = nn.Linear(WIDTH, WIDTH), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(15))

    def forward(self, x):
        made = self.first(x).sin()
        for one in self.then:
            made = one(made).sin() * self.first(made).cos()
        return x + made


def test_many_steps_that_work_with_known_weights_too_count_their_own_alone():
    layer = Layer(WIDTH, Attention(WIDTH, 3), norm="before")
    model = nn.Sequential(nn.Embedding(31, WIDTH), layer, Repeated()).eval()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))

    chart = column.frames[-1].panels[-1].chart
    (many,) = (node.extra for node in chart.nodes if "MORE STEPS" in node.label)
    assert many.startswith(SAME_WEIGHTS)
    assert count_in_boxes(chart) == sum(one.numel() for one in model[-1].parameters())


class Gated(Shared):
    """Each sublayer has its own row of a table of gates (EfficientViM)."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Parameter(torch.ones(2, WIDTH))

    def forward(self, x):
        gates, rows = self.gates.sigmoid(), self.norm(x)
        x = x + gates[0] * self.attend(rows, rows)
        return x + gates[1] * self.think(self.norm(x))


def test_another_row_of_a_table_is_a_part_of_the_same_weights():
    model = nn.Sequential(nn.Embedding(31, WIDTH), Gated(), Gated()).eval()
    (column,) = read_columns(xray.trace(model, torch.arange(14).view(2, 7)))
    (frame,) = count_frames(column.reading, column.towering, column.frames, {})

    gates = [node.extra for panel in frame.panels for node in panel.chart.nodes if node.label.startswith("×")]
    assert gates == [f"{2 * WIDTH} parameters", f"{PART}{SAME_WEIGHTS}"]
