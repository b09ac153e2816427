"""The stream turns to queries below the ribbon that leads to keys and values beside these."""

import pytest
from families.specimens import BY_NAME, seeded

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

pytest.importorskip("transformers", reason="transformers, whose BART this is, is not installed")


def test_the_way_to_queries_crosses_the_ribbon_below_them_and_not_below_keys():
    """BART: the way went up to the keys, behind the ribbon's head, and turned there."""
    specimen = BY_NAME["BART"]
    layout = compose_poster(xray.trace(seeded(specimen.build).eval(), **specimen.make_inputs()), text_width)

    ribbons = [curve for curve in layout.curves if curve.kind == "ribbon" and curve.role == "ribbon"]
    heads = {curve.points[-1] for curve in ribbons}
    level = min(y for x, y in heads)
    (query,) = (
        box for box in layout.boxes if box.lines and box.lines[0][0].text == "LINEAR Q" and abs(box.bottom - level) < 1
    )
    lowest = min(y for curve in ribbons for x, y in curve.points if x > query.x and y > level - 40)
    (way,) = (
        curve
        for curve in layout.curves
        if curve.kind == "flow" and curve.points[-1] == (query.x, query.bottom) and curve.head
    )
    turned = [y for x, y in way.points if abs(x - query.x) < 1]
    assert any(x != query.x for x, _ in way.points)
    assert min(turned) < lowest - 3
