"""Nothing on a poster is made up: every shape, word, mask cell and weight is looked up in the trace, in every case."""

import re

import pytest
from poster_cases import CASES, OTHER_SHAPES, make_case
from printed import printed_shapes, recorded_shapes, text_of

from xray.renderers.fonts import text_width
from xray.story.canvas import AGAIN
from xray.story.poster import compose_poster
from xray.story.wording import ELLIPSIS

pytestmark = pytest.mark.sampled(8)

SAID_BY_US = re.compile(r"^turn \d+  |^… and \d+ rows more$| ?(?:<pad> )?×\d+$|  ignored$")
"""What is no data in the notes with the words of the data."""

PICTURES = {
    "attention_2": "encoder.layers.0.self_attention.softmax",
    "attention_5": "decoder.layers.0.self_attention.softmax",
    "attention_6": "decoder.layers.0.cross_attention.softmax",
}
"""The pictures of attention weights, and the step that each shows."""

NOT_DRAWN = {
    "length 512": {"attention_2"},
    "huge": {*PICTURES},
    "huge difference": {*PICTURES},
    "all layers, huge": {*PICTURES},
    "other order of norms": {*PICTURES},
    "a layer that differs now": {*PICTURES},
}
"""The pictures that have no room, or no values."""


@pytest.fixture(scope="module")
def drawn():
    cache = {}

    def compose(case):
        if case not in cache:
            trace, options = make_case(case)
            cache[case] = trace, compose_poster(trace, text_width, **options)
        return cache[case]

    return compose


def ranges(trace):
    """The sizes that turns differ in, as they may be printed: "2–5"."""
    sizes = {size for one in trace.passes_of("decode") for step in one.steps for r in step.outputs for size in r.shape}
    return {f"{low}–{high}" for low in sizes for high in sizes if low < high}


@pytest.mark.parametrize("case", CASES)
def test_every_printed_shape_was_recorded(drawn, case):
    trace, layout = drawn(case)
    allowed, spans = recorded_shapes(trace), ranges(trace)
    assert printed_shapes(layout)
    assert {shape for shape in printed_shapes(layout) - allowed if not spans & set(shape)} == set()


def rows_of(trace):
    """Every row of words that went in or came out."""
    return {
        f" {' '.join(row)} "
        for one in trace.passes
        for name, rows in one.tokens.items()
        if name != "candidates"
        for row in rows
    }


@pytest.mark.parametrize("case", CASES)
def test_every_word_of_the_data_stands_beside_those_that_it_was_recorded_with(drawn, case):
    trace, layout = drawn(case)
    recorded = rows_of(trace)
    lines = [SAID_BY_US.sub("", text_of(line)) for box in layout.boxes if box.kind == "words" for line in box.lines]
    pieces = [piece.strip() for line in lines for piece in line.split(ELLIPSIS)]
    assert any(pieces)
    assert [piece for piece in pieces if piece and not any(f" {piece} " in row for row in recorded)] == []


def masks_of(trace):
    """The letters of every recorded mask, matrix by matrix, and one line for each sequence."""
    matrices = set()
    for step in trace.steps:
        for record in (*step.inputs, *step.outputs):
            cells = record.mask.cells if record.mask is not None and record.mask.cells else ()
            matrices |= set(cells)
            if cells and all(len(matrix) == 1 for matrix in cells):
                matrices.add(tuple(matrix[0] for matrix in cells))
    return matrices


def is_corner(rows, matrix):
    """Whether these rows of cells are the beginnings of the first rows of a matrix; a hidden cell shows no value."""
    return len(rows) <= len(matrix) and all(
        0 < len(row) <= len(line) and all(cell in (None, whole) for cell, whole in zip(row, line, strict=False))
        for row, line in zip(rows, matrix, strict=False)
    )


@pytest.mark.parametrize("case", CASES)
def test_every_mask_cell_was_recorded(drawn, case):
    trace, layout = drawn(case)
    recorded = masks_of(trace)
    masks = [cells for cells in layout.cells if cells.kind == "mask" and not cells.id.startswith("mask_question_")]
    assert any(cells.rows for cells in masks)
    assert [cells.id for cells in masks if not any(is_corner(cells.rows, matrix) for matrix in recorded)] == []


def previews_of(trace, path):
    steps = [step for step in trace.steps if step.path == path and step.outputs[0].preview is not None]
    return [step.outputs[0].preview.rows(0, 0) for step in steps]


@pytest.mark.parametrize("case", [case for case in CASES if "fails" not in case])
def test_every_attention_weight_was_recorded(drawn, case):
    trace, layout = drawn(case)
    pictures = {cells.id: cells.rows for cells in layout.cells if cells.kind == "weights"}
    assert pictures.keys() == PICTURES.keys() - NOT_DRAWN.get(case, set())
    for name, rows in pictures.items():
        assert any(cell is not None for row in rows for cell in row)
        assert any(is_corner(rows, preview) for preview in previews_of(trace, PICTURES[name])), name


@pytest.mark.parametrize("case", CASES)
def test_every_box_stands_for_steps_that_ran(drawn, case):
    trace, layout = drawn(case)
    ran = {f"{one.kind}{one.number or ''}/{step.id}" for one in trace.passes for step in one.steps}
    shown = {name for box in layout.boxes if "step " in box.kind for name in (box.id.partition(AGAIN)[0], *box.steps)}
    assert shown
    assert shown - ran == set()


@pytest.mark.parametrize("case", OTHER_SHAPES)
def test_every_shape_in_a_list_of_marks_is_one_of_the_marks(drawn, case):
    _, options = make_case(case)
    layout = drawn(case)[1]
    allowed = {
        "×".join(f"[{size}]" if axis in operand.wrong else str(size) for axis, size in enumerate(operand.sizes))
        for mark in options["marks"].steps
        for operand in mark.operands
    }
    listed = {
        word
        for box in layout.boxes
        for line in box.lines
        if any(run.text.startswith("[") and run.ink == "accent:warning" for run in line)
        for word in text_of(line).split()
        if "×" in word
    }
    assert listed
    assert listed <= allowed
