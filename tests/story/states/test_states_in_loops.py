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


class ByPieces(nn.Module):
    """Keys fade within their piece before they change a state, of which all rows of the next piece read (RWKV 5)."""

    def __init__(self, piece):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(20, 20) for _ in range(4))
        self.decay, self.piece, self.norm = nn.Parameter(torch.rand(4, 1)), piece, nn.GroupNorm(4, 20)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (one(x).view(batch, length, 4, 5) for one in (self.query, self.key, self.value))
        query, key, value = query.transpose(1, 2), key.permute(0, 2, 3, 1), value.transpose(1, 2)
        kept = torch.exp(-torch.exp(self.decay.float()))
        faded = kept.repeat(1, self.piece).pow(torch.arange(self.piece)).view(1, 4, 1, self.piece)
        state, read = torch.zeros(batch, 4, 5, 5), torch.empty(batch, 4, length, 5)
        for begin in range(0, length, self.piece):
            rows = slice(begin, begin + self.piece)
            asked, keys, values = query[:, :, rows], key[..., rows], value[:, :, rows]
            read[:, :, rows] = (asked @ keys) @ values + asked @ state
            state = kept.view(1, 4, 1, 1) * state + (keys * faded) @ values
        return self.out(self.norm(read.transpose(1, 2).reshape(-1, width)).view(x.shape))


class InPieces(Looping):
    def __init__(self, piece):
        super().__init__(fades=True)
        self.mixing = nn.ModuleList(ByPieces(piece) for _ in range(2))


@pytest.mark.parametrize(
    ("piece", "fading", "here"), [(3, "  4 parameters", ""), (6, "", "; here all rows are one piece")]
)
def test_a_state_of_which_several_rows_read_goes_by_pieces(piece, fading, here):
    lines = lines_of(poster_of(InPieces(piece).eval(), IDS[:, :6]))

    assert f"A state goes from one piece of the rows to the next and is changed by each{here}." in lines
    assert f"STATE, HANDED FROM PIECE TO PIECE{fading}" in lines
    assert "GROUP NORM IN 4 GROUPS  40 parameters" in lines
