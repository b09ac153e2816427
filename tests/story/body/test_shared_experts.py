"""Experts that several layers work with are passed by once, be each layer's router its own."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, rows
from torch import nn
from torch.nn import functional

import xray

EXPERTS, CHOSEN, WIDE = 4, 2, 9
EACH = 2 * WIDTH * WIDE
"""What one expert holds."""


class Stacked(nn.Module):
    """A norm, a router that is a plain product, and experts held as two stacks, those of `other` if it is given."""

    def __init__(self, other=None, *, only_first=False):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Parameter(torch.randn(EXPERTS, WIDTH))
        self.wide = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDE)) if other is None else other.wide
        is_own = other is None or only_first
        self.back = nn.Parameter(torch.randn(EXPERTS, WIDE, WIDTH)) if is_own else other.back

    def forward(self, x):
        y = self.norm(x).flatten(0, 1)
        weights, chosen = functional.linear(y, self.router).softmax(-1).topk(CHOSEN)
        made = torch.bmm(torch.bmm(y.expand(EXPERTS, -1, -1), self.wide).relu(), self.back)
        shares = torch.zeros(len(chosen), EXPERTS).scatter(1, chosen, weights)
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


def count_used(*layers):
    torch.manual_seed(0)
    parts = [part for layer in layers for part in (AttentionPart(), layer)]
    found = xray.anatomy(xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *parts).eval(), rows()))
    return found.params, found.active_params


def test_experts_of_each_layer_are_passed_by_in_each():
    params, used = count_used(Stacked(), Stacked())

    assert used == params - 2 * (EXPERTS - CHOSEN) * EACH


@pytest.mark.parametrize("count", [2, 3])
def test_experts_that_layers_share_are_passed_by_once(count):
    first = Stacked()
    params, used = count_used(first, *(Stacked(first) for _ in range(count - 1)))

    assert used == params - (EXPERTS - CHOSEN) * EACH


def test_a_layer_that_runs_again_passes_its_experts_by_once():
    first = Stacked()
    params, used = count_used(first, first)

    assert used == params - (EXPERTS - CHOSEN) * EACH


def test_where_some_of_the_weights_alone_are_shared_nothing_is_said():
    first = Stacked()

    assert count_used(first, Stacked(first, only_first=True))[1] is None


class Listed(nn.Module):
    """A norm, a router, and beside it a list of the first layers of all experts, and one of the last ones."""

    def __init__(self, *, never=None, wider=0):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS, bias=False)
        widths = [WIDE + wider * (expert == 0) for expert in range(EXPERTS)]
        self.wide = nn.ModuleList(nn.Linear(WIDTH, width, bias=False) for width in widths)
        self.back = nn.ModuleList(nn.Linear(width, WIDTH, bias=False) for width in widths)
        self.never = never

    def forward(self, x):
        y = self.norm(x).flatten(0, 1)
        scores = self.router(y)
        if self.never is not None:
            scores = scores + torch.tensor([-1e9 * (expert == self.never) for expert in range(EXPERTS)])
        weights, chosen = scores.topk(CHOSEN)
        weights, made = weights.softmax(-1), torch.zeros_like(y)
        for expert in chosen.unique().tolist():
            row, slot = torch.where(chosen == expert)
            seen = self.back[expert](functional.silu(self.wide[expert](y[row])))
            made.index_add_(0, row, seen * weights[row, slot].unsqueeze(-1))
        return x + made.view(x.shape)


@pytest.mark.parametrize("never", [None, 2])
def test_experts_whose_layers_lie_in_lists_beside_their_router_are_counted_by_these(never):
    params, used = count_used(Listed(never=never), Listed(never=never))

    assert used == params - 2 * (EXPERTS - CHOSEN) * EACH


def test_of_experts_in_lists_that_are_not_alike_nothing_is_said():
    assert count_used(Listed(wider=1))[1] is None
