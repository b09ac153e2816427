"""Ribbons and turns between columns that stand beside each other with nothing but an aisle between them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from xray.story.anatomy.tree import Link
from xray.story.canvas import Canvas, between, distance, words
from xray.story.charts.chart import Node
from xray.story.exits.meeting_chart import find_compared, find_meeting, key_meeting
from xray.story.layout import LEADING, Box, Point
from xray.story.regions.sources import (
    Source,
    is_end,
    list_begun,
    list_closed,
    list_drawn,
    list_entered,
    list_led_out,
    list_multiplied,
    list_read,
    list_scored,
    list_sources,
)
from xray.story.sheet.columns import Column
from xray.story.sheet.routing import CLEAR, choose_way
from xray.story.sheet.standing import EXIT, Standing
from xray.story.type_sizes import LABEL, MARGIN, NOTE, PANEL_PAD

MEMORY = "MEMORY"
"""What a ribbon is called that leads to keys and values alone."""
BEGINNING = frozenset({"joined", "chosen"})
"""The kinds of links by which what a tower begins with is made of what another one gives."""
APART, OVER, UNDER = 7.0, 24.0, 20.0
"""How far ribbons run from each other, above what they pass, and below what they lead to."""
TIP, IN_TIP = 12.0, 8.0
"""How long the head of a ribbon is, and how much of that is wide enough to hide the end of the casing."""
LEAVING, NAME_UNDER = 33.0, 8.0
"""How high above the last frame a ribbon turns aside that leaves it there, and how far under its roof its name is."""
BESIDE_SKIP = 0.3
"""By which part of its height a ribbon leaves a layer's sum higher than where the stream's way past it comes in."""


@dataclass
class Way:
    """All that one box of a column gives to boxes of another one: as memory, or for its entrance.

    What `is_worked_in` inside layers, multiplied with rows or added to scores, is led there as memory is, and called
    after the tower that it is from. What `is_whole` leads to an attention that is one box, beside the stream's own way.
    """

    source: Source
    target: int
    aims: list[list[Box]] = field(default_factory=list)
    is_memory: bool = True
    is_worked_in: bool = False
    is_whole: bool = False


def draw_turns(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], aisle: float) -> None:
    """The stream's way from the top of one column of a tower to the foot of the next."""
    for number, column in enumerate(columns):
        if column.is_first:
            continue
        last, first = standing[number - 1].drawn.last, standing[number].drawn.first
        roof, lane = standing[number - 1].drawn.top + 34, standing[number].left - aisle / 2
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


def draw_links(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link], aisle: float
) -> float:
    """Ribbons from the boxes that made something to those of another tower that read it; gives how high they go."""
    highest = 0.0
    ways = list_ways(columns, standing, links)
    for number, way in enumerate(ways):
        highest = max(highest, draw_way(canvas, columns, standing, way, aisle, APART * (number % 4)))
    named: dict[tuple[float, float, tuple[str, ...], str], None] = {}
    for way in ways:
        named |= dict.fromkeys(name_way(columns, standing, way, [one for one in ways if is_alike(one, way)], links))
    for x, y, told, on in named:
        size = LABEL if len(told) == 1 else NOTE if on == "page" else NOTE - 2
        canvas.note(x, y, tuple(words(text, size, "text", "bold") for text in told), on)
    return max(highest, draw_meetings(canvas, columns, standing, links))


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
        draw_ribbon(canvas, way)
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


def list_ways(columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link]) -> list[Way]:
    """What is read from which box, as far as it is recorded: of memory that another pass made, the tower's end."""
    ways: dict[tuple[object, ...], Way] = {}

    def lead(source: Source, target: int, row: list[Box], *, is_memory: bool, is_worked_in: bool = False) -> None:
        begun = Way(source, target, is_memory=is_memory, is_worked_in=is_worked_in)
        ways.setdefault((*source.key, target, is_memory, is_worked_in), begun).aims.append(row)

    drawn = {id(column.reading): list_drawn(column.reading.flow, columns, standing) for column in columns}
    for target, column in enumerate(columns):
        own = [link for link in links if link.target == column.name and link.source != column.name]
        rows = [(row, True, False) for row in list_fed(column, standing[target], own)]
        rows += [([one], False, False) for one in list_taken(column, standing[target], own)]
        rows += [([one], True, True) for one in list_led_out(column, standing[target])]
        for kind, find in (("multiplied", list_multiplied), ("scored", list_scored)):
            is_any = any(link.kind == kind for link in own)
            rows += [(row, True, True) for row in (find(column, standing[target]) if is_any else [])]
        for row, is_memory, is_worked_in in rows:
            given: dict[tuple[object, ...], tuple[Source, list[Box]]] = {}
            for node, box in row:
                found = list_sources(column.reading.flow, node, target, columns, drawn[id(column.reading)])
                found = found or find_other_pass(columns, standing, column, own, is_memory=is_memory)
                if is_memory and not found:
                    found = list_begun(node, target, columns, standing, drawn[id(column.reading)])
                for source in found:
                    given.setdefault(source.key, (source, []))[1].append(box)
            for source, boxes in given.values():
                lead(source, target, boxes, is_memory=is_memory, is_worked_in=is_worked_in)
        begun = find_begun(column, own, drawn[id(column.reading)])
        if begun is not None:
            lead(begun, target, [standing[target].drawn.first], is_memory=False)
    led = {(*way.source.key, columns[way.target].name) for way in ways.values()}
    whole = [
        one for one in list_whole(columns, standing, drawn) if (*one.source.key, columns[one.target].name) not in led
    ]
    return [*ways.values(), *whole]


def list_whole(
    columns: Sequence[Column], standing: Sequence[Standing], drawn: Mapping[int, Mapping[int, Source | None]]
) -> Iterator[Way]:
    """The ways to attentions that are one box, of layers that stand for themselves (SAM's last)."""
    for target, column in enumerate(columns):
        for node, box in list_closed(column, standing[target]):
            found = list_sources(column.reading.flow, node, target, columns, drawn[id(column.reading)])
            yield from (Way(source, target, [[box]], is_whole=True) for source in found)


def list_fed(column: Column, standing: Standing, links: Sequence[Link]) -> list[list[tuple[Node, Box]]]:
    """The boxes of each stage of a column that read memory, where any is linked to it."""
    sources = {link.source for link in links if link.kind == "memory"}
    return list_read(column, standing, sources) if sources else []


def list_taken(column: Column, standing: Standing, links: Sequence[Link]) -> list[tuple[Node, Box]]:
    """The boxes of a column's entrance that rows of other towers go into, where any are."""
    return list_entered(column, standing) if any(link.kind in BEGINNING for link in links) else []


def find_begun(column: Column, links: Collection[Link], drawn: Mapping[int, Source | None]) -> Source | None:
    """The box of another tower in which a stream begins that goes through nothing before its first layer."""
    flow, start = column.reading.flow, column.towering.chains[0].start
    goes_on = column.is_first and column.entrance is None and any(link.kind in BEGINNING for link in links)
    return drawn.get(flow.carried_from(start) or 0) if goes_on else None


def find_other_pass(
    columns: Sequence[Column], standing: Sequence[Standing], column: Column, links: Collection[Link], *, is_memory: bool
) -> list[Source]:
    """Where a tower ends that another pass went through, and whose result is the memory of this one."""
    names = {link.source for link in links if link.kind == "memory"} if is_memory else set()
    return [
        Source(number, standing[number].ends(one)[0])
        for number, one in enumerate(columns)
        if one.is_last and one.name in names and one.reading is not column.reading
    ]


def draw_way(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], way: Way, aisle: float, shift: float
) -> float:
    """A ribbon to all that a way leads to, so far from those that run beside it; gives how high it goes."""
    source, target, box = way.source.column, way.target, way.source.box
    goes_right = target > source
    out, into = aisle * 0.42 - shift, aisle * 0.42 + shift
    into = MARGIN * 0.3 + shift / 2 if source == target == len(columns) - 1 else into  # no aisle is right of it
    right = standing[source].left + columns[source].width + out
    entered = standing[target].left - into if goes_right else standing[target].left + columns[target].width + into
    passed = range(min(source, target) + 1, max(source, target))
    roof = max((standing[one].top + OVER + shift for one in passed), default=0.0)
    if is_top(way.source, columns, standing):
        roof = max(roof, roof_over(box, standing[source]))
        start: list[Point] = [(box.x, box.top), (box.x, roof), (entered, roof)]
    elif is_end(way.source, columns, standing):
        level = standing[source].drawn.top + LEAVING
        start = [(box.x, box.top), (box.x, level)]
        start += [(right, level), (right, roof), (entered, roof)] if passed else [(entered, level)]
    else:
        side = entered if not passed else right if goes_right else standing[source].left - out
        leaves_right = goes_right or source == target
        level = box.y if leaves_right or way.source.layer is None else box.y + box.height * BESIDE_SKIP
        start = [(box.right if leaves_right else box.left, level), (side, level)]
        start += [(side, roof), (entered, roof)] if passed else []
    entering = standing[target].entrances[0].boxes.values() if standing[target].entrances else ()
    for row in way.aims:
        level = min(one.bottom for one in row) - UNDER
        for aim in row:
            side = aim.left if goes_right else aim.right
            is_free = not any(stands_between(one, aim, entered) for one in entering)
            ending = [(entered, aim.y), (side, aim.y)]
            if not way.is_whole and (way.is_memory or not is_free):
                level = level if way.is_memory else aim.bottom - UNDER
                ending = [(entered, level), (aim.x, level), (aim.x, aim.bottom)]
            draw_ribbon(canvas, [*start, *ending])
    return max(roof, *(y for _, y in start))


def draw_ribbon(canvas: Canvas, way: Sequence[Point]) -> None:
    """A ribbon along a way, with a head at its end, where its casing goes no further than the head is wide."""
    end = between(way[-1], way[-2], IN_TIP / distance(way[-1], way[-2]))
    canvas.line(*way[:-1], end, role="casing", width=8.5, radius=16, head=False, kind="ribbon", tip=TIP - IN_TIP)
    canvas.line(*way, role="ribbon", width=5.5, radius=16, head_size=0.5, kind="ribbon", tip=TIP)


def stands_between(box: Box, aim: Box, lane: float) -> bool:
    """Whether a box stands between another one and a lane beside it."""
    low, high = sorted((lane, aim.x))
    return box is not aim and low < box.x < high and box.bottom < aim.y < box.top


def roof_over(box: Box, standing: Standing) -> float:
    """How high a ribbon turns aside from the top of a column, so that its name has room above what stands there."""
    low = max(box.top, standing.drawn.written)
    return low + CLEAR + LABEL * LEADING + NAME_UNDER


def is_top(source: Source, columns: Sequence[Column], standing: Sequence[Standing]) -> bool:
    """Whether nothing stands above a box of a column from which a way begins."""
    own = standing[source.column].exits[0] if columns[source.column].is_last else None
    if own is None:
        return is_end(source, columns, standing)
    return source.box in own.boxes.values() and source.box.top >= max(box.top for box in own.boxes.values())


def is_alike(one: Way, other: Way) -> bool:
    """Whether two ways begin at one box, be it behind several of the layers for which that stands."""
    return (one.source.column, one.source.box.id) == (other.source.column, other.source.box.id)


def name_way(
    columns: Sequence[Column], standing: Sequence[Standing], way: Way, alike: Sequence[Way], links: Sequence[Link]
) -> list[tuple[float, float, tuple[str, ...], str]]:
    """What is written at the beginning of a way, and of those that begin there too; where it stands, and on what."""
    box, column, layer = way.source.box, columns[way.source.column], way.source.layer
    own = standing[way.source.column]
    own_ways = [one for one in alike if one.source.key == way.source.key]
    is_memory = all(one.is_memory and not one.is_worked_in for one in own_ways)
    told: tuple[str, ...]
    if is_top(way.source, columns, standing):
        told = (MEMORY if is_memory else f"FROM THE {column.name.upper()} TOWER",)
        return [(box.x + 14, roof_over(box, own) - NAME_UNDER, told, "page")]
    told = (MEMORY,) if is_memory else ("FROM THE", f"{column.name.upper()} TOWER")
    leaving = own.exits[0].boxes.values() if own.exits[0] is not None else ()
    if box in leaving:
        return [(box.right + 8, box.y + 6 + NOTE * 1.12 * len(told), told, "page")]
    if is_end(way.source, columns, standing):
        low, told = own.drawn.top + EXIT, (MEMORY,) if is_memory else ("FROM THE", column.name.upper(), "TOWER")
        if all(one.is_whole for one in own_ways) and way.target == way.source.column - 1:
            return [(own.left + 2, low - 5 + NOTE * 1.12, told[:1], "page")]
        right = max((one.right for one in leaving if one.bottom < low + 40), default=box.right)
        return [(right + 8, low + 2 + NOTE * 1.12 * len(told), told, "page")]
    if layer is None:
        return []
    layers = {one.source.layer for one in alike if one.source.layer is not None}
    layers |= list_read_behind(column, layer, {columns[one.target].name for one in alike}, links)
    layers -= (
        {column.towering.tower.layers - 1} if any(is_end(one.source, columns, standing) for one in alike) else set()
    )
    return [(box.right + 4, box.y - 8, name_layers(sorted(layers)), f"{column.look.own}_panel")]


def list_read_behind(column: Column, layer: int, targets: Collection[str], links: Sequence[Link]) -> set[int]:
    """The layers that are drawn as one with some layer, behind which layers of other towers read too.

    Of several of these that are alike one alone is drawn, and led to (BridgeTower).
    """
    alike = next((frame.group.layers for frame in column.frames if layer in frame.group.layers), ())
    return {
        number
        for link in links
        if link.source == column.name and link.target in targets
        for number in link.behind
        if number in alike
    }


def name_layers(layers: Sequence[int]) -> tuple[str, ...]:
    """Behind which layers, from 0, ways begin, in lines of two numbers."""
    numbers = [", ".join(str(one + 1) for one in layers[place : place + 2]) for place in range(0, len(layers), 2)]
    lines = [f"{line}," for line in numbers[:-1]] + numbers[-1:]
    return ("BEHIND", "LAYER" if len(layers) == 1 else "LAYERS", *lines)
