"""Rows that are multiplied by a mask of what counts have a box that says so, and so a mean of several sums."""

import pytest
import torch
from story.charts.entrance_operations import PLACES, labels_of, rows
from story.charts.test_operations_chart import WIDTH
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.entrance.entry_labels import label_entry
from xray.story.passages.channels import MASKED, multiplies_places
from xray.story.sheet.columns import read_columns

TURNS = 3


class Masked(nn.Module):
    """Convolutions of rows that a mask multiplies first, with a residual sum each: WaveNet (VITS)."""

    def __init__(self, turns):
        super().__init__()
        self.turns = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(turns))

    def forward(self, x, lengths):
        x, mask = x.mT, (torch.arange(PLACES) < lengths[:, None])[:, None].to(x.dtype)
        for turn in self.turns:
            x = (x + turn(x)) * mask
        return x


def test_rows_that_a_mask_multiplies_have_a_box():
    assert MASKED in labels_of(Masked(1), rows(), torch.tensor([PLACES, 3]))


def test_rows_that_a_mask_multiplies_turn_by_turn_are_no_state():
    labels = labels_of(Masked(TURNS), rows(), torch.tensor([PLACES, 3]))

    assert labels == ["CONVOLUTION 3", "ADDED UP", MASKED] * TURNS


class OfEachHead(nn.Module):
    """Rows of several heads, each multiplied by a number of its own for each place, or by one that all share."""

    def __init__(self, heads):
        super().__init__()
        self.first, self.last, self.many = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, heads)

    def forward(self, x):
        shares, x = self.many(x), self.first(x)
        if shares.shape[-1] == 1:
            return self.last(x * shares)
        x = x.unflatten(-1, (shares.shape[-1], -1)).transpose(1, 2)
        return self.last((x * shares.mT[..., None]).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("heads", "is_told"), [(1, True), (3, False)])
def test_numbers_of_each_head_are_not_one_for_each_place(heads, is_told):
    model = OfEachHead(heads).eval()
    flow = read_flow(xray.trace(model, rows()).passes[0])

    assert multiplies_places(flow, flow.places["OfEachHead.mul#0"]) is is_told


class Pairs(nn.Module):
    """Which pairs of places count: where both do (ProteinMPNN)."""

    def forward(self, counts):
        return counts[:, None] * counts[:, :, None]


def test_a_mask_that_meets_itself_multiplies_no_rows():
    flow = read_flow(xray.trace(Pairs(), torch.ones(2, PLACES)).passes[0])

    assert label_entry(flow, flow.places["Pairs.mul#0"]) != MASKED


class Adapted(nn.Module):
    """Two feed-forwards, the second of the rows alone that have one id, or whose mask says so (X-MOD's languages)."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, wide) for wide in (19, 11))
        self.back = nn.ModuleList(nn.Linear(wide, WIDTH) for wide in (19, 11))

    def forward(self, x, kinds):
        x = x + self.back[0](self.out[0](self.norms[0](x)).relu())
        x, mask = self.norms[1](x), kinds if kinds.dtype == torch.bool else kinds == 3
        found = torch.zeros_like(x)
        found[mask] = self.back[1](self.out[1](x[mask]).relu())
        return x + found


class Languages(nn.Module):
    """Layers that are told the kind of each sequence."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Adapted() for _ in range(3))

    def forward(self, x, kinds):
        for layer in self.layers:
            x = layer(x, kinds)
        return x


@pytest.mark.parametrize(("kinds", "told"), [([3, 3], "ROWS WHERE KINDS = 3"), ([True, False], "ROWS OF A MASK")])
def test_rows_that_are_chosen_for_a_feed_forward_and_put_back_have_boxes(kinds, told):
    (column,) = read_columns(xray.trace(Languages().eval(), rows(), torch.tensor(kinds)))
    charts = [panel.chart for frame in column.frames for panel in frame.panels]

    labels = [[node.label for node in chart.nodes] for chart in charts]
    assert [told, "LINEAR + ReLU", "LINEAR", "PUT BACK, 0 ELSEWHERE"] in [one[:4] for one in labels]
    assert ["LAYER NORM", "LINEAR + ReLU", "LINEAR"] in [one[:3] for one in labels]


class Several(nn.Module):
    """Several linear layers of the same rows, whose sum is made smaller (HiFi-GAN)."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.ways = factor, nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.last((self.ways[0](x) + self.ways[1](x) + self.ways[2](x)) / self.factor)


@pytest.mark.parametrize(("factor", "told"), [(3, "ADDED UP, ÷ 3"), (1, "ADDED UP"), (0.5, "ADDED UP, × 2")])
def test_a_sum_says_by_what_number_it_is_divided(factor, told):
    assert labels_of(Several(factor), rows())[-2:] == [told, "LINEAR"]
