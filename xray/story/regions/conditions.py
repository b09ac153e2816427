"""The way of a condition: from beside the entrance up along the frames, into all that it scales, shifts and gates."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Chart
from xray.story.charts.condition_chart import INPUT
from xray.story.layout import Box, Measure, Point, line_width
from xray.story.passages.modulation import list_modulation
from xray.story.shapes import digits
from xray.story.sheet.canvas.lines import break_label, op_line
from xray.story.sheet.canvas.placing import Placed
from xray.story.sheet.canvas.routing import is_free
from xray.story.sheet.columns import WIDE_DETAIL, Column
from xray.story.sheet.frames import Drawn
from xray.story.sheet.panels import Lane
from xray.story.type_sizes import LABEL, PANEL_PAD, SYMBOL

BESIDE, LIFT, RADIUS = 4.0, 13.0, 8.0
ASIDE = 2 * RADIUS
"""So far from a box's side, or from where it goes up in the end, a line turns: its bends have room there."""
APART, ROOM = 9.6, 9.0
"""So far apart lines from several boxes of a condition go up beside the charts, and what all have there at least."""
TIP, IN_TIP = 8.0, 5.0
"""How much of a line's end is straight, and how much of that its casing leaves to the head."""
WIDER = 8.0
"""By so much a condition is made wider until its boxes have room for their names."""

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
    """Lines from the boxes of a condition along the right side of the charts, and a branch to each of their readers.

    Where a tower goes on in another column, one comes from below. What it takes of the tower's entrance is led there.
    """
    chart = column.condition
    if placed is not None and chart is not None:
        lowest = min(placed.boxes.values(), key=lambda box: box.bottom)
        taken = list_taken(column, placed, entrance)
        name = "ROWS BESIDE" if taken and not column.towering.tower.conditions else "CONDITION"
        name = "LOOKED AT" if column.towering.tower.looked_at else name
        canvas.note(
            find_middle(placed.boxes.values()), lowest.bottom - 8, (words(name, LABEL, "text", "bold"),), align="center"
        )
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
    readers = list(list_readers(column, drawn, leaving))
    if placed is None or chart is None:
        draw_from_below(canvas, column, drawn, [box for box, places in readers if has_drawn_like(column, places)])
        return
    fed: dict[str, list[Box]] = {}
    for box, places in readers:
        for key in find_sources(column, chart, places):
            fed.setdefault(key, []).append(box)
    others = [*placed.boxes.values()]
    keys = sorted(fed, key=lambda key: leave(placed.boxes[key], others)[-1][0])
    x, apart = pass_beside(column, drawn.first.x), min(APART, max(ROOM, column.passing) / max(1, len(keys) - 1))
    lanes = [x + apart * number for number in range(len(keys))]
    ways = [leave(placed.boxes[key], others, lane) for key, lane in zip(keys, lanes, strict=True)]
    sides = [(way[-1][0] < lane) - (way[-1][0] > lane) for way, lane in zip(ways, lanes, strict=True)]
    for number, (key, lane, way) in enumerate(zip(keys, lanes, ways, strict=True)):
        side = sides[number]  # none of them crosses another before it branches
        over = sides[number + 1 :].count(1) if side > 0 else sides[:number].count(-1)
        turn = way[-1][1] + LIFT + apart * over
        aside = ((way[-1][0], turn), (lane, turn)) if side else ()
        draw_branches(canvas, (*way[:-1], *aside), fed[key])


def has_drawn_like(column: Column, places: Collection[int]) -> bool:
    """Whether boxes of a condition stand for all that works out what some steps of a later layer read of it."""
    flow, condition = column.reading.flow, column.towering.condition
    if condition is None:
        return False
    read = (maker for place in places for maker in flow.makers[place])
    return condition.untold.isdisjoint({*flow.behind(*read, within=condition.nodes.__contains__)} - condition.first)


def draw_from_below(canvas: Canvas, column: Column, drawn: Drawn, readers: Sequence[Box]) -> None:
    """A line from under the frames of a tower that goes on in another column, and a branch of it to each reader."""
    if not readers:
        return
    x = pass_beside(column, drawn.first.x)
    boxes = (box for _, below in drawn.bridges for box in below.boxes.values())
    floor = min([drawn.shown[0].bottom - PANEL_PAD, *(box.bottom for box in boxes)]) - LIFT
    name = "LOOKED AT" if column.towering.tower.looked_at else "CONDITION"
    canvas.note(x, floor - 2, (words(name, LABEL, "text", "bold"),), align="center")
    draw_branches(canvas, ((x, floor),), readers)


def draw_branches(canvas: Canvas, start: tuple[Point, ...], readers: Sequence[Box]) -> None:
    """A line that begins so, goes up and branches to each reader; it stands out from those that it crosses."""
    (x, _), ordered = start[-1], sorted(readers, key=lambda box: -box.y)
    ways = [(*start, (x, ordered[0].y), (ordered[0].right, ordered[0].y))]
    ways += [((x, box.y), (box.right, box.y)) for box in ordered[1:]]
    for points in ways:
        end, tip = (points[-1][0] + IN_TIP, points[-1][1]), TIP - IN_TIP
        canvas.line(*points[:-1], end, role="casing", width=4.8, radius=RADIUS, head=False, kind="casing", tip=tip)
    for points in ways:
        canvas.line(*points, role="condition", width=2.4, radius=RADIUS, head_size=0.6, kind="condition", tip=TIP)


def leave(box: Box, others: Sequence[Box], lane: float | None = None) -> tuple[Point, ...]:
    """The way out of a box of a condition up to the roof of its chart: straight, or right of all boxes, or left of.

    Where it would turn aside to a `lane` that is near, it goes up there if it can.
    """
    roof, above = max(one.top for one in others), [one for one in others if one.y > box.y + 1]
    if is_free(box.x, above):
        near = lane is not None and abs(box.x - lane) < ASIDE and abs(box.x - lane) < box.width / 2 - RADIUS
        x = lane if lane is not None and near and is_free(lane, above) else box.x
        return (x, box.top), (x, roof)
    beside = [one for one in others if abs(one.y - box.y) < 1]
    if any(one.left > box.x for one in beside):
        side = min(one.left for one in others) - ASIDE
        return (box.left, box.y), (side, box.y), (side, roof)
    side = max(one.right for one in others) + ASIDE
    if lane is not None and abs(side - lane) < ASIDE and lane > box.right + RADIUS and is_free(lane, [*above, *beside]):
        side = lane
    return (box.right, box.y), (side, box.y), (side, roof)


def find_middle(boxes: Collection[Box]) -> float:
    """Half way between the sides of a chart."""
    return (min(box.left for box in boxes) + max(box.right for box in boxes)) / 2


def find_sources(column: Column, chart: Chart, places: Collection[int]) -> list[str]:
    """The boxes of a condition's chart that make what some steps read, with no other of its boxes between."""
    flow, condition = column.reading.flow, column.towering.condition
    boxes = [node for node in chart.nodes if not node.key.endswith(INPUT)]
    own = {flow.places[step.id]: node.key for node in boxes for step in node.steps if step.id in flow.places}
    nodes = frozenset[int]() if condition is None else condition.nodes
    read = (maker for place in places for maker in flow.makers[place])
    met = flow.behind(*read, within=nodes.__contains__, ends=own.__contains__)
    return list(dict.fromkeys(own[one] for one in met if one in own))


def pass_beside(column: Column, centre: float) -> float:
    """Where a condition goes up beside the charts of a column."""
    return centre + column.detail / 2 + BESIDE


def list_passing(column: Column, centre: float) -> tuple[float, float] | None:
    """Where the first line of a condition goes up beside the charts of a column, and where the last one may."""
    x = pass_beside(column, centre)
    return None if column.towering.condition is None else (x, x + column.passing)


def widen(measure: Measure, column: Column) -> Column:
    """The column with room for the lines of its condition beside each other, and in boxes for names and for sizes."""
    chart = column.condition
    if chart is None:
        return column
    column = replace(column, passing=APART * max(0, count_lines(column, chart) - 1))
    canvas = Canvas(measure, is_trial=True)
    while column.detail < WIDE_DETAIL:
        lane = column.lanes(0)[0]
        if has_room(canvas, chart, lane_beside(column, lane, 0).width) and shows_sizes(canvas, column, lane):
            break
        column = replace(column, detail=min(WIDE_DETAIL, column.detail + WIDER))
    return column


def shows_sizes(canvas: Canvas, column: Column, lane: Lane) -> bool:
    """Whether no box of an entrance beside a condition is so narrow that the sizes in it stand out of it."""
    nodes = () if column.entrance is None else make_room(column.entrance).nodes
    shapes = ((node, column.look.shape(node.steps[0], node.record)) for node in nodes if node.record and node.steps)
    return all(line_width(digits(one, SYMBOL), canvas.measure) <= node.place[1] * lane.width for node, one in shapes)


def has_room(canvas: Canvas, chart: Chart, width: float) -> bool:
    """Whether no box of a chart is so narrow that its name is cut."""
    pieces = ((node, break_label(canvas, node, node.place[1] * width)) for node in chart.nodes if node.form == "box")
    return all(
        " ".join(broken) == node.label
        and all(line_width(op_line(one, size=SYMBOL), canvas.measure) <= node.place[1] * width - 8 for one in broken)
        for node, broken in pieces
    )


def count_lines(column: Column, chart: Chart) -> int:
    """From how many boxes of a condition lines lead to what its tower's charts draw."""
    condition, flow = column.towering.condition, column.reading.flow
    if condition is None:
        return 0
    panels = [panel for frame in column.frames if not frame.is_compact for panel in frame.panels]
    charts = [panel.chart for panel in panels if panel.is_open]
    charts += [frame.bridge for frame in column.frames if frame.bridge is not None]
    shown = {step.id for one in charts for node in one.nodes for step in node.steps}
    places = {flow.places[one] for one in shown & flow.places.keys()}
    places = places.union(*(panel.staging.nodes for panel in panels if not panel.is_open)) & condition.readers
    leaving = () if column.exit is None else column.exit.nodes
    places |= {flow.places[step.id] for node in leaving for step in node.steps if step.id in flow.places}
    return len(find_sources(column, chart, places))


def list_taken(column: Column, placed: Placed, entrance: Placed | None) -> list[tuple[Box, Box]]:
    """The boxes of a tower's entrance whose rows a condition is worked out of, each with the box that reads it."""
    if column.condition is None or column.entrance is None or entrance is None:
        return []
    flow = column.reading.flow
    nodes = [node for node in column.entrance.nodes if not node.key.startswith(("given", "also"))]
    made = {flow.places.get(step.id): entrance.boxes[node.key] for node in nodes for step in node.steps}
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


def list_readers(column: Column, drawn: Drawn, leaving: Placed | None) -> Iterator[tuple[Box, list[int]]]:
    """The boxes in which the condition scales, shifts or gates, each with the steps that do so.

    Closed ones and those between two frames are among them.
    """
    condition, flow = column.towering.condition, column.reading.flow
    if condition is None:
        return
    for shown in drawn.shown:
        panel, placed = shown.panels[0], shown.placed[0]
        if panel.is_open:
            yield from pick_boxes(flow, panel.chart, placed, condition.readers)
        elif inner := sorted(condition.readers & panel.staging.nodes):
            yield from ((box, inner) for box in placed.boxes.values())
    for bridge, placed in drawn.bridges:
        yield from pick_boxes(flow, bridge, placed, condition.readers)
    final = column.towering.final
    if column.exit is None or leaving is None:
        return
    if final is not None and any(final.end in flow.makers[place] for place in condition.readers):
        own = [*list_modulation(flow, final)]
        ends = pick_boxes(flow, column.exit, leaving, {final.end} if column.remarks else ())
        yield from ((box, own) for box, _ in ends)
    else:
        steps = {flow.places[step.id] for node in column.exit.nodes for step in node.steps if step.id in flow.places}
        read = {place for place in steps if reads(flow, place, condition.nodes)}
        yield from pick_boxes(flow, column.exit, leaving, read)


def reads(flow: Flow, place: int, nodes: Collection[int]) -> bool:
    """Whether a step reads what some have made, be it moved since."""
    return any(flow.carried_from(maker) in nodes for maker in flow.makers[place])


def pick_boxes(flow: Flow, chart: Chart, placed: Placed, places: Collection[int]) -> Iterator[tuple[Box, list[int]]]:
    """The boxes of a chart that stand for any of some steps, each with these."""
    for node in chart.nodes:
        own = [flow.places[step.id] for step in node.steps if flow.places.get(step.id) in places]
        if node.key in placed.boxes and own:
            yield placed.boxes[node.key], own
