"""Lines between boxes that touch no box on their way, and run along no line between others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import inf
from operator import itemgetter

from xray.story.canvas import Canvas, distance
from xray.story.layout import Box, Point

CLEAR = 5.0
"""So far lines run from boxes."""
BESIDE = 4.5
"""So far apart lines run beside each other."""
CORNER = 8.0
"""So far from a corner of a box a line begins or ends there that goes around others."""
MOST_ASIDE, MOST_LANES, MOST_LEVELS = 6, 24, 4
NEAR, SHORT = 2.0, 1.0
"""Lines that are nearer to each other, along more than this, look like one."""
SAME = 0.1
"""Lines that are no further from each other are one."""
HEAD = 8.5
"""So long is the head of an arrow."""
RUNNING, GOING_ON, NEXT_TO, CROSSING = 900.0, 120.0, 40.0, 30.0
"""By how much a way may be longer that does not run along another line, go on where that ends, run close beside it, or
across it."""
THROUGH_HEAD = 60.0
"""By how much a way may be longer that leads through no arrow's head, nor has its own led through."""
STANDING = 60.0
"""By how much a way may be longer whose arrow does not stand on a box that it comes by."""


@dataclass(frozen=True)
class Way:
    """A line that is drawn already: its corners, and the boxes that it leads from and to."""

    lower: Box
    upper: Box
    points: tuple[Point, ...]


Piece = tuple[float, float, float]
"""A straight piece of a line: where it stands, and from where to where it goes there."""


@dataclass(frozen=True)
class Pieces:
    """A line as its pieces, upright and level ones; what begins or ends where another one does is its kin."""

    points: tuple[Point, ...]
    is_kin: bool = False

    @cached_property
    def upright(self) -> list[Piece]:
        pairs = pairwise(self.points)
        return [(x, min(y, end), max(y, end)) for (x, y), (after, end) in pairs if abs(x - after) < NEAR]

    @cached_property
    def level(self) -> list[Piece]:
        pairs = pairwise(self.points)
        return [(y, min(x, after), max(x, after)) for (x, y), (after, end) in pairs if abs(y - end) < NEAR]

    @cached_property
    def inner(self) -> "Pieces":
        """The same without its first and its last piece."""
        return Pieces(self.points[1:-1])

    @cached_property
    def head(self) -> list[Piece]:
        """The end of an upright last piece, on which the arrow's head is."""
        (x, below), (after, y) = self.points[-2:]
        return [(x, max(below, y - HEAD), y)] if abs(x - after) < NEAR else []

    @cached_property
    def room(self) -> tuple[float, float, float, float]:
        """From where to where it goes, on the way across and on the way up."""
        across, up = zip(*self.points, strict=True)
        return min(across), max(across), min(up), max(up)


def join(
    canvas: Canvas,
    lower: Box,
    upper: Box,
    others: Sequence[Box],
    role: str,
    *,
    fan: int = 1,
    width: float = 1.2,
    dashed: bool = False,
    drawn: list[Way] | None = None,
    above: float | None = None,
    sides: Sequence[int] = (),
    leftmost: float = -inf,
) -> None:
    """A line from the top of one box to the bottom of a higher one, around whatever stands between them.

    It may end at one of the `sides` of that, -1 for the left and 1 for the right one, if it would stand on another box
    below it. It keeps apart from lines that are `drawn` already, and is put behind these. Out of a frame it leads from
    the middle of the lower box, and turns aside only so far `above`, over what is written there. Where it goes
    around boxes, it keeps right of the `leftmost` place.
    """
    ways = [] if drawn is None else drawn
    if fan > 1 and (arrows := list_fan(lower, upper, others, fan)):
        for points in arrows:
            canvas.line(*points, role=role, head_size=0.45)
            ways.append(Way(lower, upper, points))
        return
    start = lower if above is None else replace(lower, y=above, width=0.0, height=0.0)
    drawn_before = [replace(way, lower=start) if way.lower is lower else way for way in ways]
    points = choose_way(start, upper, others, drawn_before, sides, leftmost)
    points = ((points[0][0], lower.top), *points[1:])
    ways.append(Way(lower, upper, points))
    head_size = 0.5 if dashed else 0.6
    canvas.line(*points, role=role, radius=5, width=width, dashed=dashed, head_size=head_size, tip=HEAD)


def list_fan(lower: Box, upper: Box, others: Sequence[Box], fan: int) -> list[tuple[Point, ...]]:
    """So many arrows side by side, where one of two boxes stands over the other, and nothing between them."""
    small, large = sorted((lower, upper), key=lambda box: box.width)
    is_over = large.left - 1 < small.left and small.right < large.right + 1
    if not is_over or between(lower, upper, others):
        return []
    spread = small.width - 26
    places = (small.x - spread / 2 + spread * place / (fan - 1) for place in range(fan))
    return [((x, lower.top), (x, upper.bottom)) for x in places]


def choose_way(
    lower: Box,
    upper: Box,
    others: Sequence[Box],
    drawn: Sequence[Way],
    sides: Sequence[int] = (),
    leftmost: float = -inf,
) -> tuple[Point, ...]:
    """The corners of that line: of the ways the shortest that runs along no other line, and across few.

    One that goes on where another one ends looks like that one, so that this counts as well.
    """
    beside = [Pieces(way.points, way.lower is lower or way.upper is upper) for way in drawn]
    tips = [way.points[-1][0] for way in drawn if way.upper is upper and way.lower is not lower]
    listed = list_ways(lower, upper, others, sides, leftmost)
    ways = sorted(((measure(points), points) for points in listed), key=itemgetter(0))
    best, least = ways[0][1], float("inf")
    for length, points in ways:
        if length >= least:
            break
        weight = length + weigh_tip(points, tips) + weigh_foot(points, lower, others)
        weight += weigh_all_beside(Pieces(points), beside, least - weight) if weight < least else 0.0
        if weight < least:
            best, least = points, weight
    return best


def weigh_all_beside(one: Pieces, beside: list[Pieces], most: float) -> float:
    """By how much a way counts as longer for other lines, as far as that is less than so much.

    What is too much for one way is likely to be for the next: it is put first.
    """
    weight = 0.0
    for place, other in enumerate(beside):
        weight += weigh_beside(one, other)
        if weight >= most:
            beside.insert(0, beside.pop(place))
            break
    return weight


def measure(points: tuple[Point, ...]) -> float:
    """How long a way is."""
    return sum(distance(one, other) for one, other in pairwise(points))


def weigh_tip(points: tuple[Point, ...], tips: Sequence[float]) -> float:
    """By how much a way counts as longer for arrows of others close beside the one in which it ends."""
    return NEXT_TO if any(SHORT < abs(points[-1][0] - tip) < CORNER for tip in tips) else 0.0


def weigh_foot(points: tuple[Point, ...], lower: Box, others: Sequence[Box]) -> float:
    """By how much a way counts as longer for a box that it does not come from, right below its arrow."""
    (x, _), (end, above) = points[-2:]
    below = [box for box in others if box.left < x < box.right and box.top < above]
    foot = max(below, key=lambda box: box.top, default=lower)
    return 0.0 if x != end or foot is lower else STANDING


def weigh_beside(one: Pieces, other: Pieces) -> float:
    """By how much a way counts as longer for another line: for its kin, of which it may be a part, close beside it."""
    if are_apart(one, other):
        return 0.0
    if other.is_kin:
        return NEXT_TO if lie_along(one, other, BESIDE - SAME, BESIDE, least=SAME) else 0.0
    if lie_along(one, other):
        return RUNNING
    along = GOING_ON if goes_on(one, other) else NEXT_TO if lie_along(one, other, BESIDE - SAME, BESIDE) else 0.0
    heads = lie_across(one.head, other.level) + lie_across(other.head, one.level)
    return along + CROSSING * crosses(one, other) + THROUGH_HEAD * heads


def are_apart(one: Pieces, other: Pieces) -> bool:
    """Whether two lines are too far from each other for anything to be said of both."""
    (left, right, low, high), (start, end, bottom, top) = one.room, other.room
    return right + CLEAR < start or end + CLEAR < left or high + CLEAR < bottom or top + CLEAR < low


def runs_along(one: Sequence[Point], other: Sequence[Point], near: float = NEAR) -> bool:
    """Whether two lines look like one along a part of their way."""
    return lie_along(Pieces(tuple(one)), Pieces(tuple(other)), near)


def lie_along(one: Pieces, other: Pieces, near: float = NEAR, along_for: float = SHORT, *, least: float = -1.0) -> bool:
    """Whether two lines run so near to each other for longer than so much; of a gap between pieces, that is less.

    They may have to be at the least so far apart.
    """
    pairs = ((one.upright, other.upright), (one.level, other.level))
    return any(lie_on(*pair, near, along_for, least) for pair in pairs)


def goes_on(one: Pieces, other: Pieces) -> bool:
    """Whether a piece of a line, no end of it, goes on where one of another line ends: both turn away there."""
    return lie_along(one.inner, other.inner, along_for=-CLEAR)


def crosses(one: Pieces, other: Pieces) -> int:
    """How often pieces of two lines lie across each other."""
    return lie_across(one.upright, other.level) + lie_across(other.upright, one.level)


def lie_across(upright: Sequence[Piece], level: Sequence[Piece]) -> int:
    """How often upright and level pieces lie across each other."""
    return sum(
        left <= x <= right and low <= y <= high and right - left >= NEAR
        for x, low, high in upright
        for y, left, right in level
    )


def lie_on(ones: Sequence[Piece], others: Sequence[Piece], near: float, along_for: float, least: float = -1.0) -> bool:
    """The same of pieces of one direction."""
    for at, low, high in ones:
        for place, start, end in others:
            if least < abs(at - place) < near and min(high, end) - max(low, start) > along_for:
                return True
    return False


def list_ways(
    lower: Box, upper: Box, others: Sequence[Box], sides: Sequence[int] = (), leftmost: float = -inf
) -> Iterator[tuple[Point, ...]]:
    """The corners of lines from one box to another: a straight one where it is free, else around what is between."""
    middle = between(lower, upper, others)
    straight = find_straight(lower, upper, middle)
    if straight is not None:
        yield ((straight, lower.top), (straight, upper.bottom))
        if not middle:
            return
    floor = max([lower.top, *(box.top for box in others if box.bottom < lower.top < box.top)])
    roof = min([upper.bottom, *(box.bottom for box in others if box.bottom < upper.bottom < box.top)])
    if not middle:
        for level, aside in product(list_levels(floor, roof), (0.0, CORNER, -CORNER)):
            left, right = lower.x + aside, upper.x + aside
            yield ((left, lower.top), (left, level), (right, level), (right, upper.bottom))
        return
    ceiling, ground = min(box.bottom for box in middle), max(box.top for box in middle)
    first, last = list_levels(floor, max(ceiling, floor)), list_levels(roof, min(ground, roof))
    lanes = list_lanes(lower.x, upper.x, middle, leftmost)[:MOST_LANES]
    for lane, out, into, inside in product(lanes, first, last, (CORNER, 3 * CORNER)):
        left, right = near_to(lane, lower), near_to(lane, upper, inside)
        left_way = ((lane, lower.top),) if left == lane else ((left, lower.top), (left, out), (lane, out))
        right_way = ((lane, upper.bottom),) if right == lane else ((lane, into), (right, into), (right, upper.bottom))
        yield (*left_way, *right_way)
        side = find_side(lane, upper, others) if sides and inside == CORNER else 0
        if side in sides:
            yield (*left_way, (lane, upper.y), (upper.x + side * upper.width / 2, upper.y))


def find_side(lane: float, upper: Box, others: Sequence[Box]) -> int:
    """At which side of a box a line at a lane may end, with room for an arrow and no other box between; 0 for none."""
    side = 1 if lane > upper.x else -1
    has_room = abs(lane - upper.x) >= upper.width / 2 + 2 * CLEAR
    row = [box for box in others if box is not upper and box.bottom < upper.y < box.top]
    left, right = min(lane, upper.x), max(lane, upper.x)
    return side if has_room and all(box.right + CLEAR <= left or right <= box.left - CLEAR for box in row) else 0


def find_straight(lower: Box, upper: Box, middle: Sequence[Box]) -> float | None:
    """Where a line goes straight up from one box to another: from or to the middle of one, else between the others."""
    if lower.left + CLEAR < upper.x < lower.right - CLEAR and is_free(upper.x, middle):
        return upper.x
    if upper.left + CLEAR < lower.x < upper.right - CLEAR and is_free(lower.x, middle):
        return lower.x
    return find_free(lower, upper, middle) if middle else None


def near_to(x: float, box: Box, inside: float = CORNER) -> float:
    """Where a line leaves or enters a box that comes from beside it: near its corner, of a small one in the middle."""
    inner = box.width / 2 - inside
    return box.x if inner < CORNER else max(box.x - inner, min(x, box.x + inner))


def list_levels(start: float, end: float) -> list[float]:
    """The heights at which lines may run level between two rows of boxes, from one of them on."""
    room, way = abs(end - start), 1 if end >= start else -1
    count = min(MOST_LEVELS, int((room - 2 * CLEAR) / BESIDE + 1.01))
    far = [CLEAR + BESIDE * place for place in range(count)] if count > 1 else [room / 2, room / 4, 3 * room / 4]
    return [start + way * one for one in far]


def room_for(levels: int, *, under_heads: bool = False) -> float:
    """How far apart rows of boxes are for so many lines level one above the other, one of them under arrows' heads."""
    return max(2 * CLEAR + BESIDE * (levels - 1) if levels > 1 else 0.0, (2 * CLEAR + HEAD) * under_heads)


def count_levels(ways: Sequence[Way], floor: float, roof: float) -> int:
    """How many lines run level one above the other between two heights."""
    pieces = [
        (y, min(x, after) - CLEAR, max(x, after) + CLEAR)
        for way in ways
        for (x, y), (after, end) in pairwise(way.points)
        if y == end and floor < y < roof
    ]
    return max((len({y for y, left, right in pieces if left <= x <= right}) for _, x, _ in pieces), default=0)


def passes_arrows(ways: Sequence[Way], floor: float, roof: float) -> bool:
    """Whether a line runs level between two heights across the arrow of one that ends there, and is no kin of it."""
    ending = [way for way in ways if way.points[-1][1] == roof and way.points[-2][0] == way.points[-1][0]]
    return any(
        floor < y < roof and min(x, after) < way.points[-1][0] < max(x, after)
        for one in ways
        for (x, y), (after, end) in pairwise(one.points)
        for way in ending
        if y == end and one.lower is not way.lower and one.upper is not way.upper
    )


def between(lower: Box, upper: Box, others: Sequence[Box]) -> list[Box]:
    """The boxes whose rows lie between two others."""
    return [box for box in others if box is not lower and box is not upper and lower.top < box.y < upper.bottom]


def find_free(lower: Box, upper: Box, middle: Sequence[Box]) -> float | None:
    """The middle of the widest gap through which a straight line leads from one box to another; None if none does."""
    start, end = max(lower.left, upper.left) + CLEAR, min(lower.right, upper.right) - CLEAR
    edges = [start, end, *(edge for box in middle for edge in (box.left - CLEAR, box.right + CLEAR))]
    edges = sorted(edge for edge in edges if start <= edge <= end)
    gaps = [(right - left, (left + right) / 2) for left, right in pairwise(edges)]
    free = [(wide, x) for wide, x in gaps if wide > 2 and is_free(x, middle)]
    return max(free)[1] if free else None


def is_free(x: float, boxes: Sequence[Box]) -> bool:
    return all(not box.left - CLEAR < x < box.right + CLEAR for box in boxes)


def list_lanes(start: float, end: float, boxes: Sequence[Box], leftmost: float) -> list[float]:
    """The free heights nearest to both ends: theirs, or just beside one of the boxes, none left of the leftmost."""
    aside = [2 * CLEAR + times * BESIDE for times in range(MOST_ASIDE)]
    lanes = [start, end, *(lane for box in boxes for by in aside for lane in (box.right + by, box.left - by))]
    free = [lane for lane in dict.fromkeys(lanes) if lane >= leftmost and is_free(lane, boxes)]
    return sorted(free or [end], key=lambda lane: abs(lane - start) + abs(lane - end))
