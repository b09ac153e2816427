"""Small models of words and what reads their entrance."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance

WIDTH, OTHER, SIGN = 15, 12, 7


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(count))


class Words(nn.Module):
    """Words times the root of their width, and places added."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(64, WIDTH))
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x = x + self.places[torch.arange(ids.shape[1])]
        for layer in self.layers:
            x = layer(x)
        return x


class HeldPlaces(nn.Module):
    """Rows of places that are held, and do not learn: the first ones, from `first` on."""

    def __init__(self, rows, first=0):
        super().__init__()
        self.first = first
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, count):
        return self.rows[self.first : self.first + count]


def read(model, *given):
    torch.manual_seed(0)
    trace = xray.trace(model(), *given)
    reading = read_passes(trace)[0]
    return xray.anatomy(trace), chart_entrance(reading.flow, reading.towers[-1])


def labels_of(chart):
    return [node.label for node in sorted(chart.nodes, key=lambda node: node.row)]
