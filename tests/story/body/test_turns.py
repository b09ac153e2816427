"""Stacks of layers that run in turns with the same weights, each on what it is given and what was kept before."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

LOW, HIGH = 1, 2


def make_stack():
    return nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))


class InTurns(nn.Module):
    """Two states: a low and a high one, each made anew of both by a stack of two layers, in turns."""

    def __init__(self, *, is_own=False, adds=True, scaled=False):
        super().__init__()
        self.given, self.order, self.adds = nn.Linear(7, WIDTH), (LOW, LOW, HIGH, LOW, HIGH), adds
        self.row = nn.Parameter(torch.rand(WIDTH)) if scaled else None
        stacks = {which: make_stack() for which in (LOW, HIGH)}
        self.stacks = nn.ModuleList(make_stack() if is_own else stacks[which] for which in self.order)
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)

    def forward(self, x):
        high = self.given(x) if self.row is None else self.given(x) * 3
        low = high if self.row is None else high + self.row
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


def find_boxes(poster, label):
    return [box for box in poster.boxes if any(run.text == label for line in box.lines for run in line)]


def find_starts(poster, label):
    """Where the lines begin that lead from the side to boxes with a label."""
    aims = {(side, box.y) for box in find_boxes(poster, label) for side in (box.left, box.right)}
    return {curve.points[0] for curve in poster.curves if curve.points[-1] in aims}


def test_what_a_norm_gave_is_led_from_that_norm():
    poster = compose_poster(record(), text_width)

    norms = {(box.right, box.y) for box in find_boxes(poster, "LAYER NORM")}
    starts = [find_starts(poster, f"+ WHAT LAYER {layer} GAVE, NORMED") for layer in (4, 6)]
    assert [len(one) for one in starts] == [1, 1]
    assert set.union(*starts) <= norms
    assert starts[0] != starts[1]


def test_what_was_scaled_before_more_was_added_is_named_and_led_from_there():
    poster = compose_poster(record(scaled=True), text_width)

    (scale,) = find_boxes(poster, "× 3")
    assert not find_boxes(poster, "+ WHAT CAME BEFORE THE LAYERS")
    assert len(find_boxes(poster, "+ WHAT × 3 GAVE")) == 2
    assert find_starts(poster, "+ WHAT × 3 GAVE") == {(scale.right, scale.y)}


def test_parts_that_run_again_say_how_many_sets_of_weights_they_have():
    trace = record()
    shares = {name for name, _, _ in list_shares(read_columns(trace), trace)}

    assert {"self-attention × 10, weights of 4", "feed-forward × 10, weights of 4"} <= shares


@pytest.mark.parametrize("given", [{"is_own": True}, {"adds": False}])
def test_stacks_with_weights_of_their_own_or_nothing_between_are_no_turns(given):
    (tower,) = xray.anatomy(record(**given)).towers

    assert tower.turns == ()
