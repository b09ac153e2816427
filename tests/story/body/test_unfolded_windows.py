"""Queries in blocks, each beside a longer stretch of keys: how far they see follows from the cells of a mask."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray

PLACES, BLOCK, BEFORE = 13, 5, 5


class InBlocks(nn.Module):
    """Attention of blocks to keys around them; `back` places are seen and `ahead`, one of these `hidden` by chance.

    Where keys are `moved`, a number of each is taken away and another one put behind. `axis` is that of places.
    """

    def __init__(self, *, back=4, ahead=0, hidden=False, moved=0, axis=1):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.back, self.ahead, self.hidden, self.moved, self.axis = back, ahead, hidden, moved, axis

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (HEADS, -1)) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        count = -(-PLACES // BLOCK)
        size = BEFORE + BLOCK + self.ahead
        q = functional.pad(q, (0, 0, 0, 0, 0, count * BLOCK - PLACES)).reshape(len(x), count, BLOCK, HEADS, -1)
        pads = (-self.moved, self.moved, 0, 0, BEFORE, self.ahead + BLOCK - 1)
        k, v = (functional.pad(one, pads).unfold(self.axis, size, BLOCK).movedim(-1, 2) for one in (k, v))
        scores = q.permute(0, 3, 1, 2, 4) @ k.permute(0, 3, 1, 4, 2)
        scores = scores.masked_fill(self.hide(count, size), -1e9)
        made = scores.softmax(-1) @ v.permute(0, 3, 1, 2, 4)
        made = made.permute(0, 2, 3, 1, 4).reshape(len(x), count * BLOCK, -1)[:, :PLACES].contiguous()
        return x + self.out(made.clamp(-9, 9))

    def hide(self, count, size):
        place = torch.arange(count * BLOCK).reshape(count, BLOCK, 1)
        key = torch.arange(count).reshape(count, 1, 1) * BLOCK + torch.arange(size) - BEFORE
        shown = (place - key < self.back) & (key - place <= self.ahead) & (key >= 0) & (key < PLACES)
        if self.hidden:
            shown &= (place != BLOCK + 2) | (key != BLOCK + 1)
        return ~shown[None, None]


def look(**given):
    layers = (part for _ in range(2) for part in (InBlocks(**given), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers)
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))).towers
    return tower.groups[0].stages[0].branches[0]


@pytest.mark.parametrize(
    ("given", "window", "causal"),
    [({}, 4, True), ({"back": 3}, 3, True), ({"ahead": 2}, 6, False), ({"axis": -3}, 4, True)],
)
def test_a_mask_of_blocks_shows_how_far_each_place_sees(given, window, causal):
    found = look(**given)

    assert (found.window, found.causal, found.heads) == (window, causal, HEADS)


@pytest.mark.parametrize("given", [{"hidden": True}, {"moved": 1}])
def test_a_mask_of_blocks_that_hides_one_pair_more_or_keys_that_lose_numbers_show_no_window(given):
    found = look(**given)

    assert found.window is None
