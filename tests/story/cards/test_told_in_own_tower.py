"""A closed sublayer is told by the open one of its own tower: what is in no box there is not drawn here either."""

import torch
from handwritten import Attention
from story.entrances import make_layers
from torch import nn

import xray
from xray.story.cards.undrawn import list_unboxed
from xray.story.sheet.columns import read_columns

WIDTH = 15


class Scaled(nn.Module):
    """Each row is scaled before it is looked at; some layers look at a text then."""

    def __init__(self, *, asks=False):
        super().__init__()
        self.before, self.between, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.look, self.scale = Attention(WIDTH, 3), nn.Linear(WIDTH, WIDTH)
        self.ask = Attention(WIDTH, 3) if asks else None
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH))

    def forward(self, x, time, noisy=None, text=None):
        scale = self.scale(time).unsqueeze(1)
        scale = scale if noisy is None else torch.where(noisy == 1, scale, self.scale(time * 0).unsqueeze(1))
        normed = self.before(x) * (1.0 + scale)
        x = x + self.look(normed, normed)
        x = x if self.ask is None else x + self.ask(self.between(x), text)
        return x + self.think(self.last(x))


class Refined(nn.Module):
    """Rows that are scaled alike, then beside those of a text, each by what is noisy (FIBO 2)."""

    def __init__(self):
        super().__init__()
        self.given, self.words, self.gist = nn.Linear(7, WIDTH), nn.Linear(8, WIDTH), make_layers(WIDTH, 2)
        self.refiner = nn.ModuleList(Scaled() for _ in range(2))
        self.layers = nn.ModuleList(Scaled(asks=number % 3 == 2) for number in range(6))

    def forward(self, x, time, text):
        x = self.given(x)
        for layer in self.refiner:
            x = layer(x, time)
        gist = self.words(text)
        for layer in self.gist:
            gist = layer(gist)
        x = torch.cat([gist, x], dim=1)
        noisy = torch.ones(*x.shape[:2], 1, dtype=torch.long)
        noisy[:, : gist.shape[1]] = 0
        for layer in self.layers:
            x = layer(x, time, noisy, gist)
        return x


def test_what_no_box_tells_of_open_layers_is_not_drawn_of_closed_ones():
    given = torch.randn(2, 5, 7), torch.randn(2, WIDTH), torch.randn(2, 4, 8)
    columns = read_columns(xray.trace(Refined().eval(), *given))

    assert {one.path for one in list_unboxed(columns)} == {f"layers.{number}.scale" for number in range(6)}
