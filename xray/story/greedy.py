"""What goes in at inference: the question once, and the answer so far, one word longer each turn."""

from collections.abc import Sequence

from xray.ir.trace import Pass
from xray.story.batch import EDGE, LINE, heading
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.journey import Journey, describe
from xray.story.layout import Cells, Line, Run, line_width
from xray.story.plan import LABEL, NOTE, OP, Plan
from xray.story.shapes import digits, read_shape
from xray.story.wording import token_line, wrap_words
from xray.text import show_controls

MOST_TURNS, MOST_CELLS, QUESTION_LINES = 6, 24, 5
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
            lines.append(words("…", NOTE, "quiet"))
        tag = f"turn {turn.number}  "
        row = turn.tokens.get("decoder_input", ((),))[0]
        room = right - left - canvas.text_width(tag, NOTE, "semibold") - 4
        lines.append((Run(tag, NOTE, "accent:inference", "semibold"), *token_line(row, NOTE, room, canvas.measure)))
    canvas.note(left, plan.words.top, (heading("THE ANSWER SO FAR", "one word more each turn"),))
    canvas.note(left, plan.words.top - EDGE, tuple(lines))
    low = draw_turn_masks(canvas, plan, journey, left, right, alone=journey is column.main)
    canvas.line((centre, plan.words.top + 4), (centre, low - 4), role="inference", width=2, dashed=True)


def draw_turn_masks(canvas: Canvas, plan: Plan, journey: Journey, left: float, right: float, *, alone: bool) -> float:
    """The ids and the growing mask of the first turns; gives the height that they reach down to."""
    shape, mask = journey.output("decoder.embedding.words"), journey.output("tgt_mask.combine")
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
    x, top = left, plan.ids.top - EDGE - 4
    cell, most = (13.0, 6) if alone else (9.0, 4)
    for one_pass in journey.passes[:most]:
        step = one_pass.by_id.get("tgt_mask.combine#0")
        facts = step.outputs[0].mask if step is not None else None
        if facts is None or not facts.cells:
            continue
        rows = tuple(tuple(row) for row in facts.cells[0])
        width = max(cell * len(rows), canvas.text_width(f"turn {one_pass.number}", NOTE, "semibold") + 2)
        if x + width > right:
            break
        canvas.note(x, top, (words(f"turn {one_pass.number}", NOTE, "accent:inference", "semibold"),))
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
        x += width + 14
    if not alone:
        return canvas.note(left, top - LINE - most * cell - 8, turn_ids(journey, 3, right - left, canvas)).bottom
    canvas.note(x + 12, top, turn_ids(journey, most, right - x - 12, canvas))
    return top - LINE - 2 - min(most, len(journey.passes)) * cell


def tell_mask(one_pass: Pass) -> str:
    """A tooltip with the three steps that make a turn's mask."""
    steps = (one_pass.by_id.get(f"{path}#0") for path in MASK_STEPS)
    return "\n".join(describe([(one_pass.number, step)]) for step in steps if step is not None)


def turn_ids(journey: Journey, most: int, width: float, canvas: Canvas) -> tuple[Line, ...]:
    """The ids that the first turns read: what they left behind, less the new word."""
    lines: list[Line] = []
    for one_pass in journey.passes[:most]:
        step = one_pass.by_id.get("append#0")
        preview = step.outputs[0].preview if step is not None and step.outputs else None
        if preview is not None:
            text = " ".join(str(int(value)) for value in preview.values[:-1])
            lines.append(
                (Run(f"turn {one_pass.number}  ", NOTE, "accent:inference", "semibold"), Run(text, NOTE, "text"))
            )
    return tuple(line for line in lines if line_width(line, canvas.measure) <= width)


def draw_question(canvas: Canvas, plan: Plan, journey: Journey, left: float, right: float, centre: float) -> None:
    """The one question of inference: its words, its ids and its mask, in which nothing is hidden."""
    row = journey.first.tokens.get("src", ((),))[0]
    lines = wrap_words(
        join_marks([show_controls(word) for word in row]), NOTE, right - left, canvas.measure, QUESTION_LINES
    )
    canvas.note(left, plan.words.top, (words("ONE QUESTION", OP, "text", "bold"),))
    canvas.note(left, plan.words.top - EDGE, tuple(words(line, NOTE) for line in lines))
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
        canvas.note(x, floor, (words(word, size),), align="center")
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
