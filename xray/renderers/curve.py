"""Curves of numbers over time: in letters for a terminal, as a picture for a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite

EIGHTHS = " ▁▂▃▄▅▆▇█"
MARKS = "*o+x"
DASHES = ("none", "6 4", "2 3")


@dataclass(frozen=True)
class Curve:
    """A name and its numbers, one for each moment."""

    name: str
    values: tuple[float, ...]


def draw_curves(curves: Sequence[Curve], width: int = 72, height: int = 10, plain: bool = False) -> str:
    """The curves on one grid of letters, with the highest and the lowest number at its edge.

    The first is drawn as a mountain of blocks, the others as marks before it; with `plain` all are marks.
    """
    lowest, highest = bounds(curves)
    edges = (f"{highest:.3f}", f"{lowest:.3f}")
    margin = max(map(len, edges)) + 1
    columns = max(8, width - margin - 1)
    grid = [[" "] * columns for _ in range(height)]
    for number, curve in enumerate(curves):
        for column, value in enumerate(stretch(curve.values, columns)):
            share = (value - lowest) / (highest - lowest or 1.0)
            if number == 0 and not plain:
                raise_column(grid, column, share)
            else:
                grid[round((1 - share) * (height - 1))][column] = MARKS[number % len(MARKS)]
    labels = [edges[0], *[""] * (height - 2), edges[1]]
    rows = [f"{label:>{margin}}|{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    first_mark = MARKS[0] if plain else EIGHTHS[-1]
    marks = [first_mark, *MARKS[1:]]
    legend = "   ".join(
        f"{mark} {curve.name} {curve.values[-1]:.3f}" for mark, curve in zip(marks, curves, strict=False)
    )
    return "\n".join([*rows, " " * (margin + 1) + legend])


def draw_curves_as_svg(curves: Sequence[Curve], moment: str, width: int = 640, height: int = 360) -> str:
    """The curves as an SVG picture in the colour of the text around it, each with its own dashes."""
    lowest, highest = bounds(curves)
    left, right, top, bottom = 60, width - 130, 20, height - 40
    longest = max(len(curve.values) for curve in curves)

    def place(number: int, value: float) -> str:
        x = left + (right - left) * number / max(1, longest - 1)
        y = bottom - (bottom - top) * (value - lowest) / (highest - lowest or 1.0)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" fill="none" stroke="currentColor">',
        f'<path d="M{left},{top} V{bottom} H{right}"/>',
        write(left - 8, top + 5, f"{highest:.3f}", "end"),
        write(left - 8, bottom, f"{lowest:.3f}", "end"),
        write(left, bottom + 20, f"{moment} 1", "start"),
        write(right, bottom + 20, f"{moment} {longest}", "end"),
    ]
    for number, curve in enumerate(curves):
        dashes = DASHES[number % len(DASHES)]
        points = " ".join(place(at, value) for at, value in enumerate(curve.values) if isfinite(value))
        parts.append(f'<polyline stroke-width="2" stroke-dasharray="{dashes}" points="{points}"/>')
        y = top + 20 * number + 5
        parts.append(f'<path stroke-width="2" stroke-dasharray="{dashes}" d="M{right + 10},{y - 4} h24"/>')
        parts.append(write(right + 40, y, f"{curve.name} {curve.values[-1]:.3f}", "start"))
    return "\n".join([*parts, "</svg>\n"])


def bounds(curves: Sequence[Curve]) -> tuple[float, float]:
    """The lowest and the highest number of all curves."""
    values = [value for curve in curves for value in curve.values if isfinite(value)] or [0.0]
    return min(values), max(values)


def stretch(values: Sequence[float], columns: int) -> list[float]:
    """As many numbers as there are columns, each the one whose moment is nearest."""
    last = len(values) - 1
    return [values[round(column * last / max(1, columns - 1))] for column in range(columns)]


def raise_column(grid: list[list[str]], column: int, share: float) -> None:
    """Fill a column of the grid with blocks up to its share of the height."""
    height = len(grid)
    eighths = max(1, round(share * height * 8))
    for row in range(height):
        full = min(8, max(0, eighths - 8 * (height - 1 - row)))
        grid[row][column] = EIGHTHS[full]


def write(x: float, y: float, text: str, anchor: str) -> str:
    """A text in an SVG picture."""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="13" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )
