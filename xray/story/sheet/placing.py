"""A chart put on the canvas: rows from a floor up, lanes across a width, every node a box that knows its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.canvas import Canvas
from xray.story.charts.chart import Chart, Node
from xray.story.journey import describe, key_of
from xray.story.layout import Box, Line, line_width
from xray.story.nodes import fit_beside, fit_digits, fit_op, op_line
from xray.story.plan import FOUR_LINES, SYMBOL, THREE_LINES, TWO_LINES
from xray.story.shapes import ShapeText, read_shape, symbols, symbols_in_two
from xray.story.sheet.routing import join
from xray.story.wording import fit_text

GHOST, RIBBON_ROW = 22.0, 26.0
"""How high a node without a shape is, and what is left free for a ribbon below what it feeds."""
NARROW = 150.0


@dataclass(frozen=True)
class Look:
    """In what a tower is painted, and of which passes it tells: the first one's steps, sizes as they are in all."""

    own: str
    memory: str
    passes: tuple[Pass, ...]
    role: str = "forward"

    def surface(self, node: Node) -> str:
        """The surface of the theme that a node stands on."""
        return {"own": self.own, "mask": "mask", "memory": self.memory, "ghost": "card"}[node.surface]

    def shape(self, step: Step, record: TensorRecord) -> ShapeText:
        """A shape as it is in all passes: a size that differs from pass to pass is told as a range."""
        found = [(self.passes[0].number, record)]
        sides = ((side, place, one) for side in ("outputs", "inputs") for place, one in enumerate(getattr(step, side)))
        side, place = next(((side, place) for side, place, one in sides if one.shape == record.shape), ("", 0))
        for one in self.passes[1:] if side else ():
            other = one.by_id.get(step.id)
            records = getattr(other, side) if other is not None else ()
            if len(records) > place and len(records[place].shape) == len(record.shape):
                found.append((one.number, records[place]))
        return read_shape(found)

    def identity(self, step: Step) -> str:
        """The id that a step has on the sheet."""
        return f"{key_of(self.passes[0])}/{step.id}"


@dataclass(frozen=True)
class Placed:
    """A chart on the canvas: its boxes by key, and how high it reaches."""

    boxes: Mapping[str, Box]
    top: float


def row_height(canvas: Canvas, node: Node, width: float, look: Look) -> float:
    """How high a node has to be for what it says."""
    if node.record is None or not node.steps:
        return GHOST
    shape = look.shape(node.steps[0], node.record)
    own = node.place[1] * width
    if not shape.is_named or fit_beside(canvas, shape, own - 6) is not None:
        return TWO_LINES
    return FOUR_LINES if len(shape.axes) > 2 and own < NARROW + 40 else THREE_LINES


def heights_of(canvas: Canvas, chart: Chart, width: float, look: Look) -> list[float]:
    """The height of each row: that of its highest node."""
    return [
        max((row_height(canvas, node, width, look) for node in chart.in_row(row)), default=0.0)
        for row in range(chart.rows)
    ]


def place_chart(
    canvas: Canvas,
    chart: Chart,
    left: float,
    width: float,
    floor: float,
    gap: float,
    look: Look,
    station: int | None = None,
) -> Placed:
    """The chart's boxes and the lines between them, from a floor up."""
    boxes: dict[str, Box] = {}
    y = floor
    for row, height in enumerate(heights_of(canvas, chart, width, look)):
        y += RIBBON_ROW if any(node.key in chart.memory for node in chart.in_row(row)) else 0
        for node in chart.in_row(row):
            boxes[node.key] = canvas.add(make_box(canvas, node, left, width, y + height / 2, height, look, station))
        y += height + gap
    every = list(boxes.values())
    for edge in chart.edges:
        lower, upper = boxes.get(edge.source), boxes.get(edge.target)
        if lower is not None and upper is not None and lower.top <= upper.bottom:
            role = look.memory if chart.node(edge.source).surface == "memory" else look.own
            join(canvas, lower, upper, every, role, fan=edge.fan)
    return Placed(boxes, y - gap)


def make_box(
    canvas: Canvas, node: Node, left: float, width: float, y: float, height: float, look: Look, station: int | None
) -> Box:
    """A node as a box: its name, its shape, the words of its axes."""
    own = node.place[1] * width
    derived = "derived" if node.is_derived else ""
    extra = ", ".join(part for part in (derived, node.extra) if part)
    if line_width(op_line(node.label, extra), canvas.measure) > own - 8:
        extra = derived
    lines: list[Line] = [fit_op(canvas, node.label, extra, own - 8)]
    if node.record is not None and node.steps:
        shape = look.shape(node.steps[0], node.record)
        lines += spell_shape(canvas, shape, own - 6, height)
    step = node.steps[0] if node.steps else None
    return Box(
        id=look.identity(step) if step is not None else f"part_{len(canvas.boxes)}",
        x=left + node.place[0] * width,
        y=y,
        width=own,
        height=min(height, GHOST) if node.record is None else height,
        lines=tuple(lines),
        on=look.surface(node),
        outline=node.outline,
        outline_width=2.4 if node.outline == "boundary" else 1.4 if node.outline else 1.0,
        kind=f"step {look.role} {look.own}" if step is not None else "part",
        tooltip="" if step is None else describe([(look.passes[0].number, step)]),
        steps=tuple(look.identity(one) for one in node.steps),
        record=node.record,
        station=station,
    )


def spell_shape(canvas: Canvas, shape: ShapeText, width: float, height: float) -> list[Line]:
    """Digits, with the words of the axes beside or below them as there is room."""
    number = fit_digits(canvas, shape, width)
    if not shape.is_named:
        return [number]
    beside = fit_beside(canvas, shape, width)
    if beside is not None:
        return [beside]
    if height >= FOUR_LINES:
        upper, lower = symbols_in_two(shape, SYMBOL)
        return [number, *(fit_words(canvas, line, width) for line in (upper, lower))]
    if height >= THREE_LINES and canvas.text_width(shape.symbols, SYMBOL) <= width:
        return [number, symbols(shape, SYMBOL)]
    return [number]


def fit_words(canvas: Canvas, line: Line, width: float) -> Line:
    """A line of one run, shortened where it is too wide."""
    run = line[0]
    return (replace(run, text=fit_text(run.text, run.size, width, canvas.measure)),)
