"""What stands where on a poster, in points from the bottom left; roles instead of colours, sizes instead of fonts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord

Weight = Literal["regular", "semibold", "bold", "black"]
Align = Literal["left", "center", "right"]
Measure = Callable[[str, float, Weight], float]
"""How wide a text is at a size in points and a weight; the renderer knows its fonts and hands this in."""

Point = tuple[float, float]

SHIFTED = 0.9
"""How large raised and lowered text is, in sizes of the text beside it."""


@dataclass(frozen=True)
class Run:
    """A piece of text in one style; `ink` is "text", "quiet", "axis:NAME" or "accent:NAME" of a theme.

    A size that is printed says of which `axis` it is.
    """

    text: str
    size: int
    ink: str = "text"
    weight: Weight = "regular"
    shift: Literal["", "sup", "sub"] = ""
    axis: str = ""


Line = tuple[Run, ...]


@dataclass(frozen=True)
class Box:
    """A node: lines of text around a centre, with or without a filled shape behind them.

    `on` is the surface of the theme that the text stands on; a filled box is filled with it, or with "line:NAME", the
    colour of a line. `outline` is a line role, None for the surface's own line. `tooltip` tells where the facts come
    from; `steps` are the steps that it stands for, as "training/head#0", `about` those that a text without a shape
    tells of. `record` is the tensor whose shape is printed, `station` the number of the station that the box belongs
    to. `marks` are names and values by which a page knows what else it shows, as the whole of a word that was cut.
    """

    id: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[Line, ...]
    on: str
    filled: bool = True
    outline: str | None = None
    outline_width: float = 1.0
    shape: Literal["round", "circle"] = "round"
    align: Align = "center"
    kind: str = ""
    tooltip: str = ""
    steps: tuple[str, ...] = ()
    record: TensorRecord | None = None
    station: int | None = None
    about: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    @property
    def top(self) -> float:
        return self.y + self.height / 2

    @property
    def bottom(self) -> float:
        return self.y - self.height / 2

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Panel:
    """A closed shape in the background: a start and cubic curves, outlined with a line role.

    `fill` is a surface, or "line:NAME" for the colour of a line.
    """

    path: tuple[Point, ...]
    fill: str
    outline: str | None = None
    outline_width: float = 0.0


@dataclass(frozen=True)
class Curve:
    """A line of cubic pieces; with a head it ends in an arrow whose tip is the last point.

    `dash` says how much of it is drawn and how much left out, in turns.
    """

    points: tuple[Point, ...]
    role: str
    width: float = 1.2
    dash: tuple[float, float] | None = None
    head: bool = True
    head_size: float = 0.6
    kind: str = "flow"
    tooltip: str = ""


@dataclass(frozen=True)
class Cells:
    """Small squares from a top-left corner: letters of a mask, or attention weights from 0 to 1; None is left out.

    `steps` are marked where a step is wrong; `about` is the step whose weights or mask it shows.
    """

    id: str
    x: float
    y: float
    cell: float
    rows: tuple[tuple[str | float | None, ...], ...]
    kind: str
    tooltip: str = ""
    steps: tuple[str, ...] = ()
    about: str = ""

    @property
    def width(self) -> float:
        return self.cell * max((len(row) for row in self.rows), default=0)

    @property
    def height(self) -> float:
        return self.cell * len(self.rows)


@dataclass(frozen=True)
class Layout:
    """A whole poster: what to draw from back to front, with a title and a description for those who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    panels: tuple[Panel, ...]
    cells: tuple[Cells, ...]
    curves: tuple[Curve, ...]
    boxes: tuple[Box, ...]


LEADING, ASCENT, CAP, BELOW = 1.12, 0.84, 0.18, 0.28
"""In sizes of the text: from line to line, from a line's top to its baseline, the air above capitals, under digits."""


def line_height(line: Line) -> float:
    """How high a line of text is set."""
    return max((run.size for run in line), default=0) * LEADING


def block_height(lines: tuple[Line, ...]) -> float:
    """How high several lines are, one under the other."""
    return sum(line_height(line) for line in lines)


def baselines(box: Box) -> tuple[float, ...]:
    """The height of each line's baseline, so that what is seen stands in the middle of the box."""
    if not box.lines:
        return ()
    first, last = (max((run.size for run in line), default=0) for line in (box.lines[0], box.lines[-1]))
    top = box.y + block_height(box.lines) / 2 - ((BELOW * last - CAP * first) / 2 if box.filled else 0.0)
    found = []
    for line in box.lines:
        found.append(top - ASCENT * max((run.size for run in line), default=0))
        top -= line_height(line)
    return tuple(found)


def line_width(line: Line, measure: Measure) -> float:
    """How wide a line is."""
    return sum(run_width(run, measure) for run in line)


def run_width(run: Run, measure: Measure) -> float:
    return measure(run.text, run.size * (SHIFTED if run.shift else 1.0), run.weight)


def block_width(lines: tuple[Line, ...], measure: Measure) -> float:
    """How wide the widest of several lines is."""
    return max((line_width(line, measure) for line in lines), default=0.0)
