"""An expert may take so many places of a sequence at most: those beyond go through none (Switch Transformers)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sentences.of_feed_forwards import describe_experts

EXPERTS, MOST = 4, 3


class Limited(nn.Module):
    """Experts of which each place goes through one, as long as no more than `most` places of its sequence do.

    It is counted along an `axis`: that of places, or that of experts, which says nothing of these.
    """

    def __init__(self, *, most=None, axis=-2):
        super().__init__()
        self.norm, self.router, self.most, self.axis = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS), most, axis
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        given = self.norm(x)
        scores = self.router(given).softmax(-1)
        chosen = functional.one_hot(scores.argmax(-1), EXPERTS)
        if self.most is not None:
            chosen = chosen * (chosen.cumsum(self.axis) <= self.most)
        flat, found = given.flatten(0, 1), torch.zeros_like(given.flatten(0, 1))
        weights = scores.max(-1).values.flatten()
        for number, expert in enumerate(self.experts):
            (places,) = torch.where(chosen.flatten(0, 1)[:, number] > 0)
            found = found.index_add(0, places, expert(flat[places]) * weights[places, None])
        return x + found.view(x.shape)


def read(**options):
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Reader(AttentionPart(), Limited(**options)).eval(), rows()))
    (found,) = (one for one in anatomy.towers[0].branches if isinstance(one, Experts))
    return found, describe_experts(anatomy)


def test_so_many_places_as_an_expert_takes_at_most_are_told():
    found, told = read(most=MOST)

    assert (found.experts, found.chosen, found.capacity) == (EXPERTS, 1, MOST)
    assert "An expert takes 3 places of a sequence at most; those beyond go through none." in told


@pytest.mark.parametrize("options", [{}, {"most": MOST, "axis": -1}], ids=["no limit", "counted along experts"])
def test_experts_without_such_a_limit_tell_none(options):
    found, told = read(**options)

    assert (found.experts, found.chosen, found.capacity) == (EXPERTS, 1, None)
    assert "at most" not in told
