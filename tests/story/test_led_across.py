"""Two towers that hear one sound, whose rows meet behind both: each box once, and what comes in by its name."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

SPEAKERS, NARROW = 3, 5


def make_layers():
    return (part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))


class Heard(nn.Module):
    """What is said, and beside it who speaks: where that is sure, a row of a table is added (Nemotron 3.5)."""

    def __init__(self, *, learned=False, flags=True, handed=False):
        super().__init__()
        self.words, self.norm = nn.Sequential(Reader(*make_layers()), nn.LayerNorm(WIDTH)), nn.LayerNorm(WIDTH)
        self.voices, self.who = Reader(*make_layers()), nn.Linear(WIDTH, SPEAKERS)
        self.sure, self.flags, self.handed = nn.LayerNorm(SPEAKERS), flags, handed
        table = torch.rand(SPEAKERS, WIDTH)
        self.table = nn.Parameter(table) if learned else nn.Buffer(table)

    def forward(self, sound, other=None):
        said = self.words(sound)
        who = self.who(self.voices(sound if other is None else other)).sigmoid()
        who = (who > 0.5).to(said.dtype) if self.flags else who.masked_fill(who > 0.5, 0.0)
        normed = self.norm(said)
        out = normed + self.sure(who) @ self.table
        return (out, normed) if self.handed else out


def read(model, *given):
    torch.manual_seed(0)
    return read_columns(xray.trace(model.eval(), *(given or (rows(),))))


def list_boxes(column, path):
    chart = column.exit
    return [node for node in (() if chart is None else chart.nodes) if any(step.path == path for step in node.steps)]


def list_labels(column):
    return [node.label for node in column.exit.nodes]


def test_what_is_worked_out_of_a_tower_for_a_sum_behind_another_one_is_drawn_there_alone():
    words, voices = read(Heard())

    assert list_boxes(words, "norm") == []
    (box,) = list_boxes(voices, "norm")
    assert box.surface == "memory"
    assert words.last_station == 0


def test_what_is_handed_out_stands_behind_its_own_tower_still():
    words, _ = read(Heard(handed=True))

    assert len(list_boxes(words, "norm")) == 1


def test_numbers_that_are_compared_and_read_as_1_and_0_have_a_box():
    _, voices = read(Heard())

    labels = list_labels(voices)
    assert labels.index("SIGMOID") + 1 == labels.index("1 ABOVE 0.5, ELSE 0")


def test_what_is_compared_for_a_mask_alone_is_not_made_1_and_0():
    _, voices = read(Heard(flags=False))

    assert not [one for one in list_labels(voices) if "ELSE 0" in one]


@pytest.mark.parametrize(("learned", "label"), [(False, "PRODUCT WITH A FIXED TABLE"), (True, "LINEAR")])
def test_a_product_with_a_table_is_a_linear_layer_where_that_is_learned_alone(learned, label):
    _, voices = read(Heard(learned=learned))

    (box,) = [node for node in voices.exit.nodes if node.steps[0].op == "matmul"]
    assert box.label == label


def list_names(column):
    return [node.extra for node in column.entrance.nodes if node.row == 0]


def test_one_argument_that_comes_into_two_towers_has_its_name_in_both():
    assert [list_names(column) for column in read(Heard())] == [["sound"], ["sound"]]


def test_two_arguments_that_are_alike_have_no_names_there():
    assert [list_names(column) for column in read(Heard(), rows(), rows())] == [[""], [""]]


class Told(nn.Module):
    """What is heard, put among words."""

    def __init__(self):
        super().__init__()
        self.heard, self.table, self.project = Heard(), nn.Embedding(9, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(*make_layers())

    def forward(self, ids, sound):
        x = self.table(ids)
        is_sound = (ids == 1)[..., None].expand_as(x)
        return self.layers(x.masked_scatter(is_sound, self.project(self.heard(sound))))


class Normed(Told):
    """The same, normed, with a dropout that drops nothing, before it is put among words (TVP)."""

    def __init__(self):
        super().__init__()
        self.project = nn.Sequential(self.project, nn.LayerNorm(WIDTH), nn.Dropout(0.1))  # type: ignore[assignment]


def test_a_norm_of_what_one_tower_alone_gives_is_between_towers_with_its_dropout():
    ids = torch.tensor([[3, 1, 1, 1, 1, 1, 4], [5, 6, 1, 1, 1, 1, 1]])
    *_, words = read(Normed().eval(), ids, rows())

    surfaces = {node.label: node.surface for node in words.entrance.nodes}
    assert surfaces["LAYER NORM"] == "ghost"
    assert surfaces["TABLE LOOKUP"] == "own"


def test_1_and_0_that_other_towers_alone_are_compared_for_are_between_towers():
    ids = torch.tensor([[3, 1, 1, 1, 1, 1, 4], [5, 6, 1, 1, 1, 1, 1]])
    *_, words = read(Told(), ids, rows())

    surfaces = {node.label: node.surface for node in words.entrance.nodes}
    assert surfaces["1 ABOVE 0.5, ELSE 0"] == "ghost"
    assert surfaces["TABLE LOOKUP"] == "own"
