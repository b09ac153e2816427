"""Keys and values of a tensor that no tower made: their linear layers say how large it is."""

import pytest
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


class SpeltNorm(nn.Module):
    """A norm by the root of the mean of squares, written out."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class AsksNormed(nn.Module):
    """Rows that are normed ask those before their norm, are added to what they find, and go on (SASRec)."""

    def __init__(self, norm, asked):
        super().__init__()
        self.norm, self.asked, self.last = norm(), asked, nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        given = self.asked(x, normed)
        query, key, value = (
            layer(rows).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer, rows in ((self.query, normed), (self.key, given), (self.value, given))
        )
        found = (query @ key.mT / 2).softmax(-1) @ value
        x = self.last(normed + self.back(found.transpose(1, 2).flatten(2)))
        return x + self.narrow(self.wide(x).relu())


@pytest.mark.parametrize("norm", [lambda: nn.LayerNorm(WIDTH), lambda: nn.RMSNorm(WIDTH), SpeltNorm])
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda x, _: x, ("of the rows before their norm",)),
        (lambda x, _: nn.functional.dropout(x, 0.0), ("of the rows before their norm",)),
        (lambda _, normed: normed, ()),
        (lambda x, _: x.tanh(), ()),
    ],
    ids=["before", "dropped out", "normed", "bent"],
)
def test_keys_and_values_of_rows_before_the_norm_that_the_layer_begins_with_say_so(asked, told, norm):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(AsksNormed(norm, asked) for _ in range(2)))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 7, WIDTH)))
    chart = column.frames[0].panels[0].chart

    assert [node.told for node in chart.nodes if node.label in ("LINEAR K", "LINEAR V")] == [told] * 2
