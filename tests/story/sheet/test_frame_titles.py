"""What is written above a frame: it keeps clear of the stream that leaves the frame in its middle."""

import pytest

from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Group
from xray.story.canvas import Canvas
from xray.story.sheet.frames import draw_frame_title, tell_others
from xray.story.sheet.planning import Frame
from xray.story.wording import spell_layers

GROUP = Group((33, 34, 35), (), 35, dropouts=(0.1417, 0.1823))


def write_title(width, group=GROUP, centre=None, passed=None):
    canvas = Canvas(text_width)
    middle = 10 + width / 2 if centre is None else centre
    high = draw_frame_title(
        canvas, Frame(group, (), is_only=False, params=7919), 10, width, 100, "", 48, middle, passed
    )
    assert high == canvas.boxes[-1].top
    return canvas.boxes


@pytest.mark.parametrize("width", [290, 830])
def test_no_words_above_a_frame_stand_in_its_middle(width):
    assert all(not one.left < 10 + width / 2 < one.right for one in write_title(width))


@pytest.mark.parametrize(("centre", "told"), [(330, "1–3, 5–7, 9–11 … 45–47"), (225, "1–3 … 45–47")])
def test_a_list_of_layers_ends_before_the_stream_that_remarks_push_aside(centre, told):
    layers = tuple(place for place in range(48) if place % 4 != 3)
    boxes = write_title(600, Group(layers, ()), centre)

    assert boxes[0].lines[0][0].text == f"LAYERS {told}"
    assert boxes[0].right < centre < boxes[1].left


@pytest.mark.parametrize(("width", "lines"), [(290, [1, 2]), (830, [1, 1])])
def test_what_has_no_room_beside_the_layers_stands_above_their_parameters(width, lines):
    boxes = write_title(width)

    assert [len(one.lines) for one in boxes] == lines
    assert sum("dropout 0.142 to 0.182" in run.text for one in boxes for line in one.lines for run in line) == 1


@pytest.mark.parametrize(
    ("passed", "lines"), [(None, 1), ((400, 400), 1), ((500, 500), 2), ((490, 510), 2), ((560, 560), 1)]
)
def test_parameters_keep_clear_of_lines_that_go_up_beside_the_charts(passed, lines):
    count = write_title(600, Group((1, 2, 3), ()), 280, passed)[-1]

    assert len(count.lines) == lines
    assert passed is None or count.left > passed[1] or 280 < count.left < count.right < passed[0]


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        ([*range(5, 52, 6), 51], "6, 12, 18 … 48, 52"),
        (range(5, 52, 6), "6, 12, 18 … 48"),
        ([*range(6, 37, 6), 42, 47, 51], "7, 13, 19 … 43, 48, 52"),
        ([*range(6, 37, 6), 38, 41, 43, 47, 51], "7, 13, 19 and 8 more"),
        ([0, 2, 4, 7, 9, 12, 14], "1, 3, 5, 8, 10, 13, 15"),
        ([place for place in range(31) if place % 4 != 3], "1–3, 5–7, 9–11 … 29–31"),
        ([1, 2, 4, 7, 13, 20, 29], "2–3, 5, 8, 14, 21, 30"),
    ],
)
def test_a_last_layer_that_is_not_as_far_from_the_one_before_as_others_stands_behind_that(layers, told):
    assert spell_layers(layers) == told


@pytest.mark.parametrize(
    ("more", "told"),
    [((0, 0, 5), "; layer 36 has 5 more"), ((0, -5, -5), "; layers 35–36 have 5 fewer"), ((0, 5, 7), "")],
)
def test_layers_that_have_as_many_parameters_more_than_the_one_drawn_are_told(more, told):
    assert tell_others(Frame(GROUP, (), is_only=False, params=7919, more=more)) == told


def test_parameters_that_have_no_room_beside_the_stream_of_a_frame_stand_on_more_lines():
    count = write_title(180, Group((33, 34, 35), ()))[-1]

    assert len(count.lines) > 1
    assert count.left > 10 + 180 / 2
