"""Pairs that lie in one batch: attention of one half to the other is no self-attention, and has no second tower."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, AttentionPart, FeedForwardPart, Reader, read
from torch import nn
from torch.nn import functional

from xray.story.anatomy.branches import ANOTHER_ROW, Attention

WIDTH, HEADS = 12, 3


class Crossing(nn.Module):
    """Attention whose keys and values may be made of other rows than its queries."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, x, other):
        heads = [self.query(x), self.key(other), self.value(other)]
        made = functional.scaled_dot_product_attention(
            *(one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in heads)
        )
        return self.out(made.transpose(-2, -3).flatten(-2))


class Swapped(Crossing):
    """Every row of the batch looks at the one beside it (LightGlue)."""

    def forward(self, x):
        x = self.norm(x)
        other = x.view(-1, 2, PLACES, WIDTH).flip(1).reshape(x.shape)
        return x + self.attend(x, other)


class Picked(Crossing):
    """The first row of each pair looks at the second one, then this at that (EfficientLoFTR)."""

    def forward(self, x):
        pairs = x.view(-1, 2, PLACES, WIDTH)
        first, second = pairs[:, 0], pairs[:, 1]
        first = first + self.attend(first, second)
        second = second + self.attend(second, first)
        return torch.stack([first, second], dim=1).view(x.shape)


class Rolled(Crossing):
    """Every place looks at its own row, of which the places were rolled."""

    def forward(self, x):
        return x + self.attend(x, x.roll(1, dims=1))


@pytest.mark.parametrize("layer", [Swapped, Picked])
def test_the_other_half_of_a_pair_is_another_row_of_the_batch(layer):
    model = Reader(AttentionPart(), FeedForwardPart(), layer(), FeedForwardPart())
    found = read(model, torch.randn(2 * BATCH, PLACES, 7))

    (tower,) = found.towers
    assert [one.source for one in tower.branches if isinstance(one, Attention)] == ["self", ANOTHER_ROW]
    assert (tower.name, tower.causal, found.links) == ("stack", False, ())


def test_places_that_were_rolled_are_of_the_same_row():
    found = read(Reader(Rolled(), FeedForwardPart()), torch.randn(2 * BATCH, PLACES, 7))

    assert [one.source for one in found.towers[0].branches if isinstance(one, Attention)] == ["self"]
