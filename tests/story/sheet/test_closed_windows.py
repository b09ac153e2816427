"""A decoder that looks at former rows in windows, beside an encoder's layers of windows that stand closed."""

from html import unescape

import numpy as np
import torch
from torch import nn

import xray

PLACES, REACH = 9, 2


class Looks(nn.Module):
    """Attention in a band around each place, the future hidden or not."""

    def __init__(self, future):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(12, 12) for _ in range(4))
        reach = torch.arange(PLACES)[None] - torch.arange(PLACES)[:, None]
        self.band = nn.Parameter(reach.abs() > REACH, requires_grad=False)
        self.later = nn.Parameter(reach > 0, requires_grad=False) if future else None

    def forward(self, x, others):
        scores = self.query(x) @ self.key(others).mT / np.sqrt(12)
        scores = scores.masked_fill(self.band, -torch.inf)
        scores = scores if self.later is None else scores.masked_fill(self.later, -torch.inf)
        return self.out(scores.softmax(-1) @ self.value(others))


class Layer(nn.Module):
    """Attention, to the memory too where there is one, and a feed-forward, each behind its sum normed."""

    def __init__(self, decodes):
        super().__init__()
        self.own, self.across = Looks(decodes), Looks(future=False) if decodes else None
        self.norms = nn.ModuleList(nn.LayerNorm(12) for _ in range(3))
        self.think = nn.Sequential(nn.Linear(12, 31), nn.ReLU(), nn.Linear(31, 12))

    def forward(self, x, memory=None):
        x = self.norms[0](x + self.own(x, x))
        x = x if self.across is None else self.norms[1](x + self.across(x, memory))
        return self.norms[2](x + self.think(x))


class Series(nn.Module):
    """Three encoder layers and three of a decoder that begins with what these give."""

    def __init__(self):
        super().__init__()
        self.lead, self.head = nn.Linear(7, 12), nn.Linear(12, 3)
        self.encoder, self.decoder = (nn.ModuleList(Layer(decodes) for _ in range(3)) for decodes in (False, True))

    def forward(self, x):
        x = self.lead(x)
        for layer in self.encoder:
            x = layer(x)
        memory = x
        for layer in self.decoder:
            x = layer(x, memory)
        return self.head(x)


def test_windows_formulas_and_parameters_are_told_of_those_attentions_of_which_they_hold():
    torch.manual_seed(0)
    poster = unescape(xray.render(xray.trace(Series().eval(), torch.rand(2, PLACES, 7)), "svg"))

    for told in ("Windows: each place sees at most 3 or 5 places.", "self-attention × 6", "cross-attention × 3"):
        assert told in poster
    assert "attention at station 2: each row sums to 1" in poster
    assert "attention: each row" not in poster
