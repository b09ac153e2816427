"""The way of what a layer gives past the frames of the next ones, to a box between two that takes it up (Funnel)."""

from collections.abc import Sequence

from xray.story.canvas import Canvas
from xray.story.layout import Point
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing

BESIDE = 12.0
"""How far from frames such a way goes up."""


def draw_past_frames(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing]) -> None:
    """A line from above the frame whose last layer gives something to each box that adds it, or puts it beside.

    It goes up right of the frames of one column, or left of those of the next one, where a tower goes on. None is drawn
    over a whole column, nor from the midst of a frame.
    """
    for number, column in enumerate(columns):
        drawn = standing[number].drawn
        for box, layer in drawn.adding:
            before = standing[number - 1].drawn.ends if number and not column.is_first else {}
            if layer in drawn.ends:
                edge, given, aim = standing[number].left + column.width + BESIDE, drawn.ends[layer], box.right
            elif layer in before:
                edge, given, aim = standing[number].left - BESIDE, before[layer], box.left
            else:
                continue
            draw_past(canvas, column, given, edge, (aim, box.y))


def draw_past(canvas: Canvas, column: Column, given: Point, edge: float, aim: Point) -> None:
    """A line from a point of the stream aside, along the frames, and to a box."""
    way = (given, (edge, given[1]), (edge, aim[1]), aim)
    look = column.look
    canvas.line(*way, role=look.phase, width=2, radius=10, head_size=0.6, dashed=look.is_dashed)
