"""Nothing on a poster is made up: every shape, word, mask cell and weight is looked up in the trace, in every case."""

import pytest
from poster_cases import CASES, MARKED, make_case
from printed import printed_shapes, recorded_shapes, text_of

from xray.renderers.fonts import text_width
from xray.story.plan import NOTE
from xray.story.poster import compose_poster
from xray.story.wording import ELLIPSIS

DATA_TIER = 230
"""Below this height stand the words of the batch, of the question and of the answer."""

REMARKS = (
    "tokens each, padded; the same words as numbers; is <pad>, only filler; all but the last; all but the first; "
    "one word more each turn; only its newest word is read; append the word, decode again until <eos>; append it; "
    "flattened; ignored; one row per question; answer of corner; and rows more; IDS; QUESTION; MASK"
)
SAID_BY_US = {word.removesuffix(mark) for word in REMARKS.split() for mark in ("", ";")}


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
    assert {shape for shape in printed_shapes(layout) - allowed if not spans & set(shape)} == set()


def tokens_of(trace):
    return {
        piece
        for one in trace.passes
        for name, rows in one.tokens.items()
        if name != "candidates"
        for row in rows
        for word in row
        for piece in word.split(" ")
    }


@pytest.mark.parametrize("case", CASES)
def test_every_word_of_the_data_is_in_the_trace(drawn, case):
    trace, layout = drawn(case)
    notes = [box for box in layout.boxes if not box.filled and box.y < DATA_TIER]
    lines = [line for box in notes for line in box.lines if line and line[-1].size == NOTE]
    words = {word for line in lines for run in line if run.weight == "regular" for word in run.text.split()}
    named = {word for word in words if any(letter.isalpha() for letter in word) and ELLIPSIS not in word}
    assert named - tokens_of(trace) - SAID_BY_US == set()
    assert named & tokens_of(trace)


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
    return len(rows) <= len(matrix) and all(line.startswith(row) for row, line in zip(rows, matrix, strict=False))


@pytest.mark.parametrize("case", [case for case in CASES if "huge" not in case])
def test_every_mask_cell_was_recorded(drawn, case):
    trace, layout = drawn(case)
    recorded = masks_of(trace)
    for cells in layout.cells:
        if cells.kind == "mask" and not cells.id.startswith("mask_question_"):
            rows = tuple("".join(row) for row in cells.rows)
            assert any(is_corner(rows, matrix) for matrix in recorded), cells.id


def previews_of(trace, path):
    steps = [step for step in trace.steps if step.path == path and step.outputs[0].preview is not None]
    return {value for step in steps for row in step.outputs[0].preview.rows(0, 0) for value in row}


@pytest.mark.parametrize("case", [case for case in CASES if "fails" not in case])
def test_every_attention_weight_was_recorded(drawn, case):
    trace, layout = drawn(case)
    paths = {
        "attention_2": "encoder.layers.0.self_attention.softmax",
        "attention_5": "decoder.layers.0.self_attention.softmax",
        "attention_6": "decoder.layers.0.cross_attention.softmax",
    }
    for cells in layout.cells:
        if cells.id in paths:
            drawn_weights = {value for row in cells.rows for value in row if value is not None}
            assert drawn_weights <= previews_of(trace, paths[cells.id])


@pytest.mark.parametrize("case", CASES)
def test_every_box_stands_for_steps_that_ran(drawn, case):
    trace, layout = drawn(case)
    ran = {f"{one.kind}{one.number or ''}/{step.id}" for one in trace.passes for step in one.steps}
    shown = {box.id for box in layout.boxes if "step " in box.kind and not box.id.startswith("tower/")}
    assert shown - ran == set()


@pytest.mark.parametrize("case", MARKED)
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
    assert listed <= allowed
