"""The sheet of any transformer: towers beside each other, joined by what one takes from another, and the cards."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from xray.ir.trace import Trace
from xray.story.anatomy.tree import Anatomy
from xray.story.body.ends import LEAST_SAID, list_untold
from xray.story.body.whole import anatomy
from xray.story.canvas import Canvas
from xray.story.cards.boxless import (
    Unsaid,
    count_unsaid,
    find_unsaid,
    tell_left_out,
)
from xray.story.cards.cards import AIR, CARDS, MOST_AIR
from xray.story.cards.stations import list_stations
from xray.story.cards.told import Scored, Told
from xray.story.cards.undrawn import list_boxed_around, list_told, list_unboxed
from xray.story.charts.between_chart import LEFT_OUT
from xray.story.charts.chart import Chart
from xray.story.compare.marks import Marks
from xray.story.compare.outlines import card_blocks, card_height, draw_marks_card, outline_marks
from xray.story.exits.several_heads import find_cut_scores, list_alike
from xray.story.facts.unused import find_unworked
from xray.story.layout import Layout, Measure
from xray.story.regions.conditions import widen
from xray.story.regions.flanked import draw_flanked, is_flanked, list_gradients, plan_grid
from xray.story.regions.heat_maps import read_pictures
from xray.story.regions.long_ways import list_gradient_lines
from xray.story.regions.past_frames import draw_past_frames
from xray.story.regions.ribbons.links import draw_links
from xray.story.regions.upper_left import AIR as CARD_AIR
from xray.story.regions.upper_left import PICTURES, draw_head, draw_middle, draw_upper_left
from xray.story.sentences.of_runs import list_remarks
from xray.story.sheet.arrows.passed import tell_passed
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import Column, list_links, read_columns
from xray.story.sheet.counting import count_frames
from xray.story.sheet.planning import Frame
from xray.story.sheet.shares import list_shares
from xray.story.sheet.stand_ins import StandIns
from xray.story.sheet.standing import common_floor, split_columns, stand, stand_height
from xray.story.type_sizes import MARGIN, PAGE_RATIO
from xray.story.wording import plural

LEAST_GAIN = 1.1
"""A sheet lies on its side where letters are so many times larger there than on an upright one, or more."""
INFO, AISLE, GAP, MOST_GAP = 384.0, 62.0, 9.0, 26.0


def compose_sheet(
    trace: Trace, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout | None:
    """The sheet of a trace of any network with a residual stream; None for any other, and where it would not be true.

    No sheet has an arrow that the recorded steps do not prove.
    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed.
    """
    columns = keep_proven(read_columns(trace, all_layers=all_layers))
    if not columns:
        return None
    unsaid = find_unsaid(columns)
    columns = [tell_left_out(column, unsaid) for column in tell_passed(columns, unsaid)]
    canvas = Canvas(measure)
    whole = replace(anatomy(trace), untold=list_unboxed(columns))
    idle, left = find_unworked(trace), list_untold(list_told(columns))
    apart = list_boxed_around(columns).union(one.path for one in whole.untold)
    counted = [count_frames(one.reading, one.towering, one.frames, idle, left, apart) for one in columns]
    columns = [replace(column, frames=frames) for column, frames in zip(columns, counted, strict=True)]
    columns = [widen(measure, column) for column in columns]
    draw = draw_flanks if is_flanked(columns) else draw_beside
    width, height, listed, columns = draw(canvas, trace, whole, columns, unsaid, marks)
    if marks is not None and marks.role == "failure" and not stands_on(canvas, marks):
        return None
    if marks is not None:
        drawn = [(phase.reading.flow, phase.towering) for column in columns for phase in column.phases]
        outline_marks(canvas, marks, listed, StandIns(drawn).names)
    return canvas.finish(width, height, trace.title, describe(whole, trace))


def stands_on(canvas: Canvas, marks: Marks) -> bool:
    """Whether every marked step is on the canvas itself."""
    drawn = {step for box in canvas.boxes for step in box.steps}
    return all(f"{mark.kind}{mark.number or ''}/{mark.step}" in drawn for mark in marks.steps)


def gather(trace: Trace, whole: Anatomy, columns: Sequence[Column], unsaid: Unsaid) -> Told:
    """All that the cards tell of."""
    roles = dict.fromkeys(phase.look.role for column in columns for phase in column.phases)
    return Told(
        trace,
        whole,
        tuple((one.towering.tower, whole_frames(columns, one), one.look) for one in columns if one.is_first),
        list_stations(trace, columns, whole),
        list_shares(
            columns,
            trace,
            {one.path for one in list_untold(list_told(columns))},
            {one.path for one in whole.untold},
            has_head=whole.head is not None and whole.head.kind != "none",
        ),
        MARGIN,
        INFO,
        roles=tuple(role for role in ("training", "inference", "forward") if role in roles),
        has_condition=any(column.condition is not None for column in columns),
        has_brought=any(node.surface == "condition" for one in columns if one.exit for node in one.exit.nodes),
        has_between=any(
            node.surface == "ghost" and not node.key.startswith(LEFT_OUT)
            for column in columns
            for one in (*list_ends(column), *(frame.bridge for frame in column.frames))
            for node in (one.nodes if one is not None else ())
        ),
        has_turns=any(not column.is_first for column in columns),
        unsaid=count_unsaid(columns, unsaid),
        scored=count_scored(columns),
    )


def count_scored(columns: Sequence[Column]) -> tuple[tuple[str, Scored], ...]:
    """How many words those towers give scores that do, by their names, each of how many codes; of two tables, neither.

    Several heads of the same rows give scores to the words of a table each, or to most of them (MusicGen). One head may
    give those of several codes that have rows of their own in one table (Dia).
    """
    leaving = [(one, one.exit, one.towering.tower.vocab) for one in columns]
    cut = [
        (one.name, Scored(ids, codes))
        for one, chart, rows in leaving
        if chart is not None and rows is not None
        for codes, ids in [find_cut_scores(one.reading.flow, chart, rows) or (0, 0)]
        if codes
    ]
    records = [(one.name, node.record) for one in columns if one.exit is not None for node in one.exit.nodes]
    found = {(name, one.shape[-1]) for name, one in records if one is not None and one.axes[-1:] == ("vocab",)}
    alike = [(one, size) for one in columns if one.exit for size in list_alike(one.reading.flow, one.exit)]
    found |= {(one.name, size) for one, size in alike if size > (one.towering.tower.vocab or inf) * LEAST_SAID}
    known = [one for one in found if [name for name, _ in found].count(one[0]) == 1 and one[0] not in dict(cut)]
    return (*cut, *sorted((name, Scored(size)) for name, size in known))


def draw_flanks(
    canvas: Canvas, trace: Trace, whole: Anatomy, columns: list[Column], unsaid: Unsaid, marks: Marks | None
) -> tuple[float, float, int, list[Column]]:
    """Two towers with their words between ledgers, the cards above the first; gives the page and the marks listed."""
    remarks, gradients = list_remarks(trace), list_gradient_lines(list_gradients(trace))
    told = replace(gather(trace, whole, columns, unsaid), has_masks_beside=True, width=700.0)
    told = replace(told, marked=marks.role if marks is not None and marks.steps else "")
    trial = Canvas(canvas.measure)
    upper = -draw_middle(trial, told, draw_head(trial, told, remarks, gradients, 0.0)) + 10
    if marks is not None:
        upper += card_height(card_blocks(canvas, marks, told.width)) + CARD_AIR
    pictures = read_pictures(columns)
    grid = plan_grid(canvas.measure, columns, upper, PICTURES + 40 if pictures else 0.0)
    crown = draw_flanked(canvas, trace, columns, grid)
    left, width = grid.info
    told = replace(told, left=left, width=width)
    top = grid.height - MARGIN
    listed = draw_upper_left(canvas, told, remarks, gradients, pictures, top, crown + 10, marks)
    return grid.width, grid.height, listed, columns


def draw_beside(
    canvas: Canvas, trace: Trace, whole: Anatomy, columns: list[Column], unsaid: Unsaid, marks: Marks | None
) -> tuple[float, float, int, list[Column]]:
    """Towers beside each other, the cards left of them; gives the page, the marks listed and the columns."""
    measure = canvas.measure
    columns = split_columns(measure, columns, GAP)
    info = gather(trace, whole, columns, unsaid)
    cards = sum(heights_of_cards(measure, info)) + AIR * 6 + 2 * MARGIN
    if marks is not None:
        cards += 220
    low, high = (stand_height(measure, columns, gap) for gap in (GAP, MOST_GAP))
    width = 2 * MARGIN + INFO + sum(column.width + AISLE for column in columns)
    ratio = choose_ratio(width, max(low + 2 * MARGIN, cards))
    height = max(low + 2 * MARGIN, cards, width * ratio)
    slope = (high - low) / (MOST_GAP - GAP)
    gap = GAP if slope <= 0 else min(MOST_GAP, GAP + max(0.0, height - 2 * MARGIN - low) / slope)
    spare = max(0.0, height / ratio - width)
    info_width = INFO + min(spare * 0.5, 220.0)
    air = (spare - (info_width - INFO)) / (len(columns) + 1)
    aisle = AISLE + air
    info = replace(info, width=info_width)
    width = 2 * MARGIN + info_width + sum(column.width + aisle for column in columns) + air
    height = max(height, width * ratio)
    floors = stand_height(measure, columns, gap)
    floor = MARGIN + max(0.0, (height - 2 * MARGIN - floors) / 2)
    left, base = MARGIN + info_width + aisle, common_floor(measure, columns, gap)
    standing = []
    for column in columns:
        standing.append(stand(canvas, column, left, floor, gap, base))
        left += column.width + aisle
    draw_past_frames(canvas, columns, standing)
    roof = draw_links(canvas, columns, standing, list_links(columns, whole.links), aisle)
    ribbons = [curve for curve in canvas.curves if curve.kind == "ribbon"]
    right = max((x + curve.width / 2 for curve in ribbons for x, _ in curve.points), default=0.0)
    width = max(width, right + MARGIN)
    height = max(height, roof + MARGIN / 2, width * ratio)
    info = replace(info, has_ribbons=bool(ribbons))
    return width, height, draw_cards(canvas, info, height, marks), columns


def choose_ratio(width: float, height: float) -> float:
    """Height over width of an A paper, on its side where what stands on it is read in larger type then."""
    upright, on_its_side = max(width, height / PAGE_RATIO), max(width / PAGE_RATIO, height)
    return 1 / PAGE_RATIO if on_its_side * LEAST_GAIN < upright else PAGE_RATIO


def heights_of_cards(measure: Measure, info: Told) -> list[float]:
    """How high each card is."""
    return [-draw(info, Canvas(measure), 0.0) for draw in CARDS]


def draw_cards(canvas: Canvas, info: Told, height: float, marks: Marks | None) -> int:
    """The cards from the top down, with as much air between them as there is; gives how many marks are listed."""
    heights = heights_of_cards(canvas.measure, info)
    shown = [(draw, high) for draw, high in zip(CARDS, heights, strict=True) if high > 0]
    listed = 0.0
    blocks = None
    if marks is not None:
        blocks = card_blocks(canvas, marks, info.width)
        listed = 250.0
    room = height - 2 * MARGIN - sum(high for _, high in shown) - listed
    air = max(AIR, min(MOST_AIR, room / max(len(shown) - 1, 1)))
    y = height - MARGIN
    for number, (draw, _) in enumerate(shown):
        y = draw(info, canvas, y) - air
        if number == 0 and marks is not None and blocks is not None:
            y = draw_marks_card(canvas, marks, blocks, info.left, y, info.width) - air
    return sum(number > 0 for number, _ in blocks or ())


def list_ends(column: Column) -> list[Chart]:
    """The charts of how a tower is entered, and of how it is left in every phase."""
    return [one for one in (column.entrance, *(phase.exit for phase in column.phases)) if one is not None]


def whole_frames(columns: Sequence[Column], first: Column) -> tuple[Frame, ...]:
    """The frames of a tower, in however many columns they stand."""
    return tuple(frame for column in columns if column.towering is first.towering for frame in column.frames)


def describe(anatomy: Anatomy, trace: Trace) -> str:
    """What the sheet shows, for those who hear it."""
    towers = ", ".join(
        f"{tower.name}: {plural(tower.layers, 'layer')}" + (f" of width {tower.d_model:,}" if tower.d_model else "")
        for tower in anatomy.towers
    )
    return f"{trace.title} from bottom to top. {towers}. Every box names its step, shapes and axes."
