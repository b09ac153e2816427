"""A tower that ran while another one had begun already is no part of that one's first layer."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass

HEADS, WORDS, IDS = 3, 19, torch.tensor([[2, 3, 5, 7, 11], [13, 17, 1, 4, 6]])


class Asking(nn.Module):
    """Attention to the rows of another tower."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.kv, self.out = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x, seen):
        parts = (self.q(self.norm(x)), *self.kv(seen).chunk(2, dim=-1))
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        return x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Captions(nn.Module):
    """Words are looked up, then images are seen, then the words ask them (IDEFICS)."""

    def __init__(self):
        super().__init__()
        self.table, self.given = nn.Embedding(WORDS, WIDTH), nn.Linear(7, WIDTH)
        self.sees = nn.ModuleList(nn.Sequential(AttentionPart(), FeedForwardPart()) for _ in range(2))
        self.asks, self.tells = (nn.ModuleList(part() for _ in range(3)) for part in (Asking, FeedForwardPart))

    def forward(self, ids, images):
        x, seen = self.table(ids), self.given(images)
        for layer in self.sees:
            seen = layer(seen)
        for ask, tell in zip(self.asks, self.tells, strict=True):
            x = tell(ask(x, seen))
        return x


def test_a_tower_that_ran_behind_the_lookup_is_no_part_of_the_layers_that_ask_it():
    (only,) = xray.trace(Captions().eval(), IDS, rows()).passes

    seeing, asking = read_pass(only).towers

    assert len(asking.layers) == 3
    assert all(asked.isdisjoint(seen) for asked in nodes_of(asking) for seen in nodes_of(seeing))


def nodes_of(towering):
    return [staging.nodes for staging in towering.stagings]
