"""A stream that goes on in several boxes between two frames parts close below these, above the frame's title."""

from types import SimpleNamespace
from typing import Any

import pytest

from xray.renderers.attention import text_width
from xray.story.canvas import Canvas
from xray.story.layout import Box
from xray.story.sheet.frames import FORK, fork

LOOK: Any = SimpleNamespace(phase="training", is_dashed=False)


def box(x, y):
    return Box(f"at{x}", x, y, 80.0, 20.0, (), "own")


@pytest.mark.parametrize(("places", "lines"), [((60.0, 140.0), 2), ((100.0,), 0)])
def test_a_stream_that_goes_on_in_several_boxes_parts_close_below_these(places, lines):
    canvas = Canvas(text_width)

    fork(canvas, box(100.0, 10.0), [box(x, 90.0) for x in places], LOOK)

    assert len(canvas.curves) == lines
    for curve in canvas.curves:
        away = [y for x, y in curve.points if abs(x - 100.0) > 6]
        assert min(away) == pytest.approx(80.0 - FORK, abs=0.1)
