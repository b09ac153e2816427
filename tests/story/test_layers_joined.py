"""A last sum of the rows of all layers side by side, or of their last rows to one of these, is none of the layers."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, LAYERS = 15, 3


class Joined(nn.Module):
    """Layers, and a linear layer over what each of them gave, or over what the last one gave, added to that."""

    def __init__(self, *, is_joined):
        super().__init__()
        self.words, self.is_joined = nn.Embedding(31, WIDTH), is_joined
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(LAYERS))
        self.join, self.norm = nn.Linear(WIDTH * (LAYERS if is_joined else 1), WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x, given = self.words(ids), []
        for layer in self.layers:
            x = layer(x)
            given.append(x)
        return self.norm(x + self.join(torch.cat(given, -1) if self.is_joined else x))


@pytest.mark.parametrize("is_joined", [True, False])
def test_what_joins_all_layers_is_no_layer(is_joined):
    trace = xray.trace(Joined(is_joined=is_joined).eval(), torch.arange(14).view(2, 7))
    lines = lines_of(compose_poster(trace, text_width))

    assert xray.anatomy(trace).towers[0].layers == (LAYERS if is_joined else LAYERS + 1)
    joint = f"SIDE BY SIDE: {' + '.join([str(WIDTH)] * LAYERS)} = {LAYERS * WIDTH}"
    assert any(line.startswith(joint) for line in lines) == is_joined


class Gathered(nn.Module):
    """Layers, and one row to which all others are added, each times its share."""

    def __init__(self, layers):
        super().__init__()
        self.words, self.norm, self.shares = nn.Embedding(31, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(2 * WIDTH, 1)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(layers))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        first, others = self.norm(x).split([1, ids.shape[1] - 1], 1)
        shares = self.shares(torch.cat([first.expand_as(others), others], -1)).softmax(1)
        return first + (others * shares).sum(1, keepdim=True)


@pytest.mark.parametrize("layers", [1, LAYERS])
def test_what_adds_all_rows_to_one_is_no_layer(layers):
    trace = xray.trace(Gathered(layers).eval(), torch.arange(14).view(2, 7))
    lines = lines_of(compose_poster(trace, text_width))

    assert xray.anatomy(trace).towers[0].layers == layers
    assert any(line.startswith("LAST NORM") for line in lines)
