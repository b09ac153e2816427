"""The foot of a column at inference: the question once, and the answer so far, one word longer each turn."""

from collections.abc import Sequence

from xray.ir.trace import Pass
from xray.story.canvas import Canvas, words
from xray.story.layout import Cells, Line, Run, line_width
from xray.story.regions.foot import EDGE, LINE, MOST_TURNS, QUESTION_LINES, Foot, Mask, find_mask, heading
from xray.story.sentences.of_runs import describe_read
from xray.story.shapes import digits, read_shape
from xray.story.sheet.columns import Column
from xray.story.sheet.words import Words
from xray.story.type_sizes import LABEL, NOTE, OP
from xray.story.wording import ELLIPSIS, fit_text, token_line, wrap_words
from xray.text import show_controls

MOST_CELLS, MORE = 24, 16.0


def draw_inference(canvas: Canvas, column: Column, foot: Foot, *, alone: bool) -> None:
    """What goes in at inference: the question once, or the answer so far; `alone` where no training stands beside."""
    read = column.words
    if read is None:
        return
    if read.is_answer:
        draw_turns(canvas, column, read, foot, alone=alone)
    elif not (alone and draw_question_wide(canvas, column, read, foot)):
        draw_question(canvas, column, read, foot)


def join_marks(listed: Sequence[str]) -> list[str]:
    """Words with the marks that follow them, so that no line begins with one."""
    joined: list[str] = []
    for word in listed:
        if joined and len(word) == 1 and not word.isalnum():
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def draw_turns(canvas: Canvas, column: Column, read: Words, foot: Foot, *, alone: bool) -> None:
    """The answer so far, turn by turn."""
    turns = read.passes
    chosen = list(turns) if len(turns) <= MOST_TURNS else [*turns[: MOST_TURNS - 2], turns[-1]]
    lines: list[Line] = []
    for turn in chosen:
        if turn is turns[-1] and len(chosen) < len(turns):
            lines.append(words(ELLIPSIS, NOTE, "quiet"))
        tag = f"turn {turn.number}  "
        room = foot.right - foot.left - canvas.text_width(tag, NOTE, "semibold") - 4
        told = token_line(read.read_in(turn), NOTE, room, canvas.measure)
        lines.append((Run(tag, NOTE, "accent:inference", "semibold"), *told))
    canvas.note(foot.left, foot.words, (heading("THE ANSWER SO FAR", describe_read(read)),))
    about = () if read.ids is None else (column.look.identity(read.ids),)
    canvas.note(foot.left, foot.words - EDGE, tuple(lines), kind="words", about=about)
    low = draw_turn_masks(canvas, column, read, foot, alone=alone)
    canvas.line((foot.centre, foot.words + 4), (foot.centre, low - 4), role="inference", width=2, dashed=True)


def draw_turn_masks(canvas: Canvas, column: Column, read: Words, foot: Foot, *, alone: bool) -> float:
    """The ids and the growing mask of the first turns; gives the height that they reach down to."""
    left, right = foot.left, foot.right
    ids = read_shape([(number, step.inputs[0]) for number, step in read.steps(read.lookup.id)])
    shown = list_masks(column, read)
    title: Line = (Run("IDS ", OP, "text", "bold"), *digits(ids, LABEL))
    if shown:
        mask = read_shape([(one.number, found.record) for one, found in shown])
        title = (*title, Run("   MASK ", OP, "text", "bold"), *digits(mask, LABEL))
    appending = read.appending(read.first)
    known = (column.look.identity(appending),) if appending is not None else ()
    canvas.note(left, foot.ids + 2, (title,), steps=known)
    x, top, high = left, foot.ids - EDGE - 4, 0.0
    cell, most = (13.0, 6) if alone else (9.0, 4)
    for place, (one_pass, found) in enumerate(shown[:most]):
        rows = tuple(tuple(row) for row in (found.facts.cells or ((),))[0]) if found.facts is not None else ()
        name = f"turn {one_pass.number}"
        width = max(cell * len(rows[0]), canvas.text_width(name, NOTE, "semibold") + 2)
        is_last = place == len(shown) - 1
        if x + width + (0 if is_last else MORE) > right:
            canvas.note(x, top - LINE, (words(ELLIPSIS, NOTE, "quiet"),))
            break
        canvas.note(x, top, (words(name, NOTE, "accent:inference", "semibold"),))
        told = "\n".join(column.look.tell((step,)) for step in found.steps)
        ran = tuple(f"{one_pass.key}/{step.id}" for step in found.steps)
        canvas.cells.append(Cells(f"mask_turn_{one_pass.number}", x, top - LINE - 2, cell, rows, "mask", told, ran))
        high = max(high, cell * len(rows))
        x += width + 14
        if place == most - 1 and not is_last:
            canvas.note(x - 4, top - LINE, (words(ELLIPSIS, NOTE, "quiet"),))
    if alone:
        canvas.note(x + 12, top, turn_ids(canvas, read, most, right - x - 12))
        return top - LINE - 2 - max(high, LINE * min(most, len(read.passes)))
    start = top - LINE - high - 8
    lines = turn_ids(canvas, read, int((start - (foot.ids - 142) + 6) / LINE), right - left)
    return canvas.note(left, start, lines).bottom


def list_masks(column: Column, read: Words) -> list[tuple[Pass, Mask]]:
    """The mask of each turn, as attention reads it; turns whose cells are not known are left out."""
    found = []
    for number, one_pass in enumerate(read.passes):
        mask = find_mask(column, number)
        if mask is not None and mask.facts is not None and mask.facts.cells:
            found.append((one_pass, mask))
    return found


def turn_ids(canvas: Canvas, read: Words, most: int, width: float) -> tuple[Line, ...]:
    """The ids that the first turns read: what they left behind, less the new word; with a cache the newest alone."""
    lines: list[Line] = []
    for one_pass in read.passes:
        step = read.appending(one_pass)
        preview = step.outputs[0].preview if step is not None else None
        if preview is None:
            continue
        if len(lines) == most - 1 and one_pass is not read.passes[-1]:
            return (*lines, words(ELLIPSIS, NOTE, "quiet"))
        tag = Run(f"turn {one_pass.number}  ", NOTE, "accent:inference", "semibold")
        listed = [str(int(value)) for value in preview.values[:-1]][-1 if read.reads_newest else 0 :]
        room = width - line_width((tag,), canvas.measure)
        lines.append((tag, Run(fit_text(" ".join(listed), NOTE, room, canvas.measure), NOTE, "text")))
    return tuple(lines)


def draw_question(canvas: Canvas, column: Column, read: Words, foot: Foot) -> None:
    """The one question of inference: its words, its ids and its mask, in which nothing is hidden."""
    left, width, look = foot.left, foot.right - foot.left, column.look
    row = [show_controls(word) for word in read.read_in(read.first)]
    lines = wrap_words(join_marks(row), NOTE, width, canvas.measure, QUESTION_LINES)
    canvas.note(left, foot.words, (words("ONE QUESTION", OP, "text", "bold"),))
    about = () if read.ids is None else (look.identity(read.ids),)
    canvas.note(left, foot.words - EDGE, tuple(words(line, NOTE) for line in lines), kind="words", about=about)
    y = foot.ids - EDGE
    if read.ids is not None:
        title = (Run("IDS ", OP, "text", "bold"), *digits(read_shape([(0, read.record)]), LABEL))
        canvas.note(left, foot.ids + 2, (title,), steps=(look.identity(read.ids),))
        preview = read.ids.outputs[0].preview
        if preview is not None:
            listed = wrap_words([str(int(value)) for value in preview.values], NOTE, width, canvas.measure, 3)
            canvas.note(
                left, y, tuple(words(line, NOTE) for line in listed), tooltip=look.tell((read.ids,)), about=about
            )
            y -= LINE * len(listed) + 8
    mask = find_mask(column)
    if mask is not None and mask.facts is not None:
        shape = read_shape([(0, mask.record)])
        canvas.note(left, y, ((Run("MASK ", OP, "text", "bold"), *digits(shape, LABEL)),))
        cells = mask.facts.cells
        if cells and len(cells[0][0]) <= MOST_CELLS:
            cell = min(10.0, width / len(cells[0][0]))
            rows = tuple(tuple(line) for line in cells[0])
            known = tuple(map(look.identity, mask.steps))
            canvas.cells.append(Cells("mask_question", left, y - 17, cell, rows, "mask", look.tell(mask.steps), known))
            y -= cell + 2
    canvas.line((foot.centre, foot.words + 4), (foot.centre, y - 20), role="inference", width=2, dashed=True)


def draw_question_wide(canvas: Canvas, column: Column, read: Words, foot: Foot) -> bool:
    """The question as a table: under each id its word, over it its mask cell; False where it is too long for that."""
    look, mask = column.look, find_mask(column)
    row = [show_controls(word) for word in read.read_in(read.first)]
    preview = read.ids.outputs[0].preview if read.ids is not None else None
    cells = mask.facts.cells if mask is not None and mask.facts is not None else None
    if preview is None or mask is None or not cells or read.ids is None:
        return False
    size = NOTE + 1
    pitch = max(36.0, max((canvas.text_width(word, size) for word in row), default=0.0) + 8)
    start = max(foot.left + 92.0, min(foot.centre - pitch * len(row) / 2, foot.right - pitch * len(row)))
    if start + pitch * len(row) > foot.right or len(row) != len(preview.values) or len(row) != len(cells[0][0]):
        return False
    top, floor = foot.ids, foot.words
    why = look.tell(mask.steps)
    known, asked = tuple(map(look.identity, mask.steps)), (look.identity(read.ids),)
    for place, word in enumerate(row):
        x = start + pitch * (place + 0.5)
        canvas.note(x, floor, (words(word, size),), align="center", kind="words", about=asked)
        canvas.line((x, floor + 4), (x, top - 62), role="inference", width=1.1, dashed=True, head_size=0.5)
        number = words(str(int(preview.values[place])), size)
        canvas.note(x, top - 44, (number,), align="center", tooltip=look.tell((read.ids,)), about=asked)
        one = ((cells[0][0][place],),)
        canvas.cells.append(Cells(f"mask_question_{place}", x - 7, top - 14, 14, one, "mask", why, known))
    ids, shape = read_shape([(0, read.record)]), read_shape([(0, mask.record)])
    for y, title, shown, steps in (
        (floor, "QUESTION", None, ()),
        (top - 44, "IDS", ids, asked),
        (top - 14, "MASK", shape, ()),
    ):
        lines = [words(title, OP, "text", "bold")]
        if shown is not None:
            lines.append(digits(shown, LABEL))
        canvas.note(start - 14, y + 8 if shown is not None else y + 1, tuple(lines), align="right", steps=steps)
    return True
