"""Values that are made of the rows of a layer before these are gone on with for queries and keys (Mega)."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, Reader, read, rows
from torch import nn


class MovingAverage(nn.Module):
    """Attention whose values are made of normed rows, and its queries and keys of what rows before add to these."""

    def __init__(self):
        super().__init__()
        self.norm, self.value, self.qk = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.factor, self.mixing = nn.Parameter(torch.randn(WIDTH)), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        value = nn.functional.silu(self.value(normed))
        mixed = nn.functional.silu(self.mixing(normed.transpose(1, 2)).transpose(1, 2) + normed * self.factor)
        query, key, kept = self.qk(mixed).chunk(3, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
        found = nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return kept + self.out(found)


def test_values_of_the_rows_that_a_layer_began_with_are_its_own():
    found = read(Reader(*(part() for part in 3 * (MovingAverage, FeedForwardPart))).eval(), rows())
    sources = [branch.source for tower in found.towers for branch in tower.branches if hasattr(branch, "heads")]

    assert sources
    assert set(sources) == {"self"}
    assert not any(tower.looked_at for tower in found.towers)
