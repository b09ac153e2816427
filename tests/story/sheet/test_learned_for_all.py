"""Learned numbers that a model holds, and of which all layers read what is made, are counted with no layer."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, PLACES, LAYERS = 12, 3, 5, 3


class Layer(nn.Module):
    """Attention of which queries and keys are multiplied by cosines of places; then a feed-forward."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.GELU(), nn.Linear(31, WIDTH))

    def forward(self, waves, x):
        read = self.one(x)
        q, k, v = (make(read).unflatten(-1, (HEADS, -1)).transpose(1, 2) for make in (self.q, self.k, self.v))
        seen = ((q * waves) @ (k * waves).mT / 2).softmax(-1) @ v
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.two(x))


class Waves(nn.Module):
    """The model learns how fast places turn, for all layers (Mochi)."""

    def __init__(self):
        super().__init__()
        self.rates, self.layers = (
            nn.Parameter(torch.rand(WIDTH // HEADS)),
            nn.ModuleList(Layer() for _ in range(LAYERS)),
        )

    def forward(self, x):
        waves = torch.einsum("p,f->pf", torch.arange(PLACES).float(), self.rates).cos()
        for layer in self.layers:
            x = layer(waves, x)
        return x


def test_numbers_learned_for_all_layers_are_not_those_of_the_first():
    waves = Waves()
    (column,) = read_columns(xray.trace(nn.Sequential(nn.Linear(7, WIDTH), waves).eval(), torch.rand(2, PLACES, 7)))

    (frame,) = column.frames
    each = sum(one.numel() for one in waves.layers[0].parameters())
    assert (frame.params, frame.more) == (each, (0,) * LAYERS)
    assert sum(panel.params for panel in frame.panels) == each
