"""The poster with blanks in it, and the same with the answers in the blanks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.story.layout import Box, Curve, Layout, Line, Measure, Run, baselines, line_width
from xray.story.type_sizes import DIGIT, LABEL, NOTE, PAGE_RATIO
from xray.story.walk.moving import move
from xray.story.walk.worksheet import Blank, Choice, is_size, split_shape, text_of

HEAD, EDGE = 46.0, 5.0
"""How much higher a sheet is than its poster, and what is kept free around a blank."""

RULE = "_"
SMALLEST_BESIDE, SMALLEST = 13, 10
"""The least size of digits beside other words, and of all text; smaller would not be read on A2."""


@dataclass(frozen=True)
class Area:
    """Where a blank stands."""

    left: float
    bottom: float
    right: float
    top: float


def make_sheet(
    layout: Layout, blanks: Sequence[Blank], choice: Choice, measure: Measure, *, hints: bool = False
) -> Layout:
    """The poster to be filled in: numbered blanks instead of shapes, and nothing that gives them away.

    What else prints an asked shape (ledgers, formulas, remarks) shows a line in its place, and no tooltip says more
    than the name of its step. With hints the axis words of a blank stay.
    """
    by_id = {blank.question.box.id: blank for blank in blanks}
    answers = {blank.question.answer for blank in blanks}
    boxes: list[Box] = []
    for box in layout.boxes:
        blank = by_id.get(box.id)
        if blank is None:
            boxes.append(replace(hide_answers(box, answers, measure), tooltip=name_only(box.tooltip)))
        else:
            emptied = empty(blank, measure, hints)
            boxes += [replace(hide_answers(emptied, answers, measure), tooltip=name_only(box.tooltip))]
            boxes.append(draw_blank(blank, (number_line(blank),), measure, hints))
    sheet = replace(
        layout,
        title=f"{layout.title}: worksheet",
        description=f"A worksheet: the transformer from bottom to top, with {len(blanks)} shapes left out, numbered in "
        "reading order. Name and date go to the top.",
        boxes=tuple(boxes),
        cells=tuple(replace(cells, tooltip=name_only(cells.tooltip)) for cells in layout.cells),
        curves=tuple(replace(curve, tooltip=name_only(curve.tooltip)) for curve in layout.curves),
    )
    return put_head(sheet, name_fields(sheet, len(blanks), measure), choice, measure)


def make_key(layout: Layout, blanks: Sequence[Blank], choice: Choice, measure: Measure) -> Layout:
    """The answers to the sheet: the same poster, each blank filled in and outlined, with its number."""
    by_id = {blank.question.box.id: blank for blank in blanks}
    boxes: list[Box] = []
    for box in layout.boxes:
        blank = by_id.get(box.id)
        if blank is None:
            boxes.append(box)
        else:
            boxes.append(empty(blank, measure, hints=False))
            boxes.append(draw_blank(blank, answer_lines(blank, measure), measure, hints=False))
    listed = "; ".join(f"{blank.number}: {blank.question.answer}" for blank in blanks)
    key = replace(
        layout,
        title=f"{layout.title}: answers",
        description=f"{layout.description} Answers: {listed}.",
        boxes=tuple(boxes),
    )
    told = (Run("ANSWERS", 24, "accent:title", "black"),)
    title = Box("sheet_title", 134, key.height + HEAD / 2, 200, 30, (told,), "page", False, align="left")
    return put_head(key, ([title], []), choice, measure)


def empty(blank: Blank, measure: Measure, hints: bool) -> Box:
    """The node of a blank with room in the place of its shape."""
    box, at = blank.question.box, blank.question.line
    before, shape, after = split_shape(box.lines[at])
    kept = after if hints else room(after, measure)
    below = box.lines[at + 1 :] if hints else tuple(room(line, measure) for line in box.lines[at + 1 :])
    return replace(box, lines=(*box.lines[:at], (*before, *room(shape, measure), *kept), *below))


def room(line: Line, measure: Measure) -> Line:
    """Spaces as wide and as high as a line."""
    size = max((run.size for run in line), default=0)
    return (Run(" " * max(1, round(line_width(line, measure) / measure(" ", size, "regular"))), size),) if size else ()


def find_area(blank: Blank, measure: Measure, hints: bool) -> Area:
    """Where the shape of a node stands, as wide as the node allows."""
    box, at = blank.question.box, blank.question.line
    lines, heights = box.lines, baselines(box)
    before, shape, after = split_shape(lines[at])
    start = box.x - line_width(lines[at], measure) / 2
    edge = min(EDGE, box.width / 20)
    left = start + line_width(before, measure) if before else box.left + edge
    beside = hints and text_of(after)
    right = start + line_width((*before, *shape), measure) + edge / 2 if beside else box.right - edge
    last = at if hints else len(lines) - 1
    size, low = max(run.size for run in shape), max(run.size for run in lines[last])
    top = min(heights[at] + 0.8 * size, box.top - 2)
    return Area(left, max(heights[last] - 0.32 * low, box.bottom + 2), right, top)


def draw_blank(blank: Blank, lines: tuple[Line, ...], measure: Measure, hints: bool) -> Box:
    """The empty field, or the field with an answer in it."""
    area = find_area(blank, measure, hints)
    return Box(
        id=f"blank_{blank.number}",
        x=(area.left + area.right) / 2,
        y=(area.bottom + area.top) / 2,
        width=area.right - area.left,
        height=area.top - area.bottom,
        lines=lines,
        on="page",
        outline="card",
        outline_width=1.4,
        align="left",
        kind="blank",
    )


def number_line(blank: Blank) -> Line:
    return (Run(f" {blank.number}  ", NOTE, "quiet", "semibold"),)


def answer_lines(blank: Blank, measure: Measure) -> tuple[Line, ...]:
    """The number and the shape, the axis words beside or under it where they fit."""
    area, box, at = find_area(blank, measure, hints=False), blank.question.box, blank.question.line
    width = area.right - area.left - 3
    _, shape, after = split_shape(box.lines[at])
    close = (Run(f"{blank.number} ", SMALLEST, "quiet"),)
    for number, words, largest, smallest in (
        (number_line(blank), after, DIGIT - 1, SMALLEST_BESIDE),
        (number_line(blank), (), DIGIT - 1, SMALLEST_BESIDE),
        (close, (), SMALLEST_BESIDE, SMALLEST),
    ):
        for size in range(largest, smallest - 1, -1):
            line = (*number, *(replace(run, size=size) for run in shape), *words)
            if line_width(line, measure) <= width:
                under = [(Run(" " * 3, NOTE), *each) for each in box.lines[at + 1 :]]
                fits = all(line_width(each, measure) <= width for each in under)
                return (line, *under) if fits else (line,)
    return (tuple(replace(run, size=SMALLEST) for run in shape),)


def hide_answers(box: Box, answers: set[str], measure: Measure) -> Box:
    """A box in which no asked shape is printed any more, be it in colours or in words; nodes keep their own shape."""
    is_node = box.kind.startswith("step ")
    lines = box.lines if is_node else tuple(hide_shapes(line, answers, measure) for line in box.lines)
    spelt = {answer for answer in answers if "×" in answer or is_node}
    return replace(box, lines=tuple(tuple(hide_words(run, spelt) for run in line) for line in lines))


def hide_shapes(line: Line, answers: set[str], measure: Measure) -> Line:
    """A line with a rule in the place of every asked shape of more than one axis."""
    before, shape, after = split_shape(line)
    if not shape:
        return line
    if len(shape) > 1 and text_of(shape) in answers:
        width = line_width(shape, measure)
        count = max(2, round(width / measure(RULE, shape[0].size, "regular")))
        shape = (Run(RULE * count, shape[0].size, "quiet"),)
    return (*before, *shape, *hide_shapes(after, answers, measure))


def hide_words(run: Run, answers: set[str]) -> Run:
    """A run of plain text without the asked shapes."""
    if is_size(run):
        return run
    text = run.text
    for answer in sorted(answers, key=len, reverse=True):
        text = re.sub(rf"(?<![\w,.×]){re.escape(answer)}(?![\w,.×])", RULE * 3, text)
    return replace(run, text=text)


def name_only(tooltip: str) -> str:
    """The first line of a tooltip, which names the step."""
    return tooltip.partition("\n")[0]


def name_fields(layout: Layout, count: int, measure: Measure) -> tuple[list[Box], list[Curve]]:
    """Name, date and score, each with a line to write on."""
    boxes: list[Box] = []
    curves: list[Curve] = []
    base = layout.height + 12
    x = 34.0
    for place, (label, length) in enumerate((("Name", 250.0), ("Date", 120.0), ("Right", 44.0))):
        line = (Run(label, LABEL + 2, "text", "semibold"),)
        width = line_width(line, measure)
        boxes.append(Box(f"sheet_field_{place}", x + width / 2, base + 3, width, 18, (line,), "page", False))
        start, x = x + width + 8, x + width + 8 + length
        third = length / 3
        path = ((start, base - 2), (start + third, base - 2), (x - third, base - 2), (x, base - 2))
        curves.append(Curve(path, "leader", 1.4, head=False, kind="field"))
        x += 26
    line = (Run(f"of {count}", LABEL + 2, "text", "semibold"),)
    boxes.append(Box("sheet_count", x - 18 + line_width(line, measure) / 2, base + 3, 40, 18, (line,), "page", False))
    return boxes, curves


def put_head(layout: Layout, parts: tuple[list[Box], list[Curve]], choice: Choice, measure: Measure) -> Layout:
    """A page that is higher by a strip for a name, and as much wider as paper asks for."""
    told: Line = (Run(f"One shape in every numbered field. {choice.told[0].upper()}{choice.told[1:]}.", NOTE, "quiet"),)
    width = line_width(told, measure)
    remark = Box("sheet_remark", layout.width - 34 - width / 2, layout.height + 14, width, 14, (told,), "page", False)
    boxes, curves = parts
    whole = replace(layout, boxes=(*layout.boxes, *boxes, remark), curves=(*layout.curves, *curves))
    height = layout.height + HEAD
    aside = max(0.0, (height / PAGE_RATIO - layout.width) / 2)
    return replace(move(whole, aside), width=layout.width + 2 * aside, height=height)
