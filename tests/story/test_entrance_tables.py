"""Boxes of tables at the entrance: which ids look up in them, and how many rows they have."""

import pytest
import torch
from handwritten import Attention, Layer
from story.entrances import OTHER, SIGN, WIDTH, Words, labels_of, make_layers, read
from torch import nn

import xray


class Shelved(nn.Module):
    """Ids of several books in one table: each book has a part of its own, as its number says, or all have the same.

    One id stands for none, and stays as it is, where it is told (Kyutai's speech to text).
    """

    def __init__(self, apart, empty=None):
        super().__init__()
        self.table, self.layers, self.empty = nn.Embedding(30, WIDTH), make_layers(WIDTH, 3), empty
        self.register_buffer("numbers", torch.arange(3) * 10 if apart else torch.zeros((), dtype=torch.long))

    def forward(self, ids):
        shifted = ids + self.numbers
        x = self.table(shifted if self.empty is None else torch.where(ids == self.empty, ids, shifted)).sum(2)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("empty", [None, 0])
@pytest.mark.parametrize("apart", [True, False])
def test_ids_to_which_numbers_are_added_are_looked_up(apart, empty):
    _, chart = read(lambda: Shelved(apart, empty), torch.arange(42).view(2, 7, 3) % 10)

    assert "TABLE LOOKUP" in labels_of(chart)


class OneByOne(nn.Module):
    """Rows that come in, and those of a learned table that rows of one 1 each pick by a product (timm's Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.table, self.into = nn.Parameter(torch.rand(31, WIDTH)), nn.Linear(5, WIDTH)
        self.layers = make_layers(WIDTH, 3)

    def forward(self, x):
        places = nn.functional.one_hot(torch.arange(x.shape[1]).expand(x.shape[:2]), 31).to(x.dtype)
        x = self.into(x) + places @ self.table
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_that_a_product_picks_are_looked_up():
    _, chart = read(OneByOne, torch.rand(2, 7, 5))

    assert labels_of(chart).count("TABLE LOOKUP") == labels_of(chart).count("LINEAR") == 1


class Codes(nn.Module):
    """Each of several tables looks up its own row of ids (MusicGen), or one does for the first of them.

    One after the other takes its row, or they are cut apart `at_once` (X-Codec).
    """

    def __init__(self, tables, at_once=False):
        super().__init__()
        self.at_once = at_once
        self.tables = nn.ModuleList(nn.Embedding(31, WIDTH) for _ in range(tables))
        self.layers = make_layers(WIDTH, 3)

    def forward(self, codes):
        rows = codes.unbind(1) if self.at_once else [codes[:, number] for number in range(len(self.tables))]
        x = sum(table(row) for table, row in zip(self.tables, rows, strict=True))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("tables", "at_once", "shape"), [(3, False, (2, 3, 7)), (3, True, (2, 3, 7)), (1, False, (2, 7))]
)
def test_ids_of_which_tables_look_up_a_part_each_are_led_to_all_of_them(tables, at_once, shape):
    _, chart = read(lambda: Codes(tables, at_once), torch.arange(42).view(2, 3, 7) % 31)

    given = chart.node("given")
    led = [edge.target for edge in chart.edges if edge.source == given.key]
    assert given.record.shape == shape
    assert sorted(led) == sorted(node.key for node in chart.nodes if node.label == "TABLE LOOKUP")


class Kinds(Words):
    """Words, each of one of two kinds that the model counts by itself (BERT)."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(2, WIDTH)

    def forward(self, ids):
        x = self.words(ids) + self.kinds(torch.zeros_like(ids))
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_table_of_few_rows_is_told_by_its_size():
    _, chart = read(Kinds, torch.arange(14).view(2, 7))

    assert sorted(labels_of(chart)) == ["ADDED UP", "LOOKUP IN 2 ROWS, ROW 0 OF KINDS", "TABLE LOOKUP", "TOKEN IDS"]


class Hashed(nn.Module):
    """Ids looked up by what is left over of a division, so that many of them share a row (CANINE)."""

    def __init__(self, *, hashes):
        super().__init__()
        self.words, self.layers, self.hashes = nn.Embedding(31, WIDTH), make_layers(WIDTH, 3), hashes

    def forward(self, ids):
        x = self.words((ids + 1) * 43 % 31 if self.hashes else ids)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("hashes", "vocab"), [(True, None), (False, 31)])
def test_a_table_that_several_ids_share_rows_of_has_no_vocabulary(hashes, vocab):
    found, _ = read(lambda: Hashed(hashes=hashes), torch.arange(14).view(2, 7))

    assert (found.towers[0].reads, found.towers[0].vocab) == ("ids", vocab)


class Conditioned(nn.Module):
    """Words, each with one row of a table added, looked up with a number that is always the same, or comes in."""

    def __init__(self, *, fixed):
        super().__init__()
        self.words, self.layers, self.fixed = nn.Embedding(31, WIDTH), make_layers(WIDTH, 3), fixed
        self.kinds, self.lead = nn.Embedding(5, OTHER), nn.Linear(OTHER, WIDTH)
        self.start = nn.Parameter(torch.rand(WIDTH))

    def forward(self, ids, kind):
        row = self.lead(self.kinds(torch.full((), 2) if self.fixed else kind))
        x = torch.where((ids == SIGN).unsqueeze(-1), self.start + row, self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("fixed", "told"), [(True, ("of fixed ids",)), (False, ())])
def test_a_row_that_is_looked_up_with_a_fixed_number_says_so(fixed, told):
    _, chart = read(lambda: Conditioned(fixed=fixed), torch.randint(31, (2, 5)), torch.tensor(3))

    assert [node.told for node in chart.nodes if node.label == "LOOKUP IN 5 ROWS"] == [told]
    assert sum(node.told == ("of fixed ids",) for node in chart.nodes) == fixed


class OfZeros(nn.Module):
    """Words, and rows of a second table for ids that are given, all alike, or nothing but zeros (RoCBert)."""

    def __init__(self, make_ids):
        super().__init__()
        self.words, self.word_shapes = nn.Embedding(31, WIDTH), nn.Embedding(29, OTHER)
        self.mix, self.layers, self.make_ids = nn.Linear(WIDTH + OTHER, WIDTH), make_layers(WIDTH, 2), make_ids

    def forward(self, ids):
        x = self.mix(torch.cat((self.words(ids), self.word_shapes(self.make_ids(ids))), dim=-1))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("make_ids", "label"),
    [
        (lambda ids: torch.zeros(ids.shape, dtype=torch.long), "ROW 0 OF WORD SHAPES"),
        (lambda ids: torch.ones(ids.shape, dtype=torch.long), "TABLE LOOKUP"),
        (lambda ids: ids, "TABLE LOOKUP"),
    ],
)
def test_a_table_of_which_zeros_are_looked_up_says_so(make_ids, label):
    _, chart = read(lambda: OfZeros(make_ids), torch.arange(14).view(2, 7))

    (box,) = (node for node in chart.nodes if node.record.shape == (2, 7, OTHER))
    assert (box.label, box.extra) == (label, "348 parameters")


class Segmented(nn.Module):
    """Words, and a segment of two for each of them, which are given beside them (BERT)."""

    def __init__(self):
        super().__init__()
        self.words, self.segments = nn.Embedding(31, WIDTH), nn.Embedding(2, WIDTH)
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids, segments):
        x = self.words(ids) + self.segments(segments)
        for layer in self.layers:
            x = layer(x)
        return x


def test_ids_are_not_led_to_a_table_of_other_ids_that_are_as_many():
    _, chart = read(Segmented, torch.arange(14).view(2, 7), torch.ones(2, 7, dtype=torch.long))

    led = [edge.target for edge in chart.edges if edge.source == "given"]
    assert [chart.node(key).label for key in led] == ["TABLE LOOKUP"]


class Sines(nn.Module):
    """A long table of sines that a module holds, of which it gives the first rows."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(500)[:, None] / 10000 ** (torch.arange(0, 18, 2) / 18)
        self.register_buffer("table", torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[None])

    def forward(self, x):
        return self.table[:, : x.shape[1]].clone()


class Summed(nn.Module):
    """Rows of numbers come in, and sines are added (SpeechBrain)."""

    def __init__(self):
        super().__init__()
        self.project, self.sines, self.layers = nn.Linear(OTHER, 18), Sines(), make_layers(18, 3)

    def forward(self, x):
        x = self.project(x)
        x = x + self.sines(x)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_table_that_a_module_holds_does_not_come_in():
    _, chart = read(Summed, torch.rand(2, 5, OTHER))

    given = [node.record.shape for node in chart.nodes if node.label.startswith("VECTORS")]
    assert given == [(2, 5, OTHER)]


class FixedSentences(nn.Module):
    """Ids as many as their table has rows, and a frozen table of sines with a row for padding (nlp-tutorial)."""

    def __init__(self):
        super().__init__()
        angles = torch.arange(8)[:, None] / 100 ** (torch.arange(OTHER) // 2 / 6)
        sines = torch.where(torch.arange(OTHER) % 2 > 0, angles.cos(), angles.sin())
        self.source, self.places = nn.Embedding(7, OTHER), nn.Embedding.from_pretrained(sines, freeze=True)
        self.layers = make_layers(OTHER, 3)

    def forward(self, ids):
        x = self.source(ids) + self.places(torch.LongTensor([[1, 2, 3, 4, 5, 6, 0]]))
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_table_of_as_many_rows_as_ids_came_in_is_no_table_of_places_and_sines_are_no_words():
    anatomy, chart = read(FixedSentences, torch.tensor([[1, 2, 3, 4, 5, 6, 0]]))

    assert anatomy.towers[0].vocab == 7
    assert [part.part for part in anatomy.towers[0].entrance] == ["words", "table"]
    (given,) = (edge for edge in chart.edges if chart.node(edge.source).label == "TOKEN IDS")
    assert [chart.node(given.target).label] == ["LOOKUP IN 7 ROWS"]


class KindBetween(nn.Module):
    """Rows of a first tower, brought to another width, get the row of a kind before a second one (BridgeTower).

    Its number may be made as often as there are ids, and rows of its table are added elsewhere too (METER).
    """

    def __init__(self, make_kinds):
        super().__init__()
        self.make_kinds = make_kinds
        self.words, self.kinds, self.narrower = nn.Embedding(31, 20), nn.Embedding(2, 12), nn.Linear(20, 12)
        self.first = nn.ModuleList(Layer(20, Attention(20, 2), norm="before") for _ in range(2))
        self.second = nn.ModuleList(Layer(12, Attention(12, 2), norm="before") for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.first:
            x = layer(x)
        x = self.narrower(x) + self.kinds(self.make_kinds(ids))
        for layer in self.second:
            x = layer(x)
        return x + self.kinds(torch.full_like(ids, 1))


@pytest.mark.parametrize(
    "make_kinds",
    [lambda ids: torch.zeros(1, dtype=torch.long), torch.zeros_like, lambda ids: torch.full_like(ids, 1)],
)
def test_the_row_of_a_kind_that_no_input_chooses_is_no_word(make_kinds):
    first, second = xray.anatomy(xray.trace(KindBetween(make_kinds).eval(), torch.randint(0, 31, (2, 7)))).towers

    assert (first.reads, first.vocab) == ("ids", 31)
    assert (second.reads, second.vocab) == (None, None)
