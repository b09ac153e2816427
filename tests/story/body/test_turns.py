"""Stacks of layers that run in turns with the same weights, each on what it is given and what was kept before."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

LOW, HIGH = 1, 2


def make_stack():
    return nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))


class InTurns(nn.Module):
    """Two states: a low and a high one, each made anew of both by a stack of two layers, in turns."""

    def __init__(self, *, is_own=False, adds=True):
        super().__init__()
        self.given, self.order, self.adds = nn.Linear(7, WIDTH), (LOW, LOW, HIGH, LOW, HIGH), adds
        stacks = {which: make_stack() for which in (LOW, HIGH)}
        self.stacks = nn.ModuleList(make_stack() if is_own else stacks[which] for which in self.order)
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)

    def forward(self, x):
        high = self.given(x)
        low = high
        for number, (which, stack) in enumerate(zip(self.order, self.stacks, strict=True)):
            made = stack(low + high if number and self.adds else low if which == LOW or not number else high)
            made = self.norm(made)
            if not self.adds:
                low = high = made
            elif which == LOW:
                low = made
            else:
                high = made
        return high


def record(**given):
    return xray.trace(InTurns(**given).eval(), torch.rand(BATCH, PLACES, 7))


def test_stacks_that_run_again_are_told_in_their_order():
    (tower,) = xray.anatomy(record()).towers

    assert tower.turns == (1, 1, 2, 1, 2)
    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [group.weights_of for group in tower.groups] == [None, (0, 1), None, (0, 1), (4, 5)]


def test_what_stands_between_turns_is_drawn():
    (column,) = read_columns(record())
    frames = [frame for phase in column.phases for frame in phase.frames]

    told = [[node.label for node in frame.bridge.nodes] for frame in frames[1:]]
    assert told == [
        ["LAYER NORM", "+ WHAT CAME BEFORE THE LAYERS"],
        ["LAYER NORM", "+ WHAT CAME BEFORE THE LAYERS"],
        ["LAYER NORM", "+ WHAT LAYER 4 GAVE, NORMED"],
        ["LAYER NORM", "+ WHAT LAYER 6 GAVE, NORMED"],
    ]


def test_parts_that_run_again_say_how_many_sets_of_weights_they_have():
    trace = record()
    shares = {
        name for name, _, _ in list_shares(read_columns(trace), sum(one.numel() for one in InTurns().parameters()), {})
    }

    assert {"self-attention × 10, weights of 4", "feed-forward × 10, weights of 4"} <= shares


@pytest.mark.parametrize("given", [{"is_own": True}, {"adds": False}])
def test_stacks_with_weights_of_their_own_or_nothing_between_are_no_turns(given):
    (tower,) = xray.anatomy(record(**given)).towers

    assert tower.turns == ()
