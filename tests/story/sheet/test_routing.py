"""Lines between boxes keep apart from lines between other boxes, and meet those of their own."""

from itertools import combinations, pairwise

import pytest

from xray.renderers.contrasts import GRAPHICS
from xray.renderers.themes import load_theme
from xray.renderers.vision import contrast
from xray.story.canvas import Canvas
from xray.story.charts.chart import BROAD, CENTRE, LEFT, LEFT_HALF, RIGHT, RIGHT_HALF, Chart, Edge, Node
from xray.story.layout import Box
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.placing import STREAM, place_chart
from xray.story.sheet.canvas.routing import (
    BESIDE,
    CLEAR,
    CORNER,
    HEAD,
    Pieces,
    Way,
    choose_way,
    count_levels,
    crosses,
    goes_on,
    join,
    passes_arrows,
    room_for,
    runs_along,
    weigh_beside,
)


def make_box(name, x, y, width=60.0):
    return Box(name, x, y, width, 20.0, (), "panel")


LOWER, OTHER, MIDDLE, UPPER, TOP = (
    make_box("lower", 40.0, 10.0),
    make_box("other", 110.0, 10.0),
    make_box("middle", 75.0, 55.0, 130.0),
    make_box("upper", 75.0, 100.0, 130.0),
    make_box("top", 75.0, 145.0, 130.0),
)
BOXES = (LOWER, OTHER, MIDDLE, UPPER, TOP)


def draw(*edges):
    drawn: list[Way] = []
    canvas = Canvas(lambda text, size, weight: size * len(text))
    for lower, upper in edges:
        join(canvas, lower, upper, BOXES, "line", drawn=drawn)
    return [way.points for way in drawn]


@pytest.mark.parametrize(
    "edges",
    [
        ((OTHER, UPPER), (MIDDLE, TOP)),
        ((LOWER, UPPER), (MIDDLE, TOP), (OTHER, TOP)),
        ((LOWER, TOP), (OTHER, UPPER)),
    ],
)
def test_lines_of_other_boxes_keep_apart(edges):
    ways = draw(*edges)

    pairs = [
        (one, other)
        for place, one in enumerate(ways)
        for number, other in enumerate(ways[:place])
        if edges[place][0] is not edges[number][0] and edges[place][1] is not edges[number][1]
    ]
    assert pairs
    assert not any(runs_along(one, other) for one, other in pairs)


@pytest.mark.parametrize("high", [10.0, 26.0])
def test_lines_of_two_boxes_that_change_sides_have_ways_of_their_own(high):
    below = make_box("left", 40.0, 10.0), make_box("right", 110.0, 10.0)
    above = make_box("over left", 40.0, 30.0 + high), make_box("over right", 110.0, 30.0 + high)
    drawn: list[Way] = []
    canvas = Canvas(lambda text, size, weight: size * len(text))
    for lower, upper in ((below[0], above[1]), (below[1], above[0])):
        join(canvas, lower, upper, (*below, *above), "line", drawn=drawn)

    assert not runs_along(drawn[0].points, drawn[1].points)
    assert all(way.lower.left < way.points[0][0] < way.lower.right for way in drawn)
    assert all(way.upper.left < way.points[-1][0] < way.upper.right for way in drawn)


def test_lines_from_one_box_may_run_together():
    first, second = draw((OTHER, UPPER), (OTHER, TOP))

    assert runs_along(first, second)


def test_a_line_that_can_keep_apart_from_none_goes_the_shortest_way():
    boxes = (LOWER, MIDDLE)
    drawn = [Way(OTHER, TOP, ((40.0, 20.0), (40.0, 45.0)))]
    join(Canvas(lambda text, size, weight: 0.0), *boxes, boxes, "line", drawn=drawn)

    assert drawn[-1].points == ((40.0, 20.0), (40.0, 45.0))


def test_a_line_out_of_a_frame_turns_aside_above_what_is_written_over_it():
    drawn: list[Way] = []
    beside = make_box("beside", 110.0, 100.0)
    for upper in (beside, TOP):
        join(
            Canvas(lambda text, size, weight: 0.0), LOWER, upper, (LOWER, UPPER, upper), "line", drawn=drawn, above=60.0
        )

    for way in drawn:
        assert way.points[0] == (LOWER.x, LOWER.top)
        assert way.points[1][0] == LOWER.x
        assert way.points[1][1] > 60.0
    assert [way.points[-1] for way in drawn] == [(beside.x, beside.bottom), (TOP.left + CORNER, TOP.bottom)]


def test_a_line_does_not_go_on_where_another_one_ends():
    below = [make_box(f"below {place}", 40.0 + 70 * place, 10.0) for place in range(3)]
    above = [make_box(f"above {place}", 40.0 + 70 * place, 40.0) for place in range(3)]
    top = make_box("top", 120.0, 75.0, 220.0)
    drawn: list[Way] = []
    canvas = Canvas(lambda text, size, weight: size * len(text))
    for lower, upper in ((below[1], top), (below[0], above[1])):  # one goes around a box, one goes to that box
        join(canvas, lower, upper, (*below, *above, top), "line", drawn=drawn)

    around, beside = (Pieces(way.points) for way in drawn)
    assert not goes_on(beside, around)
    assert not crosses(beside, around)
    assert not runs_along(beside.points, around.points)


def test_lines_that_turn_away_at_one_place_look_like_one():
    left, right = (
        ((0.0, 0.0), (0.0, 5.0), (50.0, 5.0), (50.0, 10.0)),
        ((50.0, 0.0), (50.0, 5.0), (90.0, 5.0), (90.0, 10.0)),
    )

    assert goes_on(Pieces(left), Pieces(right))
    assert not goes_on(Pieces(left), Pieces(tuple((x + 20, y) for x, y in right)))
    assert not goes_on(Pieces(left), Pieces(tuple((x, y + 3) for x, y in right)))


def test_lines_across_each_other_are_counted():
    upright, level = Pieces(((10.0, 0.0), (10.0, 20.0))), Pieces(((0.0, 5.0), (30.0, 5.0)))

    assert (crosses(upright, level), crosses(level, upright)) == (1, 1)
    assert crosses(upright, Pieces(tuple((x, y + 30) for x, y in level.points))) == 0


def test_a_line_around_others_leaves_a_wide_box_near_the_corner_and_enters_one_there():
    low = make_box("low", 75.0, 10.0, 130.0)
    drawn: list[Way] = []
    join(Canvas(lambda text, size, weight: 0.0), low, TOP, (low, MIDDLE, UPPER, TOP), "line", drawn=drawn)

    (way,) = drawn
    assert (way.points[0], way.points[-1]) == ((low.right - CORNER, low.top), (TOP.right - CORNER, TOP.bottom))


def test_a_line_around_others_leaves_a_sign_in_its_middle():
    sign = make_box("sign", 75.0, 10.0, 22.0)
    drawn: list[Way] = []
    join(Canvas(lambda text, size, weight: 0.0), sign, TOP, (sign, MIDDLE, UPPER, TOP), "line", drawn=drawn)

    assert drawn[0].points[0] == (sign.x, sign.top)


def test_lines_around_a_row_of_boxes_all_keep_apart():
    below = [make_box(f"below {place}", 40.0 + 70 * place, 10.0) for place in range(3)]
    above = [make_box(f"above {place}", 40.0 + 70 * place, 145.0) for place in range(3)]
    wide = make_box("wide", 110.0, 75.0, 200.0)
    drawn: list[Way] = []
    canvas = Canvas(lambda text, size, weight: 0.0)
    for lower, upper in zip(below, (above[2], above[0], above[1]), strict=True):
        join(canvas, lower, upper, (*below, wide, *above), "line", drawn=drawn)

    assert not any(runs_along(one.points, other.points) for one, other in combinations(drawn, 2))


def test_as_many_lines_level_one_above_the_other_as_rows_have_to_be_apart_for():
    bent = (((0.0, 0.0), (0.0, 5.0), (40.0, 5.0)), ((20.0, 0.0), (20.0, 9.0), (60.0, 9.0)))
    far = ((90.0, 0.0), (90.0, 13.0), (99.0, 13.0))

    assert count_levels([Way(LOWER, TOP, points) for points in bent], 0.0, 20.0) == 2
    assert count_levels([Way(LOWER, TOP, points) for points in (bent[0], far)], 0.0, 20.0) == 1
    assert count_levels([Way(LOWER, TOP, points) for points in bent], 7.0, 20.0) == 1
    assert room_for(1) == 0.0 < room_for(2) < room_for(3)


@pytest.mark.parametrize("aside", [CORNER + 3, 40.0])
def test_a_line_ends_apart_from_the_arrows_of_others_into_its_box(aside):
    tip = TOP.right - aside
    drawn = [Way(UPPER, TOP, ((tip, UPPER.top), (tip, TOP.bottom)))]
    left = Way(MIDDLE, TOP, ((TOP.left + CORNER + 3, UPPER.top), (TOP.left + CORNER + 3, TOP.bottom)))
    low = make_box("low", 75.0, 10.0, 130.0)
    points = choose_way(low, TOP, (low, MIDDLE, UPPER, TOP), [*drawn, left])

    assert all(abs(points[-1][0] - way.points[-1][0]) >= CORNER for way in (*drawn, left))


@pytest.mark.parametrize("side", [-1, 1])
def test_a_line_around_others_ends_at_the_side_of_a_box_rather_than_stand_on_another_one(side):
    low = make_box("low", 75.0, 10.0, 130.0)
    drawn: list[Way] = []
    join(
        Canvas(lambda text, size, weight: 0.0), low, TOP, (low, MIDDLE, UPPER, TOP), "line", drawn=drawn, sides=(side,)
    )

    assert drawn[0].points[-1] == (TOP.x + side * TOP.width / 2, TOP.y)


def test_a_line_does_not_end_at_a_side_where_another_box_stands():
    low, beside = make_box("low", 75.0, 10.0, 130.0), make_box("beside", 175.0, TOP.y)
    boxes = (low, MIDDLE, UPPER, TOP, beside)
    drawn: list[Way] = []
    join(Canvas(lambda text, size, weight: 0.0), low, TOP, boxes, "line", drawn=drawn, sides=(1,))

    assert drawn[0].points[-1] == (TOP.right - CORNER, TOP.bottom)


def test_a_line_between_free_boxes_ends_below_the_upper_one():
    drawn: list[Way] = []
    join(Canvas(lambda text, size, weight: 0.0), LOWER, MIDDLE, BOXES, "line", drawn=drawn, sides=(-1, 1))

    assert drawn[0].points[-1] == (LOWER.x, MIDDLE.bottom)


def test_lines_around_boxes_of_a_frame_keep_off_the_stream_that_comes_by():
    lanes = [[BROAD], *[[LEFT_HALF, RIGHT_HALF]] * 2, *[[LEFT, CENTRE, RIGHT]] * 2, [BROAD]]
    nodes = [Node(f"{row}{at}", "", row, place) for row, places in enumerate(lanes) for at, place in enumerate(places)]
    nearest = "00 10", "00 11", "30 40", "31 41", "32 42", "40 50"
    around = "00 20", "00 21", "10 30", "10 31", "10 32", "20 41", "21 42", "11 40"
    edges = [Edge(one[:2], one[3:]) for one in nearest + around]
    left, canvas = 100.0, Canvas(lambda text, size, weight: size * len(text) / 2)
    chart = Chart((*nodes,), (*edges,), ("00",), "50")
    placed = place_chart(canvas, chart, left, 300.0, 0.0, 20.0, Look("text", "text", ()))

    assert len(placed.ways) == len(edges)
    assert min(x for way in placed.ways for x, _ in way.points) > left - STREAM + 3


def test_a_line_stays_straight_for_as_long_as_the_head_of_its_arrow_is():
    low, canvas = make_box("low", 75.0, 10.0, 130.0), Canvas(lambda text, size, weight: 0.0)
    join(canvas, low, TOP, (low, MIDDLE, UPPER, TOP), "line", drawn=[], sides=(1,))

    (curve,) = canvas.curves
    assert curve.points[-1] == (TOP.right, TOP.y)
    assert curve.points[-4][0] - TOP.right >= HEAD


@pytest.mark.parametrize("begins_there", [True, False])
def test_lines_that_begin_or_end_at_one_box_are_one_or_run_clearly_beside_each_other(begins_there):
    low = make_box("low", 75.0, 10.0, 130.0)
    lane = TOP.right + 2 * CLEAR - 0.9
    ends = (low, UPPER) if begins_there else (LOWER, TOP)
    drawn = [Way(*ends, ((low.right, low.top), (lane, 30.0), (lane, 140.0)))]
    points = choose_way(low, TOP, (low, MIDDLE, UPPER, TOP), drawn)

    lanes = {x for (x, y), (after, end) in pairwise(points) if x == after and end - y > BESIDE}
    assert lanes
    assert all(abs(x - lane) >= BESIDE for x in lanes)


def test_a_line_that_passes_an_arrow_below_its_head_counts_as_shorter():
    arrow = Pieces(((40.0, 20.0), (40.0, 45.0)))
    through, under = (Pieces(((0.0, 20.0), (0.0, y), (80.0, y), (80.0, 45.0))) for y in (45 - HEAD + 1, 45 - HEAD - 1))

    assert weigh_beside(through, arrow) == weigh_beside(arrow, through) > weigh_beside(under, arrow) > 0
    assert weigh_beside(under, arrow) == weigh_beside(arrow, under)


def test_rows_are_further_apart_where_a_line_passes_arrows_of_others():
    arrow = Way(LOWER, MIDDLE, ((40.0, 20.0), (40.0, 45.0)))
    past, short = (((0.0, 20.0), (0.0, 30.0), (end, 30.0), (end, 45.0)) for end in (80.0, 30.0))

    assert passes_arrows([arrow, Way(OTHER, UPPER, past)], 20.0, 45.0)
    assert not passes_arrows([arrow, Way(OTHER, UPPER, short)], 20.0, 45.0)
    assert not passes_arrows([arrow, Way(LOWER, UPPER, past)], 20.0, 45.0)
    assert room_for(1, under_heads=True) > HEAD + CLEAR > room_for(1)


@pytest.mark.parametrize("theme", [load_theme("dark"), load_theme("light")], ids=["dark", "light"])
@pytest.mark.parametrize("role", ["forward", "training", "inference"])
@pytest.mark.parametrize("own", ["encoder", "decoder"])
def test_lines_of_a_chart_on_the_page_stand_out_from_it(theme, role, own):
    nodes = Node("low", "", 0, BROAD), Node("high", "", 1, BROAD)
    chart, canvas = Chart(nodes, (Edge("low", "high"),), ("low",), "high"), Canvas(lambda text, size, weight: 0.0)
    place_chart(canvas, chart, 0.0, 300.0, 0.0, 20.0, Look(own, own, (), role), on_page=True)

    (curve,) = canvas.curves
    assert contrast(theme.lines[curve.role], theme.surfaces["page"].fill, "full colour") >= GRAPHICS
