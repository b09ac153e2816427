"""States that a loop over places changes: they are no stream, and heads are no channels of a map."""

import pytest
import torch
from printed import lines_of
from story.parameter_bars import IDS, poster_of
from torch import nn
from torch.nn import functional

import xray


class Delta(nn.Module):
    """The delta rule as a loop over places, with a share of each head; what was held may fade."""

    def __init__(self, *, fades):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(20, 20) for _ in range(4))
        self.share, self.fade, self.fades = nn.Linear(20, 4), nn.Linear(20, 4), fades

    def forward(self, x):
        query, key, value = (one(x).view(*x.shape[:2], 4, 5) for one in (self.query, self.key, self.value))
        share, kept = self.share(x).sigmoid(), torch.exp(-functional.softplus(self.fade(x)))
        state, read = x.new_zeros(len(x), 4, 5, 5), []
        for place in range(x.shape[1]):
            if self.fades:
                state = state * kept[:, place, :, None, None]
            known = 0 if self.fades else torch.einsum("bhk,bhkv->bhv", key[:, place], state)
            new = (value[:, place] - known) * share[:, place, :, None]
            state = state + key[:, place, :, :, None] * new[:, :, None]
            read.append(torch.einsum("bhk,bhkv->bhv", query[:, place], state))
        return self.out(torch.stack(read, 1).flatten(2))


class Looping(nn.Module):
    def __init__(self, *, fades):
        super().__init__()
        self.table, self.norm = nn.Embedding(53, 20), nn.LayerNorm(20)
        self.mixing = nn.ModuleList(Delta(fades=fades) for _ in range(2))
        self.wide = nn.ModuleList(nn.Sequential(nn.Linear(20, 28), nn.ReLU(), nn.Linear(28, 20)) for _ in range(2))

    def forward(self, ids):
        x = self.table(ids)
        for mixing, wide in zip(self.mixing, self.wide, strict=True):
            x = x + mixing(self.norm(x))
            x = x + wide(self.norm(x))
        return x


@pytest.mark.parametrize("fades", [True, False])
def test_a_state_that_a_loop_changes_is_no_tower(fades):
    (tower,) = xray.anatomy(xray.trace(Looping(fades=fades).eval(), IDS)).towers

    assert tower.layers == 2


def test_a_share_of_each_head_is_no_gate_of_channels():
    assert "EACH CHANNEL × ITS GATE" not in lines_of(poster_of(Looping(fades=True).eval(), IDS))
