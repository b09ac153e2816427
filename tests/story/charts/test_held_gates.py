"""Gates whose factors are held between bounds before they meet: their box says between which."""

import pytest
import torch
from story.body.building import record_family
from story.body.table import FAMILIES
from story.body.test_mistaken import WIDTH, AttentionPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.sentences.of_feed_forwards import describe_gate
from xray.story.sheet.columns import read_columns


class Gated(nn.Module):
    """A gated feed-forward of two linear layers, or of one that makes both factors."""

    def __init__(self, hold, *, fused):
        super().__init__()
        self.hold, self.norm, self.down = hold, nn.LayerNorm(WIDTH), nn.Linear(9, WIDTH)
        self.ups = nn.ModuleList([nn.Linear(WIDTH, 18)] if fused else [nn.Linear(WIDTH, 9) for _ in range(2)])

    def forward(self, x):
        made = [up(self.norm(x)) for up in self.ups]
        return x + self.down(self.hold(*(made[0].chunk(2, -1) if len(made) == 1 else made)))


def hold_both(gate, up):
    return functional.silu(gate.clamp(max=7)) * (up.clamp(min=-5, max=7) + 1)


def hold_up(gate, up):
    return functional.silu(gate) * up.clamp(min=-7, max=7)


def hold_bent(gate, up):
    return functional.silu(gate).clamp(max=11) * up


def hold_to_no_end(gate, up):
    return functional.silu(gate.clamp(max=float("inf"))) * up.clamp(min=-float("inf"), max=float("inf"))


def hold_none(gate, up):
    return functional.silu(gate) * up


def add_nothing(gate, up):
    return functional.silu(gate + 0) * (up + 0)


def write_out(gate, up):
    return 0.5 * gate * (1.0 + torch.tanh(0.8 * (gate + 0.04 * torch.pow(gate, 3.0)))) * up


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("hold", "told"),
    [
        (hold_both, ("gate at most 7, up from −5 to 7, + 1",)),
        (hold_up, ("up within ±7",)),
        (hold_bent, ("bent gate at most 11",)),
        (hold_to_no_end, ()),
        (hold_none, ()),
        (add_nothing, ()),
        (write_out, ()),
    ],
)
def test_bounds_of_both_factors_are_told(hold, told, fused):
    layers = [layer for _ in range(2) for layer in (AttentionPart(), Gated(hold, fused=fused))]
    (column,) = read_columns(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 5, WIDTH)))

    (product,) = (node for node in column.frames[0].panels[1].chart.nodes if "× UP" in node.label)
    assert product.told == told
    assert sum(step.op == "clamp" for step in product.steps) == {hold_both: 2, hold_up: 1, hold_bent: 1}.get(hold, 0)


@pytest.mark.parametrize(
    ("holds", "told"),
    [
        ((hold_both,) * 2, "SiLU of one projection (at most 7), times another (from −5 to 7, + 1), then back."),
        ((hold_bent,) * 2, "SiLU (at most 11) of one projection, times another, then back."),
        ((hold_none,) * 2, "SiLU of one projection, times another, then back."),
        (
            (hold_both, hold_none),
            "SiLU of one projection, times another, then back. In some layers the one is at most 7, the other from"
            " −5 to 7, + 1.",
        ),
        (
            (hold_bent, hold_none),
            "SiLU of one projection, times another, then back. In some layers the bent one is at most 11.",
        ),
        (
            (hold_bent, hold_up),
            "SiLU of one projection, times another, then back. In some layers what is multiplied is held between bounds"
            " before.",
        ),
        (
            (hold_both, hold_up),
            "SiLU of one projection, times another, then back. In some layers what is multiplied is held between bounds"
            " before, or has a number added.",
        ),
    ],
)
def test_the_sentence_of_gates_tells_what_holds_their_factors(holds, told):
    layers = [layer for hold in holds for layer in (AttentionPart(), Gated(hold, fused=False))]
    found = xray.anatomy(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 5, WIDTH)))

    assert describe_gate(found) == f"Gated feed-forward: {told}"


def test_bounds_of_chosen_experts_alone_are_told_of_these():
    layers = [AttentionPart(), Gated(hold_none, fused=False), AttentionPart(), OneByOne(hold_both)]
    found = xray.anatomy(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 13, WIDTH)))

    assert describe_gate(found).endswith(" In chosen experts the one is at most 7, the other from −5 to 7, + 1.")


def test_bounds_within_experts_are_told():
    _, trace = record_family(FAMILIES["gpt_oss"])
    (column,) = read_columns(trace)

    (each,) = (node for node in column.frames[0].panels[1].chart.nodes if node.label.startswith("IN EACH"))
    assert each.told == ("gate at most 7, up within ±7, + 1",)  # modeling_gpt_oss.py, _apply_gate


class OneByOne(nn.Module):
    """Experts one after the other, each with its matrices and biases out of those of all (OpenAI's privacy filter)."""

    def __init__(self, hold, experts=5, wide=11):
        super().__init__()
        self.hold, self.norm, self.router = hold, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, experts)
        self.wide, self.wide_bias = (nn.Parameter(torch.rand(experts, *more, 2 * wide)) for more in ((WIDTH,), ()))
        self.back, self.back_bias = (nn.Parameter(torch.rand(experts, *more, WIDTH)) for more in ((wide,), ()))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores, chosen = self.router(given).topk(2)
        weights, found = scores.softmax(-1), torch.zeros_like(given)
        flags = functional.one_hot(chosen, len(self.wide)).permute(2, 1, 0)
        for (expert,) in flags.sum((-1, -2)).greater(0).nonzero():
            rank, places = torch.where(flags[expert])
            gate, up = (given[places] @ self.wide[expert] + self.wide_bias[expert]).chunk(2, -1)
            made = self.hold(gate, up) @ self.back[expert] + self.back_bias[expert]
            found.index_add_(0, places, made * weights[places, rank, None])
        return x + found.view(x.shape)


@pytest.mark.parametrize("wide", [11, WIDTH])  # where they are as wide as the stream, what leads back is no gate
def test_bounds_are_told_of_experts_one_after_the_other_with_biases_picked_from_those_of_all(wide):
    torch.manual_seed(0)
    layers = [layer for _ in range(2) for layer in (AttentionPart(), OneByOne(hold_both, wide=wide))]
    (column,) = read_columns(xray.trace(nn.Sequential(*layers).eval(), torch.rand(2, 13, WIDTH)))

    (each,) = (node for node in column.frames[0].panels[1].chart.nodes if node.label.startswith("IN EACH"))
    assert each.label == "IN EACH: GATE + SiLU, × UP, AND BACK"
    assert each.told == ("gate at most 7, up from −5 to 7, + 1",)
    assert sum(step.op == "clamp" for step in each.steps) == 2 * 5


def test_biases_of_experts_are_counted_where_they_are_added():
    _, trace = record_family(FAMILIES["gpt_oss"])
    panel = read_columns(trace)[0].frames[0].panels[1]

    told = [node.extra for node in panel.chart.nodes if " parameters" in node.extra]
    assert sum(int(one.split()[0].replace(",", "")) for one in told) == panel.params
