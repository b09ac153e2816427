"""Layers that add something in their attention, among others that do not: to values (NeoMME), or to queries."""

import torch
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns


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


class LookedUpValues(AttentionPart):
    """Attention to whose values rows are added that a table of the words holds (NeoMME)."""

    def forward(self, x, looked_up):  # type: ignore[override]
        found = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).movedim(-2, 1)
        q, k, v = (one.squeeze(-2) for one in found.split(1, dim=-2))
        added = v + looked_up.unflatten(-1, (HEADS, WIDTH // HEADS)).movedim(-2, 1)
        return x + self.out(functional.scaled_dot_product_attention(q, k, added).transpose(1, 2).flatten(2))


class TwoTables(nn.Module):
    """Words, and another table of them, of which rows go into the values of each layer."""

    def __init__(self):
        super().__init__()
        self.words, self.values = nn.Embedding(31, WIDTH), nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(part() for _ in range(2) for part in (LookedUpValues, FeedForwardPart))

    def forward(self, ids):
        x, looked_up = self.words(ids), self.values(ids)
        for layer in self.layers:
            x = layer(x, looked_up) if isinstance(layer, LookedUpValues) else layer(x)
        return x


def test_values_to_which_rows_of_a_table_are_added_say_so():
    (column,) = read_columns(xray.trace(TwoTables().eval(), torch.arange(10).view(2, 5)))

    (added,) = [node for node in column.frames[0].panels[0].chart.nodes if node.label.startswith("ADDED UP")]
    assert added.told == ("with rows looked up in a table of 31",)
