"""A series whose missing numbers are asked for, and a block on two ways that makes of the last rows what comes out."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, PIECE, PIECES, ASKED = 15, 4, 5, "1 WHERE A NUMBER STANDS, ELSE 0"


class TwoWays(nn.Module):
    """Two linear layers with a bend between them, and one on the way past them (Chronos-Bolt)."""

    def __init__(self, given, made):
        super().__init__()
        self.wide, self.narrow, self.past = nn.Linear(given, 24), nn.Linear(24, made), nn.Linear(given, made)

    def forward(self, x):
        return self.narrow(self.wide(x).relu()) + self.past(x)


class Forecasts(nn.Module):
    """A series less its mean, in pieces, beside it where it has numbers; layers, and rows of another width."""

    def __init__(self, made, norm=True):
        super().__init__()
        self.first, self.last = TwoWays(2 * PIECE, WIDTH), TwoWays(WIDTH, made)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()

    def forward(self, series):
        there = series.isnan().logical_not().to(series.dtype)
        pieces = (series - series.nanmean(-1, keepdim=True)).unfold(-1, PIECE, PIECE)
        x = self.first(torch.cat((pieces.nan_to_num(), there.unfold(-1, PIECE, PIECE)), -1))
        for layer in self.layers:
            x = layer(x)
        return self.leave(self.norm(x))

    def leave(self, x):
        return self.last(x)


def record(*settings):
    return xray.trace(Forecasts(*settings).eval(), torch.rand(2, PIECE * PIECES))


@pytest.mark.parametrize("norm", [True, False])
def test_a_block_that_makes_rows_of_another_width_on_both_ways_is_no_layer(norm):
    trace = record(21, norm)
    (column,) = read_columns(trace)

    tower = xray.anatomy(trace).towers[0]
    assert (sum(len(group.layers) for group in tower.groups), tower.d_model) == (3, WIDTH)
    told = [node.label for node in column.exit.nodes if node.label != "LAST NORM"]
    assert told == ["LINEAR", "LINEAR", "ReLU", "LINEAR", "ADDED UP"]


class TwoForecasts(Forecasts):
    """The same with a second block, which makes shares of what may come (TimesFM 2.5)."""

    def __init__(self):
        super().__init__(21)
        self.shares = TwoWays(WIDTH, 33)

    def leave(self, x):
        return self.last(x), self.shares(x)


def test_two_such_blocks_are_no_layers():
    trace = xray.trace(TwoForecasts().eval(), torch.rand(2, PIECE * PIECES))

    assert [(tower.layers, tower.d_model) for tower in xray.anatomy(trace).towers] == [(3, WIDTH)]
    (column,) = read_columns(trace)
    assert [node.label for node in column.exit.nodes].count("ADDED UP") == 2


def test_what_comes_in_is_led_to_all_that_read_it_and_to_what_asks_where_numbers_stand():
    (column,) = read_columns(record(21))
    chart = column.entrance

    given = next(node for node in chart.nodes if node.label == "INPUT")
    led = {edge.target for edge in chart.edges if edge.source == given.key}
    assert given.record.is_float
    assert given.record.shape == (2, PIECE * PIECES)
    assert {node.label for node in chart.nodes if node.key in led} == {ASKED, "SUBTRACTED"}
