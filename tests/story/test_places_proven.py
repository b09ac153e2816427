"""Places are told of a sum only where what it adds differs along the rows at which an attention looks."""

import math

import pytest
import torch
from story.entrances import make_layers
from story.layered import Layered
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, PLACES, PARTS = 48, 3, 12, 10


def make_sines(rows):
    angles = torch.arange(rows)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * -math.log(1e4) / WIDTH)
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(rows, WIDTH)


class Placed(Layered):
    """A table is added to rows of several parts, in one of many ways, before they become one stream or several."""

    def __init__(self, way, rows, *, learned):
        super().__init__()
        self.layers, self.way, self.lead = make_layers(WIDTH, 3), way, nn.Linear(5, WIDTH)
        table = make_sines(rows)
        if learned:
            self.places = nn.Parameter(torch.rand_like(table))
        else:
            self.register_buffer("places", table)
        self.one, self.look = nn.Parameter(torch.rand(1, 1, WIDTH)), nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def enter(self, given):
        return self.way(self, self.lead(given), self.places)


def make_one(model, columns, batch):
    """One learned row looks at the columns of each place by itself."""
    found, _ = model.look(model.one.expand(len(columns), -1, -1), columns, columns)
    return found.squeeze(1).unflatten(0, (batch, -1))


def put_one_in_front(model, rows):
    return torch.cat([make_one(model, rows, len(rows)), rows], 1)


NO_PLACES = {
    "a row for each variable, at which one row looks": (
        PARTS,
        lambda model, x, table: make_one(model, (x + table[:, None]).transpose(1, 2).flatten(0, 1), len(x)),
    ),
    "the same, added when places are sequences": (
        PARTS,
        lambda model, x, table: make_one(model, x.transpose(1, 2).flatten(0, 1) + table, len(x)),
    ),
    "a row for each frame, each a sequence": (PARTS, lambda model, x, table: (x + table[:, None]).flatten(0, 1)),
    "the same, turned": (PARTS, lambda model, x, table: (x.transpose(1, 2) + table).transpose(1, 2).flatten(0, 1)),
    "a row for each view, all in one sequence": (PARTS, lambda model, x, table: (x + table[:, None]).flatten(1, 2)),
    "the same, repeated for its places": (
        PARTS,
        lambda model, x, table: x.flatten(1, 2) + table.repeat_interleave(PLACES, 0),
    ),
    "the same, spread over its places": (
        PARTS,
        lambda model, x, table: x.flatten(1, 2) + table[:, None].expand(-1, PLACES, -1).flatten(0, 1),
    ),
}
OF_PLACES = {
    "to each frame": (PLACES, lambda model, x, table: (x + table).flatten(0, 1)),
    "to each view, all in one sequence": (PLACES, lambda model, x, table: (x + table).flatten(1, 2)),
    "to all of one sequence": (PARTS * PLACES, lambda model, x, table: x.flatten(1, 2) + table),
    "for each view anew": (PLACES, lambda model, x, table: x.flatten(1, 2) + table.repeat(PARTS, 1)),
    "where one row looks at all": (
        PARTS * PLACES,
        lambda model, x, table: put_one_in_front(model, x.flatten(1, 2) + table),
    ),
}


def list_places(way, rows, *, learned):
    torch.manual_seed(0)
    trace = xray.trace(Placed(way, rows, learned=learned).eval(), torch.rand(2, PARTS, PLACES, 5))
    (column,) = read_columns(trace)
    assert column.entrance is not None
    boxes = [node.label.partition(":")[0] for node in column.entrance.nodes if "PLACES" in node.label]
    parts = [part for tower in xray.anatomy(trace).towers for part in tower.entrance if part.part == "positions"]
    return boxes, [part.learned for part in parts]


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("way", NO_PLACES)
def test_rows_of_other_things_than_places_are_not_called_places(way, learned):
    rows, change = NO_PLACES[way]
    assert list_places(change, rows, learned=learned) == ([], [])


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("way", OF_PLACES)
def test_rows_of_places_are_called_so(way, learned):
    rows, change = OF_PLACES[way]
    assert list_places(change, rows, learned=learned) == (
        [f"+ {'LEARNED' if learned else 'SINES OF'} PLACES"],
        [learned],
    )


class Biased(nn.Module):
    """Words, and layers whose queries and keys each get a row for each head before the heads come first."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDTH), nn.ModuleList(BiasedLayer() for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class BiasedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.three, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.rand(HEADS, WIDTH // HEADS))

    def forward(self, x):
        query, key, value = (part.unflatten(-1, (HEADS, -1)) for part in self.three(self.norm(x)).chunk(3, -1))
        query, key, value = (part.transpose(1, 2) for part in (query + self.bias, key + self.bias, value))
        weights = (query @ key.mT / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return x + self.mix((weights @ value).transpose(1, 2).flatten(-2))


def test_a_row_for_each_head_adds_no_places_to_queries_and_keys():
    (tower,) = xray.anatomy(xray.trace(Biased().eval(), torch.randint(31, (2, 11)))).towers
    assert "added" not in {getattr(branch, "positions", None) for branch in tower.branches}


class Features(Layered):
    """Each number times a row of its own, and another row of its own added (ExcelFormer, FT-Transformer)."""

    def __init__(self):
        super().__init__()
        self.layers = make_layers(WIDTH, 3)
        self.factors, self.bias = (nn.Parameter(torch.rand(PLACES, WIDTH)) for _ in range(2))

    def enter(self, numbers):
        return self.factors[None] * numbers[:, :, None] + self.bias[None]


def test_the_bias_of_numbers_that_each_have_factors_of_their_own_tells_no_places():
    trace = xray.trace(Features().eval(), torch.rand(2, PLACES))
    (column,) = read_columns(trace)
    (tower,) = xray.anatomy(trace).towers

    labels = [node.label for node in column.entrance.nodes]
    assert [label for label in labels if "LEARNED" in label] == ["× LEARNED NUMBERS", "LEARNED NUMBERS ADDED"]
    assert "positions" not in {part.part for part in tower.entrance}
