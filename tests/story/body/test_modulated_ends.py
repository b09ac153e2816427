"""Blocks of which each sublayer ends with a norm that a condition scales and shifts: all of them are layers."""

from functools import partial

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sheet.columns import read_columns

CONDITION, EXPERTS = 3, 4


class Routed(nn.Module):
    """Experts in a loop over what each place chose first, and then second; those that nobody chose are left out."""

    def __init__(self, slots=2):
        super().__init__()
        self.slots, self.router = slots, nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(FeedForwardPart() for _ in range(EXPERTS))

    def forward(self, x):
        rows, made = x.flatten(0, 1), torch.zeros_like(x.flatten(0, 1))
        scores, chosen = self.router(rows).topk(self.slots, dim=-1)
        weights = scores.softmax(-1)
        for slot in range(self.slots):
            for number, expert in enumerate(self.experts):
                mine = chosen[:, slot] == number
                if mine.any():
                    made[mine] += weights[mine, slot, None] * expert(rows[mine])
        return made.view_as(x)


class Modulated(nn.Module):
    """A part that is added, and the norm behind the sum (TinyWorlds)."""

    def __init__(self, part):
        super().__init__()
        self.part, self.norm = part(), nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.given = nn.Linear(CONDITION, 2 * WIDTH)

    def forward(self, x, given):
        scale, shift = self.given(nn.functional.silu(given))[:, None].chunk(2, dim=-1)
        return self.norm(x + self.part(x)) * (1 + scale) + shift


class Block(nn.ModuleList):
    """Parts that are run one behind the other."""

    def forward(self, x, given):
        for part in self:
            x = part(x, given)
        return x


def build(part, biases):
    """Blocks of an attention and another part each; experts of some are chosen by few places, or by none."""
    blocks = [Block([Modulated(AttentionPart), Modulated(part)]) for _ in biases]
    for (_, other), bias in zip(blocks, biases, strict=True):
        if isinstance(other.part, Routed):
            other.part.router.bias.data = torch.tensor([*bias])
    return Block(blocks)


LOW, HIGH = -9.0, 9.0
EVEN = (0.0,) * EXPERTS


@pytest.mark.parametrize("biases", [[EVEN] * 3, [EVEN, (HIGH, HIGH, 0.0, LOW), (0.0, LOW, LOW, HIGH)]])
@pytest.mark.parametrize("part", [FeedForwardPart, Routed])
def test_the_last_sum_of_a_block_is_of_its_layer_behind_a_norm_that_a_condition_shifts(part, biases):
    torch.manual_seed(0)
    model = build(part, biases)

    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.randn(2, 17, WIDTH), torch.randn(2, CONDITION))).towers

    last = "experts" if part is Routed else "feed_forward"
    kinds = [[[branch.part for branch in stage.branches] for stage in one.stages] for one in tower.groups]
    assert (tower.layers, kinds) == (len(biases), [[["attention"], [last]]])


def test_the_one_expert_that_all_places_chose_is_told_as_one_of_several():
    model = build(partial(Routed, 1), [EVEN, (HIGH, LOW, LOW, LOW), EVEN])
    model[1][1].part.router.weight.data.zero_()

    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.randn(2, 17, WIDTH), torch.randn(2, CONDITION))).towers

    (group,) = tower.groups
    (found,) = group.stages[1].branches
    assert isinstance(found, Experts)
    assert (found.experts, found.chosen) == (EXPERTS, 1)


def test_what_a_condition_does_between_two_sublayers_stands_between_these():
    model = build(FeedForwardPart, [EVEN] * 3)

    columns = read_columns(xray.trace(model.eval(), torch.randn(2, 17, WIDTH), torch.randn(2, CONDITION)))

    told = dict(list_unsaid(columns))
    assert [told[one]["mul"] for one in ("between sublayers", "between layers")] == [3, 2]
