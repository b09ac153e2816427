"""The columns of the step tables: which there are at which width, and how shapes stand in them."""

import re
from dataclasses import replace

import pytest
from recorded import recorded
from small_traces import record, small_training_pass, step

from xray.ir.records import Preview
from xray.ir.trace import Pass, Trace
from xray.ir.work import measure_work
from xray.renderers.table.steps import choose_columns, list_axes, list_below, list_shapes, mask_words
from xray.renderers.table.table import draw_tables
from xray.renderers.table.words import UNICODE, Words
from xray.renderers.themes import load_theme
from xray.story.facts.outline import outline_pass
from xray.text import say_short


@pytest.fixture(scope="module")
def words():
    return Words(load_theme(), UNICODE)


def rows_of(trace, width):
    return draw_tables(trace, width=width).splitlines()


def row_of(trace, width, name):
    return next(line for line in rows_of(trace, width) if re.match(rf"\s*\d+ +{name} ", line))


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
    row = outline_pass(recorded("two and four layers").passes[0])[1].rows[0]

    share = row.mask.mask.hidden_share
    assert 0 < share < 1
    assert mask_words(row, words, share=True)[0].plain == f"padding {share:.0%}"


def test_a_second_call_is_named_as_one():
    steps = tuple(step("net", "linear", call=call) for call in (0, 1))

    assert "net, call 2" in draw_tables(Trace("net", {}, {}, (Pass("forward", 0, {}, steps),)))


def test_no_shape_is_broken_at_eighty_columns():
    text = draw_tables(Trace("small", {}, {}, (small_training_pass(),)), width=80)

    assert not re.search(r"×\s*$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("width", "work"), [(160, r"1,056 +164 k +10\.2 kB attention\.py:\d+"), (100, r"164 k"), (80, r"1,056 params")]
)
def test_work_stands_beside_its_step(training_trace, width, work):
    assert re.search(rf"{work}$", row_of(training_trace, width, "query"))


def test_the_narrow_table_tells_flops_and_bytes_below_the_parameters(training_trace):
    rows = rows_of(training_trace, 80)

    assert rows[rows.index(row_of(training_trace, 80, "query")) + 1].endswith(" 164 k, 10.2 kB")


def test_a_block_is_told_with_the_work_of_all_inside_it(training_trace):
    work = measure_work(training_trace.passes[0])["encoder.layers.0.feed_forward#0"]

    assert f" {say_short(work.flops)} " in row_of(training_trace, 160, "feed_forward")


def test_what_cannot_be_counted_is_a_question_mark():
    odd = step("net", "odd", outputs=[record("out", "batch", source="net#0")])

    assert " ?" in row_of(Trace("net", {}, {}, (Pass("forward", 0, {}, (odd,)),)), 160, "net")


def test_a_step_inside_a_fused_kernel_is_told_as_derived():
    inner = step("net.scores", "matmul", settings={"derived": True}, parent="net")
    trace = Trace("net", {}, {}, (Pass("forward", 0, {}, (step("net", "attention"), inner)),))

    assert "matmul: derived" in draw_tables(trace)


def test_a_role_stands_below_the_name(words):
    (section,) = outline_pass(Pass("forward", 0, {}, (step("q", "linear"),)), roles={"q#0": "projection to queries"})

    assert [line.plain for line in list_below(section.rows[0], words, 40)] == [" linear: projection to queries"]


def test_a_long_role_takes_three_lines_and_no_more(words):
    (section,) = outline_pass(Pass("forward", 0, {}, (step("q", "linear"),)), roles={"q#0": "one two three four fives"})

    assert [line.plain for line in list_below(section.rows[0], words, 11)] == [" linear:", " one two", " three fou…"]


def test_an_operation_is_not_told_twice(words):
    (section,) = outline_pass(Pass("forward", 0, {}, (step("net.view", "view"),)))

    assert list_below(section.rows[0], words, 40) == ()
