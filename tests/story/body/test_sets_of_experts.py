"""Two sets of experts, each for places of its own."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sheet.columns import read_columns


class Set(nn.Module):
    """Experts with a router of their own, as wide inside as is said."""

    def __init__(self, inner):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, inner)), nn.Parameter(torch.randn(4, inner, WIDTH))

    def forward(self, given):
        weights, chosen = self.router(given).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        return (made * shares.t().unsqueeze(-1)).sum(0)


class Parted(nn.Module):
    """Two sets of experts: some places go through the one, all others through the other (ERNIE 4.5 VL)."""

    def __init__(self):
        super().__init__()
        self.norm, self.one, self.other = nn.LayerNorm(WIDTH), Set(9), Set(14)
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        is_one = torch.arange(len(given)) < 3
        found = torch.zeros_like(given)
        found[is_one] = self.one(given[is_one])
        found[~is_one] = self.other(given[~is_one])
        return x + (found + self.beside(given)).view(x.shape)


def test_two_sets_of_experts_for_places_of_their_own_are_told_and_drawn_apart():
    trace = xray.trace(Reader(AttentionPart(), Parted()).eval(), rows())
    (experts,) = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [(one.experts, one.chosen, one.d_ff) for one in experts.sets] == [(4, 2, 9), (4, 2, 14)]
    assert experts.shared == 1
    labels = [node.label for node in draw(Reader(AttentionPart(), Parted()), rows())]
    assert [labels.count(one) for one in ("ROUTER", "AND BACK", "SHARED EXPERT")] == [2, 2, 1]
    assert [one for one in labels if one.endswith("ROWS")] == ["3 OF 10 ROWS", "7 OF 10 ROWS"]
    assert "BOTH PUT TOGETHER + SHARED EXPERT" in labels


class ByKinds(Parted):
    """The same, the places parted by their kinds."""

    def forward(self, x, kinds):  # type: ignore[override]
        given = self.norm(x)
        is_one = kinds.bool()[..., None].expand_as(given)
        found = torch.zeros_like(given)
        found[is_one] = self.one(given[is_one].view(-1, WIDTH)).flatten()
        found[~is_one] = self.other(given[~is_one].view(-1, WIDTH)).flatten()
        return x + (found + self.beside(given))


class ToldApart(nn.Module):
    """Words whose kinds, which are given, say through which of two sets of experts they go."""

    def __init__(self):
        super().__init__()
        self.words, self.look, self.parts = nn.Embedding(17, WIDTH), AttentionPart(), ByKinds()

    def forward(self, ids, kinds):
        return self.parts(self.look(self.words(ids)), kinds)


def test_where_two_sets_meet_it_is_told_by_which_argument_places_are_parted():
    ids = torch.arange(14).view(2, 7)
    (column,) = read_columns(xray.trace(ToldApart().eval(), ids, (ids % 3 == 0).long()))

    nodes = {node.label: node for frame in column.frames for panel in frame.panels for node in panel.chart.nodes}
    assert nodes["BOTH PUT TOGETHER + SHARED EXPERT"].told == ("parted by kinds",)
    assert nodes["5 OF 14 ROWS"].record.shape == (5, WIDTH)
    assert "9 OF 14 ROWS" in nodes


def test_two_sets_that_all_places_go_through_are_not_called_parted():
    class Both(Parted):
        def forward(self, x):
            given = self.norm(x).flatten(0, 1)
            return x + (self.one(given) + self.other(given)).view(x.shape)

    trace = xray.trace(Reader(AttentionPart(), Both()).eval(), rows())
    assert all(one.others is None for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts))
