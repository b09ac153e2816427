"""Words and the codes of an image in one row: what each table holds, and what is said of the parts that each sees."""

import pytest
import torch
from printed import words_of
from story.drawing import CODES, IMAGE, TEXT, WIDTH, WORDS, Draws

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    return xray.trace(Draws().eval(), torch.zeros(2, WORDS).long(), torch.arange(2 * IMAGE).view(2, -1) % CODES)


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


def test_what_queries_keys_and_values_are_made_of_is_none_of_them(column):
    looking = [frame.panels[0].chart for frame in column.frames if frame.panels[0].is_open]

    assert all(("END TO END", (2, TEXT + IMAGE - 1, WIDTH)) in list_boxes(chart) for chart in looking)


def test_a_part_of_the_rows_that_looks_at_itself_is_no_window(trace, told):
    (tower,) = xray.anatomy(trace).towers
    looking = [one for one in tower.branches if isinstance(one, Attention)]

    assert looking
    assert {one.window for one in looking} == {None}
    assert "window" not in told.lower()
