"""The stream's way from the top of one column of a tower to the foot of the next."""

from types import SimpleNamespace

import pytest

from xray.renderers.fonts import text_width
from xray.story.canvas import Canvas
from xray.story.charts.chart import Chart, Edge, Node
from xray.story.layout import Box
from xray.story.regions.ribbons.links import choose_lane, draw_turns
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.frames import Drawn, draw_bridge
from xray.story.sheet.panels import Lane


@pytest.mark.parametrize("rows", [(0, 0), (0, 1)])
def test_a_turn_leads_to_every_box_of_a_bridge_that_reads_the_stream(rows):
    places = [(0.25, 0.4), (0.75, 0.4)]
    feet = [Node(f"foot{row}{place[0]}", "ROWS", row, place) for row, place in zip(rows, places, strict=True)]
    head = Node("head", "ADDED UP", 2, (0.5, 0.9))
    keys = tuple(foot.key for foot in feet)
    bridge = Chart((*feet, head), tuple(Edge(key, "head") for key in keys), keys, "head")
    canvas = Canvas(text_width)
    frame, lane = SimpleNamespace(bridge=bridge), Lane(400.0, 300.0, Look("text", "text", ()))

    _, firsts, besides, lasts, _ = draw_bridge(canvas, [frame], [lane], 100.0, 20.0, [])  # type: ignore[list-item]
    below = Box("below", 100.0, 500.0, 80.0, 30.0, (), "text")
    turned = [
        Drawn((below,), (below,), (), (), 520.0),
        Drawn(tuple(firsts), tuple(lasts), (), (), 400.0, tuple(besides)),
    ]
    standing = [SimpleNamespace(left=20.0, drawn=turned[0]), SimpleNamespace(left=380.0, drawn=turned[1])]
    draw_turns(canvas, [SimpleNamespace(is_first=True), SimpleNamespace(is_first=False)], standing, 40.0)  # type: ignore[arg-type, list-item]

    ends = {curve.points[-1] for curve in canvas.curves if curve.role == "boundary"}
    assert ends == {(box.x, box.bottom) for box in [*firsts, *besides]}
    assert len(ends) == 2


@pytest.mark.parametrize(
    ("ribbons", "lane"), [((), 170.0), ((150.0, 195.0), 170.0), ((165.0,), 174.0), ((165.0, 179.0), 156.0)]
)
def test_a_turn_goes_up_the_middle_of_an_aisle_or_where_no_ribbon_is_near(ribbons, lane):
    assert choose_lane(200.0, 60.0, ribbons) == lane
