"""A tower as frames: a frame for every group of layers that are alike, a panel for every stage in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from xray.ir.trace import Step
from xray.story.anatomy.tree import Attention, Experts, FeedForward, Group
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import BROAD, Chart, Node, steps_at
from xray.story.charts.narrow import narrow_chart
from xray.story.charts.stage_chart import chart_stage, name_stage
from xray.story.layout import Box, Point, Run
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS
from xray.story.sheet.compact import HIGH, LOW, PAD, Row, draw_row, draw_row_frame, pick_node
from xray.story.sheet.counting import Count
from xray.story.sheet.placing import Look, Placed, draw_station, heights_of, place_chart
from xray.story.type_sizes import LABEL, NOTE, PANEL_PAD
from xray.story.wording import fit_text, wrap

SKIP, TITLE_ROW, REMARKS, TITLE_TOP = 34.0, 22.0, 136.0, 34.0
MOST_FRAMES, MOST_HIGH, MOST_ROWS = 6, 4, 25
"""So many frames, high rows of single layers, and rows of nodes a tower may have before it is drawn closer."""

Layer = Sequence[Staging]


@dataclass(frozen=True)
class Panel:
    """One stage in a frame: its chart, whether it is opened, its station; and the block that holds its whole layer."""

    staging: Staging
    chart: Chart
    is_open: bool
    station: int
    params: int
    block: Step | None = None


@dataclass(frozen=True)
class Frame:
    """A group of layers with the panels of one of them, from the bottom up; `is_only`: it holds all layers.

    A compact one is a row: what it holds is drawn in full elsewhere.
    """

    group: Group
    panels: tuple[Panel, ...]
    params: int
    is_only: bool
    is_compact: bool = False

    @property
    def is_wide(self) -> bool:
        """Whether branches stand beside each other in it."""
        return any(panel.is_open and panel.staging.stage.parallel for panel in self.panels)


@dataclass(frozen=True)
class Lane:
    """Where one pass goes up through the frames: from where its charts begin, how wide, and how it looks."""

    left: float
    width: float
    look: Look

    @property
    def centre(self) -> float:
        return self.left + self.width / 2


@dataclass(frozen=True)
class Shown:
    """A panel on the canvas: the charts that were placed in it, lane by lane, and where it stands."""

    panels: tuple[Panel, ...]
    placed: tuple[Placed, ...]
    bottom: float
    top: float


@dataclass(frozen=True)
class Drawn:
    """What a tower's frames have become on the canvas: for each lane the first and last box, and what memory feeds."""

    firsts: tuple[Box, ...]
    lasts: tuple[Box, ...]
    memory: tuple[tuple[tuple[Box, ...], ...], ...]
    shown: tuple[Shown, ...]
    top: float

    @property
    def first(self) -> Box:
        """The box that the first lane enters first."""
        return self.firsts[0]

    @property
    def last(self) -> Box:
        """The box that the first lane leaves last."""
        return self.lasts[0]


def plan_frames(
    flow: Flow, towering: Towering, station: int, count: Count, *, all_layers: bool = False, in_rows: bool = False
) -> list[Frame]:
    """The frames of a tower: each distinct stage is opened once, in the frame with the most layers first.

    Layers that are alike stand in one frame, unless all are asked for. Those that are drawn in full elsewhere stand in
    rows where that is wanted.
    """
    first = station
    groups = list(towering.tower.groups)
    if all_layers:
        groups = sorted(
            (replace(group, layers=(layer,)) for group in groups for layer in group.layers),
            key=lambda group: group.layers,
        )
    layers = [towering.layers[group.layers[0]] for group in groups]
    charts = [[chart_stage(flow, staging) for staging in layer] for layer in layers]
    order = sorted(
        range(len(groups)), key=lambda number: (-groups[number].count, -sum(len(one.nodes) for one in charts[number]))
    )
    kept = sorted(order[: len(order) if all_layers else MOST_FRAMES])
    opened: dict[int, set[int]] = {}
    seen: list[frozenset[str]] = []
    for number in [number for number in order if number in kept]:
        for place, chart in enumerate(charts[number]):
            keys = frozenset(
                f"{node.key.rstrip('0123456789')} {node.label.rstrip('0123456789')}" for node in chart.nodes
            )
            stage = layers[number][place].stage
            keys |= {f"{branch.part} {getattr(branch, 'source', '')}" for branch in stage.branches}
            if all(not keys <= other for other in seen):
                seen.append(keys)
                opened.setdefault(number, set()).add(place)
    frames = []
    for number in kept:
        block = find_block(flow, layers[number])
        panels = []
        for place, staging in enumerate(layers[number]):
            is_open = place in opened.get(number, set())
            is_row = in_rows and not opened.get(number)
            chart = charts[number][place] if is_open or is_row else chart_closed(flow, staging)
            counted = sum(count.paths([staging.nodes]).values())
            panels.append(
                Panel(staging, chart, is_open, station if is_open else max(station - 1, first), counted, block)
            )
            station += is_open
        params = sum(panel.params for panel in panels)
        compact = in_rows and not opened.get(number)
        frames.append(Frame(groups[number], tuple(panels), params, len(groups) == 1, compact))
    return frames


def find_block(flow: Flow, layer: Layer) -> Step | None:
    """The block that holds a whole layer and nothing else, and reads the stream first; None where there is none."""
    nodes = set().union(*(staging.nodes for staging in layer))
    inner = [node for staging in layer for one in staging.branches for node in one.region.inner]
    shape = flow.output(layer[0].joints[0].add).shape
    here, found = flow.places.get(flow.steps[min(inner)].parent or ""), None
    while here is not None:
        inside = [node for node in range(here + 1, flow.ends[here]) if flow.is_leaf(node) and node not in nodes]
        if any(flow.op(node) not in CARRYING | DROPOUTS for node in inside):
            break
        found = here if flow.steps[here].inputs and flow.steps[here].inputs[0].shape == shape else found
        here = flow.places.get(flow.steps[here].parent or "")
    is_whole = found is not None and all(found < node < flow.ends[found] for node in inner)
    return flow.steps[found] if found is not None and is_whole else None


def chart_closed(flow: Flow, staging: Staging) -> Chart:
    """A stage that is opened in another frame: its name, its own sizes, and what leaves it."""
    add = staging.joints[-1].add
    words_of = [describe_sizes(branch) for branch in staging.stage.branches]
    label = name_stage(staging)
    node = Node(
        "closed",
        label,
        0,
        BROAD,
        steps_at(flow, add),
        flow.output(add),
        "; ".join(one for one in words_of if one),
        outline="boundary",
    )
    return Chart((node,), (), ("closed",), "closed")


def describe_sizes(branch: object) -> str:
    """The sizes of a branch in a few words."""
    if isinstance(branch, Attention):
        heads = f"{branch.heads} heads" if branch.heads else ""
        return f"{heads} of {branch.d_k}" if heads and branch.d_k else heads
    if isinstance(branch, FeedForward):
        return f"d_ff {branch.d_ff:,}" if branch.d_ff else ""
    if isinstance(branch, Experts):
        return f"{branch.chosen} of {branch.experts}" if branch.chosen and branch.experts else ""
    return ""


def draw_frames(
    canvas: Canvas,
    frames: Sequence[Sequence[Frame]],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    gap: float,
    *,
    remarks: bool,
    name: str = "",
    layers: int = 0,
) -> Drawn:
    """All frames of a tower, one above the other, and the streams through them; `frames` has those of every lane."""
    lasts: list[Box] = []
    firsts: list[Box] = []
    memory: list[list[tuple[Box, ...]]] = [[] for _ in lanes]
    shown: list[Shown] = []
    own = lanes[0].look.own
    y = floor
    together = list(zip(*frames, strict=True))
    rows = [group for group in together if group[0].is_compact]
    panels_in_full = [panel for frame in frames[0] if not frame.is_compact for panel in frame.panels]
    is_many = len(rows) > MOST_HIGH or sum(panel.chart.rows for panel in panels_in_full) > MOST_ROWS
    is_paired = bool(rows) and is_many and all(group[0].is_compact for group in together[-len(rows) :])
    rest = together[: -len(rows)] if is_paired else together
    for number, group in enumerate(rest):
        if group[0].is_compact:
            y, lasts = draw_compact(canvas, group, lanes, left, width, y, lasts)
            continue
        bottom, before = y, len(canvas.panels)
        y += PANEL_PAD
        for panels in zip(*(frame.panels for frame in group), strict=True):
            panel, entered = draw_panel(canvas, panels, lanes, left, width, y, gap, lasts, remarks=remarks)
            firsts = firsts or entered
            lasts = [find_result(one.chart, placed) for one, placed in zip(panels, panel.placed, strict=True)]
            for place, (one, placed) in enumerate(zip(panels, panel.placed, strict=True)):
                fed = tuple(placed.boxes[key] for key in one.chart.memory if key in placed.boxes)
                memory[place] += [fed] if fed else []
            shown.append(panel)
            y = panel.top + PANEL_PAD
        canvas.panel(left, bottom, left + width, y, f"{own}_frame", 24, "casing", 2.4)
        canvas.panels.insert(before, canvas.panels.pop())
        draw_frame_title(canvas, group[0], left, width, y, name, layers)
        y += 34 if number + 1 < len(frames[0]) else 0
    for place in range(0, len(rows) if is_paired else 0, 2):
        y, lasts = draw_pair(canvas, rows[place : place + 2], lanes, left, width, y, lasts)
    if not firsts:
        raise ValueError("a tower without a frame")
    return Drawn(tuple(firsts), tuple(lasts), tuple(map(tuple, memory)), tuple(shown), y)


def draw_compact(
    canvas: Canvas,
    frames: Sequence[Frame],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    lasts: Sequence[Box],
) -> tuple[float, list[Box]]:
    """A layer as a row in every lane; gives how high it reaches and the boxes that are left last."""
    bottom, layer = floor + 8, frames[0].group.layers[0]
    top = bottom + 2 * PAD + HIGH
    draw_row_frame(canvas, lanes[0].look.own, layer, left, bottom, left + width, top)
    found: list[Box] = []
    for one, lane, last in zip(frames, lanes, lasts, strict=True):
        look, end = lane.look, one.panels[-1].chart.nodes[-1]
        role = look.phase if look.is_narrow else "boundary"
        way = ((lane.centre, last.top), (lane.centre, bottom - 1))
        canvas.line(*way, role=role, width=2, dashed=look.is_narrow, head_size=0.5)
        nodes = [(name_sizes(panel), pick_node(panel.chart)) for panel in one.panels]
        nodes = [(f"LAYER {layer + 1}", end)] if look.is_narrow else nodes
        start = lane.left if look.is_narrow else left + 66
        row = Row(start, lane.left + lane.width, bottom + PAD + HIGH / 2, one.panels[0].station)
        boxes = draw_row(canvas, nodes, look, row)
        whole = replace(boxes[-1], x=lane.centre, height=top - bottom, y=(top + bottom) / 2, record=end.record)
        found.append(replace(whole, steps=tuple(map(look.identity, end.steps))))
    return top, found


def draw_pair(
    canvas: Canvas,
    pair: Sequence[Sequence[Frame]],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    lasts: Sequence[Box],
) -> tuple[float, list[Box]]:
    """One or two layers side by side in a low row, their shapes alone; what other phases did there goes with them."""
    bottom, look = floor + 4, lanes[0].look
    top = bottom + 2 * (PAD - 1) + LOW
    half = (width - 10) / 2
    canvas.line((lasts[0].x, lasts[0].top), (lasts[0].x, bottom - 1), role="boundary", width=2, head_size=0.4)
    for number, frames in enumerate(pair):
        start, layer = left + number * (half + 10), frames[0].group.layers[0]
        draw_row_frame(canvas, look.own, layer, start, bottom, start + half, top, is_low=True)
        if number:
            canvas.line((start - 10, (top + bottom) / 2), (start, (top + bottom) / 2), role="boundary", head_size=0.4)
        nodes = [("", pick_node(panel.chart)) for panel in frames[0].panels]
        others = [
            tuple(lane.look.identity(step) for step in pick_node(panel.chart).steps)
            for frame, lane in zip(frames[1:], lanes[1:], strict=True)
            for panel in frame.panels
        ]
        row = Row(start + 26, start + half - 5, bottom + PAD - 1 + LOW / 2, frames[0].panels[0].station)
        draw_row(canvas, nodes, look, row, is_low=True, others=others)
    found = []
    for number, (lane, last) in enumerate(zip(lanes, lasts, strict=True)):
        end = pair[-1][number].panels[-1].chart.nodes[-1]
        steps = tuple(map(lane.look.identity, end.steps))
        found.append(replace(last, y=(top + bottom) / 2, height=top - bottom, record=end.record, steps=steps))
    return top, found


def name_sizes(panel: Panel) -> str:
    """What the shape is of that a row tells of a stage."""
    key = pick_node(panel.chart).key
    if key == "scores":
        return "CROSS SCORES" if panel.chart.memory else "SCORES"
    return "WIDEST" if key == "expand" else name_stage(panel.staging)


def draw_panel(
    canvas: Canvas,
    panels: Sequence[Panel],
    lanes: Sequence[Lane],
    left: float,
    width: float,
    floor: float,
    gap: float,
    lasts: Sequence[Box],
    *,
    remarks: bool,
) -> tuple[Shown, list[Box]]:
    """One stage in every lane; gives it as it stands, and the boxes that are entered first."""
    panel, look = panels[0], lanes[0].look
    before = len(canvas.panels)
    y = floor + TITLE_ROW
    entered: list[Box] = []
    if not lasts:
        charts = [chart_input(one, lane.look) for one, lane in zip(panels, lanes, strict=True)]
        placed = place_charts(canvas, charts, lanes, y, gap, panel.station)
        entered = [one.boxes["input"] for one in placed]
        lasts = entered
        y = max(box.top for box in entered) + gap
    else:
        y += gap * 0.6
    charts = [one.chart for one in panels]
    placed = place_charts(canvas, charts, lanes, y, gap, panel.station)
    for lane, chart, one, last in zip(lanes, charts, placed, lasts, strict=True):
        enter(canvas, last, [one.boxes[key] for key in chart.feet if key in one.boxes], lane.look)
    top = placed[0].top + gap
    surface = panel_surface(panel, look)
    canvas.panel(left + PANEL_PAD, floor, left + width - PANEL_PAD, top, surface, 14)
    canvas.panels.insert(before, canvas.panels.pop())
    if panel.is_open:
        inner, detail = lanes[0].left, lanes[0].width
        draw_skip(canvas, lasts[0], find_result(panel.chart, placed[0]), inner - SKIP * 0.55, floor, look)
        draw_panel_title(canvas, panel, look, left, floor, width, lanes[0].centre, surface)
        draw_station(canvas, left, floor + TITLE_ROW - 9, panel.station)
        if remarks:
            right = left + width - PANEL_PAD - 6
            draw_remarks(canvas, panel.chart, placed[0].boxes, inner + detail + 14, right, surface)
    return Shown(tuple(panels), tuple(placed), floor, top), entered


def find_result(chart: Chart, placed: Placed) -> Box:
    """The box that a panel is left by."""
    return placed.boxes.get("add") or placed.boxes.get("closed") or placed.boxes[chart.head]


def place_charts(
    canvas: Canvas,
    charts: Sequence[Chart],
    lanes: Sequence[Lane],
    floor: float,
    gap: float,
    station: int | None,
    *,
    on_page: bool = False,
) -> list[Placed]:
    """The charts beside each other, row by row as high as the highest of them."""
    listed = [heights_of(canvas, chart, lane.width, lane.look) for chart, lane in zip(charts, lanes, strict=True)]
    heights = [max(row) for row in zip_longest(*listed, fillvalue=0.0)]
    return [
        place_chart(canvas, chart, lane.left, lane.width, floor, gap, lane.look, station, heights, on_page=on_page)
        for chart, lane in zip(charts, lanes, strict=True)
    ]


def draw_panel_title(
    canvas: Canvas, panel: Panel, look: Look, left: float, floor: float, width: float, centre: float, surface: str
) -> None:
    """What a panel is called, left of the way in, and its parameters right of it."""
    room = width - 2 * PANEL_PAD - 24
    title = fit_text(name_stage(panel.staging), LABEL, room, canvas.measure, "bold")
    y = floor + TITLE_ROW
    canvas.note(left + 20, y - 3, (words(title, LABEL, f"accent:{look.own}", "bold"),), surface)
    counted = f"{panel.params:,} parameters"
    x = max(left + 28 + canvas.text_width(title, LABEL, "bold"), centre + 10)
    if panel.params and x + canvas.text_width(counted, NOTE) < left + width - PANEL_PAD - 6:
        canvas.note(x, y - 4, (words(counted, NOTE, "quiet"),), surface)


def chart_input(panel: Panel, look: Look) -> Chart:
    """What enters the first layer, as a node of its own."""
    node = panel.chart.node(panel.chart.feet[0]) if panel.chart.feet else panel.chart.nodes[0]
    step = node.steps[-1] if node.steps else panel.chart.nodes[-1].steps[0]
    sums = panel.chart.nodes[-1]
    record = sums.record
    own = next((one for one in step.inputs if record is not None and one.shape == record.shape), record)
    steps = sums.steps[:1] if own is record else (step,)
    if panel.block is not None:
        steps, own = (panel.block,), panel.block.inputs[0]
    entering = Node(
        "input",
        "LAYER INPUT",
        0,
        (0.5, 0.62),
        steps,
        own,
        remark="one vector for every place",
        outline="boundary",
    )
    chart = Chart((entering,), (), ("input",), "input")
    return narrow_chart(chart, look.alike) if look.is_narrow else chart


def panel_surface(panel: Panel, look: Look) -> str:
    """Panels of one look are told apart by what stands in them."""
    kinds = {branch.part for branch in panel.staging.stage.branches}
    if kinds <= {"feed_forward", "experts"}:
        return f"{look.own}_panel_two"
    return f"{look.own}_panel"


def enter(canvas: Canvas, last: Box, feet: Sequence[Box], look: Look) -> None:
    """The stream's way into a stage: from the box below to every box that reads it."""
    thin = look.is_narrow
    for foot in feet:
        knee = foot.bottom - 5
        points: tuple[Point, ...] = ((last.x, last.top), (last.x, knee), (foot.x, knee), (foot.x, foot.bottom))
        if abs(foot.x - last.x) < 1 or foot.left + 4 < last.x < foot.right - 4:
            points = ((last.x, last.top), (last.x, foot.bottom))
        canvas.line(
            *points,
            role=look.line,
            dashed=thin and look.is_dashed,
            width=1.6 if thin else 2 if len(points) == 2 else 1.2,
            radius=5,
            head_size=0.5 if thin else 0.6,
        )


def draw_skip(canvas: Canvas, last: Box, result: Box, lane: float, floor: float, look: Look) -> None:
    """The residual line: from where the branch began, past it, to the sum."""
    start = max(last.top + 3, floor + TITLE_ROW - 2 if last.top < floor else last.y)
    if last.top >= floor:
        points = ((last.left, last.y), (lane, last.y), (lane, result.y), (result.left, result.y))
    else:
        points = ((last.x, start), (lane, start), (lane, result.y), (result.left, result.y))
    canvas.line(*points, role=look.own, width=3, radius=10, head_size=0.9, kind="skip")


def draw_remarks(
    canvas: Canvas, chart: Chart, boxes: Mapping[str, Box], left: float, right: float, surface: str
) -> None:
    """What happens in each row, in plain words beside it."""
    for row in range(chart.rows):
        told = next((node.remark for node in chart.in_row(row) if node.remark), "")
        box = next((boxes[node.key] for node in chart.in_row(row)), None)
        if not told or box is None:
            continue
        lines = tuple(words(line, NOTE, "quiet") for line in wrap(told, NOTE, right - left, canvas.measure, 4))
        canvas.note(left, box.y + len(lines) * NOTE * 0.56, lines, surface)


def draw_frame_title(
    canvas: Canvas, frame: Frame, left: float, width: float, top: float, name: str, layers: int
) -> None:
    """Which layers a frame is of, how many, and their parameters: on one line, or on two where there is a name."""
    count = frame.group.count
    title = "LAYER" if frame.is_only else f"LAYER{'S' if count > 1 else ''} {spell_layers(frame.group.layers)}"
    times = (
        f" × {count}"
        if count > 1 or (frame.is_only and name)
        else f" of {layers}"
        if not frame.is_only and layers
        else ""
    )
    runs = [Run(f"{name} {title}".strip(), LABEL + 2, "text", "bold")]
    runs += [Run(times, LABEL + 2, "accent:boundary", "bold")] if times else []
    if frame.group.shared:
        runs.append(Run("  one set of weights", NOTE, "quiet"))
    each = " each" if count > 1 and not frame.group.shared else ""
    told = words(f"{frame.params:,} parameters{each}", NOTE, "quiet") if frame.params else ()
    if not name:
        canvas.note(left + 14, top + 22, (tuple(runs),))
        if told:
            canvas.note(left + width - 10, top + 19, (told,), align="right")
        return
    note = canvas.note(left + 14, top + TITLE_TOP, (tuple(runs), told) if told else (tuple(runs),))
    canvas.boxes[-1] = replace(note, id=f"layer_name_{name.lower()}_{frame.group.layers[0]}")


def spell_layers(layers: Sequence[int]) -> str:
    """The numbers of layers from 1, as ranges; a long list is shortened in the middle."""
    runs: list[list[int]] = []
    for number in layers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1}–{run[-1] + 1}" for run in runs]
    return ", ".join(told) if len(told) <= 5 else f"{', '.join(told[:3])} … {told[-1]}"
