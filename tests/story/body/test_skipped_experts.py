"""Routers with one score more than there are experts, for none of them, and routers that read the one before (ZAYA)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn

import xray
from xray.story.anatomy.branches import Experts, Routing
from xray.story.sheet.columns import read_columns

FEW, COUNT, D_FF = 7, 5, 11


class Chosen(nn.Module):
    """Experts that rows are sent to by a router of two layers, which hands on what it worked out first."""

    def __init__(self, *, reads, more=1, empties=True):
        super().__init__()
        self.empties, self.norm = empties, nn.LayerNorm(WIDTH)
        self.down, self.score = nn.Linear(WIDTH, FEW), nn.Linear(FEW, COUNT + more)
        self.times = nn.Parameter(torch.ones(FEW)) if reads else None
        self.first = nn.Parameter(torch.rand(COUNT, WIDTH, D_FF))
        self.last = nn.Parameter(torch.rand(COUNT, D_FF, WIDTH))

    def forward(self, x, earlier=None):
        rows = self.norm(x)
        handed = self.down(rows) if self.times is None else self.down(rows) + earlier * self.times
        shares = self.score(handed.relu()).softmax(dim=-1)
        number = shares.topk(1, dim=-1).indices
        share = shares.gather(-1, number)
        if self.empties:
            none = number == COUNT
            share, number = share.masked_fill(none, 0), number.masked_fill(none, 0)
        flat = rows.reshape(1, -1, WIDTH).expand(COUNT, -1, -1)
        made = torch.bmm(torch.bmm(flat, self.first).relu(), self.last)
        picked = made[number.flatten() % COUNT, torch.arange(made.shape[1])]
        return x + (picked * share.reshape(-1, 1)).reshape(x.shape), handed.clone()


class Network(nn.Module):
    def __init__(self, layers=3, **facts):
        super().__init__()
        self.looks = nn.ModuleList(AttentionPart() for _ in range(layers))
        self.experts = nn.ModuleList(Chosen(reads=bool(number), **facts) for number in range(layers))

    def forward(self, x):
        handed = None
        for look, experts in zip(self.looks, self.experts, strict=True):
            x, handed = experts(look(x), handed)
        return x


class Apart(Network):
    """Each router is given what the stream was before, and not what a router made of it."""

    def forward(self, x):
        early = x[..., :FEW] * 1
        for look, experts in zip(self.looks, self.experts, strict=True):
            x, _ = experts(look(x), early)
        return x


def read_experts(model):
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(2, 13, WIDTH))).towers
    return [(group.layers, one) for group in tower.groups for one in list_experts(group)]


def list_experts(group):
    return [one for stage in group.stages for one in stage.branches if isinstance(one, Experts)]


def test_a_place_may_go_through_no_expert_where_the_last_score_makes_its_weight_0():
    _, experts = read_experts(Network())[0]

    assert (experts.experts, experts.chosen, experts.chosen_or_none) == (COUNT, None, 1)
    assert experts.routing == Routing("softmax", "all", False, None, None, False)


@pytest.mark.parametrize(("facts", "chosen"), [({"more": 0}, 1), ({"empties": False}, None)])
def test_no_place_is_told_to_go_through_none_where_that_is_not_proven(facts, chosen):
    _, experts = read_experts(Network(**facts))[0]

    assert (experts.chosen, experts.chosen_or_none) == (chosen, None)


def test_layers_whose_router_reads_the_one_before_are_a_group_of_their_own():
    assert [(layers, one.earlier_router) for layers, one in read_experts(Network())] == [((0,), False), ((1, 2), True)]


def test_a_router_that_reads_what_no_router_made_reads_none_before_it():
    assert {one.earlier_router for _, one in read_experts(Apart())} == {False}


def test_what_the_router_before_made_has_a_box_on_the_way_to_the_next():
    columns = read_columns(xray.trace(Network().eval(), torch.rand(2, 13, WIDTH)))

    frames = [frame for column in columns for frame in column.frames]
    (chart,) = [panel.chart for panel in frames[-1].panels if any(node.key == "choice" for node in panel.chart.nodes)]
    labels = {node.label: node.record and node.record.shape for node in chart.nodes}
    assert labels["+ THE ROUTER BEFORE × LEARNED NUMBERS"] == (2, 13, FEW)
    assert labels[f"1 OF {COUNT} CHOSEN, OR NONE"] == (2, 13, 1)
