"""States of all places that are worked out together in one tensor: not told as handed from piece to piece."""

import pytest
import torch
from story.states.test_no_state import WIDTH
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import Recurrence
from xray.story.poster import compose_poster

INNER, HELD, PLACES = 14, 5, 16
TOGETHER = "STATES OF ALL PLACES, WORKED OUT TOGETHER"


def sweep(kept, more):
    """Up a tree of places, and down again, in place (mambapy)."""
    strides = [stride for stride in (1, 2, 4, 8) if stride < PLACES]
    for stride in strides:
        left, right = slice(stride - 1, None, 2 * stride), slice(2 * stride - 1, None, 2 * stride)
        more[:, right].add_(kept[:, right] * more[:, left])
        kept[:, right].mul_(kept[:, left])
    for stride in strides[-2::-1]:
        left, right = slice(2 * stride - 1, -stride, 2 * stride), slice(3 * stride - 1, None, 2 * stride)
        more[:, right].add_(kept[:, right] * more[:, left])
        kept[:, right].mul_(kept[:, left])
    return more


def unroll(kept, more):
    """The same, where the four places in the middle of the tree are worked out one by one (mambapy)."""
    for stride in (1, 2):
        left, right = slice(stride - 1, None, 2 * stride), slice(2 * stride - 1, None, 2 * stride)
        more[:, right].add_(kept[:, right] * more[:, left])
        kept[:, right].mul_(kept[:, left])
    held, own = kept[:, 3::4], more[:, 3::4]
    own[:, 1].add_(held[:, 1] * own[:, 0])
    held[:, 1].mul_(held[:, 0])
    own[:, 3].add_(held[:, 3] * (own[:, 2] + held[:, 2] * own[:, 1]))
    own[:, 2].add_(held[:, 2] * own[:, 1])
    for stride in (2, 1):
        left, right = slice(2 * stride - 1, -stride, 2 * stride), slice(3 * stride - 1, None, 2 * stride)
        more[:, right].add_(kept[:, right] * more[:, left])
    return more


def walk(kept, more):
    """Place after place, in place."""
    for place in range(1, more.shape[1]):
        more[:, place].add_(kept[:, place] * more[:, place - 1])
    return more


def hand_on(kept, more):
    """Place after place, the state in a tensor of its own."""
    state, found = torch.zeros_like(more[:, 0]), []
    for place in range(more.shape[1]):
        state = kept[:, place] * state + more[:, place]
        found.append(state)
    return torch.stack(found, dim=1)


class Selective(nn.Module):
    """A state that chooses what it keeps, behind a norm (Mamba)."""

    def __init__(self, scan):
        super().__init__()
        self.norm, self.rows, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.step, self.parts, self.scan = nn.Linear(INNER, INNER), nn.Linear(INNER, 2 * HELD), scan
        self.fade = nn.Parameter(torch.zeros(INNER, HELD))

    def forward(self, x):
        rows = self.rows(self.norm(x))
        step = nn.functional.softplus(self.step(rows))[..., None]
        written, read = self.parts(rows).split(HELD, dim=-1)
        kept, more = (step * -self.fade.exp()).exp(), step * written[:, :, None] * rows[..., None]
        states = self.scan(kept, more).clone()
        return x + self.back((states @ read[..., None]).squeeze(-1))


def record(scan, places=PLACES):
    layers = [Selective(scan) for _ in range(3)]
    model = nn.Sequential(nn.Embedding(31, WIDTH), *layers, nn.Linear(WIDTH, 31))
    return xray.trace(model.eval(), torch.arange(2 * places).view(2, places) % 31)


def list_texts(trace):
    layout = compose_poster(trace, text_width)
    return [] if layout is None else ["".join(run.text for line in box.lines for run in line) for box in layout.boxes]


@pytest.mark.parametrize("scan", [sweep, unroll])
def test_states_that_are_worked_out_up_and_down_a_tree_are_not_handed_on(scan):
    trace = record(scan)
    texts = list_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (Recurrence("state space", (2, PLACES, INNER, HELD), at_once=True),)
    (told,) = [text for text in texts if text.startswith(TOGETHER)]
    assert told == f"{TOGETHER}2×{PLACES}×{INNER}×{HELD}before it, in no box: mul × 2"
    assert any(text.startswith("Each place has a state of its own") for text in texts)
    assert not any("HANDED" in text or "handed on" in text for text in texts)


@pytest.mark.parametrize("places", [3, 5, PLACES])
def test_states_that_are_changed_place_after_place_in_one_tensor_are_not_told_to_be_worked_out_together(places):
    assert not any(TOGETHER in text or "PIECE" in text for text in list_texts(record(walk, places)))


def test_a_state_that_is_read_whole_at_each_place_is_handed_on():
    texts = list_texts(record(hand_on))

    assert any(text.startswith("STATE, HANDED FROM PLACE TO PLACE") for text in texts)
    assert not any(TOGETHER in text for text in texts)
