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


def read_frame(model):
    (column,) = read_columns(xray.trace(model.eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES)))
    return column.frames[0]


def test_a_sum_of_rows_that_are_put_back_shows_the_stream_that_leaves_the_layer():
    looking, thinking = (panel.chart.nodes[-1] for panel in read_frame(Hears()).panels)

    assert [node.label for node in (looking, thinking)] == ["ADD", "ADD, ROWS PUT BACK"]
    assert looking.record.shape == thinking.record.shape == (BATCH, PLACES, WIDE)
    assert thinking.steps[0].path == "layers.0.index_put_"


class OfBoth(OfWords):
    """The same, with a feed-forward of their own for rows of another kind, of which none is given."""

    def __init__(self):
        super().__init__()
        self.hear = FeedForwardPart()

    def forward(self, x, read):
        x = super().forward(x, read)
        x[~read] = self.hear(x[~read])
        return x


def test_each_layer_is_told_with_all_of_its_parameters_be_it_that_some_get_no_rows():
    model = Hears()
    model.layers = nn.ModuleList(OfBoth() for _ in range(2))

    assert read_frame(model).params == sum(one.numel() for one in model.layers[0].parameters())
