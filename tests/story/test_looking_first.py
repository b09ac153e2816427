"""An attention before all layers: what asks in it, what its boxes count, and when places are said to look there."""

import pytest
import torch
from handwritten import Attention
from story.entrances import WIDTH
from story.layered import Layered
from torch import nn

import xray
from xray.story.sentences.of_ends import describe_entrance

PARTS, PLACES, HEADS = 4, 6, 3


class Asked(Layered):
    """Rows of several parts, at which something looks before the layers."""

    def __init__(self, way, rows=1):
        super().__init__()
        self.way, self.lead, self.rows = way, nn.Linear(5, WIDTH), nn.Parameter(torch.rand(rows, WIDTH))
        self.look = Attention(WIDTH, HEADS)
        self.weight, self.bias = nn.Parameter(torch.rand(3 * WIDTH, WIDTH)), nn.Parameter(torch.rand(3 * WIDTH))

    def enter(self, given):
        return self.way(self, self.lead(given))

    def ask(self, seen):
        return self.look(self.rows.expand(len(seen), -1, -1), seen)


def by_place(x):
    return x.transpose(1, 2).flatten(0, 1)


def turn(x):
    """Places that come to stand in sequences of their own part."""
    return x.unflatten(0, (-1, PLACES)).transpose(1, 2).flatten(0, 1)


ALL = {
    "as they are": lambda model, x: model.look(x.flatten(1, 2), x.flatten(1, 2)),
    "within each part": lambda model, x: model.look(x.flatten(0, 1), x.flatten(0, 1)),
}
OTHERS = {
    "a learned row looks at the parts of each place": lambda model, x: model.ask(by_place(x)).unflatten(
        0, (-1, PLACES)
    )[:, :, 0],
    "a learned row looks at the places of each part": lambda model, x: model.ask(x.flatten(0, 1)).unflatten(
        0, (-1, PARTS)
    )[:, :, 0],
    "learned rows look at all": lambda model, x: model.ask(x.flatten(1, 2)),
    "the first part looks at all parts of its place": lambda model, x: model.look(
        by_place(x)[:, :1], by_place(x)
    ).unflatten(0, (-1, PLACES))[:, :, 0],
    "parts of each place look at each other, of which a mean is made": lambda model, x: (
        model.look(by_place(x), by_place(x)).mean(1).unflatten(0, (-1, PLACES))
    ),
    "parts of each place look at each other, and are laid out by parts": lambda model, x: turn(
        model.look(by_place(x), by_place(x))
    ),
    "what goes in is added": lambda model, x: (
        (x.flatten(1, 2) + model.look(x.flatten(1, 2), x.flatten(1, 2))).unflatten(1, (PARTS, -1)).flatten(0, 1)
    ),
}


def trace_asked(way, **options):
    torch.manual_seed(0)
    return xray.trace(Asked(way, **options).eval(), torch.rand(2, PARTS, PLACES, 5))


def are_places_told(trace):
    return any("Places look at each other" in describe_entrance(tower) for tower in xray.anatomy(trace).towers)


@pytest.mark.parametrize("way", ALL)
def test_places_that_look_at_each_other_before_all_layers_are_told(way):
    assert are_places_told(trace_asked(ALL[way]))


@pytest.mark.parametrize("way", OTHERS)
def test_others_that_look_or_are_looked_at_before_all_layers_are_no_places(way):
    assert not are_places_told(trace_asked(OTHERS[way], rows=3 if "learned rows" in way else 1))
