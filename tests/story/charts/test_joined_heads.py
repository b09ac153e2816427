"""Heads lie side by side in the box that says so, and a row that is cut and put together again is one part of a way."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import NOTHING
from xray.story.anatomy.attentions import Attention
from xray.story.attention.chart import chart_attention
from xray.story.body.reading import read_pass
from xray.story.branches.rows import cuts_across_places

PLACES, FIRST = 10, 1


class Attends(nn.Module):
    """Attention of `pieces` of a row, each by itself; of all but the first rows the numbers are turned if so said."""

    def __init__(self, *, pieces=1, turned=False, swapped=False):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.pieces, self.turned, self.swapped = pieces, turned, swapped

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.turned:
            q, k = (turn_behind_first(one, put=self.turned == "put") for one in (q, k))
        cut = [one.split(one.shape[2] // self.pieces, dim=2) for one in (q, k, v)]
        found = [
            functional.scaled_dot_product_attention(*one).transpose(1, 2).contiguous() for one in zip(*cut, strict=True)
        ]
        made = torch.cat(found, dim=1) if self.pieces > 1 else found[0]
        if self.swapped:
            made = made.permute(1, 0, 2, 3).contiguous().view(made.shape[1], made.shape[0], -1)
            return x + self.out(made).permute(1, 0, 2).contiguous()
        return x + self.out(made.reshape(*x.shape))


class Mixes(nn.Module):
    """What the heads found is laid out in rows as it lies: several places of one head in each (Informer), or not."""

    def __init__(self, *, mixed):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mixed = mixed

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out((found if self.mixed else found.transpose(1, 2)).reshape(x.shape))


def turn_behind_first(rows, *, put):
    """Rows of which the first ones are left as they are, and all others turned by their place (DINOv3, CogView 4)."""
    first, rest = rows.split((FIRST, rows.shape[2] - FIRST), dim=2)
    angles = torch.arange(rest.shape[2])[:, None] * torch.linspace(1, 2, rest.shape[3])
    one, other = rest.chunk(2, dim=-1)
    turned = rest * angles.cos() + torch.cat((-other, one), dim=-1) * angles.sin()
    if not put:
        return torch.cat((first, turned), dim=2)
    rows[:, :, FIRST:] = turned
    return rows


def chart_of(**settings):
    torch.manual_seed(0)
    layers = (Attends(**settings), FeedForwardPart(), Attends(**settings), FeedForwardPart())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()
    reading = read_pass(xray.trace(model, torch.rand(2, PLACES, WIDTH)).passes[0])
    return chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0])


def list_boxes(**settings):
    chart = chart_of(**settings)
    return [(node.label, node.record.shape) for node in chart.nodes if node.record is not None]


def test_heads_of_pieces_lie_side_by_side_behind_the_pieces():
    boxes = list_boxes(pieces=2)

    assert boxes[-4:-1] == [
        ("AXES SWAPPED", (2, PLACES // 2, HEADS, WIDTH // HEADS)),
        ("2 PIECES END TO END", (2, PLACES, HEADS, WIDTH // HEADS)),
        ("CONCAT HEADS", (2, PLACES, WIDTH)),
    ]
    assert boxes[-1] == ("LINEAR O", (2, PLACES, WIDTH))


def test_each_of_several_pieces_has_weights_of_its_own():
    chart = chart_of(pieces=2)

    assert [edge.source for edge in chart.edges if chart.node(edge.target).label == "2 PIECES END TO END"] == ["turned"]


def test_axes_that_are_swapped_back_and_copied_are_not_cut_anew():
    assert list_boxes(swapped=True)[-1] == ("AXES SWAPPED", (2, PLACES, WIDTH))


@pytest.mark.parametrize("turned", [True, "put"])
def test_rows_of_which_the_first_are_not_turned_are_turned_in_one_box(turned):
    boxes = list_boxes(turned=turned)

    assert (f"ROTATE {PLACES - FIRST} OF {PLACES} ROWS Q", (2, HEADS, PLACES, WIDTH // HEADS)) in boxes
    assert not [shape for _, shape in boxes if FIRST in shape[2:3]]


@pytest.mark.parametrize(("mixed", "told", "arrows"), [(False, "CONCAT HEADS", HEADS), (True, "CUT ANEW", 1)])
def test_heads_that_are_laid_out_across_places_do_not_lie_side_by_side(mixed, told, arrows):
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), *(one for _ in range(2) for one in (Mixes(mixed=mixed), FeedForwardPart()))
    )
    reading = read_pass(xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH)).passes[0])
    (branch,) = reading.towers[0].stagings[0].branches
    chart = chart_attention(reading.flow, branch)
    (joined,) = (node for node in chart.nodes if node.label == told)

    assert [edge.fan for edge in chart.edges if edge.target == joined.key] == [arrows]
    assert isinstance(branch.branch, Attention)
    assert branch.branch.causal is (None if mixed else True)


@pytest.mark.parametrize(("made", "is_across"), [((2, 3, 5, 8), False), ((2, 5, 24), True)])
def test_heads_that_stay_before_their_places_are_not_laid_out_across_these(made, is_across):
    given = replace(NOTHING, shape=(2, 3, 5, 4, 2), axes=("batch", "heads", "seq_len", "", ""))
    flow = Mock(steps=[Mock(inputs=(given,))])
    flow.op.return_value, flow.output.return_value = "flatten", replace(NOTHING, shape=made)

    assert cuts_across_places(flow, 0) == is_across


class Folded(nn.Module):
    """Attention within halves of the rows, heads in one axis with the batch; they are their own axis again behind it.

    There as many others may be put beside them.
    """

    def __init__(self, *, beside=False):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.beside, self.out = nn.Linear(WIDTH, WIDTH) if beside else None, nn.Linear(WIDTH * (1 + beside), WIDTH)

    def forward(self, x):
        rows = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2).flatten(0, 1) for part in (self.q, self.k, self.v))
        q, k, v = (one.unflatten(1, (2, PLACES // 2)) for one in rows)
        weights = (torch.einsum("bhie,bhje->bhij", q, k) * q.shape[-1] ** -0.5).softmax(-1)
        found = torch.einsum("bhij,bhje->bhie", weights, v).flatten(1, 2).unflatten(0, (len(x), HEADS))
        others = [] if self.beside is None else [self.beside(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)]
        return x + self.out(torch.cat([found, *others], 1).transpose(1, 2).flatten(2))


def read_folded(**settings):
    torch.manual_seed(0)
    layers = (Folded(**settings), FeedForwardPart(), Folded(**settings), FeedForwardPart())
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval()
    return xray.trace(model, torch.rand(3, PLACES, WIDTH))


def test_heads_that_keep_an_axis_of_their_own_are_not_side_by_side():
    reading = read_pass(read_folded().passes[0])
    branch = reading.towers[0].stagings[0].branches[0]
    boxes = [(node.label, node.record.shape) for node in chart_attention(reading.flow, branch).nodes if node.record]

    assert [shape for label, shape in boxes if label == "CONCAT HEADS"] == [(3, PLACES, WIDTH)]


def test_pieces_of_rows_are_not_counted_as_heads():
    looking = xray.anatomy(read_folded(beside=True)).towers[0].branches[0]

    assert isinstance(looking, Attention)
    assert looking.heads is None


class ReadBeside(nn.Module):
    """Layers whose heads have no last linear layer; what they find is also laid out for a head of its own."""

    def __init__(self):
        super().__init__()
        self.asks, self.thinks = (nn.ModuleList(make() for _ in range(2)) for make in (self.ask, FeedForwardPart))
        self.last, self.pace = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 4)

    def ask(self):
        return nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        paces = []
        for ask, think in zip(self.asks, self.thinks, strict=True):
            q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in ask(x).chunk(3, -1))
            found = ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = think(x + found)
            paces.append(found.reshape(1, *found.shape).mean(1))
        return self.last(x), self.pace(sum(paces).mean(1))


def test_heads_that_are_added_as_they_lie_are_joined_as_the_sum_reads_them():
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), ReadBeside()).eval(), torch.rand(2, PLACES, WIDTH))
    reading = read_pass(trace.passes[0])
    (joined,) = (
        node
        for node in chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0]).nodes
        if node.label == "CONCAT HEADS"
    )

    assert joined.record.shape == (2, PLACES, WIDTH)


class WithRows(nn.Module):
    """What the heads find is put beside the rows that asked, before a linear layer of both."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        found = ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + self.out(torch.cat((x, found), -1))


def test_an_attention_is_not_another_one_of_the_same_weights_beside_itself():
    layers = (WithRows(), FeedForwardPart(), WithRows(), FeedForwardPart())
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers).eval(), torch.rand(2, PLACES, WIDTH))
    reading = read_pass(trace.passes[0])
    chart = chart_attention(reading.flow, reading.towers[0].stagings[0].branches[0])

    assert [node.label for node in chart.nodes if "SIDE" in node.label] == ["SIDE BY SIDE"]
