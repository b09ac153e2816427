"""Which places of an axis the text of an index takes."""

import re


def read_span(index: str, shape: tuple[int, ...], axis: int) -> tuple[int, int] | None:
    """The first place that an index such as ":, :32, :" takes along an axis, and the one behind the last one."""
    pieces = [piece.strip() for piece in index.split(",")]
    place = axis % len(shape)
    if place >= len(pieces) or any(not takes_one_axis(piece) for piece in pieces[: place + 1]) or not shape[place]:
        return None
    bounds = [int(one) if one.strip() else None for one in pieces[place].split(":")]
    if len(bounds) == 1 and bounds[0] is not None:
        return bounds[0] % shape[place], bounds[0] % shape[place] + 1
    first, end, step = slice(*bounds).indices(shape[place])
    return (first, end) if step == 1 and first < end else None


def takes_one_axis(piece: str) -> bool:
    """Whether a piece of an index is a number or a slice, so that the next piece is of the next axis."""
    return bool(re.fullmatch(r"-?\d+|(-?\d+)?:(-?\d+)?(:(-?\d+)?)?", piece.replace(" ", "")))
