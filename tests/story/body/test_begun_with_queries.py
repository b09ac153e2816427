"""Attentions whose queries are what their result is added to: no stream goes from layer to layer (Set Transformer)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, PLACES, WIDTH, read
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Queries that look at keys, and are added to what they find, by heads or whole."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.query, self.key, self.value, self.wide = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def cut(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, x, others):
        q, k, v = self.query(x), self.key(others), self.value(others)
        if self.way == "stacked":
            q, k, v = (torch.cat(one.split(WIDTH // HEADS, 2), 0) for one in (q, k, v))
            found = q + torch.softmax(q @ k.mT / WIDTH**0.5, 2) @ v
            found = torch.cat(found.split(len(x), 0), 2)
        elif self.way == "fused":
            found = q + functional.scaled_dot_product_attention(*map(self.cut, (q, k, v))).transpose(1, 2).flatten(2)
        elif self.way == "alone":
            found = q + torch.softmax(q @ k.mT / WIDTH**0.5, 2) @ v
        else:
            q, k, v = map(self.cut, (q, k, v))
            found = (q + torch.softmax(q @ k.mT / WIDTH**0.5, -1) @ v).transpose(1, 2).flatten(2)
        found = self.norms[0](found)
        return self.norms[1](found + self.wide(found).relu())


class Sets(nn.Module):
    """Rows that look at each other, block by block, then learned ones that look at all."""

    def __init__(self, way):
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Block(way) for _ in range(4)), nn.Linear(WIDTH, 7)
        self.seeds = nn.Parameter(torch.zeros(1, 3, WIDTH))

    def forward(self, x):
        for block in self.blocks[:3]:
            x = block(x, x)
        return self.last(self.blocks[3](self.seeds.repeat(len(x), 1, 1), x))


@pytest.mark.parametrize("way", ["stacked", "fused", "alone", "by heads"])
def test_what_is_added_to_its_own_queries_makes_no_tower(way):
    assert read(Sets(way), torch.randn(BATCH, PLACES, WIDTH)).towers == ()
