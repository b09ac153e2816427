"""Paths of an SVG written shorter: what is straight becomes a line, whatever Graphviz drew it with."""

import re

PATH = re.compile(r' d="(M[^"]*C[^"]*)"')
COMMAND = re.compile(r"([MLC])([^MLCZ]*)|Z")

STRAIGHT = 0.12
"""How far a handle may be from the line it makes, in units of which the page has thousands."""


def straighten_paths(svg: str) -> str:
    """The same picture with lines in the place of straight curves."""
    return PATH.sub(lambda found: f' d="{straighten(found[1])}"', svg)


def straighten(path: str) -> str:
    """One path: `M0,0C1,0 2,0 3,0` becomes `M0,0L3,0`."""
    parts: list[str] = []
    last, before = "", ""
    for found in COMMAND.finditer(path):
        command, points = found[1], found[2].split(" ") if found[2] else []
        if command is None:
            parts.append("Z")
            before = "Z"
            continue
        size = 3 if command == "C" else 1
        for place in range(0, len(points), size):
            piece = points[place : place + size]
            shown, drawn = ("L", piece[-1:]) if size == 3 and is_line(last, *piece) else (command, piece)
            if drawn != [last] or shown != "L":
                parts += [" " if shown == before else shown, " ".join(drawn)]
                before = shown
            last = piece[-1]
    return "".join(parts)


def is_line(start: str, first: str, second: str, end: str) -> bool:
    """Whether a cubic's handles lie on the line between its ends."""
    (x, y), (u, v) = read(start), read(end)
    wide, high = u - x, v - y
    length = (wide * wide + high * high) ** 0.5
    for handle in (first, second):
        p, q = read(handle)
        along = (p - x) * wide + (q - y) * high
        if length < STRAIGHT:
            if abs(p - x) > STRAIGHT or abs(q - y) > STRAIGHT:
                return False
        elif abs((p - x) * high - (q - y) * wide) > STRAIGHT * length or not -0.01 <= along / length**2 <= 1.01:
            return False
    return True


def read(point: str) -> tuple[float, float]:
    x, _, y = point.partition(",")
    return float(x), float(y)
