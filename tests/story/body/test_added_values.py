"""Layers that add something in their attention, among others that do not: to values (NeoMME), or to queries."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
from torch import nn
from torch.nn import functional


class AddedValues(AttentionPart):
    """Attention to whose values what it reads is added, as it is."""

    def forward(self, x):
        normed = self.norm(x)
        found = self.qkv(normed).unflatten(-1, (3, HEADS, WIDTH // HEADS)).movedim(-2, 1)
        q, k, v = (one.squeeze(-2) for one in found.split(1, dim=-2))
        added = v + normed.unflatten(-1, (HEADS, WIDTH // HEADS)).movedim(-2, 1)
        return x + self.out(functional.scaled_dot_product_attention(q, k, added).transpose(1, 2).flatten(2))


class PlainValues(AddedValues):
    """The same, with nothing added."""

    def forward(self, x):
        found = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).movedim(-2, 1)
        q, k, v = (one.squeeze(-2) for one in found.split(1, dim=-2))
        return x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class AddedQueries(AttentionPart):
    """Attention to whose queries learned rows are added, one for each place."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.rand(rows().shape[1], WIDTH // HEADS))

    def forward(self, x):
        found = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).movedim(-2, 1)
        q, k, v = (one.squeeze(-2) for one in found.split(1, dim=-2))
        found = functional.scaled_dot_product_attention(q + self.places, k, v)
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_layers_that_add_something_to_their_values_are_told_apart_from_others():
    parts = (AddedValues, PlainValues, PlainValues, PlainValues, AddedValues)
    assert list_groups(parts) == [(0, 4), (1, 2, 3)]


def test_a_layer_that_adds_something_to_its_queries_is_told_apart_from_others():
    assert list_groups((AddedQueries, PlainValues, PlainValues)) == [(0,), (1, 2)]


def list_groups(parts):
    layers = [layer for part in parts for layer in (part(), FeedForwardPart())]
    (tower,) = read(Reader(*layers), rows()).towers
    return [group.layers for group in tower.groups]
