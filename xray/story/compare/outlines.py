"""Marks on the poster: an outline around each marked step, a number at the first ones, and a card that lists those."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xray.story.canvas import Canvas, rounded, words
from xray.story.compare.marks import Mark, Marks
from xray.story.failure.operands import Operand
from xray.story.layout import Box, Curve, Line, Run, block_height, line_width
from xray.story.shapes import TIMES
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import fit_text, wrap, wrap_words
from xray.text import show_controls

MOST_LISTED = 6
BADGE = 9.0
OUTLINE, CASING, FIRST = 2.6, 6.0, 3.4
"""How thick an outline is, the casing around it, and how much thicker the first one's."""

Blocks = list[tuple[int, tuple[Line, ...]]]
"""What a card lists: lines, each block with its mark's number, 0 for a note."""


@dataclass(frozen=True)
class Area:
    """A rectangle on the canvas; text or cells without a shape around them have their number beside them."""

    left: float
    bottom: float
    right: float
    top: float
    has_shape: bool = True


def card_blocks(canvas: Canvas, marks: Marks, width: float, most: int = MOST_LISTED) -> Blocks:
    """What a card of that width says."""
    inner = width - 56
    listed = listed_marks(marks)
    blocks: Blocks = [
        (place + 1, list_mark(canvas, mark, inner)) for place, mark in enumerate(listed[: min(most, MOST_LISTED)])
    ]
    rest = len(marks.steps) - len(blocks)
    more = [f"and {rest:,} more, outlined"] if len(listed) > len(blocks) else []
    for note in (*more, *marks.notes):
        blocks.append((0, tuple(words(line, NOTE, "quiet") for line in wrap(note, NOTE, inner, canvas.measure, 2))))
    return blocks


def listed_marks(marks: Marks) -> list[Mark]:
    """The marks to be listed: of those inside one node of the poster the first."""
    first: dict[tuple[str, str], Mark] = {}
    for mark in marks.steps:
        first.setdefault((mark.kind, node_of(mark)), mark)
    return list(first.values())


def node_of(mark: Mark) -> str:
    """The path of the node that a step is drawn as; steps below it (a view inside a split) go with it."""
    parts = mark.step.partition("#")[0].split(".")
    return ".".join(parts[:5]) if "layers" in parts[:2] else ".".join(parts)


def list_mark(canvas: Canvas, mark: Mark, width: float) -> tuple[Line, ...]:
    """A mark on one line where it fits, else on two or more: the step, its tensors, what is the matter."""
    name = describe_place(mark)
    path = fit_text(mark.step.removesuffix("#0"), NOTE + 1, width, canvas.measure)
    place = words(name, NOTE, "quiet") if name else ()
    head: Line = (Run(path, NOTE + 1, "text", "bold"), *place)
    shapes = fit_operands(canvas, mark.operands, width)
    text = (Run("    ", NOTE), Run(mark.text, NOTE, "accent:warning", "semibold")) if mark.text else ()
    side_by_side = (Run("    ", NOTE), *shapes) if shapes else ()
    for lines in (((*head, *side_by_side, *text),), (head, (*shapes, *text))):
        if lines[-1] and all(line_width(line, canvas.measure) <= width for line in lines):
            return lines
    below = words(fit_text(name.lstrip(), NOTE, width, canvas.measure), NOTE, "quiet")
    heads = (head,) if line_width(head, canvas.measure) <= width else (head[:1], below)
    told = wrap_words(mark.text.split(" "), NOTE, width, canvas.measure, 3, "semibold")
    return (*heads, *((shapes,) if shapes else ()), *(words(line, NOTE, "accent:warning", "semibold") for line in told))


def describe_place(mark: Mark) -> str:
    """The pass that a step is of and the line that called it, to stand after its name."""
    where = f"{mark.kind} {mark.number}" if mark.number else mark.kind
    parts = ([] if mark.kind == "forward" else [where]) + ([mark.location] if mark.location else [])
    return "  " + show_controls(", ".join(parts)) if parts else ""


def fit_operands(canvas: Canvas, operands: Sequence[Operand], width: float) -> Line:
    """The operands side by side; those that do not fit are counted."""
    for kept in range(len(operands), 0, -1):
        line = operand_line(operands[:kept], len(operands) - kept)
        if line_width(line, canvas.measure) <= width:
            return line
    return ()


def operand_line(operands: Sequence[Operand], left_out: int = 0, ink: str = "accent:warning") -> Line:
    """Names and sizes; an axis that does not fit is larger, in a colour of its own, and in brackets."""
    runs: list[Run] = []
    for place, operand in enumerate(operands):
        if place:
            runs.append(Run("   ", NOTE))
        runs.append(Run(f"{operand.name}  ", NOTE, "quiet"))
        for axis, size in enumerate(operand.sizes):
            if axis:
                runs.append(Run(TIMES, LABEL, "quiet"))
            wrong = axis in operand.wrong
            runs.append(
                Run(f"[{size}]", LABEL + 2, ink, "bold") if wrong else Run(str(size), LABEL, "text", "semibold")
            )
        if not operand.sizes and not operand.type:
            runs.append(Run("one number", LABEL, "text", "semibold"))
        if operand.type:
            runs.append(Run(f" [{operand.type}]", LABEL, ink, "bold"))
    if left_out:
        runs.append(Run(f"   and {left_out} more", NOTE, "quiet"))
    return tuple(runs)


def card_height(blocks: Blocks) -> float:
    """How high a card with these blocks is."""
    return 32 + sum(max(block_height(lines), 2 * BADGE if number else 0) + 6 for number, lines in blocks)


def draw_marks_card(canvas: Canvas, marks: Marks, blocks: Blocks, left: float, top: float, width: float) -> float:
    """The list of marks as a card; gives the height that is left below it."""
    start = len(canvas.panels)
    heading: Line = (Run(marks.heading, LABEL, "accent:warning", "bold"),)
    if len(marks.steps) > 1:
        heading += (Run("    in the order in which they ran: 1 is where it began", NOTE, "quiet"),)
    canvas.note(left + 14, top - 9, (heading,), "card")
    y = top - 30
    for number, lines in blocks:
        high = max(block_height(lines), 2 * BADGE if number else 0)
        if number:
            draw_badge(canvas, marks, number, left + 14 + BADGE, y - high / 2, "listed")
        canvas.note(left + 42, y - (high - block_height(lines)) / 2, lines, "card")
        y -= high + 6
    bottom = top - card_height(blocks)
    canvas.panel(left, bottom, left + width, top, "card", 12, marks.paint, 2.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return bottom


def draw_badge(canvas: Canvas, marks: Marks, number: int, x: float, y: float, kind: str) -> None:
    canvas.add(
        Box(
            f"{kind}_{number}",
            x,
            y,
            2 * BADGE,
            2 * BADGE,
            (words(str(number), NOTE, "text", "bold"),),
            marks.paint,
            shape="circle",
            kind="mark",
            tooltip=f"{marks.heading.lower()}: number {number}",
        )
    )


def outline_marks(canvas: Canvas, marks: Marks, listed: int, names: Callable[[Mark], Iterable[str]]) -> None:
    """An outline around everything on the canvas that stands for a marked step, and its number at its corner.

    Only those that the card lists have a number. `names` tells under which names a marked step may be there.
    """
    areas = find_areas(canvas)
    numbers = {mark: place + 1 for place, mark in enumerate(listed_marks(marks)[:listed])}
    outlined: set[Area] = set()
    for place, mark in enumerate(marks.steps):
        fresh = [area for area in next(filter(None, map(areas.get, names(mark))), ()) if area not in outlined]
        outlined |= set(fresh)
        for area in fresh:
            outline(canvas, marks, area, first=place == 0, tooltip=f"{mark.step} {mark.text}")
        if fresh and mark in numbers:
            draw_badge(canvas, marks, numbers[mark], *badge_place(fresh[0]), "mark")


def find_areas(canvas: Canvas) -> dict[str, list[Area]]:
    """Where each step is on the canvas."""
    found: dict[str, list[Area]] = defaultdict(list)
    for box in canvas.boxes:
        for step in box.steps:
            found[step].append(Area(box.left, box.bottom, box.right, box.top, box.filled))
    for cells in canvas.cells:
        for step in cells.steps:
            found[step].append(Area(cells.x, cells.y - cells.height, cells.x + cells.width, cells.y, has_shape=False))
    return found


def badge_place(area: Area) -> tuple[float, float]:
    """Where the number of a marked thing stands: on its corner, or left of what has none."""
    if area.has_shape:
        return area.left - 1, area.top + 1
    return area.left - BADGE - 5, (area.bottom + area.top) / 2


def outline(canvas: Canvas, marks: Marks, area: Area, *, first: bool, tooltip: str) -> None:
    more = FIRST if first else 0.0
    path = rounded(area.left - 2, area.bottom - 2, area.right + 2, area.top + 2, 9)
    for role, width in (("mark_casing", CASING + more), (marks.paint, OUTLINE + more)):
        canvas.curves.append(Curve(path, role, width, head=False, kind="mark", tooltip=tooltip))
