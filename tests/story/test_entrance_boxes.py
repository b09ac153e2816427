"""Boxes of an entrance: a number by which words are multiplied, and places that a model holds."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.charts.stage_chart import chart_stage
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.sentences.of_ends import describe_places

WIDTH, OTHER, SIGN = 15, 12, 7


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(count))


class Words(nn.Module):
    """Words times the root of their width, and places added."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(64, WIDTH))
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids):
        x = self.words(ids) * WIDTH**0.5
        x = x + self.places[torch.arange(ids.shape[1])]
        for layer in self.layers:
            x = layer(x)
        return x


class Held(nn.Module):
    """What an eye gives is brought to another width, held rows are added, and all is put among words."""

    def __init__(self):
        super().__init__()
        self.patches, self.eye, self.project = nn.Conv2d(3, OTHER, 4, stride=4), make_layers(OTHER, 2), Project()
        self.words, self.layers = nn.Embedding(31, WIDTH), make_layers(WIDTH, 3)

    def forward(self, ids, image, rows=None):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        x = self.words(ids).masked_scatter((ids == SIGN).unsqueeze(-1), self.project(seen, rows))
        for layer in self.layers:
            x = layer(x)
        return x


class Project(nn.Module):
    """A linear layer, and places that are held, or other rows."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(OTHER, WIDTH)
        self.register_buffer("places", torch.rand(4, WIDTH), persistent=False)

    def forward(self, x, rows):
        return self.project(x) + (self.places if rows is None else rows)


def read(model, *given):
    torch.manual_seed(0)
    trace = xray.trace(model(), *given)
    reading = read_passes(trace)[0]
    return xray.anatomy(trace), chart_entrance(reading.flow, reading.towers[-1])


def labels_of(chart):
    return [node.label for node in sorted(chart.nodes, key=lambda node: node.row)]


def test_words_that_are_multiplied_before_places_are_added_have_a_box_for_it():
    _, chart = read(Words, torch.arange(14).view(2, 7))

    assert labels_of(chart) == ["TOKEN IDS", "TABLE LOOKUP", "× √d_model", "+ LEARNED PLACES"]


def test_of_a_table_of_places_that_are_looked_up_all_rows_are_counted():
    _, chart = read(Words, torch.arange(14).view(2, 7))

    (places,) = (node for node in chart.nodes if node.label == "+ LEARNED PLACES")
    assert places.extra == f"{64 * WIDTH} parameters"


class Shifted(nn.Module):
    """Rows that are led to a width, to which `shape` of learned numbers is added before layers read them."""

    def __init__(self, shape):
        super().__init__()
        self.lead, self.shift, self.layers = (
            nn.Linear(OTHER, WIDTH),
            nn.Parameter(torch.rand(shape)),
            make_layers(WIDTH, 3),
        )

    def forward(self, rows):
        x = self.lead(rows) + self.shift
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("shape", "label"), [((), "+ A LEARNED NUMBER"), ((WIDTH,), "+ A LEARNED ROW")])
def test_one_number_that_is_added_is_no_row(shape, label):
    _, chart = read(lambda: Shifted(shape), torch.rand(2, 7, OTHER))

    assert label in labels_of(chart)


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
@pytest.mark.parametrize(("apart", "label"), [(True, "LOOKUP OF SHIFTED IDS"), (False, "TABLE LOOKUP")])
def test_ids_of_which_each_book_has_a_number_added_are_shifted(apart, label, empty):
    _, chart = read(lambda: Shelved(apart, empty), torch.arange(42).view(2, 7, 3) % 10)

    assert {"LOOKUP OF SHIFTED IDS", "TABLE LOOKUP"} & set(labels_of(chart)) == {label}


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


def show(*rows):
    ids = torch.arange(8, 22).view(2, 7)
    ids[:, 1:5] = SIGN
    return read(Held, ids, torch.rand(2, 3, 8, 8), *rows)


def test_places_that_a_model_holds_are_drawn_where_they_are_added_to_what_a_tower_gives():
    anatomy, chart = show()

    assert labels_of(chart) == ["TOKEN IDS", "LINEAR", "TABLE LOOKUP", "+ PLACES", "ROWS PUT IN"]
    assert [part.size for part in anatomy.towers[-1].entrance if part.part == "positions"] == [4]
    assert [part.learned for part in anatomy.towers[-1].entrance if part.part == "positions"] == [False]


def test_places_of_rows_that_are_put_among_words_are_not_said_to_be_those_of_the_words():
    anatomy, _ = show()
    words, _ = read(Words, torch.arange(14).view(2, 7))

    assert [part.beside for part in anatomy.towers[-1].entrance if part.part == "positions"] == [True]
    assert describe_places(anatomy.towers[-1]) == ""
    assert describe_places(words.towers[0]) == "Learned places are added."


def test_rows_that_come_in_are_no_places():
    anatomy, _ = show(torch.rand(4, WIDTH))

    assert "positions" not in [part.part for part in anatomy.towers[-1].entrance]


class Scaled(Words):
    """Rows of a table that the model holds, divided by the root of its width, and added to words (Canary)."""

    def __init__(self):
        super().__init__()
        del self.places
        self.register_buffer("places", torch.rand(64, WIDTH), persistent=False)

    def forward(self, ids):
        x = self.words(ids) + self.places[torch.arange(ids.shape[1])] / WIDTH**0.5
        for layer in self.layers:
            x = layer(x)
        return x


def test_fixed_places_that_are_scaled_are_places_in_one_box():
    anatomy, chart = read(Scaled, torch.arange(14).view(2, 7))

    assert labels_of(chart) == ["TOKEN IDS", "TABLE LOOKUP", "+ PLACES"]
    assert [(part.size, part.learned) for part in anatomy.towers[0].entrance if part.part == "positions"] == [
        (64, False)
    ]
    assert "div" in {step.op for node in chart.nodes for step in node.steps}


class Asked(nn.Module):
    """Ids that are made numbers go through a linear layer to the width of rows (OneFormer's task)."""

    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(7, WIDTH), make_layers(WIDTH, 3)

    def forward(self, ids):
        x = self.first(ids.float())[:, None] + torch.zeros(1, 4, 1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_ids_that_are_made_numbers_come_in():
    _, chart = read(Asked, torch.arange(14).view(2, 7))

    assert labels_of(chart)[:2] == ["VECTORS", "LINEAR"]


class Cut(Held):
    """The same, of the image's rows those alone that are picked."""

    def __init__(self, pick):
        super().__init__()
        self.pick = pick
        self.project.forward = lambda x, rows: self.project.project(self.pick(x))  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("pick", "told"),
    [
        (lambda x: x[:, 1:], "ALL ROWS BUT THE FIRST"),
        (lambda x: x[:, :-2], "ALL ROWS BUT THE LAST 2"),
        (lambda x: x[:, ::2], "2 OF 4 ROWS"),
        (lambda x: x[:, :4], None),
    ],
)
def test_rows_that_are_left_out_on_the_way_between_two_towers_have_a_box(pick, told):
    _, chart = read(lambda: Cut(pick), torch.tensor([[1, 2, SIGN, SIGN, 3]] * 2), torch.rand(2, 3, 8, 8))

    assert [label for label in labels_of(chart) if "ROWS" in label and label != "ROWS PUT IN"] == [told] * (
        told is not None
    )


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


class Hidden(Words):
    """Words, each times a number for its place that says whether it counts: given, or made by the model (DeBERTa)."""

    def forward(self, ids, counts=None):
        counts = torch.ones(ids.shape) if counts is None else counts
        x = self.words(ids) * counts.unsqueeze(2)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("given", [(), (torch.ones(2, 7),)])
def test_words_times_a_number_for_each_place_have_a_box_for_it(given):
    _, chart = read(Hidden, torch.arange(14).view(2, 7), *given)

    assert "× ONE NUMBER FOR EACH PLACE" in labels_of(chart)


class Long(Words):
    """Words, of which those behind so many are set to 0 (XLM)."""

    def forward(self, ids, lengths):  # type: ignore[override]
        x = self.words(ids) * (torch.arange(7) < lengths[:, None]).unsqueeze(-1).to(torch.float32)
        for layer in self.layers:
            x = layer(x)
        return x


def test_words_times_what_is_1_where_they_count_and_else_0_say_that():
    _, chart = read(Long, torch.arange(14).view(2, 7), torch.tensor([7, 3]))

    assert "ROWS OF A MASK SET TO 0" in labels_of(chart)


class Shared(Words):
    """Words, each divided by a number for its place (as XCiT makes waves of what it divides)."""

    def forward(self, ids, counts):  # type: ignore[override]
        x = self.words(ids) / counts.unsqueeze(2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_words_divided_by_a_number_for_each_place_are_not_said_to_be_multiplied_by_it():
    _, chart = read(Shared, torch.arange(14).view(2, 7), torch.ones(2, 7))

    assert not any(label.startswith("×") for label in labels_of(chart))


class Halved(nn.Module):
    """Half of what two linear layers make of what comes in, through layers with their norms behind sums (LXMERT)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(OTHER, WIDTH), nn.Linear(OTHER, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(3))

    def forward(self, x):
        x = (self.first(x) + self.second(x)) / 2
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_halves_a_stream_stands_once_before_it_and_not_in_its_first_layer():
    torch.manual_seed(0)
    (reading,) = read_passes(xray.trace(Halved(), torch.rand(2, 7, OTHER)))
    chart = chart_entrance(reading.flow, reading.towers[0], has_words=False)
    drawn = chart_stage(reading.flow, reading.towers[0].stagings[0])

    assert labels_of(chart)[-1] == "MEAN OF BOTH"
    assert "÷ 2" not in labels_of(chart)
    assert not [node.label for node in drawn.nodes if node.label.startswith("SCALE")]


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


class Filled(nn.Module):
    """Words, and one row for those that are a sign: a word of its own, projected and then normed, or taken times 3."""

    def __init__(self, *, is_normed):
        super().__init__()
        self.words, self.project, self.is_normed = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, WIDTH), is_normed
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids):
        row = self.project(self.words(torch.full((1, 1), 30)))
        row = row * (row.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() if self.is_normed else row * 3
        x = torch.where((ids == SIGN).unsqueeze(-1), row, self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("is_normed", "told"), [(True, "RMS NORM"), (False, "× 3")])
def test_the_norm_of_a_lone_row_is_no_scale(is_normed, told):
    _, chart = read(lambda: Filled(is_normed=is_normed), torch.arange(14).view(2, 7))

    assert {label for label in labels_of(chart) if "×" in label or "NORM" in label} == {told}


class Compressed(nn.Module):
    """Rows that are normed, multiplied by what is made of learned numbers, one or one for each channel, and bent."""

    def __init__(self, count, make):
        super().__init__()
        self.norm, self.k, self.make = nn.LayerNorm(7, elementwise_affine=False), nn.Parameter(torch.zeros(count)), make
        self.given, self.layers = nn.Linear(7, WIDTH), nn.Sequential(*make_layers(WIDTH, 2))

    def forward(self, x):
        return self.layers(self.given(torch.asinh(self.make(self.k) * self.norm(x))))


@pytest.mark.parametrize(
    ("count", "make", "told"),
    [
        ((), torch.exp, ["× EXP OF A LEARNED NUMBER", "ASINH"]),
        ((), torch.tanh, ["× TANH OF A LEARNED NUMBER", "ASINH"]),
        ((), lambda k: k.reshape(1, 1), ["× A LEARNED NUMBER", "ASINH"]),
        ((), lambda k: -k.exp(), ["× −EXP OF A LEARNED NUMBER", "ASINH"]),
        ((), torch.cos, ["× WHAT IS MADE OF A LEARNED NUMBER", "ASINH"]),
        ((7,), torch.exp, ["ASINH"]),
    ],
)
def test_one_learned_number_behind_a_norm_has_a_box_of_its_own(count, make, told):
    (reading,) = read_passes(xray.trace(Compressed(count, make).eval(), torch.rand(2, 5, 7)))
    nodes = chart_entrance(reading.flow, reading.towers[0]).nodes

    assert [node.label for node in nodes if node.label not in ("VECTORS", "LAYER NORM", "LINEAR")] == told
    held = next(node.extra for node in nodes if node.label == ("LAYER NORM" if count else told[0]))
    assert held == ("7 parameters" if count else "1 parameter")


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


@pytest.mark.parametrize(("fixed", "told"), [(True, ("of fixed numbers",)), (False, ())])
def test_a_row_that_is_looked_up_with_a_fixed_number_says_so(fixed, told):
    _, chart = read(lambda: Conditioned(fixed=fixed), torch.randint(31, (2, 5)), torch.tensor(3))

    assert [node.told for node in chart.nodes if node.label == "LOOKUP IN 5 ROWS"] == [told]
    assert sum(node.told == ("of fixed numbers",) for node in chart.nodes) == fixed


class Packed(nn.Module):
    """Patches that come in as rows of numbers, laid out before a convolution makes one row of each (Qwen2-VL)."""

    def __init__(self, *, shifted=False):
        super().__init__()
        self.patches, self.layers, self.shifted = nn.Conv3d(3, WIDTH, (2, 5, 5)), make_layers(WIDTH, 3), shifted

    def forward(self, patches):
        pictures = patches.view(-1, 3, 2, 5, 5)
        x = self.patches(pictures * 2 - 1 if self.shifted else pictures).view(1, -1, WIDTH)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("shifted", "shape"), [(False, (7, 150)), (True, (7, 3, 2, 5, 5))])
def test_patches_are_shown_as_they_come_in_where_they_are_only_laid_out_before(shifted, shape):
    _, chart = read(lambda: Packed(shifted=shifted), torch.rand(7, 150))

    assert chart.node("given").record.shape == shape


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
