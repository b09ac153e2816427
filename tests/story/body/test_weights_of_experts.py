"""How scores of a router become weights of experts: in turn, with those of shared experts, or of what goes in."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn

import xray
from xray.story.anatomy.branches import Experts, Routing
from xray.story.sentences.of_feed_forwards import describe_experts, describe_routing

COUNT, SHARED, D_FF = 7, 3, 11


class Sent(nn.Module):
    """Experts that `weigh` chooses: it gives weights of the chosen, their numbers, and weights of the shared."""

    def __init__(self, weigh, shared=0):
        super().__init__()
        self.weigh, self.norm = weigh, nn.LayerNorm(WIDTH)
        self.score, self.bias = nn.Linear(WIDTH, COUNT + shared, bias=False), nn.Parameter(torch.rand(COUNT))
        self.scale, self.first = nn.Parameter(torch.ones(1)), nn.Parameter(torch.rand(COUNT, WIDTH, D_FF))
        self.last = nn.Parameter(torch.rand(COUNT, D_FF, WIDTH))
        self.shared = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, D_FF), nn.ReLU(), nn.Linear(D_FF, WIDTH)) for _ in range(shared)
        )

    def forward(self, x):
        rows = self.norm(x).reshape(-1, WIDTH)
        weights, numbers, beside = self.weigh(self, self.score(rows))
        made = torch.bmm(torch.bmm(rows.expand(COUNT, -1, -1), self.first).relu(), self.last)
        places = torch.arange(len(rows)).unsqueeze(-1)
        found = (made[numbers, places] * weights.unsqueeze(-1)).sum(dim=1)
        for number, one in enumerate(self.shared):
            found = found + one(rows) * beside[:, number : number + 1]
        return x + found.reshape(x.shape)


class Entered(Sent):
    """Experts that are given rows times their weights: sigmoids of the chosen, and of minus infinity of all others."""

    def forward(self, x):
        rows = self.norm(x).reshape(-1, WIDTH)
        scores = self.score(rows)
        best, numbers = torch.topk(scores, 2, dim=1)
        weights = self.weigh(torch.full_like(scores, float("-inf")).scatter_(1, numbers, best))
        given = rows.repeat(COUNT, 1) * weights.transpose(0, 1).reshape(-1, 1)
        made = torch.bmm(torch.bmm(given.view(COUNT, -1, WIDTH), self.first).relu(), self.last)
        return x + made.sum(dim=0).reshape(x.shape)


def take_near(scores, left, near):
    """The best of the scores left, and its part of a softmax over those near it."""
    best, number = left.max(dim=-1, keepdim=True)
    far = (best - scores) / scores.abs().clamp(min=best) > near
    return torch.softmax(left.masked_fill(far, float("-inf")), dim=-1).gather(-1, number), number


def in_turn(near):
    def weigh(one, scores):
        first, number = take_near(scores, scores, 0.02)
        second, other = take_near(scores, torch.scatter(scores, -1, number, float("-inf")), near)
        return torch.cat((first, second), dim=-1), torch.cat((number, other), dim=-1), None

    return weigh


def with_shared(one, scores):
    """Sigmoids of the chosen and of the shared, divided by the sum of all these, times numbers."""
    numbers = torch.topk(scores[..., :-SHARED].sigmoid() + one.bias, 2, dim=-1)[1]
    joined = torch.cat([scores[..., :-SHARED].gather(-1, numbers), scores[..., -SHARED:]], dim=-1)
    logarithms = nn.functional.logsigmoid(joined)
    weights = torch.exp(logarithms - torch.logsumexp(logarithms, dim=-1, keepdim=True)) * 5.0 * one.scale
    return weights[..., :2], numbers, weights[..., 2:]


def read(*layers):
    torch.manual_seed(0)
    found = xray.anatomy(xray.trace(nn.Sequential(*layers), torch.randn(2, 5, WIDTH)))
    (experts,) = {one for tower in found.towers for one in tower.branches if isinstance(one, Experts)}
    return experts.routing, describe_routing(found)


def test_experts_that_work_on_all_places_say_so():
    bent = nn.Sequential(*layers_of(lambda: Entered(torch.sigmoid)))
    chosen = nn.Sequential(*layers_of(lambda: Sent(in_turn(0.02))))
    told = [describe_experts(xray.anatomy(xray.trace(one, torch.randn(2, 5, WIDTH)))) for one in (bent, chosen)]

    start = "Experts: a router sends each place to 2 of 7. Here each expert works on all places, and FLOPs count that"
    assert told == [f"{start}: rows of 0 where it was not chosen.", f"{start}."]


def layers_of(make):
    return [part for _ in range(3) for part in (AttentionPart(), make())]


def test_experts_that_are_chosen_in_turn_are_weighed_by_a_softmax_of_what_is_near():
    routing, told = read(*layers_of(lambda: Sent(in_turn(0.02))))

    assert routing == Routing("softmax", None, False, None, None, False, within=0.02)
    assert told == (
        "Weights of experts: one is chosen after the other, the best of those left each time; its weight is its part of"
        " a softmax over those scores left that lie below it by no more than 0.02 of the larger of the two."
    )


def test_of_experts_in_turn_that_are_weighed_in_two_ways_nothing_is_told():
    routing, told = read(*layers_of(lambda: Sent(in_turn(0.03))))

    assert (routing, told) == (Routing(None, None, None, None, None, None), "")


def test_weights_that_are_shared_out_with_shared_experts_say_so():
    routing, told = read(*layers_of(lambda: Sent(with_shared, SHARED)))

    assert routing == Routing("sigmoid", None, True, 5.0, None, True, with_shared=SHARED, learned=True)
    assert told == (
        "Weights of experts: sigmoid of each score, divided by the sum of the chosen and of the 3 shared, which it"
        " weighs too, times 5, times a learned number; chosen by scores with a bias that counts for the choice alone."
    )


@pytest.mark.parametrize(
    ("bend", "over", "told"),
    [
        (torch.sigmoid, None, "sigmoid of each score"),
        (lambda scores: scores.softmax(dim=-1), "chosen", "softmax over the chosen scores"),
    ],
)
def test_weights_of_what_goes_into_experts_say_so(bend, over, told):
    routing, sentence = read(*layers_of(lambda: Entered(bend)))

    assert routing is not None
    assert (routing.over, routing.enters) == (over, True)
    assert sentence == f"Weights of experts: {told}, by which what goes in is multiplied."
