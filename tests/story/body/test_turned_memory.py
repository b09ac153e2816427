"""Keys of another tower's memory that are turned by places which were made long before (CroCo)."""

import pytest
import torch
from story.entrances import make_layers
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

WIDTH, HEADS, SIDE = 24, 3, 3


def turn(rows, places):
    """Rows whose first half is turned by the one axis of a grid, and whose other half by the other."""
    turned = []
    for axis, half in enumerate(rows.chunk(2, -1)):
        waves = 100 ** -(torch.arange(0, half.shape[-1], 2) / half.shape[-1])
        angles = torch.einsum("i,j->ij", torch.arange(SIDE), waves)
        angles = torch.cat((angles, angles), -1)
        cos, sin = (functional.embedding(places[..., axis], table)[:, None] for table in (angles.cos(), angles.sin()))
        first, second = half.chunk(2, -1)
        turned.append(half * cos + torch.cat((-second, first), -1) * sin)
    return torch.cat(turned, -1)


class Crossing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, memory, places):
        q, k, v = (
            lead(one).view(*one.shape[:2], HEADS, -1).transpose(1, 2)
            for lead, one in ((self.first, x), (self.second, memory), (self.third, memory))
        )
        q, k = turn(q, places[0]), turn(k, places[1])
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.last((weights @ v).transpose(1, 2).flatten(2))


def lay_out_grid(ids):
    """Places that are counted out, whatever the words."""
    return torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).view(1, -1, 2).expand(len(ids), -1, 2).clone()


def count_words(ids):
    """Places of words that are no padding, each in its line."""
    counted = ((ids != 5).long().cumsum(-1) - 1) % SIDE**2
    return torch.stack((counted // SIDE, counted % SIDE), -1)


def choose_places(ids):
    """The first place for what is padding."""
    return torch.where((ids != 5)[..., None], lay_out_grid(ids), 0)


class Crossed(nn.Module):
    def __init__(self, lay_out):
        super().__init__()
        self.lay_out = lay_out
        self.first, self.second = nn.Linear(7, WIDTH), nn.Embedding(19, WIDTH)
        self.encoder, self.decoder = make_layers(WIDTH, 2), make_layers(WIDTH, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.crossing = nn.ModuleList(Crossing() for _ in range(2))

    def forward(self, seen, ids):
        places = [self.lay_out(ids) for _ in range(2)]
        memory, x = self.first(seen), self.second(ids)
        for layer in self.encoder:
            memory = layer(memory)
        for layer, norm, cross in zip(self.decoder, self.norms, self.crossing, strict=True):
            x = layer(x)
            x = x + cross(norm(x), memory, places)
        return x


@pytest.mark.parametrize("lay_out", [lay_out_grid, count_words, choose_places])
def test_keys_are_followed_to_their_linear_layer_and_not_to_the_places_that_turn_them(lay_out):
    trace = xray.trace(Crossed(lay_out).eval(), torch.rand(2, SIDE**2, 7), torch.zeros(2, SIDE**2, dtype=torch.long))
    reading = read_pass(trace.passes[0])
    stagings = [one for tower in reading.towers for one in tower.stagings]
    labels = [{node.label for node in chart_stage(reading.flow, one).nodes} for one in stagings]

    assert any({"LINEAR K", "HEADS K", "ROTATE Q", "ROTATE K"} <= own for own in labels), labels
    places = ("ARANGE", "CARTESIAN", "NE ", "CUMSUM", "STACK", "WHERE")
    assert not any(label.startswith(places) for own in labels for label in own)
