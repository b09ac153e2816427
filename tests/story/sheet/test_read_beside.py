"""What is read beside the stream is counted with the sublayer that reads it, where several go one behind the other."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, HEADS, LAYERS = 21, 3, 3
OF_ATTENTION = 4 * (WIDTH * WIDTH + WIDTH)


class Joined(nn.Module):
    """An attention to itself, one to a context and a feed-forward, all between two layers around which x is added.

    So the layers of a diffusion model's UNet stand between the convolutions (CompVis).
    """

    def __init__(self):
        super().__init__()
        self.into, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.look, self.ask = Attention(WIDTH, HEADS), Attention(WIDTH, HEADS)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, context):
        read = self.into(self.norms[0](x))
        given = self.norms[1](read)
        read = read + self.look(given, given)
        read = read + self.ask(self.norms[2](read), context)
        return x + self.back(read + self.think(self.norms[3](read)))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDTH), nn.ModuleList(Joined() for _ in range(LAYERS))

    def forward(self, ids, context):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, context)
        return x


def test_layers_that_read_a_context_are_counted_with_the_attention_to_it():
    trace = xray.trace(Reader(), torch.arange(10).view(2, 5), torch.rand(2, 7, WIDTH))
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert shares[f"cross-attention × {LAYERS}"] == LAYERS * OF_ATTENTION
    assert shares[f"self-attention × {LAYERS}"] == LAYERS * OF_ATTENTION
