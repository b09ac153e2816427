"""What is done to the rows of a feed-forward behind its last linear layer has boxes, in order."""

from itertools import pairwise

import torch
from handwritten import Attention, Layer
from printed import lines_of
from story.body.test_context import WIDTH
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Blends(nn.Module):
    """The stream moves to what the layers make, by a learned share: the stream itself is taken off (EfficientViM)."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.norm = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH), nn.LayerNorm(WIDTH)
        self.share = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        made = self.norm(self.back(self.wide(x).relu()))
        return x + self.share.sigmoid() * (made - x)


def record(make):
    layers = [one for _ in range(2) for one in (Layer(WIDTH, Attention(WIDTH, 3), norm="before"), make())]
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers).eval(), torch.arange(14).view(2, 7))


def test_what_is_done_behind_the_last_layer_stands_before_the_sum():
    (column,) = read_columns(record(Blends))

    chart = column.frames[0].panels[-1].chart
    named = {node.key: node.label for node in chart.nodes}
    behind = ["LINEAR", "LAYER NORM", "SUBTRACTED", "× LEARNED NUMBERS", "ADD"]
    assert [*named.values()][1:] == behind
    ways = {(named[edge.source], named[edge.target]) for edge in chart.edges}
    assert ways >= {*pairwise(behind)}
    assert ("LINEAR", "SUBTRACTED") not in ways
    assert {named[foot] for foot in chart.feet} >= {"SUBTRACTED"}


class OfFirst(Blends):
    """The first row alone goes through the layers, and stands before the others again (XCiT)."""

    def forward(self, x):
        return x + torch.cat((self.back(self.wide(x[:, :1]).relu()), x[:, 1:]), 1)


def test_a_feed_forward_of_the_first_row_is_of_some_places_and_lays_it_before_the_others():
    trace = record(OfFirst)
    (column,) = read_columns(trace)

    assert "END TO END" in [node.label for node in column.frames[0].panels[-1].chart.nodes]
    assert "Some places alone, wider and back." in " ".join(lines_of(compose_poster(trace, text_width)))
