"""What is added to the stream before each layer anew is no stream (Point-MAE's places, StyleTTS 2's mapping)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart, Reader, read, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

LAYERS, WIDE = 3, 7


class Anew(Reader):
    """Layers before each of which what linear layers make of other rows, or of one row for all, is added."""

    def __init__(self, *ends):
        super().__init__(*(part() for part in LAYERS * (AttentionPart, FeedForwardPart)))
        self.places = nn.Sequential(nn.Linear(3, WIDE), nn.GELU(), nn.Linear(WIDE, WIDTH), *ends)

    def forward(self, x, kind=None):
        return self.go(self.project(x), self.places(kind))

    def go(self, x, added):
        added = added if added.dim() == x.dim() else added.unsqueeze(1).expand(-1, x.shape[1], -1)
        for number, layer in enumerate(self.layers):
            x = layer(x + added if number % 2 == 0 else x)
        return x


class PlacesFirst(Anew):
    """The same, with a stream that begins at what is made beside, to which the rows that come in are added."""

    def forward(self, x, kind=None):
        places = self.places(kind)
        return self.go(places, self.project(x))


@pytest.mark.parametrize("ends", [(), (nn.GELU(),), (nn.LayerNorm(WIDTH),)], ids=["linear", "bent", "normed"])
@pytest.mark.parametrize("each", [True, False], ids=["places", "one row"])
def test_what_is_added_before_each_layer_is_not_where_the_stream_begins(ends, each):
    beside = torch.randn(BATCH, rows().shape[1], 3) if each else torch.randn(BATCH, 3)
    (tower,) = read(Anew(*ends), rows(), beside).towers

    assert [group.count for group in tower.groups] == [LAYERS]
    assert [len(group.stages) for group in tower.groups] == [2]


def test_so_where_what_is_added_is_made_of_what_comes_in():
    (tower,) = read(PlacesFirst(), rows(), torch.randn(BATCH, rows().shape[1], 3)).towers

    assert [group.count for group in tower.groups] == [LAYERS]


def test_the_sum_before_the_first_layer_says_that_the_others_have_one_too():
    def told(model):
        beside = torch.randn(BATCH, rows().shape[1], 3)
        (column,) = read_columns(xray.trace(model.eval(), rows(), beside))
        return [node.told for node in column.entrance.nodes if node.label == "ADDED UP"]

    class Once(Anew):
        def go(self, x, added):
            return super().go(x + added, torch.zeros_like(added))

    assert told(Anew()) == [("one of these before each later layer too",)]
    assert told(Once()) == [()]
