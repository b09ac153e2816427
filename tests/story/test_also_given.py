"""What comes in besides what a tower reads first has a box or an arrow too, and so has what joins it on top."""

import pytest
import torch
from changed_traces import forget_arguments
from story.entrances import OTHER, WIDTH
from story.layered import Layered, list_arrows, read
from torch import nn
from torch.nn import functional

import xray
from xray.story.sheet.columns import read_columns

BOXES, KINDS = 4, 11


class Boxed(Layered):
    """What was seen, and where, each led to the width (LXMERT)."""

    def __init__(self):
        super().__init__()
        self.see, self.place = nn.Linear(OTHER, WIDTH), nn.Linear(BOXES, WIDTH)

    def enter(self, seen, boxes, others=None):
        return self.see(seen) + self.place(boxes) + (0 if others is None else self.place(others))


class Begun(Layered):
    """Words, times the root of their width; where a sign stands, a learned row that is led to it (Pocket TTS)."""

    def __init__(self):
        super().__init__()
        self.words, self.row, self.lead = (
            nn.Embedding(31, WIDTH),
            nn.Parameter(torch.rand(OTHER)),
            nn.Linear(OTHER, WIDTH),
        )

    def enter(self, ids):
        return torch.where((ids == 5).unsqueeze(-1), self.lead(self.row), self.words(ids) * WIDTH**0.5)


class Heard(Layered):
    """Frames of a sound, before which there was none: zeros stand in front of them (Voxtral Realtime)."""

    def __init__(self):
        super().__init__()
        self.find = nn.Conv1d(OTHER, WIDTH, 3)

    def forward(self, sound):
        return super().forward(sound)

    def enter(self, heard):
        before = torch.zeros(*heard.shape[:2], 2).clone()
        return self.find(torch.cat([before, heard], dim=-1)).mT


class Painted(Layered):
    """A picture below another one, and a painted one twice, each cut into patches by the same layer (SegGPT)."""

    def __init__(self, times=2):
        super().__init__()
        self.find, self.times = nn.Conv2d(3, WIDTH, 4, stride=4), times

    def enter(self, image, shown, painted):
        seen, told = (self.find(torch.cat(pieces, dim=2)) for pieces in ((shown, image), (painted,) * self.times))
        return (seen + told).flatten(2).mT


class Shown(Layered):
    """Two pictures, each less its mean, one behind the other in one batch (GMFlow)."""

    def __init__(self):
        super().__init__()
        self.find = nn.Conv2d(3, WIDTH, 3, padding=1)

    def forward(self, left, right):
        return super().forward(left, right)

    def enter(self, left, right):
        pictures = torch.cat([(left / 255 - 0.5) / 0.25, (right / 255 - 0.5) / 0.25])
        return self.find(pictures).relu().flatten(2).mT


class Gridded(Layered):
    """Patches of which each says first in which row and column it lies (Pix2Struct)."""

    def __init__(self):
        super().__init__()
        self.lead, self.row, self.column = nn.Linear(OTHER, WIDTH), nn.Embedding(9, WIDTH), nn.Embedding(9, WIDTH)

    def enter(self, patches):
        row, column = patches[:, :, 0].long(), patches[:, :, 1].long()
        return self.lead(patches[:, :, 2:]) + self.row(row) + self.column(column)


class Counted(Layered):
    """Words, places counted past the padding (RoBERTa), and the kind of a whole series (TimesFM)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(13, WIDTH)
        self.kinds = nn.Embedding(KINDS, WIDTH)

    def enter(self, ids, kinds=None):
        is_word = ids.ne(1).int()
        x = self.words(ids) + self.places((is_word.cumsum(-1) * is_word).long())
        return x if kinds is None else x + self.kinds(kinds)


class Lengthened(Counted):
    """Words with rows of a prompt in front, and kinds of all of them, worked out of the words (CPM-Ant)."""

    def enter(self, ids, kinds=None):
        front = torch.arange(2).repeat(len(ids), 1)
        return self.words(torch.cat([front, ids], 1)) + self.kinds(torch.cat([torch.zeros_like(front), ids.ne(1)], 1))


class Bounded(Counted):
    """Words, and the left end and the width of the box in which each stands on its page (LayoutLMv3)."""

    def enter(self, ids, boxes):  # type: ignore[override]
        return self.words(ids) + self.places(boxes[:, :, 0]) + self.places(boxes[:, :, 1] - boxes[:, :, 0])


class TwoTables(Layered):
    """Words of a table that no module holds, and some of them of a smaller one, by which ids are held (Gemma 3n)."""

    def __init__(self):
        super().__init__()
        self.words, self.signs = nn.Parameter(torch.rand(31, WIDTH)), nn.Embedding(5, WIDTH)

    def enter(self, ids, kinds=None):
        signs = torch.where(ids >= 9, ids, 9).clamp(max=13) - 9
        x = torch.where((ids >= 9).unsqueeze(-1), self.signs(signs), functional.embedding(ids, self.words))
        return x if kinds is None else x * kinds.unsqueeze(-1)


class Padded(Layered):
    """Numbers by which their mean is known, and beside each whether it is padded (TimesFM)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(OTHER * 2, WIDTH)

    def enter(self, numbers, padded):
        pieces, marks = numbers.view(2, 7, OTHER), padded.view(2, 7, OTHER)
        marks = torch.where((pieces - 9).abs() < 1e-3, 1, marks)
        return self.lead(torch.cat([pieces - pieces.mean(1, keepdim=True), marks], dim=-1))


class Silenced(Padded):
    """The same, where what is padded is multiplied by 0, or what is not by what chance says."""

    by_chance = False

    def enter(self, numbers, padded):
        pieces, marks = numbers.view(2, 7, OTHER), padded.view(2, 7, OTHER)
        marks = torch.where((pieces - 9).abs() < 1e-3, 1, marks)
        factor = torch.rand(2, 7, OTHER) if self.by_chance else 1.0 - marks
        pieces = (pieces - pieces.mean(1, keepdim=True)) * factor
        return self.lead(torch.cat([pieces, marks], dim=-1))


class Named(Silenced):
    """The same, and the kind of the whole series."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(KINDS, WIDTH)

    def forward(self, series, padding, kind):
        return super().forward(series, padding, kind)

    def enter(self, numbers, padded, kind=None):
        return super().enter(numbers, padded) + self.kinds(kind)


class Shaken(Silenced):
    by_chance = True


class Prompted(Gridded):
    """The same, and on top which one of several languages it is, beside every row (Nemotron 3.5 ASR)."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH + KINDS, 13)

    def leave(self, x):
        kind = functional.one_hot(torch.full((x.shape[0],), 3), KINDS).to(x.dtype)
        return self.head(torch.cat([x, kind[:, None].expand(-1, x.shape[1], -1)], dim=-1))


def test_each_argument_that_a_linear_layer_reads_stands_at_the_foot():
    chart = read(Boxed, torch.rand(2, 7, OTHER), torch.rand(2, 7, BOXES)).entrance

    assert [node.record.shape for node in chart.nodes if node.label == "VECTORS"] == [(2, 7, OTHER), (2, 7, BOXES)]
    assert len([edge for edge in chart.edges if edge.source not in {edge.target for edge in chart.edges}]) == 2


def test_a_second_picture_that_is_put_together_of_what_comes_in_has_a_box():
    image = torch.rand(2, 3, 8, 12)
    chart = read(Painted, image, torch.rand_like(image), torch.rand_like(image)).entrance

    assert [node.record.shape for node in chart.nodes if node.row == 0] == [(2, 3, 16, 12)] * 2
    assert {("IMAGE", "PATCHES 4×4"), ("INPUT", "PATCHES 4×4")} <= list_arrows(chart)


@pytest.mark.parametrize(("times", "told"), [(4, "4 times"), (6, "6 times")])
def test_a_picture_that_is_put_beside_itself_is_told_as_one(times, told):
    high = 48 // times
    chart = read(lambda: Painted(times=times), *torch.rand(2, 2, 3, 24, 12), torch.rand(2, 3, high, 12)).entrance

    (painted,) = [node for node in chart.nodes if node.label == "INPUT"]
    assert painted.told == (f"2×3×{high}×12 {told}, put end to end",)


def test_pictures_that_are_changed_before_they_are_joined_have_a_box_each_and_no_other():
    chart = read(Shown, *torch.rand(2, 1, 3, 8, 12)).entrance

    given = [(node.label, node.extra, node.record.shape) for node in chart.nodes if node.row == 0]
    assert sorted(given) == [("IMAGE", "left", (1, 3, 8, 12)), ("INPUT", "right", (1, 3, 8, 12))]


GIVEN = torch.rand(2, 7, OTHER), torch.rand(2, 7, BOXES), torch.rand(2, 7, BOXES)


def test_arguments_of_one_shape_have_a_box_each():
    chart = read(Boxed, *GIVEN).entrance

    given = {node.extra: node.key for node in chart.nodes if node.label == "VECTORS"}
    assert sorted(given) == ["arg0", "arg1", "arg2"]
    assert len({edge.target for edge in chart.edges if edge.source in given.values()}) == len(GIVEN)


def test_arguments_of_one_shape_are_not_drawn_as_one_where_it_is_not_known_which_is_read():
    (column,) = read_columns(forget_arguments(xray.trace(Boxed().eval(), *GIVEN)))

    assert [node.record.shape for node in column.entrance.nodes if node.label == "VECTORS"] == [(2, 7, OTHER)]


@pytest.mark.parametrize("arrow", [("ONE LEARNED ROW", "LINEAR"), ("× √d_model", "ONE OR THE OTHER")])
def test_a_learned_row_that_is_led_in_and_the_scale_of_words_beside_it_have_boxes(arrow):
    assert arrow in list_arrows(read(Begun, torch.arange(14).view(2, 7)).entrance)


def test_ids_that_are_numbers_of_what_comes_in_are_led_from_it():
    chart = read(Gridded, torch.rand(2, 7, 2 + OTHER)).entrance
    ends = [edge.target for edge in chart.edges if edge.source in chart.feet]

    assert sorted(node.label for node in chart.nodes if node.key in ends) == ["LINEAR", "TABLE LOOKUP", "TABLE LOOKUP"]


def test_places_that_are_worked_out_of_ids_are_led_from_these():
    assert ("TOKEN IDS", "PLACE LOOKUP") in list_arrows(read(Counted, torch.arange(14).view(2, 7)).entrance)


class Segmented(Layered):
    """Words, and of which sentence each is, in ids of one shape (BERT)."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(31, WIDTH), nn.Embedding(3, WIDTH)

    def forward(self, ids, segment_ids):
        return super().forward(ids, segment_ids)

    def enter(self, ids, segment_ids):
        return self.words(ids) + self.kinds(segment_ids.to(torch.int64).view(2, 7))


def test_ids_of_the_shape_of_the_words_are_led_to_the_table_that_they_are_looked_up_in():
    ids = torch.arange(14).view(2, 7)
    chart = read(Segmented, ids, ids % 3).entrance

    assert {("TOKEN IDS", "TABLE LOOKUP"), ("IDS", "LOOKUP IN 3 ROWS")} <= list_arrows(chart)
    assert ("IDS", "TABLE LOOKUP") not in list_arrows(chart)
    assert [node.told for node in chart.nodes if node.label == "IDS"] == [("segment_ids",)]


def test_ids_that_are_words_and_segments_at_once_are_led_to_neither_as_one_of_the_two():
    ids = torch.arange(14).view(2, 7) % 3
    chart = read(Segmented, ids, ids).entrance

    assert "IDS" not in [node.label for node in chart.nodes]


def test_ids_that_are_given_beside_the_first_have_a_box():
    chart = read(Counted, torch.arange(14).view(2, 7), torch.tensor([[1], [0]])).entrance

    assert ("IDS", "TABLE LOOKUP") in list_arrows(chart)
    assert [node.record.shape for node in chart.nodes if node.row == 0] == [(2, 7), (2, 1)]


def test_boxes_of_which_each_lookup_reads_some_numbers_stand_at_the_foot():
    chart = read(Bounded, torch.arange(14).view(2, 7), torch.tensor([1, 3, 4, 5]).expand(2, 7, 4)).entrance

    (given,) = (node for node in chart.nodes if node.label == "IDS")
    assert given.record.shape == (2, 7, 4)
    assert [edge.target for edge in chart.edges if edge.source == given.key] == [
        node.key for node in chart.nodes if node.label == "2 LOOKUPS IN 1 TABLE"
    ]


@pytest.mark.parametrize(
    ("are_alone", "is_known", "tables"), [(True, False, (31, 5)), (False, True, (31, 5)), (False, False, (31,))]
)
def test_ids_are_led_to_the_largest_table_and_to_one_that_holds_some_of_them_unless_others_may_be_meant(
    are_alone, is_known, tables
):
    ids = torch.arange(14).view(2, 7)
    trace = xray.trace(TwoTables().eval(), ids, *(() if are_alone else (torch.ones_like(ids),)))
    (column,) = read_columns(trace if is_known else forget_arguments(trace))
    chart = column.entrance

    ends = [edge.target for edge in chart.edges if edge.source in chart.feet]
    led = [chart.node(key) for key in ends if "LOOKUP" in chart.node(key).label]
    assert sorted(node.extra for node in led) == [f"{rows * WIDTH} parameters" for rows in tables]


def test_what_is_put_beside_other_numbers_has_a_box():
    chart = read(Padded, torch.rand(2, 7 * OTHER), torch.arange(14 * OTHER).view(2, 7 * OTHER) % 2).entrance

    given = [node for node in chart.nodes if node.row == 0]
    (join,) = (node for node in chart.nodes if node.label == "SIDE BY SIDE")
    assert [node.record.shape for node in given] == [(2, 7 * OTHER)] * 2
    assert len({edge.source for edge in chart.edges if edge.target == join.key} & {node.key for node in given}) == 1


@pytest.mark.parametrize(("model", "count"), [(Silenced, 1), (Shaken, 0)])
def test_what_numbers_are_multiplied_by_is_led_to_the_box_that_does_it(model, count):
    chart = read(model, torch.rand(2, 7 * OTHER), torch.arange(14 * OTHER).view(2, 7 * OTHER) % 2).entrance

    (other,) = (node for node in chart.nodes if node.key.startswith("also"))
    led = [chart.node(edge.target).label for edge in chart.edges if edge.source == other.key]
    assert (led.count("MULTIPLIED"), led.count("SIDE BY SIDE")) == (count, 1)


def test_several_inputs_have_the_names_of_their_arguments():
    padding = torch.arange(14 * OTHER).view(2, 7 * OTHER) % 2
    chart = read(Named, torch.rand(2, 7 * OTHER), padding, torch.tensor([[3], [5]])).entrance

    told = {(node.label, node.extra, node.told) for node in chart.nodes if node.row == 0}
    assert told == {("INPUT", "series", ()), ("INPUT", "padding", ()), ("IDS", "", ("kind",))}


def test_longer_rows_of_ids_than_came_in_are_not_led_from_these():
    chart = read(Lengthened, torch.arange(14).view(2, 7)).entrance

    assert [node.label for node in chart.nodes].count("TABLE LOOKUP") == 2
    assert [(node.label, node.record.shape) for node in chart.nodes if node.row == 0] == [("TOKEN IDS", (2, 9))]


def test_what_stands_beside_every_row_on_top_has_a_box():
    labels = [node.label for node in read(Prompted, torch.rand(2, 7, 2 + OTHER)).exit.nodes]

    assert labels[0] == f"SIDE BY SIDE: {WIDTH} + {KINDS} = {WIDTH + KINDS}"


def test_zeros_in_front_of_a_sound_are_not_what_comes_in():
    (column,) = read_columns(xray.trace(Heard(), torch.rand(2, OTHER, 17)))

    below = column.entrance.nodes[0]
    assert (column.name, below.label, below.record.shape) == ("audio", "SIGNAL", (2, OTHER, 17))


class Regions(Layered):
    """Words, and behind them what was seen in regions of an image, led to the width (VisualBERT)."""

    def __init__(self):
        super().__init__()
        self.words, self.see, self.kinds = nn.Embedding(31, WIDTH), nn.Linear(OTHER, WIDTH), nn.Embedding(2, WIDTH)

    def enter(self, ids, seen):
        regions = self.see(seen) + self.kinds(torch.ones(seen.shape[:-1], dtype=torch.long))
        return torch.cat((self.words(ids), regions), dim=1)


def test_words_beside_which_rows_of_numbers_come_in_are_told():
    (tower,) = xray.anatomy(xray.trace(Regions(), torch.arange(5, 15).view(2, 5), torch.rand(2, 3, OTHER))).towers

    assert (tower.reads, tower.also, tower.vocab) == ("vectors", "ids", 31)
    assert [part.part for part in tower.entrance if part.size == 31] == ["words"]
