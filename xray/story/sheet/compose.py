"""The sheet of any transformer: towers beside each other, joined by what one takes from another, and the cards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from xray.ir.trace import Trace
from xray.story.body.reading import Reading, read_pass
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.body.tree import Anatomy, Attention, Link
from xray.story.body.whole import anatomy
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import Chart
from xray.story.charts.stage_chart import name_branch
from xray.story.compare.marks import Marks
from xray.story.compare.outlines import card_blocks, draw_marks_card, outline_marks
from xray.story.facts.totals import count_params
from xray.story.layout import Box, Layout, Measure, Run
from xray.story.plan import LABEL, MARGIN, NOTE, PANEL_PAD
from xray.story.sheet.cards import AIR, MOST_AIR, Told, tell_entrance, tell_station
from xray.story.sheet.counting import Count
from xray.story.sheet.ends import chart_entrance, chart_exit
from xray.story.sheet.frames import REMARKS, SKIP, Drawn, Frame, draw_frames, plan_frames
from xray.story.sheet.placing import Look, Placed, place_chart
from xray.story.sheet.routing import join
from xray.story.sheet.stand_ins import StandIns
from xray.story.sides import draw_station

RATIO = sqrt(2)
DETAIL, WIDE_DETAIL, NARROW_DETAIL = 344.0, 620.0, 316.0
INFO, AISLE, GAP, MOST_GAP = 384.0, 62.0, 9.0, 26.0
CAPTION = 34.0
TALLEST = 1900.0
"""A column that would stand higher goes on in another one beside it."""


@dataclass(frozen=True)
class Column:
    """A tower with its charts, its frames and its look, and the pass that it was read from."""

    reading: Reading
    towering: Towering
    frames: tuple[Frame, ...]
    entrance: Chart | None
    exit: Chart | None
    look: Look
    first_station: int
    last_station: int
    detail: float
    remarks: bool
    is_first: bool = True
    is_last: bool = True

    @property
    def width(self) -> float:
        """How wide its frames are."""
        return self.detail + SKIP + 2 * PANEL_PAD + 22 + (REMARKS if self.remarks else 0)


@dataclass(frozen=True)
class Standing:
    """A column on the canvas."""

    entrance: Placed | None
    drawn: Drawn
    exit: Placed | None
    top: float


def compose_sheet(trace: Trace, measure: Measure, *, marks: Marks | None = None) -> Layout | None:
    """The sheet of a trace of any network with a residual stream; None for any other."""
    readings = [read_pass(one_pass) for one_pass in trace.passes]
    reading = choose_main(readings)
    if reading is None:
        return None
    whole = anatomy(trace)
    columns = split_columns(measure, plan_columns(trace, collect_towers(readings, reading)))
    canvas = Canvas(measure)
    info = Told(
        trace,
        whole,
        tuple((one.towering.tower, whole_frames(columns, one), one.look) for one in columns if one.is_first),
        list_stations(columns, whole),
        list_shares(columns, count_params(trace)),
        MARGIN,
        INFO,
    )
    cards = sum(heights_of_cards(measure, info)) + AIR * 6 + 2 * MARGIN
    if marks is not None:
        cards += 220
    low, high = (stand_height(measure, columns, gap) for gap in (GAP, MOST_GAP))
    width = 2 * MARGIN + INFO + sum(column.width + AISLE for column in columns)
    height = max(low + 2 * MARGIN, cards, width * RATIO)
    slope = (high - low) / (MOST_GAP - GAP)
    gap = GAP if slope <= 0 else min(MOST_GAP, GAP + max(0.0, height - 2 * MARGIN - low) / slope)
    spare = max(0.0, height / RATIO - width)
    info_width = INFO + min(spare * 0.5, 220.0)
    aisle = AISLE + (spare - (info_width - INFO)) / (len(columns) + 0.5)
    info = Told(**{**info.__dict__, "width": info_width})
    width = 2 * MARGIN + info_width + sum(column.width + aisle for column in columns)
    height = max(height, width * RATIO)
    standing: list[Standing] = []
    left = MARGIN + info_width + aisle
    floors = stand_height(measure, columns, gap)
    floor = MARGIN + max(0.0, (height - 2 * MARGIN - floors) / 2)
    lefts = []
    for column in columns:
        lefts.append(left)
        standing.append(stand(canvas, column, left, floor, gap, common_floor(measure, columns, gap)))
        left += column.width + aisle
    draw_turns(canvas, columns, standing, lefts, aisle)
    draw_links(canvas, columns, standing, lefts, whole, aisle)
    listed = draw_cards(canvas, info, height, marks)
    if marks is not None:
        stand_ins = StandIns([(column.reading.flow, column.towering) for column in columns])
        outline_marks(canvas, marks, listed, stand_ins.names)
    return canvas.finish(width, height, trace.title, describe(whole, trace))


def choose_main(readings: Sequence[Reading]) -> Reading | None:
    """The pass with the most sums on its streams; None if no stream has anything that is known."""
    main = max(readings, key=lambda one: sum(len(tower.stagings) for tower in one.towers), default=None)
    return main if main is not None and main.towers and has_substance(main) else None


def has_substance(reading: Reading) -> bool:
    """Whether any tower holds something that is known."""
    stagings = [staging for tower in reading.towers for staging in tower.stagings]
    return any(branch.part != "unknown" for staging in stagings for branch in staging.stage.branches)


def collect_towers(readings: Sequence[Reading], main: Reading) -> list[tuple[Reading, Towering]]:
    """The towers of the pass that has most of them, behind those that other passes alone went through.

    A tower is known again by the modules that it runs: generating reads the question once, in a pass of its own.
    """
    found = [(main, towering) for towering in main.towers]
    seen = set().union(*(learned_of(main, towering) for towering in main.towers))
    for other in readings:
        for towering in other.towers if other is not main else ():
            learned = learned_of(other, towering)
            if learned and not learned & seen:
                found.insert(0, (other, towering))
                seen |= learned
    return found


def learned_of(reading: Reading, towering: Towering) -> set[str]:
    """The paths of a tower's modules."""
    steps = reading.flow.steps
    return {steps[node].path for staging in towering.stagings for node in staging.nodes if steps[node].params}


def plan_columns(trace: Trace, towers: Sequence[tuple[Reading, Towering]]) -> list[Column]:
    """A column for every tower, from the first that runs to the last."""
    columns: list[Column] = []
    station = 1
    single = len(towers) == 1
    for number, (reading, towering) in enumerate(towers):
        flow = reading.flow
        kind = flow.one_pass.kind
        passes = (flow.one_pass, *(one for one in trace.passes if one.kind == kind and one is not flow.one_pass))
        is_last = number == len(towers) - 1
        own = "decoder" if is_last and (not single or towering.tower.causal) else "encoder"
        memory = "encoder" if own == "decoder" else "decoder"
        entrance = chart_entrance(flow, towering)
        first = station
        station += 1
        frames = plan_frames(flow, towering, station, Count(flow))
        station += sum(panel.is_open for frame in frames for panel in frame.panels)
        others = {node for other in reading.towers if other is not towering for node in other.nodes}
        leaving = chart_exit(flow, towering, others)
        last = station if leaving is not None else 0
        station += leaving is not None
        wide = any(frame.is_wide for frame in frames)
        detail = WIDE_DETAIL if wide else DETAIL if single else NARROW_DETAIL
        look = Look(own, memory, passes)
        columns.append(
            Column(reading, towering, tuple(frames), entrance, leaving, look, first, last, detail, single and not wide)
        )
    return columns


def split_columns(measure: Measure, columns: list[Column]) -> list[Column]:
    """The same columns, one that is too high for its page as several that go on beside each other."""
    found: list[Column] = []
    for column in columns:
        high = stand_height(measure, [column], GAP)
        pieces = min(len(column.frames), 1 + int(high // TALLEST))
        if pieces == 1:
            found.append(column)
            continue
        heights = [frames_height(measure, (frame,), column, GAP) for frame in column.frames]
        target = sum(heights) / pieces
        cuts: list[list[Frame]] = [[]]
        filled = 0.0
        for frame, height in zip(column.frames, heights, strict=True):
            if cuts[-1] and filled + height / 2 > target and len(cuts) < pieces:
                cuts.append([])
                filled = 0.0
            cuts[-1].append(frame)
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
                )
            )
    return found


def frames_height(measure: Measure, frames: tuple[Frame, ...], column: Column, gap: float) -> float:
    """How high some frames stand."""
    return draw_frames(Canvas(measure), frames, 0, column.detail, 0, gap, column.look, remarks=False).top


def entrance_height(measure: Measure, column: Column, gap: float) -> float:
    """How much stands below a tower's frames."""
    if column.entrance is None:
        return CAPTION + (30 if not column.is_first else 0)
    placed = place_chart(Canvas(measure), column.entrance, 0, column.detail, 0, gap, column.look)
    return CAPTION + placed.top + 26


def common_floor(measure: Measure, columns: list[Column], gap: float) -> float:
    """How high the frames of all towers begin."""
    return max(entrance_height(measure, column, gap) for column in columns)


def stand_height(measure: Measure, columns: list[Column], gap: float) -> float:
    """How high the highest column is."""
    low = common_floor(measure, columns, gap)
    return max(stand(Canvas(measure), column, 0, 0, gap, low).top for column in columns)


def stand(canvas: Canvas, column: Column, left: float, floor: float, gap: float, low: float) -> Standing:
    """A column on the canvas: caption, entrance, frames, exit."""
    look = column.look
    inner = left + PANEL_PAD + SKIP
    centre = inner + column.detail / 2
    tower = column.towering.tower
    base = floor + low
    entrance: Placed | None = None
    if column.entrance is not None:
        height = entrance_height(canvas.measure, column, gap) - CAPTION - 26
        entrance = place_chart(
            canvas, column.entrance, inner, column.detail, base - height - 26, gap, look, column.first_station
        )
        bottom = min(box.bottom for box in entrance.boxes.values())
    else:
        bottom = base - 10
    if not column.is_first:
        drawn = draw_frames(canvas, column.frames, left, column.detail, base, gap, look, remarks=column.remarks)
        return finish_stand(canvas, column, left, None, drawn, gap)
    caption = (
        Run(f"{tower.name.upper()} ", LABEL, f"accent:{look.own}", "bold"),
        Run(f"  {say_batch(column)}", NOTE, "quiet"),
    )
    canvas.note(centre, bottom - 8, (caption,), align="center")
    lowest = min(entrance.boxes.values(), key=lambda box: box.bottom) if entrance is not None else None
    draw_station(canvas, left + 18, lowest.y if lowest is not None else bottom - 14, column.first_station)
    drawn = draw_frames(canvas, column.frames, left, column.detail, base, gap, look, remarks=column.remarks)
    if entrance is not None and column.entrance is not None:
        head = entrance.boxes[column.entrance.head]
        join(canvas, head, drawn.first, [], look.own, width=2)
    return finish_stand(canvas, column, left, entrance, drawn, gap)


def finish_stand(
    canvas: Canvas, column: Column, left: float, entrance: Placed | None, drawn: Drawn, gap: float
) -> Standing:
    """The same with what stands above the frames."""
    look = column.look
    inner = left + PANEL_PAD + SKIP
    leaving: Placed | None = None
    top = drawn.top + 30
    if column.exit is not None:
        leaving = place_chart(canvas, column.exit, inner, column.detail, drawn.top + 44, gap, look, column.last_station)
        for key in column.exit.feet:
            join(canvas, drawn.last, leaving.boxes[key], list(leaving.boxes.values()), look.own, width=2)
        head = leaving.boxes[column.exit.head]
        draw_station(canvas, head.left - 22, head.y, column.last_station)
        top = leaving.top
    return Standing(entrance, drawn, leaving, top)


def say_batch(column: Column) -> str:
    """How many sequences went in, where that is known."""
    for frame in column.frames:
        for panel in frame.panels:
            record = panel.chart.nodes[-1].record
            if record is not None and record.axes and record.axes[0] == "batch":
                return f"batch {record.shape[0]}"
    return ""


def draw_turns(
    canvas: Canvas, columns: list[Column], standing: list[Standing], lefts: list[float], aisle: float
) -> None:
    """The stream's way from the top of one column of a tower to the foot of the next."""
    for number, column in enumerate(columns):
        if column.is_first:
            continue
        last, first = standing[number - 1].drawn.last, standing[number].drawn.first
        roof, lane = standing[number - 1].drawn.top + 34, lefts[number] - aisle / 2
        floor = first.bottom - 40
        way = (
            (last.x, last.top),
            (last.x, roof),
            (lane, roof),
            (lane, floor),
            (first.x, floor),
            (first.x, first.bottom),
        )
        canvas.line(*way, role="boundary", width=3, radius=14)


def draw_links(
    canvas: Canvas, columns: list[Column], standing: list[Standing], lefts: list[float], anatomy: Anatomy, aisle: float
) -> None:
    """Ribbons from where one tower ends to where another one takes it up."""
    places = {column.towering.tower.name: number for number, column in enumerate(columns) if column.is_last}
    begins = {column.towering.tower.name: number for number, column in enumerate(columns) if column.is_first}
    links = [*anatomy.links, *links_across(columns)]
    for link in links:
        source, target = places.get(link.source), begins.get(link.target)
        if source is None or target is None or source == target:
            continue
        start = end_box(columns[source], standing[source])
        lane = lefts[target] - aisle * 0.42 - 6 * source
        roof = max(start.top + 24, standing[source].drawn.top + 40)
        rows = standing[target].drawn.memory if link.kind == "memory" else ()
        feet = [(box.x, box.bottom, box) for row in rows for box in row]
        entrance = standing[target].entrance
        if link.kind == "joined" and entrance is not None:
            head = entrance.boxes[columns[target].entrance.head]  # type: ignore[union-attr]
            feet = [(head.left, head.y, head)]
        for number, row in enumerate(rows or ([],)):
            aims = [(box.x, box.bottom) for box in row] if rows else [(x, y) for x, y, _ in feet]
            if not aims:
                continue
            level = min(y for _, y in aims) - 15 if rows else aims[0][1]
            for x, y in aims:
                way = [(start.x, start.top), (start.x, roof), (lane, roof), (lane, level)]
                way += [(x, level), (x, y)] if rows else [(x, y)]
                canvas.line(*way, role="casing", width=8.5, radius=16, head=False, kind="ribbon")
                canvas.line(*way, role="ribbon", width=5.5, radius=16, head_size=0.5, kind="ribbon")
            if number == 0:
                name = "MEMORY" if link.kind == "memory" else f"FROM THE {link.source.upper()} TOWER"
                canvas.note(start.x + 14, roof - 8, (words(name, LABEL, "text", "bold"),))


def links_across(columns: list[Column]) -> list[Link]:
    """Memory that was made in another pass: keys and values that come from outside, with one tower to come from."""
    last = columns[-1]
    others = [column for column in columns if column.reading is not last.reading and column.is_last]
    reads = any(panel.chart.memory for frame in last.frames for panel in frame.panels)
    if len(others) != 1 or not reads:
        return []
    return [Link("memory", others[0].towering.tower.name, last.towering.tower.name)]


def end_box(column: Column, standing: Standing) -> Box:
    """The box that a tower's result leaves from: its last norm where it has one."""
    if standing.exit is not None and column.exit is not None and column.towering.final is not None:
        wanted = column.towering.final.end
        for node in column.exit.nodes:
            if node.key == f"out{wanted}":
                return standing.exit.boxes[node.key]
    return standing.drawn.last


def heights_of_cards(measure: Measure, info: Told) -> list[float]:
    """How high each card is."""
    return [-draw(Canvas(measure), 0.0) for draw in info.parts()]


def draw_cards(canvas: Canvas, info: Told, height: float, marks: Marks | None) -> int:
    """The cards from the top down, with as much air between them as there is; gives how many marks are listed."""
    heights = heights_of_cards(canvas.measure, info)
    shown = [(draw, high) for draw, high in zip(info.parts(), heights, strict=True) if high > 0]
    listed = 0.0
    blocks = None
    if marks is not None:
        blocks = card_blocks(canvas, marks, info.width)
        listed = 250.0
    room = height - 2 * MARGIN - sum(high for _, high in shown) - listed
    air = max(AIR, min(MOST_AIR, room / max(len(shown) - 1, 1)))
    y = height - MARGIN
    for number, (draw, _) in enumerate(shown):
        y = draw(canvas, y) - air
        if number == 0 and marks is not None and blocks is not None:
            y = draw_marks_card(canvas, marks, blocks, info.left, y, info.width) - air
    return sum(number > 0 for number, _ in blocks or ())


def list_stations(columns: list[Column], anatomy: Anatomy) -> tuple[tuple[int, str], ...]:
    """The stations with what happens at each."""
    found: list[tuple[int, str]] = []
    for column in columns:
        tower = column.towering.tower
        if column.is_first:
            found.append((column.first_station, tell_entrance(tower)))
        for frame in column.frames:
            for panel in frame.panels:
                if panel.is_open:
                    told = " ".join(tell_station(tower, branch) for branch in panel.staging.stage.branches)
                    found.append((panel.station, told))
        if column.last_station and column.is_last:
            found.append((column.last_station, tell_exit(anatomy, column)))
    return tuple(sorted(found))


def tell_exit(anatomy: Anatomy, column: Column) -> str:
    """What comes out of a tower."""
    head = anatomy.head
    is_last = column.towering.tower is anatomy.towers[-1] or len(anatomy.towers) == 1
    if head is None or not is_last or head.kind == "none":
        return "What leaves the tower."
    return "A score for every word." if head.kind == "vocabulary" else f"{head.size:,} numbers come out."


def list_shares(columns: list[Column], params: int) -> tuple[tuple[str, str, int], ...]:
    """The parameters by part, over all layers, each counted once; what is left is named as what it is: the rest."""
    found: list[tuple[str, str, int]] = []
    seen: set[str] = set()
    several = sum(column.is_first for column in columns) > 1

    def add(count: Count, name: str, role: str, groups: list[set[int]]) -> None:
        fresh = {path: n for path, n in count.fresh(groups).items() if path not in seen}
        seen.update(fresh)
        if sum(fresh.values()):
            found.append((name, role, sum(fresh.values())))

    for column in (column for column in columns if column.is_first):
        own, name = column.look.own, f"{column.towering.tower.name} " if several else ""
        count = Count(column.reading.flow)
        add(count, f"{name}entrance", own, [set(column.towering.entrance)])
        kinds: dict[str, list[set[int]]] = {}
        for staging in column.towering.stagings:
            for kind, nodes in split_nodes(staging):
                kinds.setdefault(kind, []).append(nodes)
        for kind, groups in kinds.items():
            add(count, f"{name}{kind.lower()} × {len(groups)}", own, groups)
        leaving = next((one.exit for one in columns if one.towering is column.towering and one.exit), None)
        if leaving is not None:
            places = {column.reading.flow.places[step.id] for node in leaving.nodes for step in node.steps}
            final = column.towering.final
            add(count, f"{name}{'last norm' if final and places <= set(final.nodes) else 'head'}", own, [places])
    total = sum(n for _, _, n in found)
    if params > total:
        found.append(("norms and what is not placed", "card", params - total))
    return tuple(found)


def split_nodes(staging: Staging) -> list[tuple[str, set[int]]]:
    """A stage's steps by branch."""
    found = []
    for one in staging.branches:
        name = name_branch(one.branch)
        if isinstance(one.branch, Attention) and one.branch.window:
            name = "SELF-ATTENTION"
        found.append((name, set(one.region.inner | one.region.beside)))
    return found


def whole_frames(columns: list[Column], first: Column) -> tuple[Frame, ...]:
    """The frames of a tower, in however many columns they stand."""
    return tuple(frame for column in columns if column.towering is first.towering for frame in column.frames)


def describe(anatomy: Anatomy, trace: Trace) -> str:
    """What the sheet shows, for those who hear it."""
    towers = ", ".join(
        f"{tower.name}: {tower.layers} layers" + (f" of width {tower.d_model:,}" if tower.d_model else "")
        for tower in anatomy.towers
    )
    return f"{trace.title} from bottom to top. {towers}. Every box names its step, shapes and axes."
