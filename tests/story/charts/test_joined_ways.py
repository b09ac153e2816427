"""Rows of two other towers put among words one after the other: their ways up do not cross."""

from itertools import combinations

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance

WIDTH, SEEN, HEARD, PICTURE, SOUND = 15, 12, 21, 7, 11


def make_layers(width):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(2))


class Perceives(nn.Module):
    """A sound is put among the words behind one linear layer, a picture behind two of them and a bend."""

    def __init__(self):
        super().__init__()
        self.frames, self.ear, self.say = nn.Conv1d(5, HEARD, 3), make_layers(HEARD), nn.Linear(HEARD, WIDTH)
        self.patches, self.eye = nn.Conv2d(3, SEEN, 4, stride=4), make_layers(SEEN)
        self.show = nn.Sequential(nn.Linear(SEEN, 17), nn.GELU(), nn.Linear(17, WIDTH))
        self.words, self.layers, self.head = nn.Embedding(31, WIDTH), make_layers(WIDTH), nn.Linear(WIDTH, 31)

    def forward(self, ids, image, sound):
        heard, seen, x = self.frames(sound).mT, self.patches(image).flatten(2).mT, self.words(ids)
        for layer in self.ear:
            heard = layer(heard)
        for layer in self.eye:
            seen = layer(seen)
        x = x.masked_scatter((ids == SOUND)[..., None], self.say(heard))
        x = x.masked_scatter((ids == PICTURE)[..., None], self.show(seen))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_what_is_taken_up_last_stands_left_so_that_no_ways_cross():
    torch.manual_seed(0)
    ids = torch.tensor([[1, *[PICTURE] * 4, 2, *[SOUND] * 3, 3]]).expand(2, -1)
    reading = read_passes(xray.trace(Perceives(), ids, torch.rand(2, 3, 8, 8), torch.rand(2, 5, 5)))[0]
    chart = chart_entrance(reading.flow, reading.towers[-1])

    near = [(chart.node(edge.source), chart.node(edge.target)) for edge in chart.edges]
    near = [(source, target) for source, target in near if target.row == source.row + 1]
    crossing = [
        (one[0].label, other[0].label)
        for one, other in combinations(near, 2)
        if one[0].row == other[0].row
        and (one[0].place[0] - other[0].place[0]) * (one[1].place[0] - other[1].place[0]) < 0
    ]
    first = [chart.node(key) for key in chart.memory]
    assert len(near) > 3
    assert crossing == []
    assert {node.row for node in first} == {1}
    assert min(first, key=lambda node: node.place[0]).record.shape[-1] == 17
