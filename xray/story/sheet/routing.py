"""Lines between boxes that touch no box on their way."""

from collections.abc import Sequence
from itertools import pairwise

from xray.story.canvas import Canvas
from xray.story.layout import Box, Point

CLEAR = 5.0


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
) -> None:
    """A line from the top of one box to the bottom of a higher one, around whatever stands between them."""
    small, large = sorted((lower, upper), key=lambda box: box.width)
    is_over = large.left - 1 < small.left and small.right < large.right + 1
    if fan > 1 and is_over and not between(lower, upper, others):
        spread = small.width - 26
        for place in range(fan):
            x = small.x - spread / 2 + spread * place / (fan - 1)
            canvas.line((x, lower.top), (x, upper.bottom), role=role, head_size=0.45)
        return
    canvas.line(
        *route(lower, upper, others), role=role, radius=5, width=width, dashed=dashed, head_size=0.5 if dashed else 0.6
    )


def route(lower: Box, upper: Box, others: Sequence[Box]) -> tuple[Point, ...]:
    """The corners of that line."""
    start, end = (lower.x, lower.top), (upper.x, upper.bottom)
    middle = between(lower, upper, others)
    if lower.left + CLEAR < upper.x < lower.right - CLEAR and is_free(upper.x, middle):
        return ((upper.x, lower.top), end)
    if upper.left + CLEAR < lower.x < upper.right - CLEAR and is_free(lower.x, middle):
        return (start, (lower.x, upper.bottom))
    straight = find_free(lower, upper, middle)
    if middle and straight is not None:
        return ((straight, lower.top), (straight, upper.bottom))
    first = lower.top + CLEAR
    last = upper.bottom - CLEAR
    if not middle:
        knee = min((lower.top + upper.bottom) / 2, first)
        return (start, (lower.x, knee), (upper.x, knee), end)
    lane = choose_lane(lower.x, upper.x, middle)
    if lane == lower.x:
        return (start, (lower.x, last), (upper.x, last), end)
    if lane == upper.x:
        return (start, (lower.x, first), (upper.x, first), end)
    return (start, (lower.x, first), (lane, first), (lane, last), (upper.x, last), end)


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


def choose_lane(start: float, end: float, boxes: Sequence[Box]) -> float:
    """The free height nearest to both ends: theirs, or just beside one of the boxes."""
    lanes = [start, end, *(box.right + 2 * CLEAR for box in boxes), *(box.left - 2 * CLEAR for box in boxes)]
    free = [lane for lane in lanes if is_free(lane, boxes)]
    return min(free or [end], key=lambda lane: abs(lane - start) + abs(lane - end))
