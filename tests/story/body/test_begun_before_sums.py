"""A branch that began before other sums is a stage of its own, read where it began and added where it is (LongCat)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.story.anatomy.branches import Experts
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

EXPERTS, WIDE, PLAIN = 5, 11, 2


class Routed(nn.Module):
    """Experts one after the other, the last of them none: they hand on what chose them."""

    def __init__(self, plain=PLAIN):
        super().__init__()
        self.router, self.plain = nn.Linear(WIDTH, EXPERTS), plain
        self.wide = nn.Parameter(torch.randn(EXPERTS, WIDE, WIDTH))
        self.back = nn.Parameter(torch.randn(EXPERTS - plain, WIDTH, WIDE))

    def forward(self, x):
        given = x.flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(3)
        found = torch.zeros_like(given)
        for number in range(EXPERTS):
            places, which = torch.where(chosen == number)
            made = given[places]
            if number < EXPERTS - self.plain:
                made = torch.relu(made @ self.wide[number].T) @ self.back[number].T
            found.index_add_(0, places, made * weights[places, which, None])
        return found.view(x.shape)


class Block(nn.Module):
    """Two layers, and a branch that reads what the first attention left and is added at the very end."""

    def __init__(self, shortcut, *, shares=True):
        super().__init__()
        self.looks, self.thinks = (nn.ModuleList(part() for _ in range(2)) for part in (AttentionPart, FeedForwardPart))
        self.shortcut, self.norm = shortcut, None if shares else nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.looks[0](x)
        first = self.thinks[0]
        normed = first.norm(x)
        later = self.shortcut(normed if self.norm is None else self.norm(x))
        x = x + first.back(first.bend(first.wide(normed)))
        return self.thinks[1](self.looks[1](x)) + later


def read(model):
    return read_pass(xray.trace(model.eval(), rows()).passes[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shares", [True, False])
def test_it_is_a_stage_of_the_layer_in_which_it_began(count, shares):
    (group,) = read(Reader(*(Block(Routed(), shares=shares) for _ in range(count)))).towers[0].tower.groups

    parts = [branch.part for stage in group.stages for branch in stage.branches]
    assert (group.count, parts) == (count, [*["attention", "feed_forward"] * 2, "experts"])
    assert [stage.since for stage in group.stages] == [None] * 4 + [3]
    assert {stage.norm.place for stage in group.stages} == {"before"}


@pytest.mark.parametrize("shares", [True, False])
def test_each_parameter_is_counted_once_and_none_is_left(shares):
    model = Reader(Block(Routed(), shares=shares))
    whole = xray.anatomy(xray.trace(model.eval(), rows()))
    towering = read(model).towers[0]

    norms = [norm.end for staging in towering.stagings for norm in staging.norms]
    assert whole.untold == ()
    assert len(norms) == len(set(norms)) == 5 - shares


def test_its_box_names_what_it_reads_and_nothing_leads_there_from_below():
    shared, own = (draw_last(Reader(Block(Routed(), shares=shares))) for shares in (True, False))

    assert [node.label for node in shared.nodes][:2] == ["LAYER NORM BEFORE THE LAST 3 SUMS", "ROUTER"]
    assert [node.label for node in own.nodes][:2] == ["STREAM BEFORE THE LAST 3 SUMS", "LAYER NORM"]
    assert shared.feet == own.feet == ()
    assert shared.nodes[0].extra == own.nodes[0].extra == ""


def draw_last(model):
    reading = read(model)
    return chart_stage(reading.flow, reading.towers[0].stagings[-1])


def test_a_feed_forward_may_be_such_a_branch_too():
    wide = nn.Sequential(nn.Linear(WIDTH, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDTH))
    stages = [one.stage for one in read(Reader(Block(wide))).towers[0].stagings]

    assert [(stage.branches[0].part, stage.since) for stage in stages][-1] == ("feed_forward", 3)


def test_experts_that_hand_rows_on_are_counted_apart():
    trace = xray.trace(Reader(Block(Routed())).eval(), rows())
    (found,) = (one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts))

    assert (found.experts, found.chosen, found.d_ff, found.handing_on) == (EXPERTS, 3, WIDE, PLAIN)
    assert xray.anatomy(trace).active_params is None


class Ladder(nn.Module):
    """Layers of which each adds what a branch made of what the one before left behind its attention."""

    def __init__(self, count):
        super().__init__()
        self.looks, self.thinks = (
            nn.ModuleList(part() for _ in range(count)) for part in (AttentionPart, FeedForwardPart)
        )
        self.later = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), FeedForward()) for _ in range(count))

    def forward(self, x):
        held = None
        for look, think, later in zip(self.looks, self.thinks, self.later, strict=True):
            x = look(x)
            given, held = held, later(x)
            x = think(x)
            x = x if given is None else x + given
        return x


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(WIDTH, WIDE), nn.ReLU(), nn.Linear(WIDE, WIDTH))


def test_layers_that_such_branches_lead_to_each_other_are_not_made_one():
    tower = read(Reader(Ladder(4))).towers[0].tower

    assert tower.layers == 4
    told = {layer: [one.since for one in group.stages] for group in tower.groups for layer in group.layers}
    assert [told[layer] for layer in range(4)] == [[None, None], *[[None, None, since] for since in (3, 4, 4)]]


class Opened(nn.Module):
    """A stream that begins with a norm, to which what is made of its beginning is added at last."""

    def __init__(self):
        super().__init__()
        self.norm, self.look, self.think, self.later = (
            nn.LayerNorm(WIDTH),
            AttentionPart(),
            FeedForwardPart(),
            FeedForward(),
        )

    def forward(self, x):
        x = self.norm(x)
        return self.think(self.look(x)) + self.later(x)


def test_a_norm_at_the_beginning_of_the_stream_is_none_of_the_branch():
    chart, stages = draw_last(Reader(Opened())), [one.stage for one in read(Reader(Opened())).towers[0].stagings]

    assert (stages[-1].since, stages[-1].norm.place) == (2, "none")
    assert chart.nodes[0].label == "STREAM BEFORE THE LAST 2 SUMS"
