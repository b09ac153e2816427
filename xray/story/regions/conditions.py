"""The way of a condition: from beside the entrance up along the frames, into all that it scales, shifts and gates."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Chart
from xray.story.layout import Box, Point
from xray.story.sheet.columns import Column
from xray.story.sheet.frames import Drawn
from xray.story.sheet.panels import Lane
from xray.story.sheet.placing import Placed
from xray.story.type_sizes import LABEL, PANEL_PAD

BESIDE, LIFT = 4.0, 13.0
LEFT_SHARE, RIGHT_SHARE = (0.27, 0.6), 0.58
"""How the boxes of an entrance are moved where a condition stands beside it, and where that begins."""


def draw_condition(
    canvas: Canvas,
    column: Column,
    placed: Placed | None,
    entrance: Placed | None,
    drawn: Drawn,
    leaving: Placed | None,
) -> None:
    """A line from the head of a condition along the right side of the charts, and a branch of it to each reader.

    Where a tower goes on in another column, it comes from below. What it takes of the tower's entrance is led there.
    """
    chart = column.condition
    if placed is not None and chart is not None:
        lowest = min(placed.boxes.values(), key=lambda box: box.bottom)
        taken = list_taken(column, placed, entrance)
        name = "ROWS BESIDE" if taken and not column.towering.tower.conditions else "CONDITION"
        name = "LOOKED AT" if column.towering.tower.looked_at else name
        canvas.note(lowest.x, lowest.bottom - 8, (words(name, LABEL, "text", "bold"),), align="center")
        for below, above in taken:
            lane = min(box.left for box in placed.boxes.values()) - LIFT / 2
            start = (below.right, below.y), (lane, below.y)
            across: tuple[Point, ...] = (*start, (lane, above.y), (above.left, above.y))
            if any(abs(box.y - above.y) < 1 and box.left < above.left for box in placed.boxes.values()):
                knee = above.bottom - BESIDE
                across = (*start, (lane, knee), (above.x, knee), (above.x, above.bottom))
            canvas.line(*across, role=column.look.own, width=1.2, radius=5)
    elif column.is_first:
        return
    readers = sorted(list_readers(column, drawn, leaving), key=lambda box: box.y)
    if not readers:
        return
    x = pass_beside(column, drawn.first.x)
    way: tuple[Point, ...] = ((x, readers[-1].y), (readers[-1].right, readers[-1].y))
    if placed is not None and chart is not None:
        head = placed.boxes[chart.head]
        way = ((head.x, head.top), (head.x, head.top + LIFT), (x, head.top + LIFT), *way)
    else:
        boxes = (box for _, below in drawn.bridges for box in below.boxes.values())
        floor = min([drawn.shown[0].bottom - PANEL_PAD, *(box.bottom for box in boxes)]) - LIFT
        name = "LOOKED AT" if column.towering.tower.looked_at else "CONDITION"
        canvas.note(x, floor - 2, (words(name, LABEL, "text", "bold"),), align="center")
        way = ((x, floor), *way)
    ways = [way, *(((x, box.y), (box.right, box.y)) for box in readers[:-1])]
    for points in ways:
        canvas.line(*points, role="casing", width=4.8, radius=8, head=False, kind="casing")
    for points in ways:
        canvas.line(*points, role="condition", width=2.4, radius=8, head_size=0.6, kind="condition")


def pass_beside(column: Column, centre: float) -> float:
    """Where a condition goes up beside the charts of a column."""
    return centre + column.detail / 2 + BESIDE


def list_taken(column: Column, placed: Placed, entrance: Placed | None) -> list[tuple[Box, Box]]:
    """The boxes of a tower's entrance whose rows a condition is worked out of, each with the box that reads it."""
    if column.condition is None or column.entrance is None or entrance is None:
        return []
    flow = column.reading.flow
    made = {flow.places.get(step.id): entrance.boxes[node.key] for node in column.entrance.nodes for step in node.steps}
    found: dict[tuple[str, str], tuple[Box, Box]] = {}
    for node in column.condition.nodes:
        own = {flow.places[step.id] for step in node.steps if step.id in flow.places}
        makers = {maker for place in own for maker in flow.makers[place] if maker not in own}
        for below in filter(None, (made.get(flow.carried_from(maker)) for maker in makers)):
            found.setdefault((below.id, node.key), (below, placed.boxes[node.key]))
    return list(found.values())


def make_room(chart: Chart) -> Chart:
    """The chart of an entrance, its boxes moved to the left."""
    centre, share = LEFT_SHARE
    nodes = (
        replace(node, place=(centre + (node.place[0] - 0.5) * share, node.place[1] * share)) for node in chart.nodes
    )
    return replace(chart, nodes=tuple(nodes))


def lane_beside(column: Column, lane: Lane, left: float) -> Lane:
    """Where a condition stands: right of the entrance, as far as the frames reach."""
    start = lane.left + lane.width * RIGHT_SHARE
    return Lane(start, left + column.width - PANEL_PAD - start, lane.look)


def list_readers(column: Column, drawn: Drawn, leaving: Placed | None) -> Iterator[Box]:
    """The boxes in which the condition scales, shifts or gates, closed ones and those between two frames among them."""
    condition = column.towering.condition
    if condition is None:
        return
    steps = {column.reading.flow.steps[place].id for place in condition.readers}
    for shown in drawn.shown:
        panel, placed = shown.panels[0], shown.placed[0]
        if panel.is_open:
            yield from pick_boxes(panel.chart, placed, steps)
        elif not panel.staging.nodes.isdisjoint(condition.readers):
            yield from placed.boxes.values()
    for bridge, placed in drawn.bridges:
        yield from pick_boxes(bridge, placed, steps)
    final, flow = column.towering.final, column.reading.flow
    is_read = final is not None and any(final.end in flow.makers[place] for place in condition.readers)
    if column.exit is None or leaving is None:
        return
    if final is not None and is_read:
        yield from pick_boxes(column.exit, leaving, {flow.steps[final.end].id} if column.remarks else ())
    else:
        own = {step.id: flow.places[step.id] for node in column.exit.nodes for step in node.steps}
        read = (one for one, place in own.items() if reads(flow, place, condition.nodes))
        yield from pick_boxes(column.exit, leaving, set(read))


def reads(flow: Flow, place: int, nodes: Collection[int]) -> bool:
    """Whether a step reads what some have made, be it moved since."""
    return any(flow.carried_from(maker) in nodes for maker in flow.makers[place])


def pick_boxes(chart: Chart, placed: Placed, steps: Collection[str]) -> Iterator[Box]:
    """The boxes of a chart that stand for any of some steps."""
    for node in chart.nodes:
        if node.key in placed.boxes and any(step.id in steps for step in node.steps):
            yield placed.boxes[node.key]
