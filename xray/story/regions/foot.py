"""The foot of a column: the words of a batch, their ids, and the mask that attention reads (entrance of each tower)."""

from dataclasses import dataclass

from xray.config import PAD
from xray.ir.records import MaskFacts, TensorRecord
from xray.ir.trace import Step
from xray.story.canvas import Canvas, words
from xray.story.facts.masks import describe_blocks, draws_blocks, quarter_blocks
from xray.story.layout import LEADING, Cells, Line, Run, line_width
from xray.story.sentences.of_masks import Shown, describe_shown
from xray.story.sentences.of_runs import READ, SAID, describe_fillers, describe_read
from xray.story.shapes import digits, read_shape
from xray.story.sheet.columns import Column
from xray.story.sheet.words import Words
from xray.story.type_sizes import LABEL, NOTE, OP
from xray.story.wording import ELLIPSIS, PADDING, fit_text, spell_share, token_lines, wrap

MOST_ROWS, MOST_IDS, MOST_CELLS = 8, 16, 24
LINE = NOTE * LEADING
EDGE = 15.0
"""From a heading's top to the top of what is under it."""

CAPTION, IDS_HEIGHT, MASK_HEIGHT, LEAST_ROOM = 26.0, 142.0, 139.0, 110.0
"""How high the caption of a column is, what its ids take, and the mask above them; how much room its remark takes."""

QUESTION_LINES, MOST_TURNS = 5, 6


@dataclass(frozen=True)
class Foot:
    """Where the foot of a phase stands: from where to where, its middle, and the tops of captions, words and ids."""

    left: float
    right: float
    centre: float
    caption: float
    words: float
    ids: float
    roof: float


def foot_height(columns: list[Column]) -> float:
    """How high the words and ids of the columns stand, with their captions; 0 where no words were recorded."""
    rows = [count_lines(phase.words) for column in columns for phase in column.phases if phase.words is not None]
    return CAPTION + words_height(max(rows)) + 20 + IDS_HEIGHT + 20 if rows else 0.0


def count_lines(read: Words) -> int:
    """How many lines of words a phase has."""
    if read.is_answer:
        return min(len(read.passes), MOST_TURNS)
    return QUESTION_LINES if read.first.kind == "encode" else len(read.rows)


def words_height(lines: int) -> float:
    """How high so many lines stand, with their heading."""
    return min(max(lines, 1), MOST_ROWS) * LINE + EDGE + 4


def draw_caption(canvas: Canvas, column: Column, centre: float, top: float) -> Line:
    """What is written under a column: its phase, and how many sequences go through at a time; gives the line."""
    line = caption_line(column)
    canvas.note(centre, top, (line,), align="center")
    return line


def caption_line(column: Column) -> Line:
    """The phase of a column and its batch."""
    accent = f"accent:{column.look.phase}"
    batch = column.look.passes[-1].sizes.get("batch")
    told = (Run(f"  batch {batch}", LABEL - 1, accent),) if batch is not None else ()
    return (Run(column.look.role.upper(), LABEL + 1, accent, "bold"), *told)


def draw_batch(canvas: Canvas, column: Column, foot: Foot, *, is_left: bool) -> None:
    """The words and ids of a batch; for answers, how they are cut into what is read and what is to be said."""
    read = column.words
    if read is None:
        return
    rows = read.rows
    count = shown_rows(len(rows))
    lines = [*token_lines(rows[:count], NOTE, foot.right - foot.left - 2, canvas.measure)]
    if count < len(rows):
        lines.append(words(f"… and {len(rows) - count} rows more", NOTE, "quiet"))
    canvas.note(foot.left, foot.words, (heading(read.title, describe_read(read)),))
    about = () if read.ids is None else (column.look.identity(read.ids),)
    canvas.note(foot.left, foot.words - EDGE, tuple(lines), kind="words", about=about)
    under = EDGE + 4 if read.shift is None else 2 * EDGE + 18
    end = foot.ids - under - count * LINE
    if end > foot.words - 4:
        canvas.line((foot.centre, foot.words - 6), (foot.centre, end), role=column.look.phase, width=2)
    if read.ids is not None:
        draw_ids(canvas, column, read, foot, read.ids.outputs[0], is_left=is_left)


def heading(title: str, remark: str) -> Line:
    """A heading with a quiet remark."""
    return (Run(title, OP, "text", "bold"), Run(f"  {remark}", NOTE, "quiet"))


def draw_ids(canvas: Canvas, column: Column, read: Words, foot: Foot, record: TensorRecord, *, is_left: bool) -> None:
    """The ids as a table, a column of numbers for each place, cut short where there are many."""
    preview, step = record.preview, read.ids
    if preview is None or step is None or len(preview.shape) != 2:
        return
    tooltip = column.look.tell((step,))
    rows = preview.rows()
    shown = rows[: shown_rows(len(rows))]
    pitch = max(canvas.text_width(str(int(value)), NOTE) for row in rows for value in row) + 4
    first = foot.left + (110 if is_left else 0)
    far = min(foot.right, foot.centre + 180)
    places = chosen_places(preview.shape[1], min(MOST_IDS, int((far - first) / pitch)))
    width = pitch * len(places)
    left = min(foot.centre - width / 2, far - width)
    top = foot.ids - (EDGE if read.shift is None else EDGE + 8)
    for place, index in enumerate(places):
        if index is None:
            table = [words(ELLIPSIS, NOTE, "quiet") for _ in shown]
        else:
            table = [words(str(int(row[index])), NOTE, "quiet" if row[index] == PAD else "text") for row in shown]
        x = left + (place + 1) * pitch - 2
        canvas.note(x, top, tuple(table), align="right", tooltip=tooltip, about=(column.look.identity(step),))
    if read.shift is not None:
        draw_shift(canvas, column, read.shift, foot.centre, left, pitch, places, top, len(shown))
        return
    title = (Run("IDS ", OP, "text", "bold"), *digits(read_shape([(0, record)]), LABEL))
    canvas.note(left, foot.ids + 2, (title,), steps=(column.look.identity(step),))
    if is_left:
        told = wrap(describe_fillers(read), NOTE, 92.0, canvas.measure)
        canvas.note(left - 14, top - 2, tuple(words(line, NOTE, "quiet") for line in told), align="right")


def chosen_places(count: int, most: int) -> list[int | None]:
    """Which places of a sequence are shown: all of a short one, the two ends of a long one."""
    if count <= most:
        return list(range(count))
    return [*range(max(1, most - 3)), None, count - 2, count - 1]


def draw_shift(
    canvas: Canvas,
    column: Column,
    shift: Step,
    centre: float,
    left: float,
    pitch: float,
    places: list[int | None],
    top: float,
    rows: int,
) -> None:
    """Two brackets over the same ids: all but the last are read, all but the first are to be said."""
    reads, says = (read_shape([(0, record)]) for record in shift.outputs[:2])
    look, read = column.look, column.words
    right = left + pitch * len(places)
    bracket(canvas, left, right - pitch - 1, top + 3, -4, "boundary")
    bracket(canvas, left + pitch + 1, right, top - rows * LINE - 4, 4, "training")
    upper = (Run("DECODER INPUT ", OP, "text", "bold"), *digits(reads, LABEL))
    start = min(left, centre - 10 - line_width(upper, canvas.measure))
    made = (shift, *(() if read is None or read.ids is None else (read.ids,)))
    canvas.note(start, top + 22, (upper,), tooltip=look.tell((shift,)), steps=tuple(map(look.identity, made)))
    kept, said = ("", "") if read is None else (READ.tell(read), SAID.tell(read))
    if kept:
        canvas.note(centre + 14, top + 20, (words(kept, NOTE, "quiet"),))
    lower = (
        Run("TARGETS ", OP, "accent:training", "bold"),
        *digits(says, LABEL),
        Run(f"  {said}", NOTE, "quiet"),
    )
    canvas.note(right, top - rows * LINE - 6, (lower,), align="right")


def bracket(canvas: Canvas, left: float, right: float, y: float, tick: float, role: str) -> None:
    """A bracket over or under some numbers."""
    canvas.line(
        (left, y + tick), (left, y), (right, y), (right, y + tick), role=role, width=1.3, head=False, kind="bracket"
    )


def draw_reads_and_says(canvas: Canvas, column: Column, foot: Foot, left: float, right: float) -> None:
    """One answer word by word: what is read at each place, and what has to be said there."""
    read = column.words
    reads = () if read is None else read.first.tokens.get(read.read, ())
    says = () if read is None else read.targets
    if not reads or not says:
        return
    padded = [place for place, row in enumerate(says) if PADDING in row] or [0]
    chosen = max(padded, key=lambda place: sum(word != PADDING for word in says[place]))
    top, half = foot.ids, (right - left) / 2
    rows = min(len(reads[chosen]), int((top - foot.caption - EDGE - 8) / LINE))
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


def shown_rows(count: int) -> int:
    """How many rows of a batch stand on the poster; one line is kept to say how many do not."""
    return count if count <= MOST_ROWS else MOST_ROWS - 1


@dataclass(frozen=True)
class Mask:
    """The mask that the first attention of a tower reads in a pass: its tensor and the steps that made it."""

    record: TensorRecord
    steps: tuple[Step, ...]

    @property
    def facts(self) -> MaskFacts | None:
        return self.record.mask


def find_mask(column: Column, number: int = 0) -> Mask | None:
    """The mask that a tower's self-attention reads in one of its passes; None where it reads none."""
    one_pass = column.look.passes[number]
    for frame in column.frames:
        for panel in frame.panels:
            if panel.chart.memory:
                continue
            for node in panel.chart.nodes:
                step = one_pass.by_id.get(node.steps[0].id) if node.surface == "mask" and node.steps else None
                record = next((one for one in step.inputs if one.mask is not None), None) if step is not None else None
                if step is not None and record is not None:
                    return Mask(record, tuple(list_makers(column, number, record, step)))
    return None


def list_makers(column: Column, number: int, record: TensorRecord, reader: Step) -> list[Step]:
    """The steps that made a mask, what it was put together from first; its reader where nobody made it in this pass."""
    by_id = column.look.passes[number].by_id
    made = by_id.get(record.source or "")
    if made is None:
        return [reader]
    parts = (by_id.get(one.source or "") for one in made.inputs if one.role == "mask")
    return [*(part for part in parts if part is not None), made]


def draw_mask_beside(canvas: Canvas, column: Column, foot: Foot, left: float, right: float) -> None:
    """The mask of a batch, cell by cell, left of the way from the ids to the first layer, where it has room."""
    mask = find_mask(column)
    if mask is None or mask.facts is None or right - left < LEAST_ROOM:
        return
    look, side = column.look, column.look.own
    title = (Run("MASK ", OP, "text", "bold"), *digits(read_shape([(0, mask.record)]), LABEL))
    bottom = foot.ids + 12
    blocks = mask.facts.blocks if draws_blocks(mask.facts) else None
    if blocks is None and not mask.facts.cells:
        told = (f"{spell_share(mask.facts.hidden_share)} hidden,", describe_shown(Shown(mask.facts, 0, 0)))
        canvas.note(left, bottom + 60, (title, *(words(line, NOTE, "quiet") for line in told)))
        return
    if blocks is not None:
        rows: tuple[tuple[str | None, ...], ...] = quarter_blocks(blocks)
        rows, remark = tuple(row[:MOST_CELLS] for row in rows[:MOST_CELLS]), describe_blocks(blocks)
    else:
        rows, remark = mask_rows(mask.facts, mask.record.axes[:-2])
    room = foot.roof - 8 - bottom - 30
    cell = min(11.0, (right - left) / max(len(row) for row in rows), room / len(rows))
    tooltip = look.tell(mask.steps)
    known = tuple(map(look.identity, mask.steps))
    grid = Cells(f"mask_{side}", left, bottom + cell * len(rows), cell, rows, "mask", tooltip, known)
    canvas.cells.append(grid)
    canvas.note(left, grid.y + 29, (title, words(remark, NOTE, "quiet")), tooltip=look.tell(mask.steps[-1:]))


def mask_rows(facts: MaskFacts, leading: tuple[str, ...]) -> tuple[tuple[tuple[str | None, ...], ...], str]:
    """Which cells are drawn: the one row of each matrix, or the square of one answer that has padding.

    `leading` are the words of the axes along which matrices are stacked.
    """
    cells = facts.cells or ()
    if all(len(matrix) == 1 for matrix in cells):
        drawn = tuple(tuple(matrix[0][:MOST_CELLS]) for matrix in cells[:MOST_CELLS])
        return drawn, describe_shown(Shown(facts, len(drawn), len(drawn[0]), leading=leading))
    chosen = next((place for place, matrix in enumerate(cells) if any("p" in row or "b" in row for row in matrix)), 0)
    drawn = tuple(tuple(row[:MOST_CELLS]) for row in cells[chosen][:MOST_CELLS])
    whole = len(cells[chosen]) <= MOST_CELLS
    return drawn, f"answer {chosen + 1} of {len(cells)}" + ("" if whole else ", corner")
