"""How one cell of a mask or of an attention picture is drawn: told apart by shape as well as by colour."""

from collections.abc import Iterator
from dataclasses import dataclass

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE
from xray.renderers.themes import Theme
from xray.story.layout import Cells, Point


@dataclass(frozen=True)
class CellShape:
    """A square of a fill and an outline."""

    corners: tuple[Point, ...]
    fill: str
    line: str
    pen: float


def cell_shapes(cells: Cells, theme: Theme) -> Iterator[CellShape]:
    """Every cell of a grid: a visible one is whole, padding a small square, the future a frame, both in one."""
    size = cells.cell
    for r, row in enumerate(cells.rows):
        for c, value in enumerate(row):
            left, top = cells.x + c * size, cells.y - r * size
            if isinstance(value, str):
                yield from mask_cell(value, left, top, size, theme)
            else:
                colour = theme.cells["weight_hidden"] if value is None else weight_colour(value, theme)
                inset = 0.5 if value is not None else size * 0.36
                yield square(left, top, size, inset, colour)


def mask_cell(letter: str, left: float, top: float, size: float, theme: Theme) -> Iterator[CellShape]:
    page = theme.cells["grid"]
    if letter == VISIBLE:
        yield square(left, top, size, size * 0.07, theme.cells["visible"])
    elif letter in (FUTURE, HIDDEN, BOTH):
        role = {FUTURE: "future", HIDDEN: "hidden", BOTH: "both"}[letter]
        inset = size * 0.16
        yield CellShape(corners(left, top, size, inset), page, theme.cells[role], max(0.7, size * 0.1))
        if letter == BOTH:
            yield square(left, top, size, size * 0.36, theme.cells["padding"])
    elif letter == PADDING:
        yield square(left, top, size, size * 0.33, theme.cells["padding"])


def square(left: float, top: float, size: float, inset: float, colour: str) -> CellShape:
    return CellShape(corners(left, top, size, inset), colour, colour, 0.1)


def corners(left: float, top: float, size: float, inset: float) -> tuple[Point, ...]:
    low, high = inset, size - inset
    return ((left + low, top - low), (left + high, top - low), (left + high, top - high), (left + low, top - high))


def weight_colour(weight: float, theme: Theme) -> str:
    """A colour between no weight and all of it; small weights are lifted so that they can be told apart."""
    share = max(0.0, min(1.0, weight)) ** 0.6
    low, high = channels(theme.cells["weight_low"]), channels(theme.cells["weight_high"])
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in zip(low, high, strict=True))


def channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
