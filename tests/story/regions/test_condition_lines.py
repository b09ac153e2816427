"""How lines of conditions run: apart from each other, from frames and from words, with bends that have room."""

from functools import cache
from itertools import combinations

import pytest
from story.body.elsewhere import kept
from story.regions.test_conditions import Diffusion, record_diffusion

from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WELL_APART, CASING, BEND = 9.0, 2.4, 5.0
NAMES = ("DiTTransformer2DModel", "PixArtTransformer2DModel", "SD3Transformer2DModel", "FluxTransformer2DModel")


@cache
def lay_out(name):
    return compose_poster(record_diffusion() if name == Diffusion.__name__ else kept(name)[0], text_width)


def list_pieces(layout):
    """From where to where each piece of each line of a condition goes, be it straight or a bend."""
    paths = [curve.points for curve in layout.curves if curve.kind == "condition"]
    return [(path[place], path[place + 3]) for path in paths for place in range(0, len(path) - 1, 3)]


def list_upright(layout):
    """Where lines of conditions go up along the frames, each with how far."""
    found = {}
    for (x, y), (end, top) in list_pieces(layout):
        if abs(x - end) < 0.1 and top - y > 60:
            found[round(x, 1)] = (y, max(top, found.get(round(x, 1), (y, top))[1]))
    return found


each = pytest.mark.parametrize("name", [Diffusion.__name__, *NAMES])


@pytest.mark.sampled(3)
@each
def test_lines_that_go_up_beside_each_other_are_well_apart(name):
    upright = list_upright(lay_out(name))

    assert upright
    for (one, (low, top)), (other, (start, end)) in combinations(upright.items(), 2):
        assert min(top, end) < max(low, start) or abs(one - other) > WELL_APART


@each
def test_bends_of_lines_are_round(name):
    pieces = list_pieces(lay_out(name))
    bends = [min(abs(end - x), abs(top - y)) for (x, y), (end, top) in pieces if abs(end - x) > 0.1 < abs(top - y)]

    assert all(bend > BEND for bend in bends)


@each
def test_a_line_that_turns_aside_below_a_frame_keeps_off_it(name):
    layout = lay_out(name)
    level = [(y, min(x, end), max(x, end)) for (x, y), (end, top) in list_pieces(layout) if y == top]

    for panel in (one for one in layout.panels if one.outline == "casing"):
        across, up = zip(*panel.path, strict=True)
        near = [y for y, start, end in level if min(across) < end and start < max(across) and y < min(up)]
        assert all(min(up) - y > 3 * CASING for y in near)


@each
def test_remarks_keep_off_the_casing_of_lines(name):
    layout = lay_out(name)
    notes = [box for box in layout.boxes if box.kind == "note" and box.lines]

    for x, (low, top) in list_upright(layout).items():
        beside = [box for box in notes if low < box.y < top and box.left > x - 40 and box.left < x + 40]
        assert all(box.left > x + CASING + 4 for box in beside)


@each
def test_the_casing_of_a_line_ends_where_its_head_begins(name):
    layout = lay_out(name)
    heads = [curve.points[-1] for curve in layout.curves if curve.kind == "condition"]
    cased = [curve.points[-1] for curve in layout.curves if curve.kind == "casing"]

    assert [(round(x - end, 1), y - top) for (x, y), (end, top) in zip(cased, heads, strict=True)] == [
        (5.0, 0.0)
    ] * len(heads)


@each
def test_no_name_of_a_box_of_a_condition_is_cut(name):
    layout = lay_out(name)
    boxes = [box for box in layout.boxes if box.on == "op_normalisation" and box.steps]
    names = [run.text for box in boxes for line in box.lines for run in line if run.weight == "semibold"]

    assert names
    assert [one for one in names if "…" in one] == []


def test_what_conditions_are_called_stands_under_the_middle_of_their_boxes():
    layout = lay_out("FluxTransformer2DModel")
    named = [box for box in layout.boxes if box.lines and box.lines[0][0].text == "CONDITION"]
    middle = min(named, key=lambda box: box.y)
    boxes = [box for box in layout.boxes if box.on == "op_normalisation" and box.steps and abs(box.x - middle.x) < 200]

    assert middle.x == pytest.approx((min(box.left for box in boxes) + max(box.right for box in boxes)) / 2)
