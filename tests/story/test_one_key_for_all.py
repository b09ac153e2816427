"""Heads that all meet one key are those that queries were cut into, by an einsum's letters (DeepSeek's own code)."""

import pytest
import torch
from printed import words_of
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
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

    assert {(one.heads, one.d_k) for one in looking} == {(HEADS, None)}


class InTwoParts(Absorbed):
    """Another part of queries and keys meets by a product of its own, which is added (DeepSeek's own code)."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * WIDTH)
        self.offer = nn.Linear(WIDTH, NARROW + WIDTH // HEADS)

    def forward(self, x):
        kept, other = self.offer(x).split((NARROW, WIDTH // HEADS), -1)
        asking, others = self.query(x).unflatten(-1, (HEADS, -1)).chunk(2, -1)
        query = torch.einsum("bshd,hdc->bshc", asking, self.ups[0])
        scores = torch.einsum("bshc,btc->bsht", query, kept) + torch.einsum("bshr,btr->bsht", others, other)
        found = torch.einsum("bsht,btc->bshc", scores.softmax(-1), kept)
        return x + self.back(torch.einsum("bshc,hdc->bshd", found, self.ups[1]).flatten(2))


def test_what_other_parts_of_queries_and_keys_meet_for_is_no_bias():
    model = nn.Sequential(*(InTwoParts() for _ in range(2)))
    words = words_of(compose_poster(xray.trace(model, torch.rand(BATCH, PLACES, WIDTH)), text_width))

    assert "+ SCORES OF OTHER PARTS" in words
    assert "softmax( Q·KT + scores of other parts )" in words
    assert "+ A BIAS" not in words
    assert f"LINEAR IN {HEADS} GROUPS" in words
    assert "LINEAR O" not in words


class AddsOfQueries(nn.Module):
    """To scores the products of queries and learned rows are added, one row for each key; or what is learned alone."""

    def __init__(self, *, of_queries):
        super().__init__()
        self.of_queries, self.made = of_queries, nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.rows = nn.Parameter(torch.rand(WIDTH // HEADS if of_queries else PLACES, PLACES))

    def forward(self, x):
        query, key, value = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.made[:3])
        added = torch.nn.functional.pad(query @ self.rows, (0, 1))[..., :PLACES] if self.of_queries else self.rows
        found = (query @ key.mT / 2 + added).softmax(-1) @ value
        return x + self.made[3](found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("of_queries", "label", "term"),
    [(True, "+ WHAT IS MADE OF Q", "+ what is made of Q"), (False, "+ A BIAS", "+ bias")],
)
def test_what_is_made_of_queries_and_added_to_scores_is_no_bias(of_queries, label, term):
    model = nn.Sequential(*(AddsOfQueries(of_queries=of_queries) for _ in range(2)))
    words = words_of(compose_poster(xray.trace(model, torch.rand(BATCH, PLACES, WIDTH)), text_width))

    assert label in words
    assert term in words
