"""Ribbons and turns between columns that stand beside each other with nothing but an aisle between them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from operator import attrgetter

from xray.story.anatomy.tree import Link
from xray.story.canvas import Canvas, between, distance, words
from xray.story.exits.meeting_chart import find_compared, find_meeting, key_meeting
from xray.story.layout import Box, Point
from xray.story.regions.ribbons.names import BESIDE_RIBBON, UNDER, Name, is_top, name_once, name_way, roof_over
from xray.story.regions.ribbons.sources import is_end
from xray.story.regions.ribbons.ways import Way, list_ways
from xray.story.sheet.canvas.routing import CLEAR, choose_way, runs_along
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing
from xray.story.type_sizes import MARGIN, PANEL_PAD

APART, MOST_BESIDE, OVER = 7.0, 4, 24.0
"""How far ribbons run from each other, how many so, and how far above what they pass."""
TIP, IN_TIP = 12.0, 8.0
"""How long the head of a ribbon is, and how much of that is wide enough to hide the end of the casing."""
LEAVING = 33.0
"""How high above the last frame a ribbon turns aside that leaves it there."""
LITTLE, ROUND = 6.0, 16.0
"""So far below its roof a ribbon may go aside under which its name stands, and how round its bends are."""
BESIDE_SKIP = 0.3
"""By which part of its height a ribbon leaves a box higher than where the stream's way past it comes in, or another, or
the line of a condition."""


def draw_turns(
    canvas: Canvas,
    columns: Sequence[Column],
    standing: Sequence[Standing],
    aisle: float,
    ribbons: Sequence[Sequence[Point]] = (),
) -> None:
    """The stream's way from the top of one column of a tower to the foot of the next, beside `ribbons` in the aisle."""
    lanes = [x for way in ribbons for (x, _), (after, _) in pairwise(way) if x == after]
    for number, column in enumerate(columns):
        if column.is_first:
            continue
        last, first = standing[number - 1].drawn.last, standing[number].drawn.first
        roof, lane = standing[number - 1].drawn.top + 34, choose_lane(standing[number].left, aisle, lanes)
        floor = min([first.bottom - 40, *(one.bottom - 2 * PANEL_PAD for one in standing[number].drawn.shown[:1])])
        way = (
            (last.x, last.top),
            (last.x, roof),
            (lane, roof),
            (lane, floor),
            (first.x, floor),
            (first.x, first.bottom),
        )
        canvas.line(*way, role="boundary", width=3, radius=14)
        drawn = standing[number].drawn
        turn = replace(first, y=floor - CLEAR, width=0.0, height=0.0)
        others = [box for _, placed in drawn.bridges for box in placed.boxes.values()]
        for box in drawn.besides:
            to = ((first.x - 20, floor), (box.x, floor), (box.x, box.bottom))
            around = () if box.bottom == first.bottom else choose_way(turn, box, others, ())[1:]
            canvas.line(*(around or to), role="boundary", width=3, radius=14)


def choose_lane(right: float, aisle: float, lanes: Sequence[float]) -> float:
    """Where a line goes up an aisle: as near to the middle as it keeps clear of ribbons."""
    asides = sorted(range(-int(aisle / 4), int(aisle / 4) + 1), key=abs)
    tried = [right - aisle / 2 + aside for aside in asides]
    return next((x for x in tried if all(abs(x - lane) >= BESIDE_RIBBON for lane in lanes)), right - aisle / 2)


def draw_links(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link], aisle: float
) -> float:
    """Turns, and ribbons from boxes that made something to those of another tower that read it; gives how high."""
    ways = list_ways(columns, standing, links)
    routes = route_ways(columns, standing, ways, aisle)
    draw_turns(canvas, columns, standing, aisle, [ribbon for route in routes for ribbon in route])
    for route in routes:
        draw_route(canvas, route)
    named: dict[Name, tuple[int, float]] = {}
    beside = leave_out_ends(columns, links, ways)
    for way in (one for one in ways if not is_told_above(columns, standing, one, ways)):
        alike = [(one, route) for one, route in zip(ways, routes, strict=True) if is_alike(one, way)]
        aside = (x for _, route in alike for ribbon in route for x, _ in ribbon if x > way.source.box.right)
        lane = min(aside, default=inf)
        roof = min((ribbon[1][1] for _, route in alike for ribbon in route), default=inf)
        names = name_way(canvas, columns, standing, way, [one for one, _ in alike], beside, lane, roof)
        named |= dict.fromkeys(names, (way.source.column, lane))
    for x, y, told, size, on in name_once(canvas, named):
        canvas.note(x, y, tuple(words(text, size, "text", "bold") for text in told), on)
    highest = max((y for route in routes for ribbon in route for _, y in ribbon), default=0.0)
    return max(highest, draw_meetings(canvas, columns, standing, links))


def leave_out_ends(columns: Sequence[Column], links: Sequence[Link], ways: Sequence[Way]) -> list[Link]:
    """The links without the last layer of a tower whose end has a way of its own to the same one (DeepSeek-VL)."""
    ends = {(columns[one.source.column].name, columns[one.target].name) for one in ways if one.source.layer is None}
    last = {column.name: column.towering.tower.layers - 1 for column in columns}
    return [
        replace(link, behind=tuple(one for one in link.behind if one != last.get(link.source)))
        if (link.source, link.target) in ends
        else link
        for link in links
    ]


def draw_meetings(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link]
) -> float:
    """Ribbons from what one tower gives to the box in which it is compared with another one's; gives how high."""
    highest = 0.0
    ends = {column.name: number for number, column in enumerate(columns) if column.is_last}
    for link in links:
        source, target = ends.get(link.source), ends.get(link.target)
        if link.kind != "compared" or source is None or target is None or source >= target:
            continue
        chart, given, taken = columns[source].exit, standing[source].exits[0], standing[target].exits[0]
        key = None if taken is None else find_meeting(taken.boxes, link.source)
        if chart is None or given is None or taken is None or key is None:
            continue
        if not leads_to(columns[source], columns[target], key, columns):
            continue
        start, box = given.boxes[find_compared(chart)], taken.boxes[key]
        met = sorted((one for key, one in taken.boxes.items() if key.startswith(key_meeting(""))), key=attrgetter("x"))
        over = OVER + 2 * APART * met.index(box)
        roof = max(start.top, box.top, *(one.top for one in standing[source + 1 : target])) + over
        way = [(start.x, start.top), (start.x, roof), (box.x, roof), (box.x, box.top)]
        draw_route(canvas, [way])
        highest = max(highest, roof)
    return highest


def leads_to(source: Column, target: Column, key: str, columns: Sequence[Column]) -> bool:
    """Whether what a tower ends with is compared itself, and not by what another tower made of it (OneFormer)."""
    flow = target.reading.flow
    if source.reading.flow is not flow or source.exit is None or target.exit is None:
        return True
    given, met = source.exit.node(find_compared(source.exit)), target.exit.node(key)
    sums = frozenset[int]().union(*(one.towering.sums for one in columns if one.reading.flow is flow))
    places = [{flow.places[step.id] for step in node.steps if step.id in flow.places} for node in (given, met)]
    return not places[0].isdisjoint(flow.behind(*places[1], ends=sums.__contains__))


def route_ways(
    columns: Sequence[Column], standing: Sequence[Standing], ways: Sequence[Way], aisle: float
) -> list[list[tuple[Point, ...]]]:
    """The corners of the ribbons of all ways, each beside those of ways from other boxes as far as there is room."""
    found: list[list[tuple[Point, ...]]] = []
    taken: dict[tuple[int, int], float] = {}
    for number, way in enumerate(ways):
        routed, ends = zip(ways, found, strict=False), (way.source.column, way.target)
        others = [ribbon for one, route in routed if one.source.key != way.source.key for ribbon in route]
        shifts = [APART * ((number + more) % MOST_BESIDE) for more in range(MOST_BESIDE)]
        if way.is_kept and ends in taken:  # values go along with their keys
            shifts = [taken[ends]]
        tried = {shift: route_way(columns, standing, way, aisle, shift) for shift in shifts}
        shift = min(tried, key=lambda one: count_on(tried[one], others))
        taken |= {ends: shift} if way.is_kept else {}
        found.append(tried[shift])
    return found


def count_on(route: Sequence[Sequence[Point]], others: Sequence[Sequence[Point]]) -> int:
    """On how many others ribbons lie, but for those that end where they do."""
    return sum(one[-1] != other[-1] and runs_along(one, other, APART - 1) for one in route for other in others)


def route_way(
    columns: Sequence[Column], standing: Sequence[Standing], way: Way, aisle: float, shift: float
) -> list[tuple[Point, ...]]:
    """The corners of ribbons to all that a way leads to, so far from those that run beside it."""
    source, target, box = way.source.column, way.target, way.source.box
    goes_right = target > source
    out, into = aisle * 0.42 - shift, aisle * 0.42 + shift
    into = MARGIN * 0.3 + shift / 2 if source == target == len(columns) - 1 else into  # no aisle is right of it
    right = standing[source].left + columns[source].width + out
    entered = standing[target].left - into if goes_right else standing[target].left + columns[target].width + into
    ends = list_ends(standing[target], way, entered, shift)
    passed = range(min(source, target) + 1, max(source, target))
    roof = max((standing[one].top + OVER + shift for one in passed), default=0.0)
    if is_top(way.source, columns, standing):
        roof = max(roof, roof_over(box, standing[source]))
        roof = roof if passed else go_straight(roof, [end[0][1] for end in ends])
        start: list[Point] = [(box.x, box.top), (box.x, roof), (entered, roof)]
    elif is_end(way.source, columns, standing):
        level = standing[source].drawn.top + LEAVING
        start = [(box.x, box.top), (box.x, level)]
        start += [(right, level), (right, roof), (entered, roof)] if passed else [(entered, level)]
    else:
        side = entered if not passed else right if goes_right else standing[source].left - out
        leaves_right = goes_right or source == target
        is_plain = way.source.layer is None and not begins_in(box, standing[source])
        is_plain = not reads_condition(columns[source], box) if leaves_right else is_plain
        level = box.y if is_plain else box.y + box.height * BESIDE_SKIP
        start = [(box.right if leaves_right else box.left, level), (side, level)]
        if way.is_kept and (gap := find_gap(box, standing[source], side)) is not None:
            start = [(box.x, box.top), (box.x, gap), (side, gap)]
        start += [(side, roof), (entered, roof)] if passed else []
    return [(*start, *(end[1:] if end[0] == start[-1] else end)) for end in ends]


def list_ends(standing: Standing, way: Way, entered: float, shift: float) -> list[tuple[Point, ...]]:
    """The corners of ribbons from the lane by which a column is `entered` on, to all boxes that a way leads to."""
    entering = standing.entrances[0].boxes.values() if standing.entrances else ()
    found: list[tuple[Point, ...]] = []
    for row in way.aims:
        low = min(one.bottom for one in row) - UNDER + min(shift, APART) * way.is_worked_in
        for aim in row:
            if way.is_memory or any(stands_between(one, aim, entered) for one in entering):
                level = low if way.is_memory else aim.bottom - UNDER
                found.append(((entered, level), (aim.x, level), (aim.x, aim.bottom)))
            else:
                found.append(enter_beside(aim, entered))
    return [*found, *(enter_beside(aim, entered) for aim in way.wholes)]


def go_straight(roof: float, levels: Collection[float]) -> float:
    """How high a ribbon turns aside that is to go on at one of some levels: there, where it would bend a little only.

    Far below its name there is no room for it: it bends as round as others.
    """
    level = min(levels, key=lambda one: abs(one - roof), default=roof)
    if roof - LITTLE <= level <= roof + 2 * ROUND:
        return level
    return level + 2 * ROUND if level < roof < level + 2 * ROUND else roof


def find_gap(box: Box, standing: Standing, lane: float) -> float | None:
    """How high a way to a lane passes between boxes of a layer; None where none stand beside the one that it leaves."""
    boxes = [one for shown in standing.drawn.shown for one in shown.placed[0].boxes.values()]
    if not any(stands_between(one, box, lane) for one in boxes):
        return None
    above = min((one.bottom for one in boxes if one.bottom > box.top), default=box.top + OVER)
    return (box.top + above) / 2


def reads_condition(column: Column, box: Box) -> bool:
    """Whether a line of a condition ends at a box of a tower, at its right."""
    flow, condition = column.reading.flow, column.towering.condition
    places = {flow.places.get(step.rpartition("/")[2]) for step in box.steps}
    return condition is not None and column.condition is not None and not places.isdisjoint(condition.readers)


def begins_in(box: Box, standing: Standing) -> bool:
    """Whether a box stands in a tower's entrance, where ribbons may come in from the side (SAM's image)."""
    return any(box in placed.boxes.values() for placed in standing.entrances[:1])


def enter_beside(aim: Box, lane: float) -> tuple[Point, Point]:
    """The end of a way from a lane into the side of a box."""
    return (lane, aim.y), (aim.left if lane < aim.x else aim.right, aim.y)


def draw_route(canvas: Canvas, ways: Sequence[Sequence[Point]]) -> None:
    """Ribbons along ways that are one as far as they lie on each other, with a head at the end of each.

    The casing of none goes over another one, nor further than a head is wide.
    """
    for way in ways:
        end = between(way[-1], way[-2], IN_TIP / distance(way[-1], way[-2]))
        casing = (*way[:-1], end)
        canvas.line(*casing, role="casing", width=8.5, radius=ROUND, head=False, kind="ribbon", tip=TIP - IN_TIP)
    for way in ways:
        canvas.line(*way, role="ribbon", width=5.5, radius=ROUND, head_size=0.5, kind="ribbon", tip=TIP)


def stands_between(box: Box, aim: Box, lane: float) -> bool:
    """Whether a box stands between another one and a lane beside it."""
    low, high = sorted((lane, aim.x))
    return box is not aim and low < box.x < high and box.bottom < aim.y < box.top


def is_told_above(columns: Sequence[Column], standing: Sequence[Standing], way: Way, ways: Sequence[Way]) -> bool:
    """Whether a way begins behind layers, below where another one begins that leads there too and is named."""
    own = standing[way.source.column].exits[0] if columns[way.source.column].is_last else None
    if own is None or way.source.box not in own.boxes.values() or is_top(way.source, columns, standing):
        return False
    beside = (one for one in ways if (one.source.column, one.target) == (way.source.column, way.target))
    return any(is_top(one.source, columns, standing) for one in beside)


def is_alike(one: Way, other: Way) -> bool:
    """Whether two ways begin at one box, be it behind several of the layers for which that stands."""
    return (one.source.column, one.source.box.id) == (other.source.column, other.source.box.id)
