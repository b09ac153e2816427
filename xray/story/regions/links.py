"""Ribbons and turns between columns that stand beside each other with nothing but an aisle between them."""

from collections.abc import Sequence

from xray.story.anatomy.tree import Link
from xray.story.canvas import Canvas, words
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing
from xray.story.type_sizes import LABEL


def draw_turns(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], aisle: float) -> None:
    """The stream's way from the top of one column of a tower to the foot of the next."""
    for number, column in enumerate(columns):
        if column.is_first:
            continue
        last, first = standing[number - 1].drawn.last, standing[number].drawn.first
        roof, lane = standing[number - 1].drawn.top + 34, standing[number].left - aisle / 2
        floor = first.bottom - 40
        way = (
            (last.x, last.top),
            (last.x, roof),
            (lane, roof),
            (lane, floor),
            (first.x, floor),
            (first.x, first.bottom),
        )
        canvas.line(*way, role="boundary", width=3, radius=14)


def draw_links(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link], aisle: float
) -> float:
    """Ribbons from where one tower ends to where another one takes it up; gives how high they go."""
    highest = 0.0
    places = {column.name: number for number, column in enumerate(columns) if column.is_last}
    begins = {column.name: number for number, column in enumerate(columns) if column.is_first}
    for link in links:
        source, target = places.get(link.source), begins.get(link.target)
        if source is None or target is None or source == target:
            continue
        start = standing[source].ends(columns[source])[0]
        lane = standing[target].left - aisle * 0.42 - 6 * source
        roof = max(start.top + 24, standing[source].drawn.top + 40)
        highest = max(highest, roof)
        rows = standing[target].drawn.memory[0] if link.kind == "memory" else ()
        feet = [(box.x, box.bottom) for row in rows for box in row]
        entrances, entrance = standing[target].entrances, columns[target].entrance
        if link.kind == "joined" and entrances and entrance is not None:
            boxes = [entrances[0].boxes[key] for key in entrance.memory or (entrance.head,)]
            feet = [(box.left, box.y) for box in boxes]
        for number, row in enumerate(rows or ([],)):
            aims = [(box.x, box.bottom) for box in row] if rows else feet
            if not aims:
                continue
            level = min(y for _, y in aims) - 15 if rows else aims[0][1]
            for x, y in aims:
                way = [(start.x, start.top), (start.x, roof), (lane, roof), (lane, level)]
                way += [(x, level), (x, y)] if rows else [(x, y)]
                canvas.line(*way, role="casing", width=8.5, radius=16, head=False, kind="ribbon")
                canvas.line(*way, role="ribbon", width=5.5, radius=16, head_size=0.5, kind="ribbon")
            if number == 0:
                name = "MEMORY" if link.kind == "memory" else f"FROM THE {link.source.upper()} TOWER"
                canvas.note(start.x + 14, roof - 8, (words(name, LABEL, "text", "bold"),))
    return highest
