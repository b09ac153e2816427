"""A chart put on the canvas: rows from a floor up, lanes across a width, every node a box that knows its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Chart, Edge, Node, Place
from xray.story.layout import Box
from xray.story.sheet.canvas.lines import BARS, GHOST, SIGN, row_height, write_lines
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.routing import Way, count_levels, join, passes_arrows, room_for
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text

RIBBON_ROW, RIBBON_ROOM = 36.0, 26.0
"""What is left free for a ribbon below what it feeds."""
SUMS = ("add", "closed")
"""The boxes of a panel that the stream is led to past its branches; where there is none of these, its head is."""
STREAM, OFF_STREAM = 18.7, 4.0
"""So far left of a panel's boxes the stream comes by, and so far lines between these keep off it."""


@dataclass(frozen=True)
class Placed:
    """A chart on the canvas: its boxes by key, how high it reaches, its lines, and where these go at the leftmost."""

    boxes: Mapping[str, Box]
    top: float
    ways: tuple[Way, ...] = ()
    leftmost: float = -inf


def rows_of(
    canvas: Canvas, chart: Chart, width: float, look: Look, *, on_page: bool = False
) -> list[tuple[float, float]]:
    """The height of each row, that of its highest node, and the room that it needs above it."""
    heights = [
        max((row_height(canvas, node, width, look) for node in chart.in_row(row)), default=0.0)
        for row in range(chart.rows)
    ]
    rooms = list(rooms_of(chart, width, on_page=on_page))
    for row in {node.row - 1 for node in chart.nodes if node.joins is not None and node.row}:
        rooms[row] = max(rooms[row], RIBBON_ROOM)
    return list(zip(heights, rooms, strict=True))


def rooms_of(chart: Chart, width: float, *, on_page: bool) -> tuple[float, ...]:
    """How much room each row needs above it at least for the lines that run level there."""
    nodes = tuple((node.key, node.row, node.place) for node in chart.nodes)
    return plan_rooms(nodes, tuple(in_order(chart)), width, find_leftmost(0.0, on_page=on_page))


@lru_cache(maxsize=1024)
def plan_rooms(
    nodes: tuple[tuple[str, int, Place], ...], edges: tuple[Edge, ...], width: float, leftmost: float
) -> tuple[float, ...]:
    """The same, of nodes of which it is known where in which row each stands."""
    boxes = {key: Box(key, x * width, row * 100.0, share * width, 50.0, (), "") for key, row, (x, share) in nodes}
    ways = list[Way]()
    canvas, others = Canvas(lambda *_: 0.0, is_trial=True), list(boxes.values())
    for edge in edges:
        lower, upper = boxes[edge.source], boxes[edge.target]
        if lower.top < upper.bottom:
            join(canvas, lower, upper, others, "", fan=edge.fan, drawn=ways, leftmost=leftmost)
    rows = 1 + max((row for _, row, _ in nodes), default=-1)
    gaps = [(row * 100.0 + 25, row * 100.0 + 75) for row in range(rows)]
    return tuple(room_for(count_levels(ways, *gap), under_heads=passes_arrows(ways, *gap)) for gap in gaps)


def find_leftmost(left: float, *, on_page: bool) -> float:
    """Where lines of a chart go around its boxes at the leftmost: in a frame right of the stream that comes by."""
    return -inf if on_page else left - STREAM + OFF_STREAM


def in_order(chart: Chart) -> list[Edge]:
    """The ways from one row to a higher one, those to the next row first: longer ones go around these."""
    rows = {node.key: node.row for node in chart.nodes}
    edges = [edge for edge in chart.edges if edge.source in rows and edge.target in rows]
    return sorted(edges, key=lambda edge: rows[edge.target] - rows[edge.source])


def place_chart(
    canvas: Canvas,
    chart: Chart,
    left: float,
    width: float,
    floor: float,
    gap: float,
    look: Look,
    station: int | None = None,
    rows: Sequence[tuple[float, float]] | None = None,
    *,
    on_page: bool = False,
) -> Placed:
    """The chart's boxes and the lines between them, from a floor up.

    `rows` are how high each row is, and how much room it needs above it, where another chart stands beside it; lines on
    the page itself, outside of a frame, are thick and take the colour of their phase.
    """
    boxes: dict[str, Box] = {}
    y = top = floor
    for row, (height, room) in enumerate(rows or rows_of(canvas, chart, width, look, on_page=on_page)):
        y += RIBBON_ROW if any(node.key in chart.memory for node in chart.in_row(row)) else 0
        for node in chart.in_row(row):
            boxes[node.key] = canvas.add(make_box(canvas, node, left, width, y + height / 2, height, look, station))
            if node.form == "bars":
                draw_bars(canvas, node, boxes[node.key], look)
        top = y + height
        y = top + max(gap, room)
    every, drawn, leftmost = list(boxes.values()), list[Way](), find_leftmost(left, on_page=on_page)
    for edge in in_order(chart) if not canvas.is_trial else ():
        lower, upper = boxes[edge.source], boxes[edge.target]
        surface = chart.node(edge.source).surface
        of_memory = not look.is_narrow and surface == "memory"
        line = look.outside if on_page else look.memory if of_memory else look.line
        line = "leader" if surface == "condition" else line
        thick = 2 if on_page and look.phase != look.own else 1.6 if look.is_narrow else 1.2
        dashed = look.is_dashed and (on_page or look.is_narrow)
        if lower.top <= upper.bottom:
            is_passed = not on_page and edge.target in (*SUMS, *chart.heads)  # the stream comes by at the left
            sides = (1,) if is_passed else (-1, 1)
            join(
                canvas,
                lower,
                upper,
                every,
                line,
                fan=edge.fan,
                width=thick,
                dashed=dashed,
                drawn=drawn,
                sides=sides,
                leftmost=leftmost,
            )
        else:
            canvas.line((lower.left, lower.y), (upper.right, upper.y), role=line, width=1.6)
    return Placed(boxes, top, tuple(drawn), leftmost)


def make_box(
    canvas: Canvas, node: Node, left: float, width: float, y: float, height: float, look: Look, station: int | None
) -> Box:
    """A node as a box: its name, its shape, the words of its axes, and each of its steps once."""
    own = SIGN if node.form == "sign" else node.place[1] * width
    if node.form == "bars":
        return Box(f"part_{len(canvas.boxes)}", left + node.place[0] * width, y, own, BARS, (), "card", filled=False)
    steps = tuple({one.id: one for one in node.steps}.values())
    step = steps[0] if steps else None
    return Box(
        id=look.identity(step) if step is not None else f"part_{len(canvas.boxes)}",
        x=left + node.place[0] * width,
        y=y,
        width=own,
        height=SIGN if node.form == "sign" else min(height, GHOST) if node.record is None and not node.told else height,
        lines=() if canvas.is_trial else write_lines(canvas, node, own, height, look),
        on="failure" if step is not None and step.error is not None else look.surface(node),
        outline=node.outline or (look.phase if look.is_narrow and node.surface == "mask" else None),
        outline_width=2.4 if node.outline == "boundary" else 1.4 if node.outline or look.is_narrow else 1.0,
        shape="circle" if node.form == "sign" else "round",
        kind=f"step {look.role} {look.own}" if step is not None else "part",
        tooltip="" if canvas.is_trial else look.tell(steps),
        steps=() if canvas.is_trial else tuple(look.identity(one) for one in steps),
        record=node.record,
        station=station,
    )


def draw_bars(canvas: Canvas, node: Node, box: Box, look: Look) -> None:
    """A bar for each number from the foot of a box up, and above them what they count."""
    text = fit_text(node.label, NOTE, box.width, canvas.measure)
    surface = f"{look.own}_panel_two"
    canvas.note(box.x, box.top, (words(text, NOTE, "quiet"),), surface, "center")
    step, most = box.width / len(node.bars), max(max(node.bars), 1)
    for number, count in enumerate(node.bars):
        x = box.left + number * step
        high = max(1.5, (BARS - 18) * count / most)
        canvas.panel(x, box.bottom, x + step - min(3.0, step / 4), box.bottom + high, look.own, 1)


def draw_station(canvas: Canvas, x: float, y: float, number: int, radius: float = 15, kind: str = "station") -> None:
    """A pink circle with the number of a station."""
    size = round(radius * 1.15) if radius > NOTE else NOTE
    canvas.add(
        Box(
            f"{kind}_{number}_{len(canvas.boxes)}",
            x,
            y,
            2 * radius,
            2 * radius,
            (words(str(number), size, "text", "bold"),),
            "station",
            shape="circle",
            outline_width=radius / 10,
            kind=kind,
            tooltip=f"station {number}",
        )
    )
