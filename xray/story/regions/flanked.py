"""A pair of towers with words: ledgers at the flanks, the cards above the lower tower, the long ways around both."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.trace import Step, Trace
from xray.story.anatomy.attentions import Looking
from xray.story.canvas import Canvas
from xray.story.canvas import words as words_of
from xray.story.exits.loss_chart import PICKS
from xray.story.facts.totals import is_backward
from xray.story.layout import Box, Measure, line_width
from xray.story.regions.answers import draw_inference
from xray.story.regions.foot import (
    CAPTION,
    IDS_HEIGHT,
    MASK_HEIGHT,
    Foot,
    caption_line,
    draw_batch,
    draw_caption,
    draw_mask_beside,
    draw_reads_and_says,
    foot_height,
)
from xray.story.regions.ledgers import draw_ledger
from xray.story.regions.long_ways import (
    draw_gradients,
    draw_loop,
    draw_memory,
    draw_memory_note,
    draw_memory_once,
    draw_memory_rows,
)
from xray.story.regions.next_word import draw_said
from xray.story.sentences.of_ends import Again
from xray.story.sentences.of_runs import list_appending
from xray.story.sentences.stations.of_memories import describe_memory
from xray.story.sheet.canvas.placing import draw_station
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing, common_floor, count_gaps, stand, stand_height
from xray.story.type_sizes import MARGIN, NOTE, PAGE_RATIO, TALLEST

GAP, MOST_GAP = 6.5, 32.0
"""The least and most air between rows."""

LEDGER, LEDGER_GAP, STAIRS, LOOP_LANE, TRIAL = 124.0, 18.0, 56.0, 62.0, 100.0


@dataclass(frozen=True)
class Grid:
    """Where everything stands: the page, the towers and their ledgers, the lanes of the long ways, and the heights."""

    width: float
    height: float
    lefts: tuple[float, float]
    ledgers: tuple[tuple[float, float], tuple[float, float]]
    stairwell: float
    loop: float
    gap: float
    foot: float
    low: float

    @property
    def info(self) -> tuple[float, float]:
        """Where the cards begin, and how wide they are."""
        return self.ledgers[0][0], self.stairwell - 26 - self.ledgers[0][0]


def is_flanked(columns: Sequence[Column]) -> bool:
    """Whether a sheet has two whole towers that both read words."""
    return len(columns) == 2 and all(one.words is not None and one.is_first and one.is_last for one in columns)


def plan_grid(measure: Measure, columns: Sequence[Column], upper: float, wanted: float = 0.0) -> Grid:
    """The grid in the proportion of A paper: wider gaps between the rows, or wider aisles.

    `upper` is what the cards above the first tower need at least, `wanted` what they would like to have more as long
    as the page can still be read.
    """
    foot = foot_height(list(columns))
    has_loop = any(is_looped(one) for one in columns[-1].phases)

    low = max(common_floor(measure, columns, GAP), MASK_HEIGHT + 10 + GAP)
    tops = [stand_height(measure, [column], GAP, low) for column in columns]
    cards = MARGIN + foot + tops[0] + 92 + upper + MARGIN
    cards += max(0.0, min(wanted, TALLEST - cards))
    heights = (cards, MARGIN + foot + tops[1] + MARGIN + 6)
    width = place_columns(columns, 0.0, has_loop)[0]
    least, room = max(heights), width * PAGE_RATIO
    gap, spare = GAP, 0.0
    if least < room:
        growths = ((room - high) / count_gaps(column) for high, column in zip(heights, columns, strict=True))
        gap = min(MOST_GAP, GAP + min(growths))
    else:
        spare = (least / PAGE_RATIO - width) * TRIAL / (place_columns(columns, TRIAL, has_loop)[0] - width)
    width, lefts, ledgers, stairwell, loop = place_columns(columns, spare, has_loop)
    low = max(common_floor(measure, columns, gap), MASK_HEIGHT + 10 + gap)
    return Grid(width, max(width * PAGE_RATIO, least), lefts, ledgers, stairwell, loop, gap, foot, low)


Ledgers = tuple[tuple[float, float], tuple[float, float]]


def place_columns(
    columns: Sequence[Column], spare: float, has_loop: bool
) -> tuple[float, tuple[float, float], Ledgers, float, float]:
    """What stands beside what, from the left: ledger, tower, stairs, tower, ledger; first how wide it all is."""
    aisle = spare / 5
    margin = MARGIN + aisle * 0.4
    trains = any(one.look.role == "training" for one in columns[-1].phases)
    stairs = (STAIRS if trains else STAIRS * 0.7) + aisle * 1.2
    first = (margin, margin + LEDGER)
    left = first[1] + LEDGER_GAP + aisle * 0.7
    right = left + columns[0].width + stairs
    start = right + columns[1].width + LEDGER_GAP + aisle * 0.7
    last = (start, start + LEDGER)
    loop = last[1] + (LOOP_LANE * 0.5 + aisle * 0.8 if has_loop else 0)
    width = loop + (LOOP_LANE * 0.5 - 8 if has_loop else 0) + margin
    return width, (left, right), (first, last), right - stairs / 2, loop


def is_looped(column: Column) -> bool:
    """Whether what a column ends with goes to the end of what it reads."""
    if column.words is None or not column.words.is_answer or column.exit is None:
        return False
    return column.exit.node(column.exit.head).steps[0].op in PICKS


def list_gradients(trace: Trace) -> list[Step]:
    """The steps of back-propagation."""
    return [step for step in trace.steps if is_backward(step)]


def what_loops(trace: Trace, column: Column) -> Again:
    """What goes back to the beginning: gradients, or the new word of the phase that chooses one."""
    looped = next((phase for phase in column.phases if is_looped(phase)), None)
    last = () if looped is None else next(iter(looped.look.passes[-1].tokens.get("new", ())), ())
    return Again(bool(list_gradients(trace)), looped is not None, last[-1] if last else "")


def draw_flanked(canvas: Canvas, trace: Trace, columns: Sequence[Column], grid: Grid) -> float:
    """Towers, ledgers, words and long ways; gives the height above which the cards have room."""
    standing = [
        stand(canvas, column, left, MARGIN + grid.foot, grid.gap, grid.low)
        for column, left in zip(columns, grid.lefts, strict=True)
    ]
    for column, one, edges in zip(columns, standing, grid.ledgers, strict=True):
        draw_ledger(canvas, column, one.drawn, one.entrances, edges, (one.left, one.left + column.width))
    crown = draw_ribbons(canvas, columns, standing, grid)
    for number, (column, one) in enumerate(zip(columns, standing, strict=True)):
        draw_feet(canvas, column, one, grid, is_left=number == 0)
    draw_again(canvas, trace, columns, standing, grid)
    return crown


def draw_ribbons(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], grid: Grid) -> float:
    """Memory from the first tower into the second, in every phase."""
    first, second = standing
    starts = first.ends(columns[0])
    roof = first.drawn.top
    edge = second.left
    feet = second.drawn.memory
    if not feet[0]:
        return roof
    told = describe_memory(columns[1].towering.tower)
    tooltip = f"memory: {told}\n{starts[0].tooltip}"
    crown = draw_memory(canvas, starts[0], roof, feet[0], edge, grid.stairwell, tooltip)
    name = f"layer_name_{columns[1].look.own}_"
    apart = [(edge - 1, box.y) for box in canvas.boxes if box.id.startswith(name) and box.on != "page"]
    apart += [(box.left - 1, box.y) for box in list_closed(second)]
    draw_memory_rows(canvas, apart, crown, (starts[0].x + grid.stairwell) / 2, edge)
    for box, rows in zip(starts[1:], feet[1:], strict=True):
        draw_memory_once(canvas, box, first.drawn, crown, rows, edge, grid.stairwell)
    draw_memory_note(canvas, columns[0], starts, crown, told)
    return crown


def list_closed(standing: Standing) -> list[Box]:
    """The boxes of attentions that look at another tower and are drawn in full elsewhere."""
    return [
        shown.placed[0].boxes["closed"]
        for shown in standing.drawn.shown
        for branch in shown.panels[0].staging.stage.branches
        if isinstance(branch, Looking) and branch.leaves_stream and "closed" in shown.placed[0].boxes
    ]


def draw_feet(canvas: Canvas, column: Column, standing: Standing, grid: Grid, *, is_left: bool) -> None:
    """Captions, words, ids and masks of every phase of a tower."""
    words = MARGIN + CAPTION + grid.foot - CAPTION - 40 - IDS_HEIGHT
    ids = words + 20 + IDS_HEIGHT
    roof = MARGIN + grid.foot + grid.low
    lanes = column.lanes(standing.left)
    ledger = grid.ledgers[0 if is_left else 1]
    start = ledger[0] if is_left else grid.stairwell + 30
    far = grid.stairwell - 16 if is_left else ledger[1]
    alone = column.twin is None
    draw_station(canvas, start + (15 if is_left else 24), MARGIN + 12, column.first_station)
    for number, (phase, lane) in enumerate(zip(column.phases, lanes, strict=True)):
        draw_caption(canvas, phase, lane.centre, MARGIN + 18)
        left, right = start, far
        trains = phase.look.role != "inference"
        beside = lanes[0].left + lanes[0].width + 14
        if number:
            left = beside - 4
        elif not alone or (trains and not is_left):
            right = beside - 12
        if alone and phase.words is not None and phase.words.is_answer:
            left = lanes[0].left - 24
        foot = Foot(left, right, lane.centre, MARGIN + 18, words, ids, roof)
        box = lowest_box(standing, number)
        top = ids + (4 if trains else 6)
        dashed = phase.look.is_dashed
        dropped = describe_sign(phase)
        if dropped and not number:
            canvas.note(lane.centre + 8, roof - 2, (words_of(dropped, NOTE, "quiet"),))
        canvas.line((lane.centre, top), (lane.centre, box.bottom), role=phase.look.phase, width=2, dashed=dashed)
        if trains:
            draw_batch(canvas, phase, foot, is_left=is_left)
            draw_mask_beside(canvas, phase, foot, standing.left - 8, box.left - 12)
            if alone and not is_left:
                draw_reads_and_says(canvas, phase, foot, beside + 2, far)
        else:
            draw_inference(canvas, phase, foot, alone=alone)


def describe_sign(phase: Column) -> str:
    """What is said of the sum of words and places: how much of it is dropped."""
    return next((node.extra for node in phase.entrance.nodes if node.form == "sign"), "") if phase.entrance else ""


def lowest_box(standing: Standing, number: int) -> Box:
    """The box at the bottom of an entrance."""
    return min(standing.entrances[number].boxes.values(), key=lambda box: box.bottom)


def draw_again(
    canvas: Canvas, trace: Trace, columns: Sequence[Column], standing: Sequence[Standing], grid: Grid
) -> None:
    """What goes back to the beginning: gradients and a new batch, the new word and another turn."""
    column, last = columns[-1], standing[-1]
    lanes = column.lanes(last.left)
    station = column.last_station + 1
    backward = list_gradients(trace)
    middle = MARGIN + grid.foot - 90
    for phase, leaving, lane in zip(column.phases, last.exits, lanes, strict=True):
        loss = leaving.boxes.get("loss") if leaving is not None else None
        if loss is not None and backward and loss.record is not None:
            told = phase.look.tell(backward)
            draw_gradients(canvas, loss, grid.stairwell, MARGIN + CAPTION - 2, told)
            draw_station(canvas, grid.stairwell, middle, station)
        if is_looped(phase) and leaving is not None and phase.exit is not None and phase.words is not None:
            word = leaving.boxes[phase.exit.head]
            low = MARGIN + CAPTION + (grid.foot - CAPTION - 40 - IDS_HEIGHT) / 2
            start = lane.centre + line_width(caption_line(phase), canvas.measure) / 2 + 12
            appending = phase.words.appending(phase.words.first)
            told = phase.look.tell((appending,)) if appending is not None else ""
            remarks = list_appending(what_loops(trace, column))
            draw_loop(canvas, word, grid.loop, low, grid.ledgers[1][1] + 4, (start, MARGIN + 18), remarks, told)
            draw_said(canvas, phase, word, grid.loop - 16, last.drawn.top + 34)
            draw_station(canvas, grid.loop, last.drawn.shown[0].placed[0].boxes["values"].y, station)
