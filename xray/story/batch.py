"""A training batch at the foot of the poster: its words, its ids, and how answers are cut in two."""

from xray.config import PAD
from xray.ir.records import TensorRecord
from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.layout import LEADING, Line, Run, line_width
from xray.story.plan import LABEL, NOTE, OP, Plan
from xray.story.shapes import ShapeText, digits
from xray.story.wording import ELLIPSIS, PADDING, fit_text, token_lines

MOST_ROWS, MOST_IDS = 8, 16
LINE = NOTE * LEADING
EDGE = 15.0
"""From a heading's top to the top of what is under it."""


def draw_batch(canvas: Canvas, plan: Plan, column: Column, left: float, right: float) -> None:
    """The words and ids of a training batch; for answers, how they are cut into what is read and what is to be said."""
    journey, encoder = column.main, column.side == "encoder"
    name = "src" if encoder else "tgt"
    tokens = journey.first.tokens.get(name, ())
    step = journey.step(f"tokenize.{name}")
    count = shown_rows(len(tokens))
    lines = [*token_lines(tokens[:count], NOTE, right - left - 2, canvas.measure)]
    if count < len(tokens):
        lines.append(words(f"… and {len(tokens) - count} rows more", NOTE, "quiet"))
    top = plan.words.top
    length = f"{len(tokens[0]) if tokens else 0} tokens each, padded"
    canvas.note(left, top, (heading("QUESTIONS" if encoder else "ANSWERS", length),))
    canvas.note(left, top - EDGE, tuple(lines), kind="words")
    centre = column.frame.centre
    under = EDGE + 4 if encoder else 2 * EDGE + 18
    foot = plan.ids.top - under - count * LINE
    canvas.line((centre, plan.words.top - 6), (centre, foot), role=journey.phase, width=2)
    if step is not None and step.outputs:
        shape = journey.output(f"tokenize.{name}")
        draw_ids(canvas, plan, column, step.outputs[0], shape, journey.tell(f"tokenize.{name}"))


def heading(title: str, remark: str) -> Line:
    return (Run(title, OP, "text", "bold"), Run(f"  {remark}", NOTE, "quiet"))


def draw_ids(
    canvas: Canvas, plan: Plan, column: Column, record: TensorRecord, shape: ShapeText | None, tooltip: str
) -> None:
    """The ids as a table, one column of numbers for each place, cut short where there are many."""
    preview = record.preview
    if preview is None or shape is None or len(preview.shape) != 2:
        return
    rows = preview.rows()
    shown = rows[: shown_rows(len(rows))]
    pitch = max(canvas.text_width(str(int(value)), NOTE) for row in rows for value in row) + 4
    first = plan.flanks["encoder"].ledger[0] + 130 if column.side == "encoder" else plan.stairwell + 30
    places = chosen_places(preview.shape[1], min(MOST_IDS, int((column.frame.brief_left - 16 - first) / pitch)))
    width = pitch * len(places)
    left = min(column.frame.centre - width / 2, column.frame.brief_left - 16 - width)
    top = plan.ids.top - (EDGE if column.side == "encoder" else EDGE + 8)
    for place, index in enumerate(places):
        if index is None:
            column_lines = [words("…", NOTE, "quiet") for _ in shown]
        else:
            column_lines = [
                words(str(int(row[index])), NOTE, "quiet" if row[index] == PAD else "text") for row in shown
            ]
        canvas.note(left + (place + 1) * pitch - 2, top, tuple(column_lines), align="right", tooltip=tooltip)
    encoder = column.side == "encoder"
    title = (Run("IDS ", OP, "text", "bold"), *digits(shape, LABEL))
    if encoder:
        canvas.note(left, plan.ids.top + 2, (title,), steps=column.main.identities("tokenize.src"))
        canvas.note(
            left - 14,
            top - 2,
            (
                words("the same words", NOTE, "quiet"),
                words(f"as numbers; {PAD} is", NOTE, "quiet"),
                words("<pad>, only filler", NOTE, "quiet"),
            ),
            align="right",
        )
    else:
        draw_shift(canvas, column, left, pitch, places, top, len(shown))


def chosen_places(count: int, most: int) -> list[int | None]:
    """Which places of a sequence are shown: all of a short one, the two ends of a long one."""
    if count <= most:
        return list(range(count))
    return [*range(max(1, most - 3)), None, count - 2, count - 1]


def draw_shift(
    canvas: Canvas, column: Column, left: float, pitch: float, places: list[int | None], top: float, rows: int
) -> None:
    """Two brackets over the same ids: all but the last are read, all but the first are to be said."""
    reads, says = column.main.output("shift", 0), column.main.output("shift", 1)
    if reads is None or says is None:
        return
    right = left + pitch * len(places)
    bracket(canvas, left, right - pitch - 1, top + 3, -4, "decoder")
    bracket(canvas, left + pitch + 1, right, top - rows * LINE - 4, 4, "training")
    centre = column.frame.centre
    upper = (Run("DECODER INPUT ", OP, "text", "bold"), *digits(reads, LABEL))
    start = min(left, centre - 10 - line_width(upper, canvas.measure))
    stands_for = column.main.identities("shift", "tokenize.tgt")
    canvas.note(start, top + 22, (upper,), tooltip=column.main.tell("shift"), steps=stands_for)
    canvas.note(centre + 14, top + 20, (words("all but the last", NOTE, "quiet"),))
    lower = (
        Run("TARGETS ", OP, "accent:training", "bold"),
        *digits(says, LABEL),
        Run("  all but the first", NOTE, "quiet"),
    )
    canvas.note(right, top - rows * LINE - 6, (lower,), align="right")


def draw_reads_and_says(canvas: Canvas, plan: Plan, column: Column, left: float, right: float) -> None:
    """One answer word by word: what the decoder reads at each place, and what it has to say there."""
    reads = column.main.first.tokens.get("decoder_input", ())
    says = column.main.first.tokens.get("targets", ())
    if not reads or not says:
        return
    padded = [place for place, row in enumerate(says) if PADDING in row] or [0]
    chosen = max(padded, key=lambda place: sum(word != PADDING for word in says[place]))
    top, half = plan.ids.top, (right - left) / 2
    rows = min(len(reads[chosen]), int((top - plan.words.bottom - EDGE - 4) / LINE))
    canvas.note(left, top, (heading("READS", f"answer {chosen + 1}"),))
    canvas.note(left + half + 10, top, (words("HAS TO SAY", OP, "accent:training", "bold"),))
    for place in range(rows):
        cut = place == rows - 1 and rows < len(reads[chosen])
        pair = (ELLIPSIS, ELLIPSIS) if cut else (reads[chosen][place], says[chosen][place])
        y = top - EDGE - 3 - place * LINE
        start, goal = (fit_text(word, NOTE, half - 40, canvas.measure) for word in pair)
        ignored = pair[1] == PADDING
        canvas.note(left, y, (words(start, NOTE, "quiet" if pair[0] == PADDING else "text"),), kind="words")
        said = goal + ("  ignored" if ignored else "")
        canvas.note(left + half + 10, y, (words(said, NOTE, "quiet" if ignored else "text"),), kind="words")
        canvas.line(
            (left + half - 26, y - 7),
            (left + half, y - 7),
            role="leader" if ignored else "training",
            width=1.2,
            head_size=0.45,
            kind="shift",
        )


def bracket(canvas: Canvas, left: float, right: float, y: float, tick: float, role: str) -> None:
    line = "boundary" if role == "decoder" else role
    canvas.line(
        (left, y + tick), (left, y), (right, y), (right, y + tick), role=line, width=1.3, head=False, kind="bracket"
    )


def shown_rows(count: int) -> int:
    """How many rows of a batch stand on the poster; one line is kept to say how many do not."""
    return count if count <= MOST_ROWS else MOST_ROWS - 1


def words_height(column_rows: int) -> float:
    """How high the words of a batch stand, with their heading."""
    return min(max(column_rows, 1), MOST_ROWS) * LINE + EDGE + 4
