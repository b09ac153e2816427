"""Attention pictures from the recorded weights: rows are the words that ask, columns the words that are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.ir.records import Preview
from xray.ir.trace import Pass, Step
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Node
from xray.story.charts.stage_names import name_stage
from xray.story.layout import Cells, Line, Run
from xray.story.regions.column_words import place_words
from xray.story.sheet.columns import Column
from xray.story.sheet.planning import Panel
from xray.story.type_sizes import NOTE, OP
from xray.story.weights.reading import is_hidden
from xray.story.wording import PADDING, fit_text

MOST, FEWEST = 16, 3
CORNER = ", corner"
WORD_WIDTH, AISLE, STEP = 58.0, 24.0, 12.5
LARGEST, SMALLEST = 17.0, 12.5
"""How large a cell may be; a smaller one would not hold the word beside it."""


@dataclass(frozen=True)
class Picture:
    """One head's weights with the words on both axes; None where the mask hides a cell."""

    title: str
    station: int
    remark: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: tuple[tuple[float | None, ...], ...]
    cut: bool
    tooltip: str
    step: str


def draw_heat_maps(
    canvas: Canvas, pictures: Sequence[Picture], left: float, top: float, width: float, bottom: float
) -> None:
    """The pictures side by side, in the largest cells that fit, cut where none fit."""
    spoken, whole = pictures, fitted(canvas, pictures)
    for most in range(MOST, FEWEST - 1, -1):
        pictures = [cut_picture(picture, most) for picture in whole]
        for half_points in range(int(LARGEST * 2), int(SMALLEST * 2) - 1, -1):
            sizes = [block_size(canvas, picture, half_points / 2) for picture in pictures]
            room = width - sum(wide for wide, _ in sizes)
            if room >= AISLE * (len(pictures) - 1) and max((high for _, high in sizes), default=0) <= top - bottom:
                both = list(zip(pictures, spoken, strict=True))
                draw_row(canvas, both, [wide for wide, _ in sizes], left, top, half_points / 2, room)
                return


def draw_row(
    canvas: Canvas,
    pictures: Sequence[tuple[Picture, Picture]],
    widths: Sequence[float],
    left: float,
    top: float,
    cell: float,
    room: float,
) -> None:
    """The pictures side by side, what is left of the width between them; each comes with that whose words are whole."""
    gap = min(60.0, room / (len(pictures) - 1)) if len(pictures) > 1 else 0.0
    for (picture, spoken), wide in zip(pictures, widths, strict=True):
        draw_picture(canvas, picture, spoken, left, top, cell)
        left += wide + gap


def cut_picture(picture: Picture, most: int) -> Picture:
    """The first corner of a picture."""
    if len(picture.rows) <= most and len(picture.columns) <= most:
        return picture
    weights = tuple(row[:most] for row in picture.weights[:most])
    remark = picture.remark.removesuffix(", padding cut").removesuffix(CORNER) + CORNER
    return replace(picture, rows=picture.rows[:most], columns=picture.columns[:most], weights=weights, remark=remark)


def block_size(canvas: Canvas, picture: Picture, cell: float) -> tuple[float, float]:
    """How wide and high a picture is with its words."""
    label = label_width(canvas, picture)
    places = place_words(canvas.measure, picture.columns, cell)
    grid = max((start + canvas.text_width(word, NOTE) for word, start, _ in places), default=0.0)
    heading = max(canvas.text_width(picture.title, OP, "bold"), canvas.text_width(picture.remark, NOTE))
    levels = 1 + max((level for _, _, level in places), default=0)
    return max(label + grid, label + cell * len(picture.columns), heading), 36 + cell * len(
        picture.rows
    ) + levels * STEP


def fitted(canvas: Canvas, pictures: Sequence[Picture]) -> list[Picture]:
    """The pictures with their words cut to a width that leaves room for cells."""
    return [
        Picture(
            picture.title,
            picture.station,
            picture.remark,
            tuple(fit_text(word, NOTE, WORD_WIDTH, canvas.measure) for word in picture.rows),
            tuple(fit_text(word, NOTE, WORD_WIDTH, canvas.measure) for word in picture.columns),
            picture.weights,
            picture.cut,
            picture.tooltip,
            picture.step,
        )
        for picture in pictures
    ]


def label_width(canvas: Canvas, picture: Picture) -> float:
    """How wide the words left of a picture are."""
    return max((canvas.text_width(word, NOTE) for word in picture.rows), default=0.0) + 6


def draw_picture(canvas: Canvas, picture: Picture, spoken: Picture, left: float, top: float, cell: float) -> None:
    """A picture with its words; in `spoken` none of them is cut."""
    title: Line = (Run(picture.title, OP, "text", "bold"),)
    canvas.note(left, top, (title, words(picture.remark, NOTE, "quiet")))
    x, y = left + label_width(canvas, picture), top - 30
    name = f"attention_{picture.station}"
    canvas.cells.append(Cells(name, x, y, cell, picture.weights, "weights", picture.tooltip, about=picture.step))
    for place, word in enumerate(picture.rows):
        at = y - cell * (place + 0.5) + 6
        canvas.note(x - 4, at, (words(word, NOTE, "text"),), align="right", marks=mark_word(spoken.rows, place))
    bottom = y - cell * len(picture.rows)
    draw_column_words(canvas, picture.columns, x, bottom, cell, spoken.columns)


def draw_column_words(
    canvas: Canvas, listed: Sequence[str], left: float, top: float, cell: float, spoken: Sequence[str] = ()
) -> None:
    """Words under their columns, on as many steps down as they need not to touch; a thin line joins word and column.

    In `spoken` none of the words is cut.
    """
    for place, (word, start, level) in enumerate(place_words(canvas.measure, listed, cell)):
        y = top - 3 - level * STEP
        middle = left + cell * (place + 0.5)
        if level:
            canvas.line((middle, top - 1), (middle, y - 1), role="leader", width=0.7, head=False, kind="leader")
        canvas.note(left + start, y, (words(word, NOTE, "text"),), marks=mark_word(spoken, place))


def mark_word(spoken: Sequence[str], place: int) -> tuple[tuple[str, str], ...]:
    """The whole word by which a page knows a text that may be cut."""
    return (("word", spoken[place]),) if place < len(spoken) else ()


def read_pictures(columns: Sequence[Column]) -> list[Picture]:
    """One picture for each kind of attention, from the first layer and head; all of one phase, so of one sentence.

    It is the phase that shows most kinds, and then most words.
    """
    by_phase: dict[str, list[Picture]] = {}
    for place, column in enumerate(columns):
        for phase in column.phases:
            for frame, main in zip(phase.frames, column.frames, strict=True):
                for panel, drawn in zip(frame.panels, main.panels, strict=True):
                    picture = read_picture(columns[: place + 1], phase, panel, drawn.station) if panel.is_open else None
                    if picture is not None:
                        by_phase.setdefault(phase.look.role, []).append(picture)
    return max(by_phase.values(), key=lambda seen: (len(seen), sum(map(real_cells, seen))), default=[])


def real_cells(picture: Picture) -> int:
    """How many cells stand for two real words."""
    rows, columns = (sum(word != PADDING for word in axis) for axis in (picture.rows, picture.columns))
    return rows * columns


def read_picture(columns: Sequence[Column], phase: Column, panel: Panel, station: int) -> Picture | None:
    """The first head's weights in the last pass of a phase, with words on both axes; None where they are not kept."""
    softmax = next((node for node in panel.chart.nodes if node.key in ("softmax", "shares")), None)
    source = next(
        (one for one in reversed(columns[:-1]) for one in one.phases if one.look.role == phase.look.role), None
    )
    if softmax is None or phase.words is None:
        return None
    one_pass = phase.look.passes[-1]
    turns = rows_by_turn(phase, softmax, panel)
    if not turns:
        return None
    asked = phase.words.read_in(one_pass)
    looked = (
        asked
        if not panel.chart.memory
        else source.words.read_in(source.look.passes[-1])
        if source and source.words
        else ()
    )
    width = max(len(row) for row in turns)
    rows = [(*row, *(None,) * (width - len(row))) for row in turns][:MOST]
    asked = asked[-len(turns) :] if len(turns) < len(asked) else asked
    shown = tuple(row[:MOST] for row in rows)
    rows_kept, columns_kept = count_kept(asked, len(shown)), count_kept(looked, len(shown[0]) if shown else 0)
    shown = tuple(row[:columns_kept] for row in shown[:rows_kept])
    whole = (len(turns), width) == (len(shown), len(shown[0]) if shown else 0)
    kind = name_stage(panel.staging)
    title = kind if panel.chart.memory else f"{columns[-1].name.upper()} {kind}"
    cut = "" if whole else ", padding cut" if rows_kept < len(rows) else CORNER
    remark = f"layer 1, head 1, {describe_pass(phase, softmax)}{cut}"
    return Picture(
        title,
        station,
        remark,
        asked[: len(shown)],
        looked[: len(shown[0])] if shown else (),
        shown,
        not whole,
        phase.look.tell(softmax.steps[:1]),
        f"{one_pass.key}/{softmax.steps[0].id}",
    )


def steps_of(phase: Column, node: Node) -> list[tuple[Pass, Step]]:
    """The step of a node in every pass of a phase."""
    return [(one, one.by_id[node.steps[0].id]) for one in phase.look.passes if node.steps[0].id in one.by_id]


def describe_pass(phase: Column, softmax: Node) -> str:
    """What an attention's weights are of: a row of the batch, a turn, or a row from each turn."""
    first, last = phase.look.passes[0], phase.look.passes[-1]
    if not last.number:
        return "training, row 1" if phase.look.role == "training" else phase.look.role
    turns = f"turns {first.number}–" if is_by_turn(phase, softmax) else "turn "
    return f"{turns}{last.number}"


def is_by_turn(phase: Column, softmax: Node) -> bool:
    """Whether each turn has but one row of an attention, because a cache holds what the others need."""
    made = [step.outputs[0].shape[-2:-1] for _, step in steps_of(phase, softmax) if step.outputs]
    return len(made) > 1 and set(made) == {(1,)}


def rows_by_turn(phase: Column, softmax: Node, panel: Panel) -> list[tuple[float | None, ...]]:
    """The first head's weights for the first sequence, hidden ones left out: of the last turn, or a row of each."""
    mask = next((node for node in panel.chart.nodes if node.surface == "mask"), None)
    steps = steps_of(phase, softmax)
    rows: list[tuple[float | None, ...]] = []
    for one_pass, step in steps if is_by_turn(phase, softmax) else steps[-1:]:
        preview = step.outputs[0].preview if step.outputs else None
        if preview is None or len(preview.shape) != 4 or one_pass.by_id[step.id] is not step:
            return []
        hidden = cells_of(one_pass, mask)
        rows += [
            tuple(None if is_hidden(hidden, r, c) else value for c, value in enumerate(row))
            for r, row in enumerate(weights_of(preview))
        ]
    return rows if steps and steps[-1][0] is phase.look.passes[-1] else []


def count_kept(listed: tuple[str, ...], count: int) -> int:
    """How many words of an axis are shown: the real ones, and two of the padding after them."""
    real = next((place for place, word in enumerate(listed) if word == PADDING), count)
    return min(count, real + 2)


def weights_of(preview: Preview) -> tuple[tuple[float | None, ...], ...]:
    """The first head's weights for the first sequence; None for a value that is no number."""
    return tuple(tuple(None if isinstance(value, str) else float(value) for value in row) for row in preview.rows(0, 0))


def cells_of(one_pass: Pass, mask: Node | None) -> tuple[str, ...]:
    """The cells of the mask that the first sequence got; none where there was no mask."""
    step = one_pass.by_id.get(mask.steps[0].id) if mask is not None else None
    record = next((record for record in step.inputs if record.mask is not None), None) if step is not None else None
    return record.mask.cells[0] if record is not None and record.mask is not None and record.mask.cells else ()
