"""That a feed-forward works on each place alone is told where every step keeps places apart."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import FeedForward

WIDTH, WIDE = 12, 17


class Layer(nn.Module):
    """Attention, and two linear layers, or convolutions of one place, with something done to rows between them."""

    def __init__(self, stir, *, of_maps):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.norm_two, self.stir, self.of_maps = nn.LayerNorm(WIDTH), stir, of_maps
        self.there, self.back = (
            nn.Conv1d(one, two, 1) if of_maps else nn.Linear(one, two) for one, two in ((WIDTH, WIDE), (WIDE, WIDTH))
        )

    def forward(self, x):
        rows = self.norm(x)
        x = x + self.mix(rows, rows, rows, need_weights=False)[0]
        rows = self.norm_two(x)
        rows = rows.transpose(1, 2) if self.of_maps else rows
        rows = self.back(self.stir(functional.gelu(self.there(rows)), 2 if self.of_maps else 1))
        return x + (rows.transpose(1, 2) if self.of_maps else rows)


def is_forward(stir, *, of_maps):
    """Whether the second sublayer of layers is told as a feed-forward."""
    model = nn.Sequential(*(Layer(stir, of_maps=of_maps) for _ in range(2)))
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.randn(2, 5, WIDTH))).towers
    return all(isinstance(group.stages[-1].branches[0], FeedForward) for group in tower.groups)


def smooth(rows, places):
    first, rest, before = rows.narrow(places, 0, 1), rows.narrow(places, 1, 4), rows.narrow(places, 0, 4)
    return torch.cat((first, 0.5 * rest + 0.5 * before), places)


def differ(rows, places):
    first, rest, before = rows.narrow(places, 0, 1), rows.narrow(places, 1, 4), rows.narrow(places, 0, 4)
    return torch.cat((first, rest - before), places)


def chunk(rows, places):
    return torch.cat((rows.narrow(places, 0, 3), 2 * rows.narrow(places, 3, 2)), places)


@pytest.mark.parametrize("of_maps", [False, True])
@pytest.mark.parametrize(
    "stir",
    [
        smooth,
        differ,
        lambda rows, places: rows.cumsum(places),
        lambda rows, places: rows.flip(places),
        lambda rows, places: rows * rows.mean(places, keepdim=True).sigmoid(),
    ],
)
def test_rows_that_meet_other_places_are_no_feed_forward(stir, of_maps):
    assert not is_forward(stir, of_maps=of_maps)


@pytest.mark.parametrize("of_maps", [False, True])
@pytest.mark.parametrize("stir", [lambda rows, _: functional.dropout(rows, 0.1, training=False), chunk])
def test_places_that_are_kept_apart_are_each_alone(stir, of_maps):
    assert is_forward(stir, of_maps=of_maps)
