"""What one linear layer works out for several sublayers of a layer is counted with none of them alone."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, LAYERS, TIMES = 15, 3, 4
OF_ATTENTION = 4 * (WIDTH * WIDTH + WIDTH) + 2 * WIDTH
OF_SCALES = 2 * (WIDTH * WIDTH + WIDTH)


class Scaled(nn.Module):
    """Each place is scaled by the row of its own time (MiniMax H3)."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.look, self.scales = Attention(WIDTH, 3), nn.Linear(WIDTH, 2 * WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH))

    def forward(self, x, times, whose):
        first, second = self.scales(nn.functional.silu(times)).view(-1, 2 * WIDTH).chunk(2, dim=-1)
        normed = self.before(x) * (1.0 + first.index_select(0, whose))
        x = x + self.look(normed, normed)
        return x + self.think(self.between(x) * (1.0 + second.index_select(0, whose)))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.given, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(Scaled() for _ in range(LAYERS))

    def forward(self, x, times, whose):
        x = self.given(x)
        for layer in self.layers:
            x = layer(x, times, whose)
        return x


def test_scales_of_two_sublayers_are_counted_around_them():
    given = torch.randn(2, 5, 7), torch.randn(TIMES, WIDTH), torch.tensor([0, 1, 3, 3, 2])
    trace = xray.trace(Reader().eval(), *given)
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares[f"self-attention × {LAYERS}"] == LAYERS * OF_ATTENTION
    assert shares[f"around sublayers × {LAYERS}"] == LAYERS * OF_SCALES


class Past(nn.Module):
    """A feed-forward that the stream goes past through a linear layer, then another (a U-Net's convolutions)."""

    def __init__(self, given):
        super().__init__()
        self.before, self.between, self.past = nn.LayerNorm(given), nn.LayerNorm(WIDTH), nn.Linear(given, WIDTH)
        self.first, self.second = (
            nn.Sequential(nn.Linear(one, 31), nn.GELU(), nn.Linear(31, WIDTH)) for one in (given, WIDTH)
        )

    def forward(self, x):
        x = self.past(x) + self.first(self.before(x))
        return x + self.second(self.between(x))


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.given, self.layers = nn.Linear(7, 21), nn.ModuleList(Past(WIDTH if one else 21) for one in range(LAYERS))

    def forward(self, x):
        x = self.given(x)
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_the_stream_goes_past_a_sublayer_through_is_that_ones_alone():
    trace = xray.trace(Stacked().eval(), torch.randn(2, 5, 7))

    assert not any("around" in name for name, *_ in list_shares(read_columns(trace), trace))
