"""Rows of several images that are cut into pieces, go the same way, and are put end to end again."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.alike_pieces import list_pieces
from xray.ir.flow.dataflow import read_flow
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sheet.columns import read_columns

SIDE = 3


class Images(Reader):
    """Two images, one behind the other, of which each is worked on by itself behind the layers."""

    def __init__(self, finish, *, own=False):
        super().__init__(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.norm = nn.LayerNorm(WIDTH)
        self.finish = nn.ModuleList([finish(), finish()] if own else [finish()])

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        pieces = x.split(SIDE * SIDE, dim=1)
        return torch.cat([self.finish[-number](one) for number, one in enumerate(pieces)], dim=1)


class Merger(nn.Module):
    """Places of a map that a convolution lays together, and their norm (HunYuan-VL)."""

    def __init__(self):
        super().__init__()
        self.find, self.after = nn.Conv2d(WIDTH, 17, 2), nn.LayerNorm(17)

    def forward(self, x):
        return self.after(self.find(x.mT.unflatten(2, (SIDE, SIDE))).flatten(2).mT)


class Resized(nn.Module):
    """A map brought to another size (VideoLLaMA 3)."""

    def forward(self, x):
        x = functional.interpolate(x.mT.unflatten(2, (SIDE, SIDE)), size=(2, 2), mode="bilinear")
        return x.flatten(2).mT


class Turned(nn.Module):
    """A map whose rows and columns change places: nothing is worked out."""

    def forward(self, x):
        return x.unflatten(1, (SIDE, SIDE)).transpose(1, 2).flatten(1, 2)


def read(finish, **settings):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Images(finish, **settings).eval(), torch.rand(1, 2 * SIDE * SIDE, 7)))
    return sorted(column.exit.nodes, key=lambda node: node.row)


@pytest.mark.parametrize(
    ("finish", "told"),
    [
        (Merger, ["LAYER NORM", "1 OF 2 PIECES", "CONVOLUTION 2×2", "LAYER NORM", "2 PIECES END TO END"]),
        (Resized, ["LAST NORM", "1 OF 2 PIECES", "RESIZED (bilinear)", "2 PIECES END TO END"]),
        (Turned, ["LAST NORM"]),
    ],
)
def test_what_is_done_to_each_piece_is_drawn_once(finish, told):
    assert [node.label for node in read(finish)] == told


def test_boxes_of_one_piece_hold_the_steps_of_all():
    boxes = {node.label: node for node in read(Merger)}

    assert boxes["1 OF 2 PIECES"].record.shape == (1, SIDE * SIDE, WIDTH)
    assert [step.op for step in boxes["CONVOLUTION 2×2"].steps].count("conv2d") == 2
    assert boxes["CONVOLUTION 2×2"].extra == f"{17 * WIDTH * 4 + 17:,} parameters"


def test_pieces_that_go_through_weights_of_their_own_are_each_drawn():
    labels = [node.label for node in read(Merger, own=True)]

    assert labels.count("CONVOLUTION 2×2") == 2
    assert not [label for label in labels if "PIECES" in label]


class Parts(nn.Module):
    """Parts along an axis that each go through one layer, and are put side by side along the same."""

    def __init__(self, axis, width):
        super().__init__()
        self.axis, self.lead = axis, nn.Linear(width, 17)

    def forward(self, x):
        return torch.cat([self.lead(one) for one in x.split(x.shape[self.axis] // 2, dim=self.axis)], dim=self.axis)


@pytest.mark.parametrize(("axis", "width", "found"), [(1, WIDTH, 1), (2, WIDTH // 2, 0), (0, WIDTH, 0)])
def test_parts_of_rows_and_of_the_batch_are_no_pieces(axis, width, found):
    flow = read_flow(xray.trace(Parts(axis, width), torch.rand(2, 2 * SIDE, WIDTH)).passes[0])

    assert len(list(list_pieces(flow, range(len(flow.steps))))) == found


class Rotary(nn.Module):
    """Queries and keys of packed rows that are turned before heads come first; values that are not."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def turn(self, x):
        angles = torch.arange(len(x))[:, None, None] * 0.1 ** torch.arange(x.shape[-1] // 2).repeat(2)
        one, other = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-other, one], -1) * angles.sin()

    def forward(self, x):
        (x,) = x
        rows = self.norm(x)
        q, k, v = (way(rows).view(len(x), HEADS, -1) for way in (self.q, self.k, self.v))
        heads = (one.transpose(0, 1)[None].split(SIDE * SIDE, dim=2) for one in (self.turn(q), self.turn(k), v))
        found = [functional.scaled_dot_product_attention(*one).transpose(1, 2) for one in zip(*heads, strict=True)]
        return (x + self.out(torch.cat(found, dim=1).flatten(2)[0]))[None]


def test_the_cuts_of_queries_keys_and_values_stand_in_one_row():
    torch.manual_seed(0)
    model = Reader(*(part() for _ in range(2) for part in (Rotary, FeedForwardPart))).eval()
    reading = read_pass(xray.trace(model, torch.rand(1, 2 * SIDE * SIDE, 7)).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[0])

    rows = {node.label: node.row for node in chart.nodes}
    assert len({rows[f"9 OF 18 ROWS {letter}"] for letter in "QKV"}) == 1
    assert rows["HEADS V"] < rows["ROTATE Q"] < rows["9 OF 18 ROWS V"]
