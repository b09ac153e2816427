"""Queries and keys into which convolutions mix those of places before, and values of the place before (ZAYA)."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, Reader, rows
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sentences.of_models import list_sentences


class LooksBack(nn.Module):
    """Two convolutions work on queries and keys side by side, and a part of each value was made one place before."""

    def __init__(self, kernels=(2, 3), behind=0, late=WIDTH - 5):
        super().__init__()
        self.front, self.behind = sum(kernels) - 2 - behind, behind
        self.query, self.key, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.now, self.late = nn.Linear(WIDTH, WIDTH - late), nn.Linear(WIDTH, late) if late else None
        self.near = nn.Sequential(
            nn.Conv1d(2 * WIDTH, 2 * WIDTH, kernels[0], groups=2 * WIDTH), nn.Conv1d(2 * WIDTH, 2 * WIDTH, kernels[1])
        )

    def forward(self, x):
        both = torch.cat([self.query(x), self.key(x)], dim=-1).transpose(1, 2)
        both = self.near(pad(both, (self.front, self.behind))).transpose(1, 2)
        value = self.now(x)
        if self.late is not None:
            late = self.late(x)
            first = self.late(x.new_zeros(x.shape[0], 1, WIDTH))
            value = torch.cat([value, torch.cat([first, late[:, :-1]], dim=1)], dim=-1)
        query, key, value = (
            one.reshape(*x.shape[:2], HEADS, -1).transpose(1, 2)
            for one in (both[..., :WIDTH], both[..., WIDTH:], value)
        )
        found = scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.out(found.transpose(1, 2).flatten(2))


def read(**more):
    model = Reader(LooksBack(**more), FeedForwardPart(), LooksBack(**more), FeedForwardPart())
    found = xray.anatomy(xray.trace(model, rows()))
    (branch,) = {one for one in found.towers[0].branches if isinstance(one, Attention)}
    return branch, list_sentences(found)


def test_places_before_are_told_of_queries_keys_and_values():
    branch, told = read()

    assert (branch.mixed_before, branch.values_before) == (3, (WIDTH - 5, WIDTH))
    assert "Convolutions mix queries and keys of the 3 places before into those of each place." in told
    assert f"{WIDTH - 5} of {WIDTH} numbers that a place gives as values are made of the place before it." in told


@pytest.mark.parametrize("more", [{"behind": 1}, {"kernels": (1, 1)}])
def test_convolutions_that_look_ahead_or_nowhere_are_not_told_so(more):
    branch, _ = read(**more)

    assert branch.mixed_before is None


def test_values_of_their_own_place_are_not_told_otherwise():
    branch, told = read(late=0)

    assert branch.values_before is None
    assert not any("place before" in one and "values" in one for one in told)
