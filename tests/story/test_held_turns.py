"""A table of cosines and sines that a model holds tells places by turning only where its rows turn (LlamaGen)."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.where import attentions

PLACES, D_K = 7, WIDTH // HEADS
ANGLES = torch.arange(PLACES)[:, None] * torch.tensor([1.0, 0.1])
TURNING = torch.stack((ANGLES.cos(), ANGLES.sin()), -1)
BEHIND_ZEROS = torch.cat((torch.zeros(1, D_K // 2, 2), TURNING[1:]))
AS_IT_WAS = TURNING[:1].expand(PLACES, -1, -1)


def turn_pairs(rows, table):
    pairs, table = rows.unflatten(-1, (-1, 2)), table.view(1, 1, *table.shape)
    left = pairs[..., 0] * table[..., 0] - pairs[..., 1] * table[..., 1]
    right = pairs[..., 1] * table[..., 0] + pairs[..., 0] * table[..., 1]
    return torch.stack((left, right), -1).flatten(-2)


def turn_complex(rows, table):
    pairs = torch.view_as_complex(rows.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * table).flatten(-2)


class Turned(nn.Module):
    """Attention whose queries and keys meet a table that it holds."""

    def __init__(self, turn, table):
        super().__init__()
        self.turn, self.qkv, self.out = turn, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        held = table.clone(memory_format=torch.contiguous_format)
        self.register_buffer("table", torch.view_as_complex(held) if turn is turn_complex else held)

    def forward(self, x):
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        scores = self.turn(query, self.table) @ self.turn(key, self.table).mT
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("turn", [turn_pairs, turn_complex])
@pytest.mark.parametrize(
    ("table", "is_rotary"),
    [(TURNING, True), (BEHIND_ZEROS, False), (AS_IT_WAS, False), (torch.zeros_like(TURNING), False)],
    ids=["turning", "behind zeros", "of one row", "never filled"],
)
def test_a_held_table_tells_places_where_its_rows_turn(turn, table, is_rotary):
    model = nn.Sequential(Turned(turn, table), FeedForwardPart(), Turned(turn, table), FeedForwardPart()).eval()

    found = {one.positions for one in attentions(xray.anatomy(xray.trace(model, torch.ones(2, PLACES, WIDTH))))}

    assert ("rotary" in found) == is_rotary
