"""Rows that stand in for signs among the words of a text: a learned one (T5Gemma 2), or those of patches (Fuyu)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.body.whole import anatomy
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.sentences.of_ends import describe_entrance

WIDTH, SIGN = 15, 7


class Marks(nn.Module):
    """Words times the root of their width; one sign has a row of its own."""

    def __init__(self, *, trained):
        super().__init__()
        self.words, self.mark = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(WIDTH), requires_grad=trained)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x[ids == SIGN] = self.mark
        for layer in self.layers:
            x = layer(x)
        return x


class Lookup(nn.Module):
    """Words of which one sign has a row of its own."""

    def __init__(self):
        super().__init__()
        self.words, self.mark = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(WIDTH))

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x[ids == SIGN] = self.mark
        return x


class LooksUp(Marks):
    """The same, where a module looks the words up; other whole numbers come in beside, which nothing may read."""

    def __init__(self):
        super().__init__(trained=True)
        self.lookup = Lookup()

    def forward(self, ids, kinds):  # type: ignore[override]
        x = self.lookup(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class Known(Marks):
    """A row stands in at places that come in."""

    def forward(self, ids, known):  # type: ignore[override]
        x = self.words(ids) * WIDTH**0.5
        x[known] = self.mark
        for layer in self.layers:
            x = layer(x)
        return x


class Cleared(Marks):
    """The row of one sign becomes 0."""

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x[ids == SIGN] = 0.0
        for layer in self.layers:
            x = layer(x)
        return x


IDS = torch.arange(4, 14).view(2, 5)


def list_labels(model, *given):
    torch.manual_seed(0)
    reading = read_passes(xray.trace(model, IDS, *given))[0]
    return [node.label for node in chart_entrance(reading.flow, reading.towers[0]).nodes]


def test_a_learned_row_that_stands_in_for_a_sign_is_a_box_that_says_for_which():
    assert "A LEARNED ROW WHERE THE ID IS 7" in list_labels(Marks(trained=True))


def test_the_sign_is_known_where_a_module_looks_up_what_it_asks_for():
    assert "A LEARNED ROW WHERE THE ID IS 7" in list_labels(LooksUp(), torch.zeros_like(IDS))


def test_a_learned_row_at_places_that_come_in_is_of_no_sign():
    assert "A LEARNED ROW PUT IN" in list_labels(Known(trained=True), IDS == SIGN)


class Chosen(Marks):
    """Rows of words and a learned one, put together in some way."""

    def __init__(self, put):
        super().__init__(trained=True)
        self.put = put

    def forward(self, ids):
        x = self.put(ids, self.words(ids) * WIDTH**0.5, self.mark)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (lambda ids, x, row: torch.where((ids == SIGN).unsqueeze(-1), row, x), "A LEARNED ROW WHERE THE ID IS 7"),
        (lambda ids, x, row: torch.where((ids == SIGN).unsqueeze(-1), x, row), "A LEARNED ROW PUT IN"),
        (lambda ids, x, row: torch.where((ids[:, :1] == SIGN).unsqueeze(-1), row, x), "A LEARNED ROW PUT IN"),
        (lambda ids, x, row: x.index_put(((ids[:, :1] == SIGN).expand(2, 5),), row), "A LEARNED ROW PUT IN"),
        (
            lambda ids, x, row: row.expand_as(x).clone().index_put((ids == SIGN,), x[ids == SIGN]),
            "ROWS PUT IN, A LEARNED ROW ELSEWHERE",
        ),
    ],
)
def test_a_learned_row_is_of_a_sign_where_each_place_asks_for_its_own_id(put, told):
    labels = list_labels(Chosen(put))

    assert [label for label in labels if "LEARNED ROW" in label] == [told]


def test_rows_of_a_sign_that_become_0_say_which():
    assert "ROWS SET TO 0 WHERE THE ID IS 7" in list_labels(Cleared(trained=True))


def test_a_row_that_is_not_learned_is_no_learned_one():
    assert not any("LEARNED ROW" in label for label in list_labels(Marks(trained=False)))


class Patched(Marks):
    """Words, among which rows of patches stand in for a sign; these come in cut already, and flat (Fuyu, NeoMME)."""

    def __init__(self):
        super().__init__(trained=True)
        self.wide = nn.Linear(13, WIDTH)

    def forward(self, ids, pixel_values):  # type: ignore[override]
        x = self.words(ids)
        x = self.put_in(ids, x, self.wide(pixel_values))
        for layer in self.layers:
            x = layer(x)
        return x

    def put_in(self, ids, x, rows):
        return x.masked_scatter((ids == SIGN).unsqueeze(-1), rows)


class Heard(Patched):
    """The same, of rows of sound."""

    def forward(self, ids, audio_values):  # type: ignore[override]
        return super().forward(ids, audio_values)


def record_patches(model):
    torch.manual_seed(0)
    ids = torch.tensor([[3, SIGN, SIGN, 4, 5], [SIGN, 8, 9, 10, 11]])
    return xray.trace(model.eval(), ids, torch.rand(3, 13))


def test_patches_that_come_in_to_be_put_among_words_are_an_image_with_its_name():
    reading = read_passes(record_patches(Patched()))[0]
    chart = chart_entrance(reading.flow, reading.towers[0])

    (image,) = [node for node in chart.nodes if node.label == "IMAGE"]
    labels = {node.key: node.label for node in chart.nodes}
    assert image.told == ("pixel_values",)
    assert [labels[edge.target] for edge in chart.edges if edge.source == image.key] == ["LINEAR"]


def test_a_tower_among_whose_words_rows_of_an_image_are_put_says_so():
    (tower,) = anatomy(record_patches(Patched())).towers

    assert (tower.reads, tower.also, tower.among) == ("ids", None, "image")
    assert describe_entrance(tower) == "Ids become vectors. Rows made of an image take the place of some."


def test_rows_of_sound_that_are_put_among_words_are_a_signal():
    (tower,) = anatomy(record_patches(Heard())).towers

    assert tower.among == "audio"
    assert describe_entrance(tower).endswith("Rows made of a signal take the place of some.")


class Changed(Patched):
    """Rows of words to which those of an image are added, in place, or by a mask."""

    def __init__(self, by_mask):
        super().__init__()
        self.by_mask = by_mask

    def put_in(self, ids, x, rows):
        if self.by_mask:
            return x.masked_scatter((ids == SIGN).unsqueeze(-1), x[ids == SIGN] + rows)
        x[:, 1] += rows[:2]
        return x


@pytest.mark.parametrize("by_mask", [False, True])
def test_rows_to_which_those_of_an_image_are_added_are_not_replaced(by_mask):
    (tower,) = anatomy(record_patches(Changed(by_mask))).towers

    assert "take the place" not in describe_entrance(tower)


class Beside(Patched):
    """Words behind which those of an image stand, written into rows of their own that are empty before (SAINT)."""

    def put_in(self, ids, x, rows):
        held = torch.empty(2, 3, WIDTH)
        for place in range(3):
            held[:, place] = rows[place]
        return torch.cat((x, held), 1)


class InTurn(Patched):
    """Rows of an image and words that are both written into rows which are 0 before."""

    def put_in(self, ids, x, rows):
        held = torch.zeros_like(x)
        held[ids != SIGN] = x[ids != SIGN]
        held[ids == SIGN] = rows
        return held


@pytest.mark.parametrize("model", [Beside, InTurn])
def test_rows_that_are_written_into_others_than_words_take_the_place_of_none(model):
    (tower,) = anatomy(record_patches(model())).towers

    assert (tower.reads, tower.among) == ("ids", None)
    assert "take the place" not in describe_entrance(tower)


def test_words_among_which_a_learned_row_is_put_stand_alone():
    (tower,) = anatomy(xray.trace(Marks(trained=True), torch.arange(4, 14).view(2, 5))).towers

    assert tower.among is None
