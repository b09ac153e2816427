"""Learned numbers that multiply what a sublayer gives inside a branch, where another sublayer follows."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, MANY = 12, 3
ATTENTION, FORWARD, NORM = 4 * (WIDTH * WIDTH + WIDTH), WIDTH * 41 + 41 + 41 * WIDTH + WIDTH, 2 * WIDTH


class Scaled(nn.Module):
    """Attention with a sum of its own, scaled before that, and a feed-forward of what it gives (EdgeNeXt)."""

    def __init__(self):
        super().__init__()
        self.before, self.look, self.after = nn.LayerNorm(WIDTH), Attention(WIDTH, 3), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH))
        self.first, self.second = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, x):
        read = self.before(x)
        y = x + self.first * self.look(read, read)
        return x + self.second * self.think(self.after(y))


def test_a_scale_of_an_attention_before_its_own_sum_is_counted_with_it():
    torch.manual_seed(0)
    trace = xray.trace(nn.Sequential(*(Scaled() for _ in range(MANY))), torch.rand(2, 7, WIDTH))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares == {
        f"self-attention × {MANY}": MANY * (ATTENTION + NORM + WIDTH),
        f"feed-forward × {MANY}": MANY * (FORWARD + NORM + WIDTH),
    }
