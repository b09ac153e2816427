"""Which table of words is the last layer too, where each tower has one of its own, or both have the same."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import describe_tied

WIDTH, WORDS = 15, 31


class Writes(nn.Module):
    """A text, and another one that looks at it; the last layer is the table of the words that are written."""

    def __init__(self, *, shares):
        super().__init__()
        self.read = nn.Embedding(WORDS, WIDTH)
        self.write = self.read if shares else nn.Embedding(WORDS, WIDTH)
        self.reading, self.writing, self.looking = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.write.weight

    def forward(self, ids, written):
        seen = self.read(ids)
        for layer in self.reading:
            seen = layer(seen)
        told = self.write(written)
        for layer, look in zip(self.writing, self.looking, strict=True):
            told = look(layer(told), seen)
        return self.head(told)


@pytest.mark.parametrize(("shares", "of"), [(True, "the"), (False, "the decoder's")])
def test_of_two_tables_of_words_the_one_is_named_that_is_the_last_layer(shares, of):
    model = Writes(shares=shares).eval()
    whole = xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)))

    assert [tower.vocab for tower in whole.towers] == [WORDS, WORDS]
    assert describe_tied(whole) == f"The table of {of} words is also the last layer: one set of numbers for both."


class Wrapped(nn.Module):
    """Some layers behind a table of words, and what makes scores of their rows, if it is given a size."""

    def __init__(self, table, *layers, scores=None):
        super().__init__()
        self.words, self.layers = table, nn.ModuleList(layers)
        self.head = None if scores is None else nn.Linear(WIDTH, scores, bias=False)

    def forward(self, ids, seen=None):
        told = self.words(ids)
        for layer in self.layers:
            told = layer(told, seen) if seen is not None else layer(told)
        return told if self.head is None else self.head(told)


class Both(nn.Module):
    """Two towers, each in a block of its own, that look words up in one table; the last layer has its own weights."""

    def __init__(self):
        super().__init__()
        table = nn.Embedding(WORDS, WIDTH)
        self.read, self.write = (
            Wrapped(table, *(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)), scores=scores)
            for scores in (None, WORDS)
        )

    def forward(self, ids, written):
        return self.write(written, self.read(ids))


def test_one_table_that_two_towers_look_words_up_in_ties_no_last_layer():
    whole = xray.anatomy(xray.trace(Both().eval(), torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)))

    assert [tower.vocab for tower in whole.towers] == [WORDS, WORDS]
    assert whole.head.tied is False
    assert describe_tied(whole) == ""


class Speaks(nn.Module):
    """A table of words that others look words up in, layers, and a last layer with the table's weights or its own."""

    def __init__(self, *, is_tied):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.head.weight = self.words.weight if is_tied else self.head.weight

    def forward(self, told):
        for layer in self.layers:
            told = layer(told)
        return self.head(told)


class Asks(nn.Module):
    """What looks words up in the table of another block, and hands it what it found."""

    def __init__(self, *, is_tied):
        super().__init__()
        self.speaks = Speaks(is_tied=is_tied)

    def forward(self, ids):
        return self.speaks(self.speaks.words(ids))


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_table_that_is_looked_into_from_outside_of_its_block_counts_in_that_alone(is_tied):
    whole = xray.anatomy(xray.trace(Asks(is_tied=is_tied).eval(), torch.arange(14).view(2, 7)))

    assert whole.head.tied is is_tied
    assert bool(describe_tied(whole)) is is_tied


class TiedToPlaces(nn.Module):
    """As many places as words, and a last layer that is the table of the places by mistake."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.places.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_a_last_layer_that_is_the_table_of_places_is_none_of_the_words():
    whole = xray.anatomy(xray.trace(TiedToPlaces().eval(), torch.arange(14).view(2, 7)))

    assert whole.head.kind == "vocabulary"
    assert not describe_tied(whole)


class Codes(nn.Module):
    """Codes of sound, of several books for each place, with one beside them that stands for the end; their rows added.

    Those behind the end are set to 0. They are cut into a beginning and a rest, and words stand before them.
    """

    def __init__(self, *, books):
        super().__init__()
        self.words = nn.Embedding(WORDS + 2, WIDTH)
        last = nn.Embedding(WORDS, WIDTH)
        self.books = nn.ModuleList([*(nn.Embedding(WORDS, WIDTH) for _ in range(books - 1)), last])
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = last.weight

    def forward(self, ids, codes, lengths):
        behind = (torch.arange(codes.shape[1]) >= lengths[:, None]).long()
        codes = codes * (1 - behind[..., None])
        told = [self.books[0](codes[:, :3, 0]), self.books[0](codes[:, 3:, 0])]
        for number, book in enumerate(self.books[1:], 1):
            told = [told[0] + book(codes[:, :3, number]), told[1] + book(codes[:, 3:, number])]
        rows = torch.cat([self.words(ids), torch.cat(told, dim=1)], dim=1)
        for layer in self.layers:
            rows = layer(rows)
        return self.head(rows[:, ids.shape[1] :])


@pytest.fixture(scope="module")
def coded():
    given = torch.arange(10).view(2, 5), torch.arange(7 * 2 * 8).view(2, 7, 8) % WORDS, torch.tensor([7, 6])
    return xray.trace(Codes(books=8).eval(), *given)


def test_one_of_several_tables_of_codes_is_not_the_table_of_the_words(coded):
    assert describe_tied(xray.anatomy(coded)) == ""


def test_codes_that_are_set_to_0_behind_the_end_are_no_places(coded):
    told = lines_of(compose_poster(coded, text_width))

    assert "PLACE LOOKUP" not in told
    assert sum(line.startswith("TABLE LOOKUP") for line in told) == 1 + 2 * 8


def test_what_puts_rows_end_to_end_has_a_box_where_not_all_that_joins_them_has(coded):
    told = lines_of(compose_poster(coded, text_width))

    assert "END TO END" in told
    assert not any("ADDED UP" in line for line in told)
