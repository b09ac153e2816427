"""What goes in at inference: the question once, and the answer so far, one word longer each turn."""

from collections.abc import Sequence

from xray.ir.trace import Pass
from xray.story.batch import EDGE, LINE, heading
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.journey import Journey, describe
from xray.story.labels import mask_shape
from xray.story.layout import Cells, Line, Run, line_width
from xray.story.plan import LABEL, NOTE, OP, Plan
from xray.story.shapes import digits, read_shape
from xray.story.wording import ELLIPSIS, fit_text, token_line, wrap_words
from xray.text import show_controls

MOST_TURNS, MOST_CELLS, QUESTION_LINES, MORE = 6, 24, 5, 16.0
MASK_STEPS = ("tgt_mask.padding", "tgt_mask.causal", "tgt_mask.combine")


def join_marks(listed: Sequence[str]) -> list[str]:
    """Words with the marks that follow them, so that no line begins with one."""
    joined: list[str] = []
    for word in listed:
        if joined and len(word) == 1 and not word.isalnum():
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def lines_of_turns(journey: Journey) -> int:
    """How many lines the turns take."""
    return min(len(journey.passes), MOST_TURNS)


def draw_turns(
    canvas: Canvas, plan: Plan, journey: Journey, column: Column, left: float, right: float, centre: float
) -> None:
    """What goes in at inference: the question once, or the answer so far, one word longer each turn."""
    if journey.side == "encoder":
        if not (journey is column.main and draw_question_wide(canvas, plan, journey, column, left, right)):
            draw_question(canvas, plan, journey, left, right, centre)
        return
    if journey is column.main:
        left = column.frame.detail_left - 24
    turns = journey.passes
    chosen = list(turns) if len(turns) <= MOST_TURNS else [*turns[: MOST_TURNS - 2], turns[-1]]
    lines: list[Line] = []
    for turn in chosen:
        if turn is turns[-1] and len(chosen) < len(turns):
            lines.append(words(ELLIPSIS, NOTE, "quiet"))
        tag = f"turn {turn.number}  "
        row = turn.tokens.get("decoder_input", ((),))[0]
        room = right - left - canvas.text_width(tag, NOTE, "semibold") - 4
        lines.append((Run(tag, NOTE, "accent:inference", "semibold"), *token_line(row, NOTE, room, canvas.measure)))
    remark = "only its newest word is read" if reads_newest(journey) else "one word more each turn"
    canvas.note(left, plan.words.top, (heading("THE ANSWER SO FAR", remark),))
    canvas.note(left, plan.words.top - EDGE, tuple(lines), kind="words")
    low = draw_turn_masks(canvas, plan, journey, left, right, alone=journey is column.main)
    canvas.line((centre, plan.words.top + 4), (centre, low - 4), role="inference", width=2, dashed=True)


def draw_turn_masks(canvas: Canvas, plan: Plan, journey: Journey, left: float, right: float, *, alone: bool) -> float:
    """The ids and the growing mask of the first turns; gives the height that they reach down to."""
    newest = reads_newest(journey)
    shape = journey.output("decoder.embedding.words")
    mask = mask_shape(journey, f"{journey.layer}.self_attention") if newest else journey.output("tgt_mask.combine")
    if shape is None or mask is None:
        return plan.ids.bottom
    ids = read_shape([(number, step.inputs[0]) for number, step in journey.steps("decoder.embedding.words")])
    title = (
        Run("IDS ", OP, "text", "bold"),
        *digits(ids, LABEL),
        Run("   MASK ", OP, "text", "bold"),
        *digits(mask, LABEL),
    )
    canvas.note(left, plan.ids.top + 2, (title,), steps=journey.identities("append"))
    x, top, high = left, plan.ids.top - EDGE - 4, 0.0
    cell, most = (13.0, 6) if alone else (9.0, 4)
    shown = list_masks(journey, newest=newest)
    for place, (one_pass, rows) in enumerate(shown[:most]):
        name = f"turn {one_pass.number}"
        width = max(cell * len(rows[0]), canvas.text_width(name, NOTE, "semibold") + 2)
        is_last = place == len(shown) - 1
        if x + width + (0 if is_last else MORE) > right:
            canvas.note(x, top - LINE, (words(ELLIPSIS, NOTE, "quiet"),))
            break
        canvas.note(x, top, (words(name, NOTE, "accent:inference", "semibold"),))
        grid = Cells(
            f"mask_turn_{one_pass.number}",
            x,
            top - LINE - 2,
            cell,
            rows,
            "mask",
            tell_mask(one_pass),
            tuple(f"{one_pass.kind}{one_pass.number}/{step}#0" for step in MASK_STEPS),
        )
        canvas.cells.append(grid)
        high = max(high, cell * len(rows))
        x += width + 14
        if place == most - 1 and not is_last:
            canvas.note(x - 4, top - LINE, (words(ELLIPSIS, NOTE, "quiet"),))
    if alone:
        canvas.note(x + 12, top, turn_ids(canvas, journey, most, right - x - 12, newest=newest))
        return top - LINE - 2 - max(high, LINE * min(most, len(journey.passes)))
    start = top - LINE - high - 8
    lines = turn_ids(canvas, journey, int((start - plan.ids.bottom + 6) / LINE), right - left, newest=newest)
    return canvas.note(left, start, lines).bottom


def reads_newest(journey: Journey) -> bool:
    """Whether every turn reads its newest word alone, because a cache holds what it needs of the others."""
    read = [step.inputs[0].shape[-1] for _, step in journey.steps("decoder.embedding.words") if step.inputs]
    return len(read) > 1 and set(read) == {1}


def list_masks(journey: Journey, *, newest: bool) -> list[tuple[Pass, tuple[tuple[str, ...], ...]]]:
    """The cells of each turn's mask, as attention reads it; turns whose cells are not known are left out."""
    found = []
    for one_pass in journey.passes:
        step = one_pass.by_id.get(f"{journey.layer}.self_attention.mask#0" if newest else "tgt_mask.combine#0")
        records = () if step is None else step.inputs if newest else step.outputs
        facts = next((record.mask for record in records if record.mask is not None), None)
        if facts is not None and facts.cells:
            found.append((one_pass, tuple(tuple(row) for row in facts.cells[0])))
    return found


def tell_mask(one_pass: Pass) -> str:
    """A tooltip with the three steps that make a turn's mask."""
    steps = (one_pass.by_id.get(f"{path}#0") for path in MASK_STEPS)
    return "\n".join(describe([(one_pass.number, step)]) for step in steps if step is not None)


def turn_ids(canvas: Canvas, journey: Journey, most: int, width: float, *, newest: bool) -> tuple[Line, ...]:
    """The ids that the first turns read: what they left behind, less the new word; with a cache the newest alone."""
    lines: list[Line] = []
    for one_pass in journey.passes:
        step = one_pass.by_id.get("append#0")
        preview = step.outputs[0].preview if step is not None and step.outputs else None
        if preview is None:
            continue
        if len(lines) == most - 1 and one_pass is not journey.last:
            return (*lines, words(ELLIPSIS, NOTE, "quiet"))
        tag = Run(f"turn {one_pass.number}  ", NOTE, "accent:inference", "semibold")
        listed = [str(int(value)) for value in preview.values[:-1]][-1 if newest else 0 :]
        room = width - line_width((tag,), canvas.measure)
        text = fit_text(" ".join(listed), NOTE, room, canvas.measure)
        lines.append((tag, Run(text, NOTE, "text")))
    return tuple(lines)


def draw_question(canvas: Canvas, plan: Plan, journey: Journey, left: float, right: float, centre: float) -> None:
    """The one question of inference: its words, its ids and its mask, in which nothing is hidden."""
    row = journey.first.tokens.get("src", ((),))[0]
    lines = wrap_words(
        join_marks([show_controls(word) for word in row]), NOTE, right - left, canvas.measure, QUESTION_LINES
    )
    canvas.note(left, plan.words.top, (words("ONE QUESTION", OP, "text", "bold"),))
    canvas.note(left, plan.words.top - EDGE, tuple(words(line, NOTE) for line in lines), kind="words")
    step = journey.step("tokenize.src")
    shape, mask = journey.output("tokenize.src"), journey.output("src_mask")
    if step is None or shape is None or mask is None:
        return
    title = (Run("IDS ", OP, "text", "bold"), *digits(shape, LABEL))
    canvas.note(left, plan.ids.top + 2, (title,), steps=journey.identities("tokenize.src"))
    y = plan.ids.top - EDGE
    preview = step.outputs[0].preview
    if preview is not None:
        listed = wrap_words([str(int(value)) for value in preview.values], NOTE, right - left, canvas.measure, 3)
        canvas.note(left, y, tuple(words(line, NOTE) for line in listed), tooltip=journey.tell("tokenize.src"))
        y -= LINE * len(listed) + 8
    canvas.note(left, y, ((Run("MASK ", OP, "text", "bold"), *digits(mask, LABEL)),))
    facts = journey.steps("src_mask")[0][1].outputs[0].mask
    if facts is not None and facts.cells and len(facts.cells[0][0]) <= MOST_CELLS:
        cell = min(10.0, (right - left) / len(facts.cells[0][0]))
        rows = tuple(tuple(line) for line in facts.cells[0])
        canvas.cells.append(
            Cells(
                "mask_question",
                left,
                y - 17,
                cell,
                rows,
                "mask",
                journey.tell("src_mask"),
                journey.identities("src_mask"),
            )
        )
        y -= cell + 2
    canvas.line((centre, plan.words.top + 4), (centre, y - 20), role="inference", width=2, dashed=True)


def draw_question_wide(canvas: Canvas, plan: Plan, journey: Journey, column: Column, left: float, right: float) -> bool:
    """The question as a table: under each id its word, over it its mask cell; False where it is too long for that."""
    row = [show_controls(word) for word in journey.first.tokens.get("src", ((),))[0]]
    step, shape, mask = journey.step("tokenize.src"), journey.output("tokenize.src"), journey.output("src_mask")
    preview = step.outputs[0].preview if step is not None else None
    facts = journey.steps("src_mask")[0][1].outputs[0].mask
    if preview is None or shape is None or mask is None or facts is None or not facts.cells:
        return False
    size = NOTE + 1
    pitch = max(36.0, max((canvas.text_width(word, size) for word in row), default=0.0) + 8)
    centre = column.frame.centre
    label = 92.0
    start = centre - pitch * len(row) / 2
    start = max(left + label, min(start, right - pitch * len(row)))
    if start + pitch * len(row) > right or len(row) != len(preview.values) or len(row) != len(facts.cells[0][0]):
        return False
    top, floor = plan.ids.top, plan.words.top
    why = journey.tell("src_mask")
    for place, word in enumerate(row):
        x = start + pitch * (place + 0.5)
        canvas.note(x, floor, (words(word, size),), align="center", kind="words")
        canvas.line((x, floor + 4), (x, top - 62), role="inference", width=1.1, dashed=True, head_size=0.5)
        canvas.note(
            x,
            top - 44,
            (words(str(int(preview.values[place])), size),),
            align="center",
            tooltip=journey.tell("tokenize.src"),
        )
        cell = Cells(f"mask_question_{place}", x - 7, top - 14, 14, ((facts.cells[0][0][place],),), "mask", why)
        canvas.cells.append(cell)
    for y, title, shown in ((floor, "QUESTION", None), (top - 44, "IDS", shape), (top - 14, "MASK", mask)):
        lines = [words(title, OP, "text", "bold")]
        if shown is not None:
            lines.append(digits(shown, LABEL))
        canvas.note(start - 14, y + 8 if shown is not None else y + 1, tuple(lines), align="right")
    return True
