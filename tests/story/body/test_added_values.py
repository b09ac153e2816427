"""Layers that add something to the values of their attention, among others that do not (NeoMME)."""

from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
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


def test_layers_that_add_something_to_their_values_are_told_apart_from_others():
    parts = (AddedValues, PlainValues, PlainValues, PlainValues, AddedValues)
    layers = [layer for part in parts for layer in (part(), FeedForwardPart())]

    (tower,) = read(Reader(*layers), rows()).towers

    assert [group.layers for group in tower.groups] == [(0, 4), (1, 2, 3)]
