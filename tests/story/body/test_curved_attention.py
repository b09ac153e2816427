"""Attention with a curve in place of softmax: told so where all between two products is a curve, and masks."""

import pytest
import torch
from story.body.test_context import Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branch_words import spell_curve
from xray.story.anatomy.branches import CurvedAttention
from xray.story.poster import compose_poster

WIDTH, HEADS, PLACES = 15, 3, 7
ANGLE = (("acos", None), ("div", 3.14159265), ("rsub", 1.0), ("pow", 9.0))


def weigh_by_angle(scores, mask):
    return (1 - torch.acos(scores * 0.99) / torch.pi) ** 9 * mask


def weigh_by_sigmoid(scores, mask):
    return torch.sigmoid((scores / 5**0.5).masked_fill(mask == 0, -1e9))


def weigh_by_share(scores, mask):
    shares = torch.exp(scores) * mask
    return shares / shares.sum(dim=-1, keepdim=True)


def weigh_by_decay(scores, mask):
    return torch.relu(scores) * torch.linspace(0.1, 1, PLACES).expand_as(scores)


def weigh_by_count(scores, mask):
    return torch.relu(scores) / (mask + torch.arange(PLACES).int())


def weigh_by_number(scores, mask):
    return torch.relu(scores) * (mask + torch.arange(PLACES).int())


def weigh_seen(scores, mask):
    return torch.relu(scores) * (torch.arange(PLACES) > 1).long()


def weigh_plainly(scores, mask):
    return scores / 5**0.5 * mask


class Weighs(nn.Module):
    """Attention whose weights are what a function makes of the scores."""

    def __init__(self, weigh):
        super().__init__()
        self.norm, self.weigh = nn.LayerNorm(WIDTH), weigh
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        query, key, value = (
            one(y).view(*y.shape[:2], HEADS, -1).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        query, key = (nn.functional.normalize(one, dim=-1) for one in (query, key))
        mask = torch.ones(1, 1, 1, PLACES).int()
        found = self.finish(self.weigh(query @ key.transpose(-1, -2), mask), value)
        return x + self.back(found.transpose(1, 2).reshape(x.shape))

    def finish(self, weights, value):
        return weights @ value


class DividesBehind(Weighs):
    """The same, what was weighed divided by what the weights come to."""

    def finish(self, weights, value):
        return weights @ value / (weights.sum(dim=-1, keepdim=True) + 1e-6)


class GatesBehind(Weighs):
    """The same, what was weighed multiplied by a gate of its own for each number of a head."""

    def __init__(self, weigh):
        super().__init__(weigh)
        self.gate = nn.Parameter(torch.ones(WIDTH // HEADS))

    def finish(self, weights, value):
        return weights @ value * self.gate


def record(weigh, make=Weighs):
    torch.manual_seed(0)
    layers = [layer() for _ in range(3) for layer in (lambda: make(weigh), Thinks)]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(2 * PLACES).view(2, PLACES))


def read_branch(trace):
    (group,) = xray.anatomy(trace).towers[0].groups
    return group.stages[0].branches[0]


def test_weights_that_a_curve_makes_of_scores_are_told_with_their_formula():
    found = read_branch(record(weigh_by_angle))

    assert isinstance(found, CurvedAttention)
    assert (found.heads, found.d_k, found.is_masked) == (HEADS, WIDTH // HEADS, True)
    assert spell_curve(found.curve) == "(1 − acos(score × 0.99) / π)⁹"


def test_the_poster_draws_queries_keys_and_values_the_curve_and_the_mask():
    boxes = compose_poster(record(weigh_by_angle), text_width).boxes
    texts = ["".join(run.text for line in box.lines for run in line) for box in boxes]

    named = ("LINEAR Q", "HEADS K", "SCORES Q·K", "(1 − ACOS(SCORE × 0.99) / π)⁹", "× MASK", "WEIGHTS · V", "LINEAR O")
    assert [one for one in named if any(text.startswith(one) for text in texts)] == [*named]
    assert any("SELF-ATTENTION WITHOUT SOFTMAX" in text.replace("ATTENTIONW", "ATTENTION W") for text in texts)


def test_a_mask_before_the_curve_stands_between_the_scale_and_the_curve():
    trace = record(weigh_by_sigmoid)
    boxes = compose_poster(trace, text_width).boxes
    labels = ["".join(run.text for run in box.lines[0]) for box in boxes if box.lines]

    assert spell_curve(read_branch(trace).curve) == "sigmoid(score / 2.23607)"
    drawn = [label.split("  ")[0] for label in labels]
    assert [one for one in ("SCORE / 2.23607", "MASK", "SIGMOID(SCORE)") if one in drawn] == [
        "SCORE / 2.23607",
        "MASK",
        "SIGMOID(SCORE)",
    ]


@pytest.mark.parametrize("weigh", [weigh_by_share, weigh_by_decay, weigh_plainly, weigh_by_count, weigh_by_number])
def test_weights_that_are_shares_or_decay_or_are_bent_by_nothing_are_not_told_as_a_curve(weigh):
    assert not isinstance(read_branch(record(weigh)), CurvedAttention)


def test_what_says_yes_or_no_as_a_whole_number_is_a_mask():
    found = read_branch(record(weigh_seen))

    assert isinstance(found, CurvedAttention)
    assert found.is_masked


def test_what_is_divided_behind_by_what_weights_come_to_is_not_told_as_a_curve():
    assert not isinstance(read_branch(record(weigh_by_sigmoid, DividesBehind)), CurvedAttention)
    assert isinstance(read_branch(record(weigh_by_sigmoid, GatesBehind)), CurvedAttention)


@pytest.mark.parametrize(
    ("curve", "formula"),
    [
        (ANGLE, "(1 − acos(score) / π)⁹"),
        ((("relu", None), ("square", None)), "(relu(score))²"),
        ((("div", 8.0), ("sub", 2.5), ("sigmoid", None)), "sigmoid(score / 8 − 2.5)"),
        ((("add", 1.0), ("mul", 2.0), ("pow", 0.5)), "((score + 1) × 2) to the power 0.5"),
    ],
)
def test_a_curve_is_spelled_as_a_formula(curve, formula):
    assert spell_curve(curve) == formula
