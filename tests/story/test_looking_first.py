"""An attention before all layers: what asks in it, what its boxes count, and when places are said to look there."""

import pytest
import torch
from handwritten import Attention
from story.entrances import WIDTH
from story.layered import Layered, list_arrows
from torch import nn
from torch.nn import functional

import xray
from xray.story.sentences.of_ends import describe_entrance
from xray.story.sheet.columns import read_columns

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


def ask_by_hand(model, x, *, whole):
    """A learned row, led on by a part of the weights and of the bias, that looks at the parts of each place."""
    seen, weights, biases = by_place(x), model.weight.split(WIDTH), model.bias.split(WIDTH)
    row = model.rows.repeat(len(seen), 1)
    query = torch.addmm(biases[0], row, weights[0].t()) if whole else functional.linear(row, weights[0], biases[0])
    key, value = (functional.linear(seen, *pair) for pair in list(zip(weights, biases, strict=True))[1:])
    return ((query[:, None] @ key.mT / WIDTH**0.5).softmax(-1) @ value).view(len(x), PLACES, WIDTH)


def ask_with_one(model, x):
    query = functional.linear(model.rows, model.look.first.weight, model.look.first.bias)
    return ((query @ by_place(x).mT / WIDTH**0.5).softmax(-1) @ by_place(x)).view(len(x), PLACES, WIDTH)


@pytest.mark.parametrize(
    "way",
    [
        lambda model, x: ask_by_hand(model, x, whole=True),
        lambda model, x: ask_by_hand(model, x, whole=False),
        ask_with_one,
    ],
)
def test_a_learned_row_that_is_led_on_has_a_box_of_its_own_and_counts_there_alone(way):
    (column,) = read_columns(trace_asked(way))
    nodes = {node.key: node for node in column.entrance.nodes}
    ((row, led),) = [
        (nodes[edge.source], nodes[edge.target])
        for edge in column.entrance.edges
        if nodes[edge.source].label == "ONE LEARNED ROW"
    ]

    assert (row.record.shape[-1], row.extra) == (WIDTH, f"{WIDTH} parameters")
    assert (led.label, led.extra) == ("LINEAR", f"{WIDTH * WIDTH + WIDTH} parameters")


def ask_twice(model, x):
    seen = x.flatten(1, 2)
    rows = model.rows.expand(len(seen), -1, -1)
    return model.look.last(rows) * model.look(rows, seen)


def test_learned_rows_that_two_layers_read_have_one_box():
    (column,) = read_columns(trace_asked(ask_twice, rows=3))
    labels = [node.label for node in column.entrance.nodes]

    assert labels.count("3 LEARNED ROWS") == 1
    assert sum(source == "3 LEARNED ROWS" for source, _ in list_arrows(column.entrance)) >= 1
