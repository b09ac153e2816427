"""What stands at the foot of a tower into which nothing comes: numbers of the model's own (SAM 2 without points)."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from story.test_two_way import POINTS, Segments
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.entrance.inputs import hold_numbers
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

TABLE = "THE MODEL'S OWN NUMBERS"
OWN = "It begins with the model's own numbers."
SIZE = (2, POINTS, 2)
MAKERS = {
    "zeros": lambda: torch.zeros(SIZE),
    "ones": lambda: torch.ones(SIZE),
    "full": lambda: torch.full(SIZE, 1.0),
    "twos": lambda: torch.full(SIZE, 2.0),
    "chance": lambda: torch.rand(SIZE),
}


class Turned(nn.Module):
    """Places times numbers that it holds itself, and their sines."""

    def __init__(self):
        super().__init__()
        self.register_buffer("waves", torch.rand(2, 2))

    def forward(self, places):
        return torch.sin(places @ self.waves)


class Unasked(Segments):
    """The same without points: some are made where none are given, and are moved by half a place and turned."""

    def __init__(self, way):
        super().__init__()
        self.way, self.turn = way, Turned()

    def forward(self, image, points=None, known=None):
        made = MAKERS[self.way]() if points is None else points
        return super().forward(image, self.turn(made + 0.5), torch.tensor(False) if known is None else known)


def trace_of(way, *points):
    torch.manual_seed(0)
    return xray.trace(Unasked(way).eval(), torch.rand(2, 3, 8, 8), *points)


def tell(trace):
    return " ".join(lines_of(compose_poster(trace, text_width)))


def find_foot(trace):
    (column,) = (one for one in read_columns(trace) if one.towering.tower.name == "decoder")
    return [node.label for node in column.entrance.nodes if node.key == "given"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("way", "label"), [("zeros", "ZEROS"), ("ones", "ONES"), ("full", "ONES"), ("twos", "THE MODEL'S OWN NUMBERS")]
)
def test_numbers_made_of_nothing_are_no_input(way, label):
    trace = trace_of(way)

    assert find_foot(trace) == [label]
    assert OWN in tell(trace)


def test_points_that_come_in_are_an_input():
    trace = trace_of("zeros", torch.rand(SIZE))

    assert "ZEROS" not in find_foot(trace)
    assert OWN not in tell(trace)


def test_numbers_drawn_by_chance_are_not_the_models_own():
    assert OWN not in tell(trace_of("chance"))


class Places(nn.Module):
    """Adds the first rows of a table that it holds itself, one sequence beside the other (ABINet)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.rand(POINTS, 1, 12))

    def forward(self, rows):
        return rows + self.table[: rows.shape[0], :]


class Asks(nn.Module):
    """Zeros with places ask what is made of what comes in."""

    def __init__(self):
        super().__init__()
        self.eye, self.places = Layer(12, Attention(12, 3), norm="before"), Places()
        self.layers = nn.ModuleList(nn.MultiheadAttention(12, 3) for _ in range(3))
        self.wide = nn.ModuleList(nn.Sequential(nn.Linear(12, 17), nn.ReLU(), nn.Linear(17, 12)) for _ in range(3))

    def forward(self, rows):
        read = self.eye(self.eye(rows.transpose(0, 1))).transpose(0, 1)
        asking = self.places(torch.zeros(POINTS, 1, 12))
        for layer, wide in zip(self.layers, self.wide, strict=True):
            asking = asking + layer(asking, read, read, need_weights=False)[0]
            asking = asking + wide(asking)
        return asking


def test_a_table_added_to_zeros_does_not_come_in():
    trace = xray.trace(Asks().eval(), torch.rand(7, 1, 12))
    columns = [column for column in read_columns(trace) if column.entrance is not None]

    assert TABLE in {node.label for column in columns for node in column.entrance.nodes}
    assert tell(trace).count("Vectors come in") == 1


class OfOne(nn.Module):
    """A row of a table, looked up by a number of the model's own, with a 0 beside it (DN-DETR)."""

    def __init__(self):
        super().__init__()
        self.known = nn.Embedding(5, 11)

    def forward(self, zeros):
        return torch.cat((self.known(torch.tensor(3)).repeat(POINTS, 1, 1), zeros[..., :1]), -1)


def test_a_table_in_which_a_fixed_number_is_looked_up_stands_at_the_foot():
    model = Asks()
    model.add_module("places", OfOne())
    trace = xray.trace(model.eval(), torch.rand(7, 1, 12))
    *_, (table,) = [column.entrance.nodes for column in read_columns(trace) if column.entrance is not None]

    assert (table.label, table.record.shape) == ("LOOKUP IN 5 ROWS", (11,))
    assert "LOOKUP IN 5 ROWS" in tell(trace)


class Joins(nn.Module):
    """Two inputs of one size, end to end, through one linear layer (VQ-BeT), or side by side (SAITS)."""

    def __init__(self, axis):
        super().__init__()
        self.axis, self.into, self.layers = (
            axis,
            nn.Linear(5 * axis, 12),
            nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in "ab"),
        )

    def forward(self, goals, seen):
        rows = self.into(torch.cat([goals, seen], self.axis))
        for layer in self.layers:
            rows = layer(rows)
        return rows


@pytest.mark.parametrize(("axis", "shape", "how"), [(1, (2, 14, 5), "put end to end"), (2, (2, 7, 10), "side by side")])
def test_two_inputs_that_are_joined_are_one_box_of_both(axis, shape, how):
    trace = xray.trace(Joins(axis).eval(), torch.rand(2, 7, 5), torch.rand(2, 7, 5))
    (given,) = (node for column in read_columns(trace) for node in column.entrance.nodes if node.key == "given")

    assert given.record.shape == shape
    assert given.told == (f"2 of 2×7×5, {how}",)


class Begins(nn.Module):
    """Zeros, or rows that it holds, be they added to zeros."""

    def __init__(self, begin):
        super().__init__()
        self.rows, self.begin = nn.Parameter(torch.rand(POINTS, 12)), begin

    def forward(self, x):
        return x + self.begin(self.rows)


@pytest.mark.parametrize(
    ("begin", "told"),
    [(torch.zeros_like, False), (lambda rows: torch.zeros_like(rows) + rows, True), (torch.sin, True)],
    ids=["zeros", "added to zeros", "sines"],
)
def test_zeros_alone_are_no_numbers_of_the_model(begin, told):
    flow = read_flow(xray.trace(Begins(begin).eval(), torch.rand(2, POINTS, 12)).passes[0])
    last = max(one for one in range(len(flow.steps)) if flow.is_leaf(one))

    assert hold_numbers(flow, [one for one in flow.makers[last] if one is not None]) == told
