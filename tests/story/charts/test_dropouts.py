"""A dropout is told with its share; of a function that was told to drop none while nothing is learned nothing is."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart, draw
from torch import nn
from torch.nn import functional


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
