"""The two tall arrows at the flanks that restate the milestones, joined to their rows by dotted leaders."""

from xray.story.canvas import Canvas, polygon, words
from xray.story.column import Column
from xray.story.journey import Journey, Phase
from xray.story.labels import mask_shape
from xray.story.layout import Line, Panel, Point, Run, block_height, line_width
from xray.story.plan import EMBED_WIDTH, LABEL, NOTE, PANEL_PAD, Plan, Row
from xray.story.shapes import ShapeText, digits

HEAD_HEIGHT = 74.0
SELF = (
    ("heads", "split_query", "SPLIT INTO HEADS"),
    ("scores", "scores", "SCORES"),
    ("mask", "mask.mask", "MASK"),
    ("values", "weighted_sum", "WEIGHTED VALUES"),
    ("output", "output", "HEADS JOINED"),
)
CROSS = (("heads", "split_key", "HEADS OF K AND V"), *SELF[1:])
NUMBER, NAME = 13, 11
MARKS: dict[Phase, str] = {"training": "•", "inference": "◌"}
"""Solid and dotted as the paths are, so that the phases can be told apart without colour."""

Milestone = tuple[Row, str, str]
"""A row of the poster, the path of the step that it shows, and the name that the ledger gives it."""


def draw_ledger(canvas: Canvas, plan: Plan, column: Column) -> None:
    """One arrow with the milestones of its side."""
    flank = plan.flanks[column.side]
    left, right = flank.ledger
    surface = f"{column.side}_ledger"
    top = flank.top + (84 if right < flank.frame.left else 20)
    bottom = plan.entrance["embed"].bottom - 8
    neck = top - HEAD_HEIGHT
    wing = 13.0
    middle = (left + right) / 2
    corners: tuple[Point, ...] = (
        (left, bottom),
        (right, bottom),
        (right, neck),
        (right + wing, neck),
        (middle, top),
        (left - wing, neck),
        (left, neck),
    )
    canvas.panels.append(Panel(polygon(*corners), surface))
    canvas.note(
        middle, neck + 12, (words(column.side.upper(), LABEL, f"accent:{column.side}", "bold"),), surface, "center"
    )
    ceiling = neck - 6
    for milestone in sorted(milestones(plan, column), key=lambda entry: -entry[0].y):
        if milestone[0].top < neck - 4:
            ceiling = draw_milestone(canvas, column, milestone, (left, right), surface, ceiling)


def milestones(plan: Plan, column: Column) -> list[Milestone]:
    """The rows that are restated, with the step they show and its name."""
    side, layer = column.side, column.main.layer
    stacks = plan.flanks[side].stacks
    listed = [(plan.entrance["embed"], f"{side}.embedding.words", "EMBEDDING")]
    for name, parts in (("self_attention", SELF), ("cross_attention", CROSS)):
        if name in stacks:
            rows = stacks[name].rows
            listed += [(rows[row], f"{layer}.{name}.{path}", label) for row, path, label in parts if row in rows]
    rows = stacks["feed_forward"].rows
    listed.append((rows["expand"], f"{layer}.feed_forward.expand", "WIDEST"))
    listed.append((rows["add"], layer, "LAYER OUTPUT"))
    return listed


def draw_milestone(
    canvas: Canvas, column: Column, milestone: Milestone, edges: tuple[float, float], surface: str, ceiling: float
) -> float:
    """A name, the shapes of both phases, and a leader to the row; gives the height below which the next may stand."""
    row, path, label = milestone
    left, right = edges
    lines: list[Line] = [words(label, NAME, "text", "bold")]
    for journey in (column.main, column.brief):
        shape = milestone_shape(journey, path)
        if journey is not None and shape is not None:
            lines.append(phase_line(canvas, journey, shape, right - left - 14))
    if len(lines) == 1:
        return ceiling
    height = block_height(tuple(lines))
    top = min(ceiling, row.y + height / 2)
    canvas.note(left + 8, top, tuple(lines), surface)
    encoder = right < column.frame.left
    outer = column.frame.right - PANEL_PAD - 6
    if "layers" not in path:
        outer = column.frame.brief_right + 8 if column.brief is not None else column.frame.centre + EMBED_WIDTH / 2 + 8
    start = right + 2 if encoder else outer
    inner = column.frame.left + (PANEL_PAD + 6 if "layers" in path else -12)
    if "layers" not in path and column.main.phase == "inference":
        inner = column.frame.centre - EMBED_WIDTH / 2 - 8
    end = inner if encoder else left - 2
    canvas.line((start, row.y), (end, row.y), role="leader", width=1.3, dotted=True, head=False, kind="leader")
    return top - height - 5


def milestone_shape(journey: Journey | None, path: str) -> ShapeText | None:
    if journey is None:
        return None
    if path.endswith("mask.mask"):
        return mask_shape(journey, path.removesuffix(".mask.mask"))
    return journey.output(path)


def phase_line(canvas: Canvas, journey: Journey, shape: ShapeText, width: float) -> Line:
    mark = Run(f"{MARKS[journey.phase]} ", NUMBER + 2, f"accent:{journey.phase}", "bold")
    for size in range(NUMBER, NOTE, -1):
        line = (mark, *digits(shape, size))
        if line_width(line, canvas.measure) <= width:
            return line
    return (mark, *digits(shape, NOTE))
