"""Attentions beside each other in one branch that differ: what holds for the first alone is no size of the model."""

import pytest
import torch
from torch import nn

import xray

WIDTH, PLACES = 12, 8


class Pieces(nn.Module):
    """Each part of a row attends by pieces of so many places that lie end to end in one key (STTN)."""

    def __init__(self, *lengths):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.lengths = lengths

    def forward(self, x):
        found = []
        parts = zip(*(made(x).chunk(len(self.lengths), -1) for made in (self.query, self.key, self.value)), strict=True)
        for length, made in zip(self.lengths, parts, strict=True):
            q, k, v = (one.reshape(len(x), PLACES // length, -1) for one in made)
            weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
            found.append((weights @ v).reshape(len(x), PLACES, -1))
        return x + self.out(torch.cat(found, -1))


@pytest.mark.parametrize(("lengths", "d_k"), [((2, 2), 2 * WIDTH // 2), ((2, 4), None)])
def test_how_wide_a_key_is_is_told_where_all_attentions_of_a_branch_agree(lengths, d_k):
    model = nn.Sequential(nn.Linear(5, WIDTH), *(Pieces(*lengths) for _ in range(2)), nn.Linear(WIDTH, 3)).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(2, PLACES, 5))).towers

    assert [getattr(branch, "d_k", 0) for branch in tower.branches] == [d_k]
