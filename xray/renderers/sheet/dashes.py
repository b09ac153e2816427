"""A curve cut into dashes; Graphviz's own are of one length at every scale."""

import itertools
from math import dist

from xray.story.layout import Point

STEPS = 24
"""How many straight pieces stand for one cubic when its length is measured."""


def dashes(points: tuple[Point, ...], drawn: float, left_out: float) -> list[tuple[Point, ...]]:
    """The dashes of a path of cubics, each a straight cubic; the last one reaches the path's end."""
    path = flattened(points)
    length = sum(dist(one, other) for one, other in itertools.pairwise(path))
    count = max(1, round((length + left_out) / (drawn + left_out)))
    period = (length + left_out) / count
    share = period - left_out if period > left_out else period
    pieces: list[tuple[Point, ...]] = []
    for place in range(count):
        piece = cut(path, place * period, min(length, place * period + share))
        for start, end in itertools.pairwise(piece):
            third = ((end[0] - start[0]) / 3, (end[1] - start[1]) / 3)
            middle = ((start[0] + third[0], start[1] + third[1]), (end[0] - third[0], end[1] - third[1]))
            if start == piece[0]:
                pieces.append((start, *middle, end))
            else:
                pieces[-1] = (*pieces[-1], *middle, end)
    return pieces or [points]


def flattened(points: tuple[Point, ...]) -> list[Point]:
    """A path of cubics as short straight pieces; straight cubics stay one piece."""
    path = [points[0]]
    for place in range(0, len(points) - 3, 3):
        a, b, c, d = points[place : place + 4]
        if is_straight(a, b, c, d):
            path.append(d)
            continue
        for step in range(1, STEPS + 1):
            t = step / STEPS
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            path.append(tuple(sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1)))  # type: ignore[arg-type]
    return path


def is_straight(a: Point, b: Point, c: Point, d: Point) -> bool:
    return abs(dist(a, b) + dist(b, c) + dist(c, d) - dist(a, d)) < 0.01


def cut(path: list[Point], start: float, end: float) -> list[Point]:
    """The part of a path between two lengths along it."""
    found: list[Point] = []
    walked = 0.0
    for one, other in itertools.pairwise(path):
        piece = dist(one, other)
        if piece == 0:
            continue
        if walked + piece >= start and walked <= end:
            low, high = max(0.0, start - walked) / piece, min(piece, end - walked) / piece
            if not found:
                found.append((one[0] + (other[0] - one[0]) * low, one[1] + (other[1] - one[1]) * low))
            found.append((one[0] + (other[0] - one[0]) * high, one[1] + (other[1] - one[1]) * high))
        walked += piece
    return found
