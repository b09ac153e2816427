"""Lines between boxes that touch no box on their way, and run along no line between others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

from xray.story.canvas import Canvas
from xray.story.layout import Box, Point

CLEAR = 5.0
BESIDE = 3.5
"""So far apart lines run beside each other."""
MOST_LANES, MOST_WAYS = 8, 60
NEAR, SHORT = 2.0, 1.0
"""Lines that are nearer to each other, along more than this, look like one."""


@dataclass(frozen=True)
class Way:
    """A line that is drawn already: its corners, and the boxes that it leads from and to."""

    lower: Box
    upper: Box
    points: tuple[Point, ...]


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
) -> None:
    """A line from the top of one box to the bottom of a higher one, around whatever stands between them.

    It keeps apart from lines that are `drawn` already, and is put behind these. Out of a frame it leads from the middle
    of the lower box, and turns aside only so far `above`, over what is written there.
    """
    small, large = sorted((lower, upper), key=lambda box: box.width)
    is_over = large.left - 1 < small.left and small.right < large.right + 1
    if fan > 1 and is_over and not between(lower, upper, others):
        spread = small.width - 26
        for place in range(fan):
            x = small.x - spread / 2 + spread * place / (fan - 1)
            canvas.line((x, lower.top), (x, upper.bottom), role=role, head_size=0.45)
        return
    ways = [] if drawn is None else drawn
    start = lower if above is None else replace(lower, y=above, width=0.0, height=0.0)
    points = choose_way(start, upper, others, [way for way in ways if way.lower is not lower])
    points = ((points[0][0], lower.top), *points[1:])
    ways.append(Way(lower, upper, points))
    canvas.line(*points, role=role, radius=5, width=width, dashed=dashed, head_size=0.5 if dashed else 0.6)


def choose_way(lower: Box, upper: Box, others: Sequence[Box], drawn: Sequence[Way]) -> tuple[Point, ...]:
    """The corners of that line: the first of the ways that runs along no other line, else the shortest.

    One that goes on where another one ends looks like that one: rather than this, another way is taken, which crosses
    as few lines as can be.
    """
    beside = [way.points for way in drawn if way.lower is not lower and way.upper is not upper]
    ways = list(islice(list_ways(lower, upper, others), MOST_WAYS))
    apart = [points for points in ways if not any(runs_along(points, other) for other in beside)]
    if not apart or not any(goes_on(apart[0], other) for other in beside):
        return next(iter(apart), ways[0])
    clear = (points for points in apart if not any(goes_on(points, other) for other in beside))
    return min(clear, key=lambda points: sum(crosses(points, other) for other in beside), default=apart[0])


def runs_along(one: Sequence[Point], other: Sequence[Point]) -> bool:
    """Whether two lines look like one along a part of their way."""
    return any(lie_on(a, b, c, d) for a, b in pairwise(one) for c, d in pairwise(other))


def goes_on(one: Sequence[Point], other: Sequence[Point]) -> bool:
    """Whether a piece of a line, no end of it, goes on where one of another line ends: both turn away there."""
    return any(lie_on(a, b, c, d, -CLEAR) for a, b in pairwise(one[1:-1]) for c, d in pairwise(other[1:-1]))


def crosses(one: Sequence[Point], other: Sequence[Point]) -> int:
    """How often pieces of two lines lie across each other."""
    return sum(lie_across(a, b, c, d) for a, b in pairwise(one) for c, d in pairwise(other))


def lie_across(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether of two straight pieces, one upright and one level, each lies across the other."""
    if abs(a[0] - b[0]) > abs(a[1] - b[1]):
        a, b, c, d = c, d, a, b
    is_level = abs(c[1] - d[1]) < NEAR <= abs(c[0] - d[0])
    within = min(c[0], d[0]) <= a[0] <= max(c[0], d[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])
    return is_level and abs(a[0] - b[0]) < NEAR and within


def lie_on(a: Point, b: Point, c: Point, d: Point, along_for: float = SHORT) -> bool:
    """Whether two straight pieces lie on each other, for longer than so much; of a gap between them, that is less."""
    for across, along in ((0, 1), (1, 0)):
        is_straight = abs(a[across] - b[across]) < NEAR and abs(c[across] - d[across]) < NEAR
        if is_straight and abs(a[across] - c[across]) < NEAR:
            low = max(min(a[along], b[along]), min(c[along], d[along]))
            high = min(max(a[along], b[along]), max(c[along], d[along]))
            if high - low > along_for:
                return True
    return False


def list_ways(lower: Box, upper: Box, others: Sequence[Box]) -> Iterator[tuple[Point, ...]]:
    """The corners of lines from one box to another, the shortest way first."""
    start, end = (lower.x, lower.top), (upper.x, upper.bottom)
    middle = between(lower, upper, others)
    if lower.left + CLEAR < upper.x < lower.right - CLEAR and is_free(upper.x, middle):
        yield ((upper.x, lower.top), end)
        return
    if upper.left + CLEAR < lower.x < upper.right - CLEAR and is_free(lower.x, middle):
        yield (start, (lower.x, upper.bottom))
        return
    straight = find_free(lower, upper, middle)
    if middle and straight is not None:
        yield ((straight, lower.top), (straight, upper.bottom))
        return
    if not middle:
        gap = upper.bottom - lower.top
        knees = [min(gap / 2, CLEAR + apart) for apart in (0, BESIDE, 2 * BESIDE)]
        beside = product((2 * BESIDE, -2 * BESIDE), (*knees, gap / 4, 3 * gap / 4))  # where two lines change sides
        for aside, up in (*((0.0, knee) for knee in knees), *beside):
            left, right, knee = lower.x + aside, upper.x + aside, lower.top + up
            yield ((left, lower.top), (left, knee), (right, knee), (right, upper.bottom))
        return
    lanes = list_lanes(lower.x, upper.x, middle)[:MOST_LANES]
    for into, lane, out in product((0, BESIDE, 2 * BESIDE), lanes, (0, BESIDE, 2 * BESIDE)):
        first, last = lower.top + CLEAR + out, upper.bottom - CLEAR - into
        if lane == lower.x:
            yield (start, (lower.x, last), (upper.x, last), end)
        elif lane == upper.x:
            yield (start, (lower.x, first), (upper.x, first), end)
        else:
            yield (start, (lower.x, first), (lane, first), (lane, last), (upper.x, last), end)


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


def list_lanes(start: float, end: float, boxes: Sequence[Box]) -> list[float]:
    """The free heights nearest to both ends: theirs, or just beside one of the boxes."""
    aside = [2 * CLEAR + times * BESIDE for times in range(3)]
    lanes = [start, end, *(lane for box in boxes for by in aside for lane in (box.right + by, box.left - by))]
    free = [lane for lane in dict.fromkeys(lanes) if is_free(lane, boxes)]
    return sorted(free or [end], key=lambda lane: abs(lane - start) + abs(lane - end))
