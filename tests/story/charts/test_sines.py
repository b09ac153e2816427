"""Places whose numbers are known to be sines are called so, be it that they may be trained (FSMT, M2M-100)."""

import pytest
import torch
from story.charts.test_prompts import IDS
from story.entrances import WIDTH, HeldPlaces, Words, labels_of, read
from torch import nn

from xray.story.sentences.of_ends import describe_places


def make_sines(rows, width):
    turns = torch.arange(rows)[:, None] * 10000 ** -(torch.arange(width) // 2 * 2 / width)
    return torch.where(torch.arange(width) % 2 == 0, turns.sin(), turns.cos())


class Picked(Words):
    """Rows of a table that are picked by their places."""

    def __init__(self, table, is_learned):
        super().__init__()
        del self.places
        self.places = nn.Parameter(table) if is_learned else None
        if not is_learned:
            self.held = HeldPlaces(table)

    def forward(self, ids):
        if self.places is not None:
            return super().forward(ids)
        x = self.words(ids) * WIDTH**0.5 + self.held(ids.shape[1])
        for layer in self.layers:
            x = layer(x)
        return x


class LookedUp(Words):
    """Rows that a module looks up by their places."""

    def __init__(self, table):
        super().__init__()
        del self.places
        self.looked_places = nn.Embedding.from_pretrained(table, freeze=False)

    def forward(self, ids):
        x = self.words(ids) + self.looked_places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x


TABLES = {True: make_sines(64, WIDTH), False: torch.rand(64, WIDTH)}


@pytest.mark.parametrize(
    ("is_known", "is_learned", "told"),
    [(True, True, "SINES OF "), (True, False, "SINES OF "), (False, True, "LEARNED "), (False, False, "")],
)
def test_places_are_called_by_what_is_known_of_their_numbers(is_known, is_learned, told):
    anatomy, chart = read(lambda: Picked(TABLES[is_known], is_learned), IDS)

    assert labels_of(chart)[-1] == f"+ {told}PLACES"
    held = "" if is_known or is_learned else " of a fixed table"
    assert describe_places(anatomy.towers[0]) == f"{f'{told}places'.capitalize()}{held} are added."


@pytest.mark.parametrize(
    ("is_known", "told"), [(True, "Sines of places are added."), (False, "Learned places are added.")]
)
def test_places_that_a_module_looks_up_are_called_so_too(is_known, told):
    anatomy, _ = read(lambda: LookedUp(TABLES[is_known]), IDS)

    assert describe_places(anatomy.towers[0]) == told
