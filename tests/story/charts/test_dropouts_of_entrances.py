"""A share that is dropped before the first layer stands in the box of what it is dropped of."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart
from story.charts.test_dropouts import Looks
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance


class Begins(nn.Module):
    """Words and learned places, a norm, and a dropout there and behind each layer."""

    def __init__(self, share):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(23, WIDTH)
        self.norm, self.drops, self.behind = nn.LayerNorm(WIDTH), nn.Dropout(share), nn.Dropout(0.2)
        self.layers = nn.ModuleList(nn.Sequential(Looks(nn.Identity()), FeedForwardPart()) for _ in range(3))

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        x = self.drops(self.norm(self.words(ids) + self.places(places)))
        for layer in self.layers:
            x = self.behind(layer(x))
        return x


@pytest.mark.parametrize(("share", "told"), [(0.3, ("dropout 0.3, idle",)), (0.0, ())])
def test_a_share_is_told_where_the_entrance_drops_it(share, told):
    torch.manual_seed(0)
    trace = xray.trace(Begins(share).eval(), torch.randint(31, (BATCH, PLACES)))
    reading = read_passes(trace)[0]
    chart = chart_entrance(reading.flow, reading.towers[0])

    assert [(node.label, node.told) for node in chart.nodes if node.told or "NORM" in node.label] == [
        ("LAYER NORM", told)
    ]
