"""Maps whose pooled places ask or are asked: what becomes one row is told where the map is one of the places alone."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention

SIDE = 8


class Pooled(nn.Module):
    """Heads of rows that are laid out as a map, of which 4 neighbours become one, for keys or for queries."""

    def __init__(self, *, turned=True, asks=False):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.turned, self.asks = turned, asks

    def fewer(self, rows):
        rows = rows.mT if self.turned else rows
        return nn.functional.avg_pool2d(rows.reshape(BATCH, WIDTH, SIDE, SIDE), 2).flatten(2).mT

    def forward(self, x):
        rows = self.norm(x)
        asking, asked = (self.fewer(rows), rows) if self.asks else (rows, self.fewer(rows))
        made = (self.query(asking), self.key(asked), self.value(asked))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
        found = self.out((weights @ value).transpose(1, 2).flatten(2))
        if self.asks:
            found = found.mT.unflatten(2, (SIDE // 2, SIDE // 2))
            found = nn.functional.interpolate(found, scale_factor=2).flatten(2).mT
        return x + found


@pytest.mark.parametrize(
    ("settings", "told"),
    [({}, (4, None)), ({"turned": False}, (None, None)), ({"asks": True}, (None, None))],
    ids=["a map of the rows", "numbers laid out anew", "pooled rows ask all others"],
)
def test_places_that_become_one_key_or_row_are_told_where_the_moves_prove_it(settings, told):
    layers = (part for _ in range(3) for part in (Pooled(**settings), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), *layers), torch.rand(BATCH, SIDE * SIDE, 7))

    (tower,) = xray.anatomy(trace).towers
    branch = tower.branches[0]
    assert isinstance(branch, Attention)
    assert (branch.gathered, branch.coarse) == told
