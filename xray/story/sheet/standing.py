"""Columns on the canvas: what a tower reads at the bottom, its frames, what leaves it; too high ones go on beside."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from xray.story.canvas import Canvas
from xray.story.charts.chart import Chart
from xray.story.layout import Box, Measure, Run, baselines, block_width
from xray.story.regions.conditions import draw_condition, lane_beside, list_passing, make_room
from xray.story.sheet.canvas.placing import Placed, draw_station, place_chart
from xray.story.sheet.canvas.routing import CLEAR, Way, between, join
from xray.story.sheet.columns import Column
from xray.story.sheet.frames import Drawn, draw_frames
from xray.story.sheet.panels import SKIP, Lane, place_charts
from xray.story.sheet.planning import Frame
from xray.story.type_sizes import LABEL, NOTE, PANEL_PAD

CAPTION, RISE, EXIT, PASSING, KNEE = 34.0, 26.0, 44.0, 17.0, 7.0
"""What a caption takes, the way from the entrance up into the frames, from the frames up to the exit, and by how much a
caption is lower where a way from another tower runs above it."""

CORNER = 24.0
"""How much of a corner of a box the number of a station takes."""

KNEE_BELOW = 21.0
"""By how much a way to a box beside the middle of a frame is lower, where ways from other towers come in above it."""

TALLEST = 1900.0
"""A column that would stand higher goes on in another one beside it."""


@dataclass(frozen=True)
class Standing:
    """A column on the canvas: what it reads and what leaves it in every phase, and its frames between."""

    left: float
    entrances: tuple[Placed, ...]
    drawn: Drawn
    exits: tuple[Placed | None, ...]
    top: float

    def ends(self, column: Column) -> tuple[Box, ...]:
        """The box that a tower's result leaves from in every phase: its last norm where it has one."""
        return tuple(
            find_end(phase, leaving, last)
            for phase, leaving, last in zip(column.phases, self.exits, self.drawn.lasts, strict=True)
        )


def find_end(phase: Column, leaving: Placed | None, last: Box) -> Box:
    """The box that a tower's result leaves from: that of its last norm, be it brought to another type behind it."""
    final = phase.towering.final
    if leaving is None or phase.exit is None or final is None:
        return last
    end = phase.reading.flow.steps[final.end]
    own = (node.key for node in phase.exit.nodes if end in node.steps and node.key in leaving.boxes)
    return leaving.boxes.get(f"out{final.end}") or next((leaving.boxes[key] for key in own), last)


def split_columns(measure: Measure, columns: list[Column], gap: float) -> list[Column]:
    """The same columns, one that is too high for its page as several that go on beside each other."""
    found: list[Column] = []
    for column in columns:
        high = stand_height(measure, [column], gap)
        runs = list_runs(column.frames)
        pieces = min(len(runs), 1 + int(high // TALLEST))
        if pieces == 1:
            found.append(column)
            continue
        heights = [frames_height(measure, run, column, gap) for run in runs]
        target = sum(heights) / pieces
        cuts: list[list[Frame]] = [[]]
        filled = 0.0
        for run, height in zip(runs, heights, strict=True):
            if cuts[-1] and filled + height / 2 > target and len(cuts) < pieces:
                cuts.append([])
                filled = 0.0
            cuts[-1] += run
            filled += height
        for number, held in enumerate(cuts):
            is_first, is_last = number == 0, number == len(cuts) - 1
            found.append(
                replace(
                    column,
                    frames=tuple(held),
                    entrance=column.entrance if is_first else None,
                    exit=column.exit if is_last else None,
                    is_first=is_first,
                    is_last=is_last,
                    remarks=False,
                    twin=None,
                    condition=column.condition if is_first else None,
                )
            )
    return found


def list_runs(frames: Sequence[Frame]) -> list[tuple[Frame, ...]]:
    """Every frame that is drawn in full, with the rows of layers that stand on it."""
    starts = [number for number, frame in enumerate(frames) if number == 0 or not frame.is_compact]
    return [tuple(frames[start:end]) for start, end in zip_longest(starts, starts[1:])]


def frames_height(measure: Measure, frames: tuple[Frame, ...], column: Column, gap: float) -> float:
    """How high some frames stand."""
    lanes = column.lanes(0)[:1]
    return draw_frames(Canvas(measure, is_trial=True), [frames], lanes, 0, column.width, 0, gap, remarks=False).top


def entrance_charts(column: Column) -> list[Chart]:
    """What a tower reads, in every phase; on the left where a condition stands beside it."""
    charts = [phase.entrance for phase in column.phases if phase.entrance is not None]
    return charts if column.condition is None else list(map(make_room, charts))


def entrance_height(measure: Measure, column: Column, gap: float) -> float:
    """How much stands below a tower's frames, its words left out."""
    charts, lanes = entrance_charts(column), column.lanes(0)
    caption = 0.0 if column.words is not None else CAPTION
    high = condition_height(measure, column, gap)
    if not charts:
        return caption + (high + rise_over(column) if high else 0.0 if column.is_first else 30.0)
    placed = place_charts(Canvas(measure, is_trial=True), charts, lanes[: len(charts)], 0, gap, None)
    return caption + max(placed[0].top, high) + rise_over(column)


def rise_over(column: Column) -> float:
    """How high the way from the entrance up into the frames is: lines of a condition turn there one above another."""
    return RISE + column.passing


def condition_height(measure: Measure, column: Column, gap: float) -> float:
    """How high the condition beside an entrance stands; 0 where there is none."""
    if column.condition is None:
        return 0.0
    lane = lane_beside(column, column.lanes(0)[0], 0)
    return place_charts(Canvas(measure, is_trial=True), [column.condition], [lane], 0, gap, None)[0].top


def common_floor(measure: Measure, columns: Sequence[Column], gap: float) -> float:
    """How high the frames of all towers begin."""
    return max(entrance_height(measure, column, gap) for column in columns)


def count_gaps(column: Column) -> float:
    """How many gaps stand one above the other in a column: by so much it grows where each grows by a point."""
    found = 1.0 + max((chart.rows for chart in entrance_charts(column)), default=1)
    for frame in column.frames:
        found += frame.bridge.rows if frame.bridge is not None else 0
        found += sum(panel.chart.rows + 0.6 for panel in frame.panels) if not frame.is_compact else 0.0
    return found + max((phase.exit.rows for phase in column.phases if phase.exit is not None), default=0)


def stand_height(measure: Measure, columns: Sequence[Column], gap: float, low: float | None = None) -> float:
    """How high the highest column is."""
    low = common_floor(measure, columns, gap) if low is None else low
    return max(stand(Canvas(measure, is_trial=True), column, 0, 0, gap, low).top for column in columns)


def stand(canvas: Canvas, column: Column, left: float, floor: float, gap: float, low: float) -> Standing:
    """A column on the canvas: caption, entrance, frames, exit. Its frames begin so much above the floor."""
    lanes = column.lanes(left)
    base = floor + low
    entrances: tuple[Placed, ...] = ()
    charts = entrance_charts(column)
    if charts:
        trial = Canvas(canvas.measure, is_trial=True)
        start = base - rise_over(column) - place_charts(trial, charts, lanes[: len(charts)], 0, gap, None)[0].top
        placed = place_charts(canvas, charts, lanes[: len(charts)], start, gap, column.first_station, on_page=True)
        entrances = tuple(placed)
    if column.is_first and column.words is None:
        draw_caption(canvas, column, lanes[0].centre, entrances, base)
    name = column.name.upper() if column.words is not None else ""
    drawn = draw_frames(
        canvas,
        [phase.frames for phase in column.phases],
        lanes,
        left,
        column.width,
        base,
        gap,
        remarks=column.remarks,
        name=name,
        layers=column.towering.tower.layers,
        passed=list_passing(column, lanes[0].centre),
    )
    for lane, phase, entrance, first in zip(lanes, column.phases, entrances, drawn.firsts, strict=False):
        if phase.entrance is not None:
            rise(canvas, lane, entrance.boxes[phase.entrance.head], first, base)
    condition = stand_condition(canvas, column, lanes[0], left, base, gap)
    exits = [stand_exit(canvas, column, number, lane, drawn, gap) for number, lane in enumerate(lanes)]
    top = max([drawn.top + 30, *(one.top for one in exits if one is not None)])
    draw_condition(canvas, column, condition, entrances[0] if entrances else None, drawn, exits[0])
    return Standing(left, entrances, drawn, tuple(exits), top)


def stand_condition(canvas: Canvas, column: Column, lane: Lane, left: float, base: float, gap: float) -> Placed | None:
    """How it is worked out what scales, shifts and gates a tower's sublayers, beside its entrance."""
    if column.condition is None or not column.is_first:
        return None
    start = base - rise_over(column) - condition_height(canvas.measure, column, gap)
    beside = lane_beside(column, lane, left)
    return place_charts(canvas, [column.condition], [beside], start, gap, column.first_station, on_page=True)[0]


def rise(canvas: Canvas, lane: Lane, below: Box, above: Box, edge: float) -> None:
    """The way up into the frames: in the colour of its phase as far as their edge."""
    look = lane.look
    if look.phase == look.own:
        join(canvas, below, above, [], look.own, width=2)
        return
    dashed = look.is_dashed
    canvas.line((below.x, below.top), (below.x, edge - 2), role=look.phase, width=2, dashed=dashed, head=False)
    inside = (below.x, edge + PANEL_PAD), (below.x, above.bottom)
    canvas.line(*inside, role=look.line, width=2, dashed=dashed)


def draw_caption(canvas: Canvas, column: Column, centre: float, entrances: Sequence[Placed], base: float) -> None:
    """The name of a tower under it, with its batch, and its first station."""
    lowest = min(entrances[0].boxes.values(), key=lambda box: box.bottom) if entrances else None
    bottom = lowest.bottom if lowest is not None else base - 10
    told = (
        Run(f"{column.name.upper()} ", LABEL, f"accent:{column.look.own}", "bold"),
        Run(f"  {say_batch(column)}", NOTE, "quiet"),
    )
    middle = centre
    if column.condition is not None:
        middle = lowest.x if lowest is not None else centre - column.detail * 0.23
    bottom -= PASSING if column.entrance is not None and entrances and is_passed(column.entrance, entrances[0]) else 0
    canvas.note(middle, bottom - 8, (told,), align="center")
    left = centre - column.detail / 2 - SKIP - PANEL_PAD
    draw_station(canvas, left + 18, lowest.y if lowest is not None else bottom - 14, column.first_station)


def is_passed(chart: Chart, placed: Placed) -> bool:
    """Whether a way from another tower has to pass below boxes of the lowest row, to one that stands right of them."""
    row = [(node.key in chart.memory, placed.boxes[node.key].left) for node in chart.in_row(0)]
    return any(takes and left > min(other for _, other in row) for takes, left in row)


def stand_exit(canvas: Canvas, column: Column, number: int, lane: Lane, drawn: Drawn, gap: float) -> Placed | None:
    """What stands above the frames in one phase."""
    phase = column.phases[number]
    if phase.exit is None or not column.is_last:
        return None
    look = lane.look
    chart = phase.exit
    station = column.last_station or column.frames[-1].panels[-1].station
    floor = drawn.top + EXIT
    placed = place_chart(canvas, chart, lane.left, lane.width, floor, gap, look, station, on_page=True)
    last, dashed, ways = drawn.lasts[number], look.is_dashed, [*placed.ways]
    for key in chart.feet:
        foot = placed.boxes[key]
        if look.phase == look.own and is_aside(last, foot, placed.boxes.values()):
            knee = foot.bottom - (KNEE_BELOW if chart.memory else KNEE)  # above what is written over the frame
            points = ((last.x, last.top), (last.x, knee), (foot.x, knee), (foot.x, foot.bottom))
            canvas.line(*points, role=look.own, width=2, radius=5, head_size=0.6)
            ways.append(Way(last, foot, points))
            continue
        if look.phase == look.own:
            above = floor - 2 * CLEAR
            join(canvas, last, foot, list(placed.boxes.values()), look.own, width=2, drawn=ways, above=above)
            continue
        inside = ((last.x, last.top), (last.x, drawn.top - 9))
        canvas.line(*inside, role=look.line, width=2, dashed=dashed, head=False)
        outside = ((last.x, drawn.top + 3), (last.x, foot.bottom))
        canvas.line(*outside, role=look.phase, width=2, dashed=dashed)
    if column.last_station and not look.is_narrow:
        head = placed.boxes[chart.head]
        beside = [placed.boxes[node.key].left for node in chart.in_row(chart.node(chart.head).row)]
        if head.height > 60 and len(beside) == 1 and not fills_corner(head, canvas.measure):
            draw_station(canvas, head.right - 6, head.top - 4, column.last_station)
        else:
            draw_station(canvas, min(beside) - 22, head.y, column.last_station)
    return replace(placed, ways=tuple(ways))


def fills_corner(box: Box, measure: Measure) -> bool:
    """Whether what stands in a box reaches so far into its upper right corner that no station's number has room."""
    lines = zip(box.lines, baselines(box), strict=True)
    high = [line for line, baseline in lines if baseline + max(run.size for run in line) > box.top - CORNER]
    return box.x + block_width(tuple(high), measure) / 2 > box.right - CORNER


def is_aside(last: Box, foot: Box, boxes: Iterable[Box]) -> bool:
    """Whether a box stands beside the middle of a lower one, with nothing between them."""
    return not foot.left < last.x < foot.right and not between(last, foot, [*boxes])


def say_batch(column: Column) -> str:
    """How many sequences went in, where that is known."""
    for frame in column.frames:
        for panel in frame.panels:
            record = panel.chart.nodes[-1].record
            if record is not None and record.axes and record.axes[0] == "batch" and not is_cut(column, record.shape[0]):
                return f"batch {record.shape[0]}"
    return ""


def is_cut(column: Column, rows: int) -> bool:
    """Whether more sequences go through the layers than came in: an image cut into several (MobileViT)."""
    chart = column.entrance
    record = next((node.record for node in chart.nodes if node.record is not None), None) if chart is not None else None
    return record is not None and bool(record.shape) and record.shape[0] != rows
