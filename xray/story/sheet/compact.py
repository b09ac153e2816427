"""Layers that stand apart though they are like one that is drawn in full: a row for each, with its own shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.story.canvas import Canvas
from xray.story.charts.chart import Chart, Node
from xray.story.layout import Box, Line, Run
from xray.story.sheet.placing import Look, fit_digits, fit_op
from xray.story.type_sizes import DIGIT, LABEL, NOTE, PANEL_PAD

HIGH, LOW, BETWEEN, PAD = 36.0, 17.0, 8.0, 4.0
"""How high a row is with names and without, the gap between nodes, and the air above and below them."""

TELLING = ("scores", "expand", "each", "add")
"""The nodes of a stage that tell its sizes, the first that there is."""


def pick_node(chart: Chart) -> Node:
    """The node that tells the sizes of a stage; it stands for all its steps."""
    found = {node.key: node for node in chart.nodes}
    chosen = next((found[key] for key in TELLING if key in found), chart.nodes[-1])
    steps = {step.id: step for step in (*chosen.steps, *(step for node in chart.nodes for step in node.steps))}
    return replace(chosen, steps=tuple(steps.values()))


@dataclass(frozen=True)
class Row:
    """Where the nodes of a layer stand: from where to where, at which height, and at which station."""

    left: float
    right: float
    y: float
    station: int


def draw_row(
    canvas: Canvas,
    nodes: Sequence[tuple[str, Node]],
    look: Look,
    row: Row,
    *,
    is_low: bool = False,
    others: Sequence[tuple[str, ...]] = (),
) -> list[Box]:
    """The stages of one layer beside each other, each with the shape that tells most; `others` go with them."""
    width = (row.right - row.left - BETWEEN * (len(nodes) - 1)) / len(nodes)
    boxes: list[Box] = []
    for place, (label, node) in enumerate(nodes):
        if node.record is None:
            continue
        shape = look.shape(node.steps[0], node.record)
        number = fit_digits(canvas.measure, shape, width - 6, NOTE + 1 if is_low else DIGIT)
        own = tuple(look.identity(step) for step in node.steps)
        box = Box(
            id=look.identity(node.steps[0]),
            x=row.left + width / 2 + place * (width + BETWEEN),
            y=row.y,
            width=width,
            height=LOW if is_low else HIGH,
            lines=(number,) if is_low else (fit_op(canvas, label, "", width - 6), number),
            on=look.surface(node) if look.is_narrow else f"{look.own}_panel",
            kind=f"step {look.role} {look.own}",
            tooltip=look.tell(node.steps[:1]),
            steps=(*own, *(others[place] if place < len(others) else ())),
            record=node.record,
            station=row.station,
        )
        if boxes:
            canvas.line((boxes[-1].right, box.y), (box.left, box.y), role="casing", head_size=0.4)
        boxes.append(canvas.add(box))
    return boxes


def draw_row_frame(
    canvas: Canvas, own: str, layer: int, left: float, bottom: float, right: float, top: float, *, is_low: bool = False
) -> None:
    """The frame of a layer, with its number at the beginning."""
    canvas.panel(left, bottom, right, top, f"{own}_frame", 9, "casing", 1.4)
    line: Line = (Run(str(layer + 1), LABEL, "text", "bold"),)
    if not is_low:
        line = (Run("LAYER ", NOTE, "quiet", "semibold"), *line)
    note = canvas.note(
        left + (6 if is_low else PANEL_PAD + 2), (top + bottom) / 2 + LABEL * 0.56, (line,), f"{own}_frame"
    )
    canvas.boxes[-1] = replace(note, id=f"layer_name_{own}_{layer}")
