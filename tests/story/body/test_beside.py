"""Branches of which some follow one another within one sublayer, and others stand beside each other there."""

from dataclasses import replace

import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
from story.sentences.makers import PLAIN
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Norm, Stage
from xray.story.charts.stage_names import join_names
from xray.story.cutting.patterns import name_coarse
from xray.story.sheet.columns import read_columns


class Attending(AttentionPart):
    """What heads find in normalised rows, and nothing added to it."""

    def __init__(self):
        super().__init__()
        self.register_module("norm", nn.Identity())

    def forward(self, x):
        return super().forward(x) - x


class Low(nn.Module):
    """A linear layer to a few numbers, and one back (LAuReL)."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)

    def forward(self, x):
        return self.right(self.left(x))


class Sublayer(nn.Module):
    """A low way, an attention and a feed-forward before one sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.low, self.look, self.think = nn.LayerNorm(WIDTH), Low(), Attending(), Thinking()

    def forward(self, x):
        normed = self.norm(x)
        return x + self.think(self.join(normed))

    def join(self, x):
        return torch.cat([self.low(x), self.look(x)], dim=-1)


class InOrder(Sublayer):
    """The attention reads what the low way gives."""

    def join(self, x):
        x = self.look(self.low(x))
        return torch.cat([x, x], dim=-1)


class Thinking(nn.Module):
    """A feed-forward of rows that are twice as wide."""

    def __init__(self):
        super().__init__()
        self.out, self.bend, self.back = nn.Linear(2 * WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH)

    def forward(self, x):
        return self.back(self.bend(self.out(x)))


def find_stages(kind):
    (tower,) = read(Reader(kind(), FeedForwardPart(), kind(), FeedForwardPart()), rows()).towers
    return tower.groups[0].stages


def test_a_branch_that_the_next_one_does_not_read_stands_beside_it():
    first, last = find_stages(Sublayer)

    assert [one.part for one in first.branches[1:]] == ["attention", "feed_forward"]
    assert (first.beside, first.parallel, last.beside) == ((0,), False, None)
    assert join_names(first, ["A", "B", "C"]) == "A BESIDE B THEN C"


def test_branches_that_read_one_another_stand_beside_none():
    assert find_stages(InOrder)[0].beside is None


class Kept(Low):
    """The same, added to what it reads."""

    def forward(self, x):
        return x + super().forward(x)


class Looking(nn.Module):
    """What heads find in rows."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in self.qkv(x).unflatten(-1, (3, 3, 4)).split(1, dim=-3))
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(-2, -3).flatten(-2))


class Corrected(nn.Module):
    """A low way beside an attention, both added to the stream and scaled, then a feed-forward."""

    def __init__(self):
        super().__init__()
        self.norm, self.low, self.look = nn.LayerNorm(WIDTH), Kept(), Looking()
        self.seen, self.before, self.behind = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH))
        self.weigh = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        low, seen = self.low(normed), self.seen(self.look(normed))
        both = (x + seen + low) / 2**0.5
        made = both + self.behind(self.think(self.before(both)))
        return x + (made - x) * self.weigh(made)


def trace_corrected():
    return xray.trace(Reader(Corrected(), FeedForwardPart(), Corrected(), FeedForwardPart()), rows())


def test_all_between_branches_beside_each_other_and_behind_them_is_drawn():
    (column,) = read_columns(trace_corrected())

    chart = column.frames[0].panels[0].chart
    names = {node.key: node.label for node in chart.nodes}
    begun = next(number for number, label in enumerate(names.values()) if label == "LINEAR O") + 1
    assert list(names.values())[begun:] == [
        "LAYER NORM",
        "+ THE STREAM",
        "ADDED UP",
        "× 0.7071",
        "LAYER NORM",
        "LINEAR + GELU",
        "LINEAR",
        "LAYER NORM",
        "ADDED UP",
        "WITHOUT THE STREAM",
        "LINEAR",
        "MULTIPLIED",
        "ADD",
    ]


def test_each_box_is_led_from_what_it_reads_where_branches_stand_beside_each_other():
    trace = trace_corrected()

    (column,) = read_columns(trace)

    chart = column.frames[0].panels[0].chart
    names = {node.key: node.label for node in chart.nodes}
    led = [(names[edge.source], names[edge.target]) for edge in chart.edges]
    assert list_unproven(read_columns(trace)) == []
    assert {target for source, target in led if source == "LINEAR O"} == {"LAYER NORM"}
    assert {source for source, target in led if target == "ADDED UP"} >= {"ADD", "+ THE STREAM", "× 0.7071"}


class Whole(nn.Module):
    """Two sublayers of one kind read the stream, each behind its own norm, and what they give is added up from 0 on."""

    def __init__(self, kind):
        super().__init__()
        self.one, self.other = kind(), kind()

    def forward(self, x):
        return x + sum(part(x) - x for part in (self.one, self.other))


def test_sublayers_of_one_kind_with_a_norm_each_stand_side_by_side():
    parts = [Whole(kind) for _ in range(2) for kind in (AttentionPart, FeedForwardPart)]
    (tower,) = read(Reader(*parts), rows()).towers
    looking, thinking = tower.groups[0].stages

    assert (looking.parallel, [one.part for one in looking.branches]) == (True, ["attention"] * 2)
    assert (thinking.parallel, [one.part for one in thinking.branches]) == (True, ["feed_forward"] * 2)
    assert [group.count for group in tower.groups] == [2]


def test_convolutions_beside_each_other_are_no_layers_and_other_sublayers_of_one_kind_are():
    convolve, think = Convolution((3,), 1), replace(PLAIN, d_ff=7)
    norm = Norm("layer", "before")

    assert name_coarse(Stage((convolve, convolve), True, norm)) == "both"
    assert name_coarse(Stage((think, think), True, norm)) == name_coarse(Stage((think,), False, norm))
