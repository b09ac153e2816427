"""Rows that a mask picks of a stream, worked on and put back: what ends a layer is no step behind the last one."""

import torch
from story.body.test_mistaken import WIDTH as WIDE
from story.body.test_mistaken import AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

BATCH, PLACES, KINDS = 2, 5, 3


class OfWords(nn.Module):
    """Attention of all rows, and a feed-forward of those alone that a mask picks (Higgs Audio V2)."""

    def __init__(self):
        super().__init__()
        self.look, self.think = AttentionPart(), FeedForwardPart()

    def forward(self, x, read):
        x = self.look(x)
        x[read] = self.think(x[read])
        return x


class Hears(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(17, WIDE), nn.ModuleList(OfWords() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDE), nn.Linear(WIDE, KINDS)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, ids < 17)
        return self.head(self.norm(x))


def test_rows_that_are_put_back_behind_the_last_sum_belong_to_the_layer():
    (column,) = read_columns(xray.trace(Hears().eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES)))

    assert [node.label for node in column.exit.nodes] == ["LAST NORM", "LINEAR"]
    assert column.towering.tower.final_norm == "layer"
