"""Rows that are weighed by what they make of each other with no softmax: the sublayers have no name, and a poster."""

import pytest
import torch
from story.body.arrows import list_unproven
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 8


class Weighed(nn.Module):
    """A sublayer of gated rows, weighed by products of parts of the same rows that a ReLU has bent (FLASH, HSTU)."""

    def __init__(self, more):
        super().__init__()
        self.first, self.second, self.out = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.given, self.asking = nn.Linear(WIDTH, 2 * WIDTH), nn.Sequential(*self.lead(more), nn.Linear(WIDTH, 4))
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def lead(self, more):
        return (part for _ in range(more) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh()))

    def forward(self, x):
        half, rest = x.chunk(2, dim=-1)
        moved = torch.cat([nn.functional.pad(half, (0, 0, 1, -1)), rest], dim=-1)
        given, gate = self.given(self.first(moved)).chunk(2, dim=-1)
        asking = self.asking(self.second(moved))
        shares = torch.einsum("bid,bjd->bij", asking, asking).relu() ** 2
        made = self.out(torch.einsum("bij,bjd->bid", shares, given) * gate)
        return x + (made + self.near(made.transpose(1, 2)).transpose(1, 2))


class Layers(nn.Module):
    """Layers of a signal of channels, which is laid out as rows for them."""

    def __init__(self, more=0):
        super().__init__()
        self.enter = nn.Conv1d(3, WIDTH, 1)
        self.layers = nn.Sequential(*(Weighed(more) for _ in range(3)))

    def forward(self, signal):
        return self.layers(self.enter(signal).transpose(1, 2).contiguous())


def read(model):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(model.eval(), torch.randn(2, 3, 5)))
    return column


def chart_of(column):
    (panel,) = [panel for frame in column.frames for panel in frame.panels]
    return panel.chart


@pytest.fixture(scope="module")
def column():
    return read(Layers())


def test_rows_that_are_weighed_by_their_products_are_layers_of_a_poster(column):
    assert column.towering.tower.layers == 3
    assert list_unproven([column]) == []


def test_layers_behind_each_of_two_norms_have_their_boxes(column):
    chart = chart_of(column)
    labels = {node.key: node.label for node in chart.nodes}

    arrows = [(labels[edge.source], labels[edge.target]) for edge in chart.edges]
    assert arrows.count(("LAYER NORM", "LINEAR")) == 2


def test_a_stream_that_is_laid_out_anew_is_read_by_the_norms_of_its_first_layer_too(column):
    assert [staging.stage.norm.place for staging in column.towering.stagings] == ["before"] * 3


def test_a_sum_along_a_branch_that_has_no_room_is_led_to_from_all_that_it_adds_up():
    chart = chart_of(read(Layers(more=11)))
    labels = {node.key: node.label for node in chart.nodes}

    below = {labels[edge.source] for edge in chart.edges if labels[edge.target] == "ADDED UP"}
    assert below == {"LINEAR", "CONVOLUTION 3 BY CHANNEL"}


class Offset(nn.Module):
    """Shares that a softmax makes along one axis of points, and a division along the one they are summed over (PCT)."""

    def __init__(self):
        super().__init__()
        self.asking, self.given = nn.Conv1d(WIDTH, 3, 1, bias=False), nn.Conv1d(WIDTH, WIDTH, 1)
        self.out, self.norm = nn.Conv1d(WIDTH, WIDTH, 1), nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        asking = self.asking(x)
        shares = torch.bmm(asking.transpose(1, 2), asking).softmax(-1)
        shares = shares / (1e-9 + shares.sum(1, keepdim=True))
        return x + self.norm(self.out(x - torch.bmm(self.given(x), shares))).relu()


def test_shares_of_a_softmax_along_another_axis_weigh_rows_of_layers():
    points = nn.Sequential(nn.Conv1d(3, WIDTH, 1), *(Offset() for _ in range(4)))

    assert read(points).towering.tower.layers == 4
