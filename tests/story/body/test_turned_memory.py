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


def wave_by_products(places, waves):
    return torch.einsum("i , j -> i j", places, waves[0])


def wave_by_matrices(places, waves):
    return places[:, None] @ waves


def wave_in_batches(places, waves):
    return torch.einsum("bi,j->bij", places[None], waves[0])[0]


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


def turn_by_angles(rows, angles):
    first, second = rows.chunk(2, -1)
    return rows * angles.cos() + torch.cat((-second, first), -1) * angles.sin()


class Crossing(nn.Module):
    def __init__(self, turn):
        super().__init__()
        self.turn = turn
        self.first, self.second, self.third, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, memory, places):
        q, k, v = (
            lead(one).view(*one.shape[:2], HEADS, -1).transpose(1, 2)
            for lead, one in ((self.first, x), (self.second, memory), (self.third, memory))
        )
        q, k = self.turn(q, places[0]), self.turn(k, places[1])
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
    def __init__(self, lay_out, turn=turn):
        super().__init__()
        self.lay_out = lay_out
        self.first, self.second = nn.Linear(7, WIDTH), nn.Embedding(19, WIDTH)
        self.encoder, self.decoder = make_layers(WIDTH, 2), make_layers(WIDTH, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.crossing = nn.ModuleList(Crossing(turn) for _ in range(2))

    def lay_both(self, seen, ids):
        return [self.lay_out(ids) for _ in range(2)]

    def forward(self, seen, ids):
        places = self.lay_both(seen, ids)
        memory, x = self.first(seen), self.second(ids)
        for layer in self.encoder:
            memory = layer(memory)
        for layer, norm, cross in zip(self.decoder, self.norms, self.crossing, strict=True):
            x = layer(x)
            x = x + cross(norm(x), memory, places)
        return x


class Held(Crossed):
    """The same with frequencies that the model holds, and more rows in the memory than words (RETRO)."""

    def __init__(self, wave):
        super().__init__(None, turn_by_angles)
        self.wave = wave
        self.register_buffer("waves", 100 ** -(torch.arange(0, WIDTH // HEADS, 2)[None] / (WIDTH // HEADS)))

    def lay_both(self, seen, ids):
        waved = [self.wave(torch.arange(one.shape[1], dtype=torch.float), self.waves) for one in (ids, seen)]
        return [torch.cat((half, half), -1)[None, None] for half in waved]


def label_stages(model, *given):
    reading = read_pass(xray.trace(model.eval(), *given).passes[0])
    stagings = [one for tower in reading.towers for one in tower.stagings]
    return [{node.label for node in chart_stage(reading.flow, one).nodes} for one in stagings]


@pytest.mark.parametrize("lay_out", [lay_out_grid, count_words, choose_places])
def test_keys_are_followed_to_their_linear_layer_and_not_to_the_places_that_turn_them(lay_out):
    labels = label_stages(Crossed(lay_out), torch.rand(2, SIDE**2, 7), torch.zeros(2, SIDE**2, dtype=torch.long))

    assert any({"LINEAR K", "HEADS K", "ROTATE Q", "ROTATE K"} <= own for own in labels), labels
    places = ("ARANGE", "CARTESIAN", "NE ", "CUMSUM", "STACK", "WHERE")
    assert not any(label.startswith(places) for own in labels for label in own)


@pytest.mark.parametrize("wave", [wave_by_products, wave_by_matrices, wave_in_batches])
def test_held_frequencies_that_meet_places_are_no_linear_layer_of_the_keys(wave):
    labels = label_stages(Held(wave), torch.rand(2, SIDE**2, 7), torch.zeros(2, 11, dtype=torch.long))

    assert any({"LINEAR K", "HEADS K", "ROTATE Q", "ROTATE K"} <= own for own in labels), labels
