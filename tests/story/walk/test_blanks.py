import re

import pytest
from drawn import overlapping_texts, read_drawing
from recorded import recorded

from xray.renderers.fonts import text_width
from xray.renderers.sheet.drawing import draw_layout
from xray.renderers.sheet.worksheet import make_worksheet
from xray.renderers.themes import load_theme
from xray.story.poster import compose_poster
from xray.story.walk.blanks import make_key, make_sheet
from xray.story.walk.worksheet import Choice, choose_blanks, split_shape, text_of

CASES = (
    "one layer",
    "one layer, training",
    "one layer, inference",
    "norm before",
    "sixteen heads, length 512",
    "cached",
)


@pytest.fixture(scope="module", params=CASES)
def made(request):
    """A layout with everything blank, and the sheet and the key made from it."""
    layout = compose_poster(recorded(request.param), text_width)
    choice = Choice(share=1.0)
    blanks = choose_blanks(layout, choice)
    return layout, blanks, make_sheet(layout, blanks, choice, text_width), make_key(layout, blanks, choice, text_width)


@pytest.fixture(scope="module")
def half():
    layout = compose_poster(recorded("one layer"), text_width)
    choice = Choice(share=0.8, seed=3)
    blanks = choose_blanks(layout, choice)
    return layout, blanks, make_sheet(layout, blanks, choice, text_width), make_key(layout, blanks, choice, text_width)


def told_by(layout):
    """Everything that a reader, a pointer or a screen reader gets to know."""
    lines = [text_of(line) for box in layout.boxes for line in box.lines]
    tips = [thing.tooltip for thing in (*layout.boxes, *layout.cells, *layout.curves)]
    return "\n".join([layout.title, layout.description, *lines, *tips])


@pytest.mark.sampled(3)
def test_a_sheet_with_all_blank_gives_no_answer_away(made):
    _, blanks, sheet, _ = made
    told = told_by(sheet)
    answers = {blank.question.answer for blank in blanks if "×" in blank.question.answer}
    assert [answer for answer in answers if re.search(rf"(?<![\d×]){re.escape(answer)}(?![\d×])", told)] == []


@pytest.mark.sampled(6)
def test_a_sheet_with_all_blank_names_no_axes_of_a_node(made):
    _, blanks, sheet, _ = made
    ids = {blank.question.box.id for blank in blanks}
    texts = [text_of(line) for box in sheet.boxes if box.id in ids for line in box.lines]
    assert [text for text in texts if re.search(r"batch|heads×|src_len|tgt_len|d_model×", text)] == []


def test_hidden_shapes_are_nowhere_beside_the_nodes_that_keep_theirs(half):
    _, blanks, sheet, _ = half
    answers = {blank.question.answer for blank in blanks}
    beside = [box for box in sheet.boxes if not box.kind.startswith("step ")]
    shown = [text_of(split_shape(line)[1]) for box in beside for line in box.lines]
    assert [text for text in shown if "×" in text and text in answers] == []


def test_ledgers_show_a_line_for_a_hidden_shape(half):
    _, _, sheet, _ = half
    assert sum("____" in text_of(line) for box in sheet.boxes for line in box.lines if box.kind == "note") > 4


def test_shapes_that_are_not_asked_stay(half):
    layout, blanks, sheet, _ = half
    hidden = {blank.question.box.id for blank in blanks}
    before = {box.id: box.lines for box in layout.boxes if box.kind.startswith("step ") and box.id not in hidden}
    after = {box.id: box.lines for box in sheet.boxes}
    shapes = {name: [split_shape(line)[1] for line in lines] for name, lines in before.items()}
    assert {name: [split_shape(line)[1] for line in after[name]] for name in shapes} == shapes


def test_tooltips_of_a_sheet_name_the_step_and_nothing_else(made):
    tips = [thing.tooltip for thing in (*made[2].boxes, *made[2].cells, *made[2].curves) if thing.tooltip]
    assert "encoder.layers.0.self_attention.scores" in tips
    assert [tip for tip in tips if "×" in tip or "\n" in tip] == []


def test_a_description_of_a_sheet_tells_no_sizes(half):
    assert re.findall(r"\d+", half[2].description) == [str(len(half[1]))]


def test_every_blank_has_a_numbered_field_in_its_node(made):
    _, blanks, sheet, _ = made
    fields = {box.id: box for box in sheet.boxes if box.kind == "blank"}
    nodes = {box.id: box for box in sheet.boxes}
    assert [text_of(fields[f"blank_{blank.number}"].lines[0]) for blank in blanks] == [str(b.number) for b in blanks]
    for blank in blanks:
        field, node = fields[f"blank_{blank.number}"], nodes[blank.question.box.id]
        assert node.left < field.left < field.right < node.right
        assert node.bottom < field.bottom < field.top < node.top
        assert field.height >= 12


def test_the_key_has_every_answer_in_its_field(made):
    _, blanks, _, key = made
    fields = {box.id: box for box in key.boxes if box.kind == "blank"}
    found = {blank.number: text_of(split_shape(fields[f"blank_{blank.number}"].lines[0])[1]) for blank in blanks}
    assert found == {blank.number: blank.question.answer for blank in blanks}


def test_every_answer_has_its_number(half):
    _, blanks, _, key = half
    fields = {box.id: text_of(box.lines[0]) for box in key.boxes if box.kind == "blank"}
    assert [
        field for blank in blanks if not (field := fields[f"blank_{blank.number}"]).startswith(f"{blank.number} ")
    ] == []


def test_the_fields_of_the_key_are_where_those_of_the_sheet_are(made):
    places = [
        {box.id: (box.x, box.y, box.width, box.height) for box in layout.boxes if box.kind == "blank"}
        for layout in made[2:]
    ]
    assert places[0] == places[1] != {}


def test_the_key_lists_the_answers_for_those_who_hear_it(half):
    _, blanks, _, key = half
    assert f"Answers: 1: {blanks[0].question.answer}; 2: {blanks[1].question.answer}" in key.description


def test_the_sheet_has_lines_for_name_and_date(half):
    texts = [text_of(line) for box in half[2].boxes for line in box.lines]
    assert {"Name", "Date", "Right", f"of {len(half[1])}"} <= set(texts)
    assert sum(curve.kind == "field" for curve in half[2].curves) == 3


@pytest.mark.parametrize("place", [2, 3])
def test_sheet_and_key_tell_how_they_were_chosen(half, place):
    assert any("All stations, share 0.8, seed 3." in text_of(line) for box in half[place].boxes for line in box.lines)


def test_hints_keep_the_axis_words():
    made = make_worksheet(recorded("one layer"), Choice((2,), 1.0), hints=True)
    texts = [text_of(line) for box in made.sheet.boxes for line in box.lines]
    assert "batch×heads×src_len×src_len" in texts
    assert "8×4×10×10" not in told_by(made.sheet)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", [2, 3])
def test_texts_of_sheet_and_key_neither_overlap_nor_leave_their_boxes(made, place):
    drawing = read_drawing(draw_layout(made[place], "svg", load_theme("light")))
    owned = [text for text in drawing.texts if text.owner in drawing.shapes]
    assert overlapping_texts(drawing) == []
    assert [text.text for text in owned if not drawing.shapes[text.owner].holds(text)] == []
    assert [text.text for text in drawing.texts if not drawing.page.holds(text)] == []


def test_a_sheet_has_the_proportion_of_a_paper(made):
    assert made[2].height / made[2].width == pytest.approx(2**0.5, rel=0.02)
