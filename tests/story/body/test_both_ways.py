"""Two streams that look at each other by one product, each normed twice on its way (Grounding DINO)."""

from collections import Counter

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, read
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.tree import Norm
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sheet.columns import read_columns

ONE, OTHER = 5, 7
WIDE = WIDTH // HEADS


class Both(nn.Module):
    """Rows of the one meet those of the other once: one softmax runs over columns, the other one over rows."""

    def __init__(self, *, most=None):
        super().__init__()
        self.most = most
        self.ask, self.offer, self.say, self.tell = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.out, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, one, other):
        q, k, v, w = (
            made.unflatten(-1, (HEADS, WIDE)).transpose(1, 2).flatten(0, 1)
            for made in (self.ask(one), self.offer(other), self.say(other), self.tell(one))
        )
        scores = torch.bmm(q, k.transpose(1, 2))
        scores = scores if self.most is None else scores.clamp(max=self.most)
        found = torch.bmm(scores.softmax(dim=-1), v)
        turned = torch.bmm(scores.transpose(1, 2).softmax(dim=-1), w)
        return self.out(join(found)), self.back(join(turned))


def join(rows):
    return rows.unflatten(0, (-1, HEADS)).transpose(1, 2).flatten(-2)


class Thinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.norm = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(x + self.narrow(torch.relu(self.wide(x))))


class Layer(nn.Module):
    """A norm on either stream before they look at each other, or none."""

    def __init__(self, *, norms, most):
        super().__init__()
        self.both, self.thinks = Both(most=most), nn.ModuleList([Thinks(), Thinks()])
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) if norms else nn.Identity() for _ in range(2))

    def forward(self, one, other):
        one, other = self.norms[0](one), self.norms[1](other)
        found, turned = self.both(one, other)
        return self.thinks[0](one + found), self.thinks[1](other + turned)


class Pair(nn.Module):
    def __init__(self, *, norms=True, most=None):
        super().__init__()
        self.one, self.other = nn.Linear(3, WIDTH), nn.Linear(4, WIDTH)
        self.layers = nn.ModuleList(Layer(norms=norms, most=most) for _ in range(3))

    def forward(self, one, other):
        one, other = self.one(one), self.other(other)
        for layer in self.layers:
            one, other = layer(one, other)
        return one, other


def given():
    return torch.randn(2, ONE, 3), torch.randn(2, OTHER, 4)


def test_both_streams_look_at_each_other_by_one_product():
    first, other = read(Pair(), *given()).towers

    for tower, looked_at in ((first, other), (other, first)):
        looks = [branch for branch in tower.branches if isinstance(branch, Attention)]
        assert {(branch.heads, branch.kv_heads, branch.d_k, branch.d_v) for branch in looks} == {
            (HEADS, HEADS, WIDE, WIDE)
        }
        assert looked_at.name in {branch.source for branch in looks}
        assert "self" not in {branch.source for branch in looks}


def test_who_asks_is_drawn_as_the_query_be_the_product_turned():
    with torch.no_grad():
        reading = read_pass(xray.trace(Pair(), *given()).passes[0])

    for tower, asks, offers in zip(reading.towers, (ONE, OTHER), (OTHER, ONE), strict=True):
        nodes = {node.key: node for node in chart_stage(reading.flow, tower.stagings[0]).nodes}
        assert nodes["linear0_q"].record.shape == (2, asks, WIDTH)
        assert nodes["linear0_k"].record.shape == (2, offers, WIDTH)
        assert (nodes["linear0_q"].told, nodes["linear0_k"].told) == ((), ("the other Q",))
        assert nodes["scores"].label == ("SCORES Q·K^T" if asks == ONE else "SCORES K·Q^T")


@pytest.mark.parametrize(("norms", "times"), [(True, [2, 2, None]), (False, [None] * 3)])
def test_norms_one_behind_the_other_are_counted(norms, times):
    first, other = read(Pair(norms=norms), *given()).towers

    for tower in (first, other):
        thinking = {layer: group.stages[-1].norm for group in tower.groups for layer in group.layers}
        assert [thinking[layer] for layer in sorted(thinking)] == [
            Norm("layer", "after", "stream", adaptive=False, times=many) for many in times
        ]


def test_a_step_of_the_scores_that_both_read_is_said_to_be_in_no_box_once_for_each_layer():
    with torch.no_grad():
        columns = read_columns(xray.trace(Pair(most=9.0), *given()))

    opened = [panel for one in columns for frame in one.frames for panel in frame.panels if panel.is_open]
    looking = [panel for panel in opened if isinstance(panel.staging.stage.branches[0], Attention)]
    assert len(looking) == 4  # two of each tower
    assert list_unsaid(columns) == (("cross-attention", Counter(clamp=3)),)  # of each layer
