"""A dropout is told with its share; of a function that was told to drop none while nothing is learned nothing is."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart, draw
from torch import nn
from torch.nn import functional

import xray
from xray.story.sentences.of_parts import DROPPED_FIRST
from xray.story.sheet.columns import read_columns


class Looks(nn.Module):
    """Attention that is written out, its weights through one dropout or another."""

    def __init__(self, drops):
        super().__init__()
        self.drops = drops
        self.ways = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        query, key, value = (way(x).unflatten(-1, (3, -1)).transpose(1, 2) for way in self.ways[:3])
        weights = self.drops((query @ key.mT / 2).softmax(-1))
        return x + self.ways[3]((weights @ value).transpose(1, 2).flatten(2))


DROPS = {
    "a function told none": (lambda weights: functional.dropout(weights, 0.0, training=False), ""),
    "a function told a share": (lambda weights: functional.dropout(weights, 0.3, training=False), "dropout 0.3, idle"),
    "a module of none": (nn.Dropout(0.0), "dropout 0"),
}


@pytest.mark.parametrize("way", DROPS)
def test_a_share_of_none_is_told_of_a_module_alone(way):
    drops, told = DROPS[way]
    model = nn.Sequential(nn.Linear(7, WIDTH), Looks(drops), FeedForwardPart()).eval()

    nodes = draw(model, torch.rand(BATCH, PLACES, 7))
    assert [node.extra for node in nodes if node.key == "softmax"] == [told]


class Dropping(nn.Module):
    """A feed-forward that drops a share behind its bend."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drops = nn.Dropout(0.3)

    def forward(self, x):
        return x + self.down(self.drops(self.up(x).relu()))


def list_told(*layers, head=()):
    """What the boxes of the layers say inside, and those of the exit behind them."""
    model = nn.Sequential(nn.Linear(7, WIDTH), nn.Sequential(*layers), *head).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(BATCH, PLACES, 7)))
    charts = [panel.chart for frame in column.frames for panel in frame.panels]
    return tuple(
        [(node.key, *node.told) for chart in some for node in chart.nodes if node.told]
        for some in (charts, () if column.exit is None else (column.exit,))
    )


def test_a_dropout_behind_a_bend_stands_in_the_box_of_the_bend():
    layers, _ = list_told(Looks(nn.Identity()), Dropping())

    assert layers == [("expand", "dropout 0.3, idle")]


def test_a_dropout_behind_a_view_of_weights_stands_in_the_box_of_the_softmax():
    def drops(weights):
        return functional.dropout(weights.flatten(0, 1), 0.3, training=False).view(weights.shape)

    layers, _ = list_told(Looks(drops), FeedForwardPart())

    assert layers == [("softmax", "dropout 0.3, idle")]


def test_a_dropout_before_a_head_stands_in_its_box():
    _, leaving = list_told(Looks(nn.Identity()), FeedForwardPart(), head=(nn.Dropout(0.2), nn.Linear(WIDTH, 17)))

    assert [told for _, *told in leaving] == [[DROPPED_FIRST.format(dropout="dropout 0.2, idle")]]
