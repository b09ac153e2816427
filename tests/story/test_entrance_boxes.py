"""Boxes of an entrance: a number by which words are multiplied, and places that a model holds."""

import pytest
import torch
from handwritten import Attention, Layer
from story.entrances import OTHER, SIGN, WIDTH, HeldPlaces, Words, labels_of, make_layers, read
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.charts.stage_chart import chart_stage
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.sentences.of_ends import describe_places


class Held(nn.Module):
    """What an eye gives is brought to another width, held rows are added, and all is put among words."""

    def __init__(self):
        super().__init__()
        self.patches, self.eye, self.project = nn.Conv2d(3, OTHER, 4, stride=4), make_layers(OTHER, 2), AddsPlaces()
        self.words, self.layers = nn.Embedding(31, WIDTH), make_layers(WIDTH, 3)

    def forward(self, ids, image, rows=None):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        x = self.words(ids).masked_scatter((ids == SIGN).unsqueeze(-1), self.project(seen, rows))
        for layer in self.layers:
            x = layer(x)
        return x


class AddsPlaces(nn.Module):
    """A linear layer, and places that are held, or other rows."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(OTHER, WIDTH)
        self.register_buffer("places", torch.rand(4, WIDTH), persistent=False)

    def forward(self, x, rows):
        return self.project(x) + (self.places if rows is None else rows)


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
        self.held = HeldPlaces(torch.rand(64, WIDTH))

    def forward(self, ids):
        x = self.words(ids) + self.held(ids.shape[1]) / WIDTH**0.5
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

    assert labels_of(chart)[-1] == "ADDED UP, ÷ 2"
    assert "÷ 2" not in labels_of(chart)
    assert not [node.label for node in drawn.nodes if node.label.startswith("SCALE")]


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


class OfAClass(nn.Module):
    """Vectors that come in, behind one row that a label picks for each sequence, or behind a row for each word."""

    def __init__(self, *, words):
        super().__init__()
        self.labels, self.lead, self.words = nn.Embedding(29, WIDTH), nn.Linear(OTHER, WIDTH), words
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids, rows):
        picked = self.labels(ids if self.words else ids[:, 0])
        x = torch.cat([picked if self.words else picked[:, None], self.lead(rows)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("words", [True, False])
def test_labels_of_which_each_sequence_has_one_are_no_words(words):
    """So it is with the class of an image before its codes (VAR)."""
    anatomy, chart = read(lambda: OfAClass(words=words), torch.arange(14).view(2, 7), torch.rand(2, 5, OTHER))

    tower = anatomy.towers[-1]
    assert (tower.vocab, tower.also) == ((29, "ids") if words else (None, None))
    assert ("TOKEN IDS" in labels_of(chart)) is words


class Labelled(nn.Module):
    """A stream of nothing but a row for each label, or of vectors to which that row is added."""

    def __init__(self, *, has_more):
        super().__init__()
        self.has_more = has_more
        self.labels, self.lead = nn.Embedding(29, OTHER), nn.Linear(OTHER, WIDTH)
        self.patches, self.layers = nn.Linear(OTHER, WIDTH), make_layers(WIDTH, 3)

    def forward(self, label, seen):
        x = self.lead(self.labels(label))[:, None]
        x = self.patches(seen) + x if self.has_more else x
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("has_more", [True, False])
def test_a_tower_of_labels_of_which_each_sequence_has_one_is_none_of_text(has_more):
    """So it is where an image is made for a class (MAR, LlamaGen, guided diffusion)."""
    anatomy, chart = read(lambda: Labelled(has_more=has_more), torch.tensor([3, 7]), torch.rand(2, 5, OTHER))

    tower = anatomy.towers[-1]
    assert (tower.name, tower.vocab, tower.reads) == ("stack", None, "vectors" if has_more else None)
    assert "IDS" in labels_of(chart)
    assert "TOKEN IDS" not in labels_of(chart)
