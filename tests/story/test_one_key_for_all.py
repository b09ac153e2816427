"""Heads that all meet one key are those that queries were cut into, by an einsum's letters (DeepSeek's own code)."""

import torch
from torch import nn

import xray
from xray import anatomy
from xray.story.sentences.where import attentions

BATCH, PLACES, WIDTH, HEADS, NARROW = 2, 5, 12, 3, 7


class Absorbed(nn.Module):
    """Queries of each head are brought to what all keys are, and what the heads found to values of their own."""

    def __init__(self):
        super().__init__()
        self.query, self.offer, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, NARROW), nn.Linear(WIDTH, WIDTH)
        self.ups = nn.Parameter(torch.rand(2, HEADS, WIDTH // HEADS, NARROW))

    def forward(self, x):
        kept = self.offer(x)
        query = torch.einsum("bshd,hdc->bshc", self.query(x).unflatten(-1, (HEADS, -1)), self.ups[0])
        weights = torch.einsum("bshc,btc->bsht", query, kept).softmax(-1)
        found = torch.einsum("bsht,btc->bshc", weights, kept)
        return x + self.back(torch.einsum("bshc,hdc->bshd", found, self.ups[1]).flatten(2))


def test_heads_over_one_key_are_those_of_the_queries():
    model = nn.Sequential(*(Absorbed() for _ in range(2)))
    looking = attentions(anatomy(xray.trace(model, torch.rand(BATCH, PLACES, WIDTH))))

    assert {one.heads for one in looking} == {HEADS}
