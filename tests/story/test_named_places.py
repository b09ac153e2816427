"""Rows that are held or learned are of places only where a name says so, or they are waves of what was counted out."""

import pytest
import torch
from story.entrances import HeldPlaces, labels_of, make_layers, read
from story.test_places_proven import PLACES, WIDTH, make_sines
from torch import nn

import xray


class Adds(nn.Module):
    """Words, or numbers, to which rows are added that are `held` under a name."""

    def __init__(self, name, held, pick):
        super().__init__()
        self.words, self.lead, self.layers = nn.Embedding(31, WIDTH), nn.Linear(5, WIDTH), make_layers(WIDTH, 3)
        self.name, self.pick = name, pick
        if isinstance(held, torch.Tensor) and not isinstance(held, nn.Parameter):
            self.register_buffer(name, held)
        else:
            setattr(self, name, held)

    def forward(self, given):
        x = self.lead(given) if given.is_floating_point() else self.words(given)
        x = x + self.pick(getattr(self, self.name), given)
        for layer in self.layers:
            x = layer(x)
        return x


IDS, NUMBERS = torch.arange(2 * PLACES).view(2, PLACES), torch.rand(2, PLACES, 5)


def count_out(table, given):
    return table(torch.arange(given.shape[1]))


def as_it_is(rows, given):
    return rows


def rows():
    return nn.Parameter(torch.rand(PLACES, WIDTH))


NO_PLACES = {
    "a prompt that is added to each place": ("prompt", rows, as_it_is, NUMBERS),
    "poses": ("pose_embed", rows, as_it_is, NUMBERS),
    "a bias": ("pos_bias", rows, as_it_is, NUMBERS),
    "means of a series that are held": ("mean", lambda: torch.rand(PLACES, WIDTH), as_it_is, NUMBERS),
    "a row for each variable": ("variate_embed", lambda: nn.Embedding(PLACES, WIDTH), count_out, NUMBERS),
    "pieces of three": (
        "pieces",
        lambda: nn.Embedding(4, WIDTH),
        lambda table, given: table(torch.arange(PLACES) // 3),
        IDS,
    ),
    "by turns": ("turns", lambda: nn.Embedding(2, WIDTH), lambda table, given: table(torch.arange(PLACES) % 2), IDS),
    "halves": (
        "halves",
        lambda: nn.Parameter(torch.rand(2, WIDTH)),
        lambda rows, given: torch.cat([rows[:1].expand(5, -1), rows[1:].expand(PLACES - 5, -1)]),
        IDS,
    ),
    "steps of noise that came in": (
        "table",
        lambda: make_sines(100),
        lambda table, given: table[(given[..., 0] * 99).long()],
        NUMBERS,
    ),
    "ranks": ("table", lambda: make_sines(40), lambda table, given: table[given[..., 0].argsort(1)], NUMBERS),
    "months from the one that came in": (
        "table",
        lambda: make_sines(40),
        lambda table, given: table[torch.arange(*(given[0, 0, 0].long() + end for end in (0, PLACES)))],
        NUMBERS,
    ),
    "sines of every other place": (
        "table",
        lambda: make_sines(40),
        lambda table, given: table[torch.arange(PLACES) // 2],
        NUMBERS,
    ),
}
OF_PLACES = {
    "looked up": ("wpe", lambda: nn.Embedding(64, WIDTH), count_out, IDS, "PLACE LOOKUP"),
    "learned": ("pos_embed", rows, as_it_is, NUMBERS, "+ LEARNED PLACES"),
    "cut": (
        "absPosEmb",
        lambda: nn.Parameter(torch.rand(64, WIDTH)),
        lambda rows, given: rows[:PLACES],
        NUMBERS,
        "+ LEARNED PLACES",
    ),
    "held by a module of that name": (
        "more",
        lambda: HeldPlaces(torch.rand(64, WIDTH)),
        lambda table, given: table(PLACES),
        NUMBERS,
        "+ PLACES",
    ),
    "sines": (
        "table",
        lambda: make_sines(40),
        lambda table, given: table[torch.arange(PLACES)],
        NUMBERS,
        "+ SINES OF PLACES",
    ),
    "waves": (
        "table",
        lambda: make_sines(40),
        lambda table, given: (torch.arange(PLACES)[:, None] * torch.arange(1, WIDTH + 1)).sin(),
        NUMBERS,
        "+ PLACES",
    ),
}


def read_places(name, held, pick, given):
    anatomy, chart = read(lambda: Adds(name, held(), pick), given)
    return [label for label in labels_of(chart) if "PLACE" in label], [
        part for part in anatomy.towers[0].entrance if part.part == "positions"
    ]


@pytest.mark.parametrize("way", NO_PLACES)
def test_rows_that_nothing_calls_places_are_not_called_so(way):
    assert read_places(*NO_PLACES[way]) == ([], [])


@pytest.mark.parametrize("way", OF_PLACES)
def test_rows_that_are_called_places_or_are_waves_of_them_are_told(way):
    *made, told = OF_PLACES[way]
    labels, parts = read_places(*made)

    assert labels == [told]
    assert len(parts) == 1


def test_rows_that_are_held_and_added_have_a_box():
    _, chart = read(lambda: Adds("mean", torch.rand(PLACES, WIDTH), as_it_is), NUMBERS)

    assert labels_of(chart) == ["VECTORS", "LINEAR", "ADDED UP"]


class Queries(nn.Module):
    """Learned rows that are added to what a decoder looks with, as its queries are in DETR."""

    def __init__(self):
        super().__init__()
        self.query_embed = nn.Embedding(7, WIDTH)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, 2, 37, batch_first=True), 2)

    def forward(self, memory):
        rows = self.query_embed.weight[None].repeat(len(memory), 1, 1)
        return self.decoder(rows + memory[:, :1], memory)


def test_rows_of_queries_are_no_places():
    (tower,) = xray.anatomy(xray.trace(Queries().eval(), torch.rand(2, PLACES, WIDTH))).towers[-1:]

    assert "positions" not in [part.part for part in tower.entrance]
