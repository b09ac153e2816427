"""The two tall arrows at the flanks that restate the milestones, joined to their rows by dotted leaders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xray.story.canvas import Canvas, polygon, words
from xray.story.charts.chart import Chart, Node
from xray.story.layout import Box, Line, Panel, Point, Run, block_height, line_width
from xray.story.shapes import ShapeText, digits
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.placing import Placed
from xray.story.sheet.columns import Column
from xray.story.sheet.frames import Drawn
from xray.story.type_sizes import LABEL, NOTE, PANEL_PAD

HEAD_HEIGHT, WING = 74.0, 13.0
MILESTONES = {
    "heads0_q": "SPLIT INTO HEADS",
    "scores": "SCORES",
    "mask0": "MASK",
    "values": "WEIGHTED VALUES",
    "output": "HEADS JOINED",
    "expand": "WIDEST",
}
"""The rows that are restated, by the key of their node, with the name that the ledger gives them."""

KEYS_OF_MEMORY = ("heads0_k", "HEADS OF K AND V")
NUMBER, NAME = 13, 11
MARKS = {"training": "•", "inference": "◌", "forward": "•"}
"""Solid and dotted as the paths are, so that the phases can be told apart without colour."""


@dataclass(frozen=True)
class Milestone:
    """A row that is restated: its name, its box, and the node that shows it in every phase."""

    name: str
    box: Box
    nodes: tuple[tuple[Look, Node], ...]
    is_inside: bool = True


def draw_ledger(
    canvas: Canvas,
    column: Column,
    drawn: Drawn,
    entrance: Sequence[Placed],
    edges: tuple[float, float],
    frame: tuple[float, float],
) -> None:
    """One arrow with the milestones of a tower; `edges` are its own, `frame` those of the tower's frames."""
    left, right = edges
    own = column.look.own
    surface = f"{own}_ledger"
    is_before = right < frame[0]
    stones = [*list_entrance(column, entrance), *list_milestones(column, drawn)]
    top = drawn.top + (84 if is_before else 20)
    bottom = min(stone.box.bottom for stone in stones) - 8
    neck = top - HEAD_HEIGHT
    middle = (left + right) / 2
    corners: tuple[Point, ...] = (
        (left, bottom),
        (right, bottom),
        (right, neck),
        (right + WING, neck),
        (middle, top),
        (left - WING, neck),
        (left, neck),
    )
    canvas.panels.append(Panel(polygon(*corners), surface))
    title = words(column.name.upper(), LABEL, f"accent:{own}", "bold")
    canvas.note(middle, neck + 12, (title,), surface, "center")
    ceiling = neck - 4
    for stone in sorted(stones, key=lambda one: -one.box.y):
        if stone.box.top < neck - 4:
            ceiling = draw_milestone(canvas, stone, edges, frame, surface, ceiling)


def list_entrance(column: Column, entrance: Sequence[Placed]) -> Iterator[Milestone]:
    """What the words become."""
    key = next((node.key for node in column.entrance.nodes if node.key == "words"), None) if column.entrance else None
    if key is None or not entrance:
        return
    nodes = tuple((phase.look, phase.entrance.node(key)) for phase in column.phases if phase.entrance is not None)
    yield Milestone("EMBEDDING", entrance[0].boxes[key], nodes, is_inside=False)


def list_milestones(column: Column, drawn: Drawn) -> Iterator[Milestone]:
    """The milestones of the panels that are open."""
    looks = [phase.look for phase in column.phases]
    for panel in drawn.shown:
        charts, boxes = [one.chart for one in panel.panels], panel.placed[0].boxes
        names = dict([KEYS_OF_MEMORY, *list(MILESTONES.items())[1:]]) if charts[0].memory else MILESTONES
        for key, name in names.items():
            if panel.panels[0].is_open and key in boxes:
                nodes = tuple(
                    (look, node) for look, chart in zip(looks, charts, strict=True) if (node := find_node(chart, key))
                )
                yield Milestone(name, boxes[key], nodes)
    last = drawn.shown[-1]
    nodes = tuple((look, one.chart.nodes[-1]) for look, one in zip(looks, last.panels, strict=True))
    is_row = drawn.lasts[0] not in last.placed[0].boxes.values()
    yield Milestone("LAYER OUTPUT", drawn.lasts[0], nodes, is_inside=not is_row)


def find_node(chart: Chart, key: str) -> Node | None:
    """The node of a key, or of the one that stands for it in a narrow form."""
    kind, _, letter = key.partition("_")
    found = next((node for node in chart.nodes if node.key == key), None)
    return found or next((node for node in chart.nodes if letter and node.key.startswith(f"{kind}_")), None)


def draw_milestone(
    canvas: Canvas,
    stone: Milestone,
    edges: tuple[float, float],
    frame: tuple[float, float],
    surface: str,
    ceiling: float,
) -> float:
    """A name, the shapes of all phases, and a leader to the row; gives the height below which the next may stand."""
    left, right = edges
    lines: list[Line] = [words(stone.name, NAME, "text", "bold")]
    for look, node in stone.nodes:
        record = node.beside if stone.name == "MASK" and node.beside is not None else node.record
        if record is not None:
            lines.append(phase_line(canvas, look.role, look.shape(node.steps[0], record), right - left - 14))
    height, y = block_height(tuple(lines)), stone.box.y
    top = min(ceiling, y + height / 2)
    about = tuple(look.identity(node.steps[0]) for look, node in stone.nodes)
    canvas.note(left + 8, top, tuple(lines), surface, about=about)
    is_before = right < frame[0]
    if is_before:
        start, end = right + 2, frame[0] + PANEL_PAD + 6 if stone.is_inside else frame[0] - 12
    else:
        start, end = frame[1] - PANEL_PAD - 6 if stone.is_inside else frame[1] - 4, left - 2
    canvas.line((start, y), (end, y), role="leader", width=1.3, dotted=True, head=False, kind="leader")
    return top - height - 5


def phase_line(canvas: Canvas, role: str, shape: ShapeText, width: float) -> Line:
    """A shape with the mark of its phase, in the largest type that fits."""
    accent = f"accent:{role}" if role != "forward" else "quiet"
    mark = Run(f"{MARKS[role]} ", NUMBER + 2, accent, "bold")
    for size in range(NUMBER, NOTE, -1):
        line = (mark, *digits(shape, size))
        if line_width(line, canvas.measure) <= width:
            return line
    return (mark, *digits(shape, NOTE))
