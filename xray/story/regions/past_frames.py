"""The way of what is made before past the frames of the next layers, to a box between two that takes it up (Funnel)."""

from collections.abc import Sequence

from xray.ir.trace import Step
from xray.story.canvas import Canvas
from xray.story.layout import Box, Point
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing

BESIDE, APART = 8.0, 6.0
"""How far from frames such a way goes up, and how far from another one that begins elsewhere."""


def draw_past_frames(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing]) -> None:
    """A line from what was made before to each box that adds it, or puts it beside.

    It begins above the frame of a layer that gave it, or at the box of the step that made it: a norm behind a layer, or
    a step before all of them. It goes up right of the frames of one column, or left of those of the next one, where a
    tower goes on. None is drawn over a whole column, nor from the midst of a frame.
    """
    for number, column in enumerate(columns):
        here, sides = standing[number], dict[Point, float]()
        before = () if column.is_first else tuple(zip(columns, standing, strict=True))[:number][-1:]
        for box, adding in here.drawn.adding:
            for is_here, held, one in ((True, column, here), *((False, *two) for two in before)):
                source = None if adding.made is None else find_box(held, one, adding.made)
                end = None if adding.made is not None or adding.layer is None else one.drawn.ends.get(adding.layer)
                given = end if source is None else (source.right, source.y)
                if given is None:
                    continue
                beside = sides.setdefault(given, BESIDE + APART * len(sides))
                edge = here.left + column.width + beside if is_here else here.left - beside
                draw_past(canvas, column, given, edge, (box.right if is_here else box.left, box.y))
                break


def find_box(column: Column, standing: Standing, made: Step) -> Box | None:
    """The box of a step between the frames of a column, or before them."""
    begun = [] if column.entrance is None else list(zip([column.entrance], standing.entrances, strict=False))
    for chart, placed in (*standing.drawn.bridges, *begun):
        for node in chart.nodes:
            if made in node.steps and node.key in placed.boxes:
                return placed.boxes[node.key]
    return None


def draw_past(canvas: Canvas, column: Column, given: Point, edge: float, aim: Point) -> None:
    """A line from a point of the stream aside, along the frames, and to a box."""
    way = (given, (edge, given[1]), (edge, aim[1]), aim)
    look = column.look
    canvas.line(*way, role=look.outside, width=2, radius=10, head_size=0.6, dashed=look.is_dashed)
