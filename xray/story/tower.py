"""Layers that stand apart: a small tower for each side, a frame for every group of layers, memory reaching all of them.

The large frames show one layer in full; a poster of which each layer stood in full would be too small to read.
"""

from collections.abc import Sequence
from dataclasses import replace

from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.layout import Box, Line, Run, block_height
from xray.story.plan import LABEL, NOTE
from xray.story.tower_fit import (
    AISLE,
    BETWEEN,
    COLUMNS,
    DENSITIES,
    PAD,
    Storey,
    Towers,
    build_towers,
    fit_towers,
    layer_path,
    tower_width,
)
from xray.story.wording import wrap

TITLE, HEADS, MOST_UNLIKE, SMALLEST_ARROW = 30.0, 22.0, 3, 8.0
"""How high the title and the columns' headings are, how many differences are told, and the gap an arrow needs."""


def need_towers(columns: Sequence[Column]) -> bool:
    """Whether there are layers that the large frames do not stand for."""
    return any(len(column.groups) > 1 for column in columns)


def wanted_height(canvas: Canvas, columns: Sequence[Column], width: float) -> float:
    """How high the card would like to be."""
    towers = build_towers(canvas, columns, width, DENSITIES[0])
    return towers.height + TITLE + HEADS + 14 * len(unlike_lines(canvas, columns, width)) + PAD


def draw_towers(
    canvas: Canvas, columns: Sequence[Column], left: float, top: float, width: float, bottom: float
) -> float:
    """The card with both towers, as roomy as it fits above `bottom`; gives the height that is left below it."""
    remarks = unlike_lines(canvas, columns, width)
    room = top - bottom - TITLE - HEADS - 14 * len(remarks) - PAD
    towers = fit_towers(canvas, columns, width, room)
    every = all(len(storey.group.layers) == 1 for side in towers.sides for storey in side)
    apart = any(group.unlike for column in columns for group in column.groups)
    title = "EVERY LAYER" if every else "LAYERS THAT ARE NOT ALIKE, APART" if apart else "LAYERS, ALIKE ONES TOGETHER"
    more = f"; {towers.left_out} more in the tables" if towers.left_out else ""
    start = len(canvas.panels)
    heading = (Run(title, LABEL - 1, "text", "bold"), Run(f"   from the bottom up{more}", NOTE, "quiet"))
    canvas.note(left + PAD, top - 9, (heading,), "card")
    y = top - TITLE
    for line in remarks:
        y = canvas.note(left + PAD, y, (line,), "card").bottom - 1
    foot = y - towers.height - HEADS
    floor = foot + HEADS
    x = left + PAD
    ends = []
    for storeys in towers.sides:
        draw_heads(canvas, towers, storeys, x, foot)
        ends.append(draw_tower(canvas, towers, storeys, x, floor))
        x += tower_width(towers, storeys) + AISLE
    draw_memory(canvas, ends[0], ends[1], left + PAD + tower_width(towers, towers.sides[0]))
    canvas.panel(left, foot - 4, left + width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return foot - 4


def unlike_lines(canvas: Canvas, columns: Sequence[Column], width: float) -> list[Line]:
    """In what layers differ from those below them."""
    told = [
        f"{group.side} layer {group.first + 1} is not like layer {group.first}: {group.unlike}"
        for column in columns
        for group in column.groups
        if group.unlike
    ]
    if len(told) > MOST_UNLIKE:
        told = [*told[: MOST_UNLIKE - 1], f"and {len(told) - MOST_UNLIKE + 1} more are not like those below them"]
    return [
        words(wrap(text, NOTE, width - 2 * PAD, canvas.measure, 1)[0], NOTE, "accent:warning", "regular")
        for text in told
    ]


def draw_heads(canvas: Canvas, towers: Towers, storeys: Sequence[Storey], left: float, foot: float) -> None:
    """What the columns show, under the lowest frame."""
    side = storeys[0].column.side
    canvas.note(left + 4, foot + 15, (words(side.upper(), NOTE, f"accent:{side}", "bold"),), "card")
    for place, (title, _, _) in enumerate(COLUMNS[side]):
        x = left + towers.label + towers.cell * (place + 0.5)
        canvas.note(x, foot + 15, (words(title, NOTE, "quiet", "semibold"),), "card", "center")


def draw_tower(
    canvas: Canvas, towers: Towers, storeys: Sequence[Storey], left: float, bottom: float
) -> list[tuple[float, float]]:
    """The frames of one side, one above the other; gives the bottom and top of each."""
    right = left + tower_width(towers, storeys)
    y = bottom
    edges: list[tuple[float, float]] = []
    for place, storey in enumerate(storeys):
        side, high = storey.column.side, storey.height
        canvas.panel(left, y, right, y + high, f"{side}_frame", 9, "casing", 1.4)
        lines = storey.label
        name = canvas.note(
            left + towers.label / 2, y + (high + block_height(lines)) / 2, lines, f"{side}_frame", "center"
        )
        canvas.boxes[-1] = replace(name, id=f"layer_name_{side}_{storey.group.first}")
        for number, cell in enumerate(storey.cells):
            draw_cell(canvas, towers, storey, number, cell, left, y + high / 2)
        if place and towers.gap >= SMALLEST_ARROW:
            middle = (left + right) / 2
            canvas.line(
                (middle, edges[-1][1] + 1), (middle, y - 1), role="boundary", width=2, head_size=0.5, kind="tower"
            )
        edges.append((y, y + high))
        y += high + towers.gap
    return edges


def draw_cell(
    canvas: Canvas, towers: Towers, storey: Storey, number: int, lines: tuple[Line, ...], left: float, y: float
) -> None:
    """One shape of one group, standing for all steps of its sublayer."""
    column, group = storey.column, storey.group
    _, part, whole = COLUMNS[column.side][number]
    stood_for = [
        step
        for step in column.main.first.steps
        if step.layer in group.layers and step.path.startswith(f"{column.side}.layers.{step.layer}.{whole}")
    ]
    journeys = [column.main, *([column.brief] if column.brief is not None else [])]
    shown = [] if group.first == column.main.layers[0] else stood_for
    told = [step.path for step in shown if step.layer == group.first and step.id not in column.main.first.blocks]
    tips = [journey.tell(path) for path in told or [layer_path(group, part)] for journey in journeys]
    identity = column.main.identity(layer_path(group, part))
    canvas.add(
        Box(
            f"tower/{identity}" if group.first == column.main.layers[0] else identity,
            left + towers.label + towers.cell * (number + 0.5),
            y,
            towers.cell - BETWEEN,
            storey.height - min(10, 0.75 * storey.density.air),
            lines,
            f"{column.side}_panel",
            kind=f"step {column.main.phase} {column.side}",
            tooltip="\n".join(tip for tip in tips if tip),
            steps=tuple(journey.identities(step.path)[0] for step in stood_for for journey in journeys),
        )
    )


def draw_memory(
    canvas: Canvas, encoder: Sequence[tuple[float, float]], decoder: Sequence[tuple[float, float]], left: float
) -> None:
    """Keys and values from the top of the encoder into every layer of the decoder."""
    x, top = left + AISLE * 0.45, encoder[-1][1] + 8
    feet = [(low + high) / 2 for low, high in decoder]
    start = left - 40
    for role, width in (("casing", 5.5), ("ribbon", 3.2)):
        path = ((start, encoder[-1][1] + 1), (start, top), (x, top), (x, feet[0]), (left + AISLE - 7, feet[0]))
        canvas.line(*path, role=role, width=width, head=False, radius=7, kind="ribbon")
        for y in feet[1:]:
            canvas.line((x, min(y, top)), (x, y), (left + AISLE - 7, y), role=role, width=width, head=False, radius=7)
    for y in feet:
        canvas.line(
            (left + AISLE - 9, y), (left + AISLE - 1, y), role="ribbon", width=2.4, head_size=0.7, kind="ribbon"
        )
