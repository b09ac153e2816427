"""Layers that are drawn in full elsewhere as rows, each with its own shapes: one for each, or two side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.story.canvas import Canvas
from xray.story.charts.chart import Chart, Node
from xray.story.charts.stage_names import name_stage
from xray.story.layout import Box, Line, Run
from xray.story.sheet.canvas.lines import fit_digits, fit_op
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.panels import Lane
from xray.story.sheet.planning import Frame, Panel
from xray.story.type_sizes import DIGIT, LABEL, NOTE, PANEL_PAD

HIGH, LOW, BETWEEN, PAD = 36.0, 17.0, 8.0, 4.0
"""How high a row is with names and without, the gap between nodes, and the air above and below them."""

TELLING = ("scores", "expand", "each", "add")
"""The nodes of a stage that tell its sizes, the first that there is."""


def draw_compact(
    canvas: Canvas,
    frames: Sequence[Frame],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    lasts: Sequence[Box],
) -> tuple[float, list[Box]]:
    """A layer as a row in every lane; gives how high it reaches and the boxes that are left last."""
    bottom, layer = floor + 8, frames[0].group.layers[0]
    top = bottom + 2 * PAD + HIGH
    draw_row_frame(canvas, lanes[0].look.own, layer, left, bottom, left + width, top)
    found: list[Box] = []
    for one, lane, last in zip(frames, lanes, lasts, strict=True):
        look, end = lane.look, one.panels[-1].chart.nodes[-1]
        role = look.phase if look.is_narrow else "boundary"
        way = ((lane.centre, last.top), (lane.centre, bottom - 1))
        canvas.line(*way, role=role, width=2, dashed=look.is_narrow, head_size=0.5)
        nodes = [(name_sizes(panel), pick_node(panel.chart)) for panel in one.panels]
        nodes = [(f"LAYER {layer + 1}", end)] if look.is_narrow else nodes
        start = lane.left if look.is_narrow else left + 66
        row = Row(start, lane.left + lane.width, bottom + PAD + HIGH / 2, one.panels[0].station)
        boxes = draw_row(canvas, nodes, look, row)
        whole = replace(boxes[-1], x=lane.centre, height=top - bottom, y=(top + bottom) / 2, record=end.record)
        found.append(replace(whole, steps=tuple(map(look.identity, end.steps))))
    return top, found


def draw_pair(
    canvas: Canvas,
    pair: Sequence[Sequence[Frame]],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    lasts: Sequence[Box],
) -> tuple[float, list[Box]]:
    """One or two layers side by side in a low row, their shapes alone; what other phases did there goes with them."""
    bottom, look = floor + 4, lanes[0].look
    top = bottom + 2 * (PAD - 1) + LOW
    half = (width - 10) / 2
    canvas.line((lasts[0].x, lasts[0].top), (lasts[0].x, bottom - 1), role="boundary", width=2, head_size=0.4)
    for number, frames in enumerate(pair):
        start, layer = left + number * (half + 10), frames[0].group.layers[0]
        draw_row_frame(canvas, look.own, layer, start, bottom, start + half, top, is_low=True)
        if number:
            canvas.line((start - 10, (top + bottom) / 2), (start, (top + bottom) / 2), role="boundary", head_size=0.4)
        nodes = [("", pick_node(panel.chart)) for panel in frames[0].panels]
        others = [
            tuple(lane.look.identity(step) for step in pick_node(panel.chart).steps)
            for frame, lane in zip(frames[1:], lanes[1:], strict=True)
            for panel in frame.panels
        ]
        row = Row(start + 26, start + half - 5, bottom + PAD - 1 + LOW / 2, frames[0].panels[0].station)
        draw_row(canvas, nodes, look, row, is_low=True, others=others)
    found = []
    for number, (lane, last) in enumerate(zip(lanes, lasts, strict=True)):
        end = pair[-1][number].panels[-1].chart.nodes[-1]
        steps = tuple(map(lane.look.identity, end.steps))
        found.append(replace(last, y=(top + bottom) / 2, height=top - bottom, record=end.record, steps=steps))
    return top, found


def name_sizes(panel: Panel) -> str:
    """What the shape is of that a row tells of a stage."""
    key = pick_node(panel.chart).key
    if key == "scores":
        return "CROSS SCORES" if panel.chart.memory else "SCORES"
    return "WIDEST" if key == "expand" else name_stage(panel.staging)


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
