"""The columns of the step tables: which there are at which width, and how shapes stand in them."""

import re
from dataclasses import replace

import pytest
from small_traces import record, small_training_pass, step

from xray.ir.records import Preview
from xray.ir.trace import Pass, Trace
from xray.renderers.table import draw_tables
from xray.renderers.table_steps import choose_columns, list_axes, list_shapes, mask_words
from xray.renderers.table_words import UNICODE, Words
from xray.renderers.themes import load_theme
from xray.story.outline import outline_pass


@pytest.fixture(scope="module")
def words():
    return Words(load_theme(), UNICODE)


@pytest.mark.parametrize(("width", "kind"), [(158, "wide"), (98, "medium"), (78, "slim"), (40, "list")])
def test_the_width_chooses_the_columns(words, width, kind):
    assert choose_columns(outline_pass(small_training_pass()), words, width).kind == kind


@pytest.mark.parametrize("width", [158, 120, 98, 78])
def test_columns_fill_the_width_exactly(words, width):
    columns = choose_columns(outline_pass(small_training_pass()), words, width).columns

    assert sum(column.width + 2 for column in columns) - 3 == width


def test_each_size_has_the_hue_of_its_axis(words):
    shape = words.shape(record("x", "batch heads src_len d_k"))
    theme = load_theme()

    hues = [span.style.color.name.upper() for span in shape.spans if shape.plain[span.start] != "×"]

    assert hues == [theme.axis_colour(axis, "page") for axis in ("batch", "heads", "src_len", "d_k")]


def test_equal_sizes_of_different_axes_have_different_hues(words):
    shape = words.shape(record("x", "batch d_k", batch=8, d_k=8))

    assert len({str(span.style) for span in shape.spans if shape.plain[span.start] == "8"}) == 2


def test_shapes_are_separated_by_commas(words):
    shapes = list_shapes([record("a", "batch d_k"), record("b", "d_k src_len")], words)

    assert [shape.plain for shape in shapes] == ["2×11,", "11×5"]


def test_a_single_number_is_told_with_its_value(words):
    loss = small_training_pass().steps[-2].outputs

    assert list_axes(loss, words)[0].plain == "a single number, 2.5"


def test_a_single_number_that_is_none_is_told_as_what_it_is(words):
    loss = record("out", "", "loss", preview=Preview((), (), ("nan",)))

    assert words.axes(loss).plain == "a single number, nan"


def test_unknown_axes_are_question_marks(words):
    unknown = replace(record("x", "batch d_k"), axes=("", "d_k"))

    assert words.axes(unknown).plain == "? × d_k"


def test_axes_of_size_one_for_broadcasting_stay_ones(words):
    assert words.axes(record("mask", "batch 1 1 src_len")).plain == "batch × 1 × 1 × src_len"


def test_many_gradients_are_counted_by_shape(words):
    gradients = small_training_pass().steps[-1].outputs

    assert list_shapes(gradients, words)[0].plain == "7 gradients"
    assert list_axes(gradients, words)[0].plain == "7 of 33×33"


def test_a_mask_is_told_with_the_share_that_it_hides(words):
    row = outline_pass(small_training_pass())[1].rows[0]

    assert mask_words(row, words, share=True)[0].plain == "padding 10%"


def test_a_second_call_is_named_as_one():
    steps = tuple(step("net", "linear", call=call) for call in (0, 1))

    assert "net, call 2" in draw_tables(Trace("net", {}, {}, (Pass("forward", 0, {}, steps),)))


def test_no_shape_is_broken_at_eighty_columns():
    text = draw_tables(Trace("small", {}, {}, (small_training_pass(),)), width=80)

    assert not re.search(r"×\s*$", text, re.MULTILINE)
