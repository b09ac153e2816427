"""Attention that multiplies keys with values first: told so where sizes prove it, its heads beside others."""

import torch
from printed import words_of
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import LinearAttention
from xray.story.poster import compose_poster

HEADS = 2


class Summed(nn.Module):
    """Bent queries that read the sum of products of bent keys and values, over all places (Sana)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        rows = self.norm(x)
        ways = (made(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2) for made in (self.query, self.key, self.value))
        query, key, value = ways
        query, key = query.relu(), key.relu()
        found = query @ (key.transpose(-2, -1) @ value) / (query @ key.sum(-2)[..., None] + 1)
        return x + self.out(found.transpose(1, 2).flatten(2))


def record(places):
    torch.manual_seed(0)
    model = nn.Sequential(*(part() for _ in range(2) for part in (Summed, AttentionPart, FeedForwardPart)))
    return xray.trace(model.eval(), torch.randn(BATCH, places, WIDTH))


def test_keys_that_meet_values_first_are_linear_attention_with_heads_of_its_own():
    trace = record(places=5)
    told = words_of(compose_poster(trace, text_width))

    branches = anatomy(trace).towers[0].branches
    assert {(one.heads, one.d_k) for one in branches if isinstance(one, LinearAttention)} == {(HEADS, 6)}
    assert "LINEAR ATTENTION" in told
    assert "heads 2 or 3" in told
    assert "attention at station 3: each row sums to 1" in told


def test_where_there_are_as_many_places_as_numbers_of_a_head_neither_it_nor_heads_are_told():
    told = words_of(compose_poster(record(places=6), text_width))

    assert "LINEAR ATTENTION" not in told
    assert "heads 3" not in told
