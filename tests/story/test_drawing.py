"""Words and the codes of an image in one row: what each table holds, and what is said of the parts that each sees."""

import pytest
import torch
from printed import words_of
from story.drawing import CODES, IMAGE, SIDE, TEXT, WIDTH, WORDS, Draws, LooksInParts

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

GIVEN = (torch.zeros(2, WORDS).long(), torch.arange(2 * IMAGE).view(2, -1) % CODES)


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    return xray.trace(Draws().eval(), *GIVEN)


@pytest.fixture(scope="module")
def column(trace):
    (column,) = read_columns(trace)
    return column


@pytest.fixture(scope="module")
def told(trace):
    return words_of(compose_poster(trace, text_width))


def list_boxes(chart):
    return [(node.label, node.record.shape) for node in chart.nodes]


def test_ids_among_which_those_of_places_stand_are_no_places(column):
    boxes = list_boxes(column.entrance)

    assert ("TABLE LOOKUP", (2, TEXT, WIDTH)) in boxes
    assert ("PLACE LOOKUP", (TEXT, WIDTH)) in boxes
    assert ("TOKEN IDS", (2, TEXT)) in boxes
    assert ("IDS", (2, IMAGE)) in boxes


def test_rows_of_two_tables_lie_end_to_end_before_some_are_left_out(column):
    assert ("END TO END", (2, TEXT + IMAGE, WIDTH)) in list_boxes(column.entrance)


def test_learned_numbers_that_have_a_box_are_counted_there_alone(column):
    held = [node.label for node in column.entrance.nodes if node.extra == f"{2 * SIDE * WIDTH} parameters"]

    assert held == ["+ LEARNED PLACES"]


def test_what_queries_keys_and_values_are_made_of_is_none_of_them(column):
    looking = [frame.panels[0].chart for frame in column.frames if frame.panels[0].is_open]

    assert all(("END TO END", (2, TEXT + IMAGE - 1, WIDTH)) in list_boxes(chart) for chart in looking)


def test_a_part_of_the_rows_that_looks_at_itself_is_no_window(trace, told):
    (tower,) = xray.anatomy(trace).towers
    looking = [one for one in tower.branches if isinstance(one, Attention)]

    assert looking
    assert {one.window for one in looking} == {None}
    assert "window" not in told.lower()


def test_what_lines_and_columns_leave_out_is_counted_in_both(told):
    assert "einsum × 8" in told
    assert "softmax × 2" in told
    assert "where drawn" not in told


def test_what_a_layer_leaves_out_that_is_not_opened_and_does_something_else_is_not_counted_with_others():
    model = Draws(LooksInParts(along_columns=False, is_bent=True)).eval()
    other = words_of(compose_poster(xray.trace(model, *GIVEN), text_width))

    assert "einsum × 8" in other
    assert "(self-attention where drawn)" in " ".join(other.split())


def test_a_place_of_a_map_is_given_the_row_above_it(column):
    thinking = next(panel.chart for frame in column.frames for panel in frame.panels[1:] if panel.is_open)
    quarter = (2, SIDE, SIDE, WIDTH // 4)

    assert ("ROWS OF THE PLACE ABOVE", quarter) in list_boxes(thinking)
    assert ("ROWS OF THE PLACE BEFORE", quarter) in list_boxes(thinking)
