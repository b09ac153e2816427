"""Curves of feed-forwards are told by what they make of numbers, and gates by what meets there, however written."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.story.anatomy.branches import FeedForward, Unknown

BATCH, PLACES, WIDTH, WIDE = 2, 5, 12, 17


class Layer(nn.Module):
    def __init__(self, made, bend):
        super().__init__()
        self.norm, self.back, self.bend = nn.LayerNorm(WIDTH), nn.Linear(WIDE, WIDTH), bend
        self.wide = nn.ModuleList(nn.Linear(WIDTH, one) for one in made)
        self.mix_norm, self.mix = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 3, batch_first=True)

    def forward(self, x):
        rows = self.mix_norm(x)
        x = x + self.mix(rows, rows, rows, need_weights=False)[0]
        rows = self.norm(x)
        return x + self.back(self.bend(*(one(rows) for one in self.wide)))


def read(bend, *made):
    """The feed-forward of two layers alike; None where they are told as unknown."""
    model = nn.Sequential(*(Layer(made, bend) for _ in range(2)))
    (tower,) = anatomy(xray.trace(model.eval(), torch.randn(BATCH, PLACES, WIDTH))).towers
    ((stage,),) = (group.stages[1:] for group in tower.groups)
    (branch,) = stage.branches
    assert isinstance(branch, FeedForward | Unknown)
    return branch if isinstance(branch, FeedForward) else None


def halves(bend):
    return lambda rows: bend(*rows.chunk(2, dim=-1))


TANH = math.sqrt(2 / math.pi)


@pytest.mark.parametrize(
    ("bend", "name"),
    [
        (lambda x: x * torch.sigmoid(x), "silu"),
        (lambda x: x * torch.sigmoid(1.702 * x), "quick gelu"),
        (lambda x: 1.702 * x * torch.sigmoid(x), "silu"),
        (lambda x: x * torch.sigmoid(2 * x), None),
        (lambda x: x * torch.sigmoid(x.mean(-1, keepdim=True)), None),
        (lambda x: torch.sigmoid(x) * torch.sigmoid(x), None),
        (lambda x: 0.5 * x * (1 + torch.tanh(TANH * (x + 0.044715 * x**3))), "gelu tanh"),
        (lambda x: 0.5 * x * (1 + torch.tanh(TANH * (x + 0.044715 * x**2))), None),
        (lambda x: torch.tanh(x) ** 2, None),
        (lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))), "gelu"),
        (lambda x: x * (1 + torch.erf(x)), None),
        (lambda x: functional.relu(x) ** 2, "relu squared"),
        (lambda x: functional.relu(x) * x, "relu squared"),
        (lambda x: functional.relu(x * x), None),
        (lambda x: functional.relu(x) - 0.1 * functional.relu(-x), None),
        (lambda x: functional.gelu(functional.gelu(x)), None),
        (lambda x: functional.relu(functional.silu(x)), None),
        (lambda x: functional.gelu(x) + x, None),
        (functional.hardswish, "hardswish"),
        (lambda x: 2 * torch.sigmoid(x) - 1, None),
        (lambda x: functional.relu(x) - 0.3, None),
        (lambda x: functional.gelu(x).softmax(-1), None),
        (lambda x: functional.gelu(x).sort(-1).values, None),
        (lambda x: torch.zeros_like(x).scatter(-1, x.topk(3, -1).indices, x.topk(3, -1).values.relu()), None),
    ],
)
def test_a_curve_is_told_by_what_it_makes_of_numbers(bend, name):
    found = read(bend, WIDE)
    assert (found.activation, found.gated, found.d_ff) == (name, False, WIDE)


@pytest.mark.parametrize(
    "bend",
    [
        lambda a, b: functional.silu(a) * b,
        lambda a, b: b * functional.silu(a),
        lambda a, b: a * torch.sigmoid(a) * b,
    ],
)
def test_a_gate_is_known_in_any_order_and_of_halves(bend):
    assert [(one.activation, one.gated) for one in (read(bend, WIDE, WIDE), read(halves(bend), 2 * WIDE))] == [
        ("silu", True)
    ] * 2


@pytest.mark.parametrize(
    "bend",
    [
        lambda a, b: functional.silu(a * b),
        lambda a, b: functional.gelu(functional.silu(a) * b),
        lambda a, b: functional.silu(a) * b * b,
        lambda a, b: functional.silu(a) * functional.gelu(b),
        lambda a, b: functional.silu(a) + b,
        lambda a, b: functional.silu(a + b) + a,
        lambda a, b: torch.sigmoid(a) * b + (1 - torch.sigmoid(a)) * a,
    ],
)
def test_what_is_not_one_bend_times_one_other_is_no_gated_feed_forward(bend):
    assert read(bend, WIDE, WIDE) is None


@pytest.mark.parametrize("bend", [lambda a, b: functional.silu(a + b), lambda a, b: functional.silu(b.add_(a))])
def test_a_sum_of_all_that_two_layers_make_is_bent_as_what_one_makes(bend):
    found = read(bend, WIDE, WIDE)
    assert (found.activation, found.gated, found.d_ff) == ("silu", False, WIDE)


@pytest.mark.parametrize(
    "bend",
    [
        halves(lambda a, b: functional.silu(a) * a),
        lambda rows: functional.silu(rows[..., :WIDE]) * rows[..., :WIDE],
        lambda rows: functional.silu(rows)[..., :WIDE],
        halves(lambda a, b: functional.relu(torch.maximum(a, b))),
    ],
)
def test_halves_that_are_left_out_or_no_gate_are_not_told_as_one(bend):
    assert read(bend, 2 * WIDE) is None
