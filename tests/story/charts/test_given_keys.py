"""Keys and values of a tensor that no tower made: their linear layers say how large it is."""

import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

PLACES, BESIDE, WIDE = 7, 11, 19


class Asking(nn.Module):
    """Places look at those of another tensor."""

    def __init__(self):
        super().__init__()
        self.norm, self.query, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = nn.Linear(WIDE, WIDTH), nn.Linear(WIDE, WIDTH)

    def forward(self, x, other):
        made = self.query(self.norm(x)), self.key(other), self.value(other)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in made)
        found = (query @ key.mT / 2).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


class Model(nn.Module):
    """Two layers that ask."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, WIDTH)
        self.asking, self.forwards = (nn.ModuleList(make() for _ in range(2)) for make in (Asking, FeedForwardPart))

    def forward(self, x, other):
        x = self.first(x)
        for asking, forward in zip(self.asking, self.forwards, strict=True):
            x = forward(asking(x, other))
        return x


def test_keys_and_values_of_no_tower_say_of_which_shape_what_they_read_is():
    torch.manual_seed(0)
    trace = xray.trace(Model().eval(), torch.rand(BATCH, PLACES, 5), torch.rand(BATCH, BESIDE, WIDE))
    (column,) = read_columns(trace)
    told = {node.label: node.told for panel in column.frames[0].panels for node in panel.chart.nodes}

    assert told["LINEAR K"] == told["LINEAR V"] == (f"of another tensor: {BATCH}×{BESIDE}×{WIDE}",)
    assert told["LINEAR Q"] == ()
