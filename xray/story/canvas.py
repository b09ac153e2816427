"""Collects what a poster is made of, and knows the few curves that it uses."""

from dataclasses import dataclass, field, replace

from xray.story.layout import (
    Align,
    Box,
    Cells,
    Curve,
    Layout,
    Line,
    Measure,
    Panel,
    Point,
    Run,
    Weight,
    block_height,
    block_width,
)

ROUND = 0.5523
"""How far a cubic's handles reach along a quarter circle of radius 1."""

AGAIN = "~"
"""Between a step's id and a number, where the step is drawn more than once."""


@dataclass
class Canvas:
    """The poster while it is being composed; `finish` freezes it.

    On a trial canvas only sizes are found out: nodes may stay without their texts.
    """

    measure: Measure
    is_trial: bool = False
    panels: list[Panel] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def add(self, box: Box) -> Box:
        """Put a box on the canvas and hand it back."""
        self.boxes.append(box)
        return box

    def note(
        self,
        x: float,
        y: float,
        lines: tuple[Line, ...],
        on: str = "page",
        align: Align = "left",
        tooltip: str = "",
        steps: tuple[str, ...] = (),
        kind: str = "note",
        about: tuple[str, ...] = (),
        marks: tuple[tuple[str, str], ...] = (),
    ) -> Box:
        """Text without a shape; `x` is its left edge, centre or right edge, `y` its top; "words" are the data's own."""
        width, height = block_width(lines, self.measure) + 2, block_height(lines)
        centre = {"left": x + width / 2, "center": x, "right": x - width / 2}[align]
        name = f"note_{len(self.boxes)}"
        return self.add(
            Box(
                name,
                centre,
                y - height / 2,
                width,
                height,
                lines,
                on,
                filled=False,
                align=align,
                kind=kind,
                tooltip=tooltip,
                steps=steps,
                about=about or steps,
                marks=marks,
            )
        )

    def panel(
        self,
        left: float,
        bottom: float,
        right: float,
        top: float,
        fill: str,
        radius: float = 16,
        outline: str | None = None,
        outline_width: float = 0.0,
    ) -> None:
        """A background rectangle with round corners."""
        self.panels.append(Panel(rounded(left, bottom, right, top, radius), fill, outline, outline_width))

    def line(
        self,
        *points: Point,
        role: str,
        width: float = 1.2,
        dashed: bool = False,
        dotted: bool = False,
        head: bool = True,
        head_size: float = 0.6,
        kind: str = "flow",
        tooltip: str = "",
        radius: float = 0,
        tip: float = 0.0,
    ) -> None:
        """A path along straight pieces, its corners rounded; so much of its end stays straight for the `tip`."""
        path = through(points, radius, tip)
        dash = (1.4, 3.6) if dotted else (max(5.0, width * 2.0), max(3.0, width * 1.3)) if dashed else None
        self.curves.append(Curve(path, role, width, dash, head, head_size, kind, tooltip))

    def text_width(self, text: str, size: float, weight: Weight = "regular") -> float:
        """How wide a text is, in points."""
        return self.measure(text, size, weight)

    def finish(self, width: float, height: float, title: str, description: str) -> Layout:
        """The layout, frozen; where one recorded step is drawn as several boxes, the others have numbers."""
        seen: dict[str, int] = {}
        for place, box in enumerate(self.boxes):
            seen[box.id] = seen.get(box.id, 0) + 1
            if seen[box.id] > 1:
                self.boxes[place] = replace(box, id=f"{box.id}{AGAIN}{seen[box.id]}")
        return Layout(
            width,
            height,
            title,
            description,
            tuple(self.panels),
            tuple(self.cells),
            tuple(self.curves),
            tuple(self.boxes),
        )


def words(text: str, size: int, ink: str = "text", weight: Weight = "regular") -> Line:
    """A line of one run."""
    return (Run(text, size, ink, weight),)


def rounded(left: float, bottom: float, right: float, top: float, radius: float) -> tuple[Point, ...]:
    """The outline of a rectangle with round corners, as cubics."""
    r = min(radius, (right - left) / 2, (top - bottom) / 2)
    k = r * (1 - ROUND)
    return (
        (left + r, bottom),
        *straight((left + r, bottom), (right - r, bottom)),
        (right - k, bottom),
        (right, bottom + k),
        (right, bottom + r),
        *straight((right, bottom + r), (right, top - r)),
        (right, top - k),
        (right - k, top),
        (right - r, top),
        *straight((right - r, top), (left + r, top)),
        (left + k, top),
        (left, top - k),
        (left, top - r),
        *straight((left, top - r), (left, bottom + r)),
        (left, bottom + k),
        (left + k, bottom),
        (left + r, bottom),
    )


def straight(start: Point, end: Point) -> tuple[Point, Point, Point]:
    """A straight piece as the last three points of a cubic."""
    return (between(start, end, 1 / 3), between(start, end, 2 / 3), end)


def between(start: Point, end: Point, share: float) -> Point:
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)


def polygon(*corners: Point) -> tuple[Point, ...]:
    """A closed outline with sharp corners, as cubics."""
    path: tuple[Point, ...] = (corners[0],)
    for start, end in zip(corners, (*corners[1:], corners[0]), strict=True):
        path += straight(start, end)
    return path


def through(points: tuple[Point, ...], radius: float, tip: float = 0.0) -> tuple[Point, ...]:
    """A path along the points, each inner corner cut by a curve of the given radius; the `tip` of it is straight."""
    path: tuple[Point, ...] = (points[0],)
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        room = distance(corner, after)
        room = room - tip if tip and after is points[-1] else room / 2
        reach = min(radius, distance(before, corner) / 2, room)
        if reach <= 0:
            path += straight(path[-1], corner)
            continue
        entry = between(corner, before, reach / distance(before, corner))
        leave = between(corner, after, reach / distance(corner, after))
        path += straight(path[-1], entry)
        path += (between(entry, corner, ROUND), between(leave, corner, ROUND), leave)
    return path + straight(path[-1], points[-1])


def distance(one: Point, other: Point) -> float:
    return float(((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5)
