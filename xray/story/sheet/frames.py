"""A tower as frames: a frame for every group of layers that are alike, a panel for every stage in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.body.tree import Attention, Experts, FeedForward, Group
from xray.story.canvas import Canvas, words
from xray.story.charts.chart import BROAD, Chart, Node, steps_at
from xray.story.charts.stage_chart import chart_stage, name_stage
from xray.story.layout import Box, Run
from xray.story.plan import LABEL, NOTE, PANEL_PAD
from xray.story.recognition.dataflow import Flow
from xray.story.sheet.counting import Count
from xray.story.sheet.placing import Look, place_chart
from xray.story.sides import draw_station
from xray.story.wording import fit_text, wrap

SKIP, TITLE_ROW, REMARKS = 34.0, 22.0, 136.0
MOST_FRAMES = 6
Layer = Sequence[Staging]


@dataclass(frozen=True)
class Panel:
    """One stage in a frame: its chart, whether it is opened, its station."""

    staging: Staging
    chart: Chart
    is_open: bool
    station: int
    params: int


@dataclass(frozen=True)
class Frame:
    """A group of layers with the panels of one of them, from the bottom up; `is_only`: it holds all layers."""

    group: Group
    panels: tuple[Panel, ...]
    params: int
    is_only: bool

    @property
    def is_wide(self) -> bool:
        """Whether branches stand beside each other in it."""
        return any(panel.is_open and panel.staging.stage.parallel for panel in self.panels)


@dataclass(frozen=True)
class Drawn:
    """What a tower's frames have become on the canvas."""

    first: Box
    last: Box
    memory: tuple[tuple[Box, ...], ...]
    top: float


def plan_frames(flow: Flow, towering: Towering, station: int, count: Count) -> list[Frame]:
    """The frames of a tower: each distinct stage is opened once, in the frame with the most layers first."""
    first = station
    groups = list(towering.tower.groups)
    layers = [towering.layers[group.layers[0]] for group in groups]
    charts = [[chart_stage(flow, staging) for staging in layer] for layer in layers]
    order = sorted(
        range(len(groups)), key=lambda number: (-groups[number].count, -sum(len(one.nodes) for one in charts[number]))
    )
    kept = sorted(order[:MOST_FRAMES])
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
        panels = []
        for place, staging in enumerate(layers[number]):
            is_open = place in opened.get(number, set())
            chart = charts[number][place] if is_open else chart_closed(flow, staging)
            counted = sum(count.paths([staging.nodes]).values())
            panels.append(Panel(staging, chart, is_open, station if is_open else max(station - 1, first), counted))
            station += is_open
        frames.append(Frame(groups[number], tuple(panels), sum(panel.params for panel in panels), len(groups) == 1))
    return frames


def chart_closed(flow: Flow, staging: Staging) -> Chart:
    """A stage that is opened in another frame: its name, its own sizes, and what leaves it."""
    add = staging.joints[-1].add
    words_of = [tell_sizes(branch) for branch in staging.stage.branches]
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


def tell_sizes(branch: object) -> str:
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
    frames: Sequence[Frame],
    left: float,
    detail: float,
    floor: float,
    gap: float,
    look: Look,
    *,
    remarks: bool,
) -> Drawn:
    """All frames of a tower, one above the other, and the stream through them."""
    last: Box | None = None
    first: Box | None = None
    memory: list[tuple[Box, ...]] = []
    y = floor
    for number, frame in enumerate(frames):
        width = detail + SKIP + 2 * PANEL_PAD + 22 + (REMARKS if remarks else 0)
        bottom, before = y, len(canvas.panels)
        y += PANEL_PAD
        for panel in frame.panels:
            entry, result, top, fed = draw_panel(
                canvas, panel, frame, left, detail, width, y, gap, look, last, remarks=remarks
            )
            first = first or entry
            last = result
            memory += [fed] if fed else []
            y = top + PANEL_PAD
        canvas.panel(left, bottom, left + width, y, f"{look.own}_frame", 24, "casing", 2.4)
        canvas.panels.insert(before, canvas.panels.pop())
        draw_frame_title(canvas, frame, left, width, y)
        y += 34 if number + 1 < len(frames) else 0
    if first is None or last is None:
        raise ValueError("a tower without a frame")
    return Drawn(first, last, tuple(memory), y)


def draw_panel(
    canvas: Canvas,
    panel: Panel,
    frame: Frame,
    left: float,
    detail: float,
    width: float,
    floor: float,
    gap: float,
    look: Look,
    last: Box | None,
    *,
    remarks: bool,
) -> tuple[Box, Box, float, tuple[Box, ...]]:
    """One stage; gives the box that is entered first, the one that is left last, the panel's top, and memory's feet."""
    inner = left + PANEL_PAD + SKIP
    before = len(canvas.panels)
    y = floor + TITLE_ROW
    entry: Box | None = None
    if last is None:
        chart = chart_input(panel)
        entry = place_chart(canvas, chart, inner, detail, y, gap, look, panel.station).boxes["input"]
        y = entry.top + gap
        last = entry
    else:
        y += gap * 0.6
    placed = place_chart(canvas, panel.chart, inner, detail, y, gap, look, panel.station)
    feet = [placed.boxes[key] for key in panel.chart.feet if key in placed.boxes]
    enter(canvas, last, feet, look)
    result = placed.boxes.get("add") or placed.boxes.get("closed") or placed.boxes[panel.chart.head]
    top = placed.top + gap
    surface = panel_surface(panel, look)
    canvas.panel(left + PANEL_PAD, floor, left + width - PANEL_PAD, top, surface, 14)
    canvas.panels.insert(before, canvas.panels.pop())
    if panel.is_open:
        draw_skip(canvas, last, result, inner - SKIP * 0.55, floor, look)
    if panel.is_open:
        room = width - 2 * PANEL_PAD - 24
        title = fit_text(name_stage(panel.staging), LABEL, room, canvas.measure, "bold")
        y = floor + TITLE_ROW
        canvas.note(left + 20, y - 3, (words(title, LABEL, f"accent:{look.own}", "bold"),), surface)
        counted = f"{panel.params:,} parameters"
        x = max(left + 28 + canvas.text_width(title, LABEL, "bold"), inner + detail / 2 + 10)
        if panel.params and x + canvas.text_width(counted, NOTE) < left + width - PANEL_PAD - 6:
            canvas.note(x, y - 4, (words(counted, NOTE, "quiet"),), surface)
        draw_station(canvas, left, floor + TITLE_ROW - 9, panel.station)
    if remarks and panel.is_open:
        draw_remarks(canvas, panel.chart, placed.boxes, inner + detail + 14, left + width - PANEL_PAD - 6, surface)
    fed = tuple(placed.boxes[key] for key in panel.chart.memory if key in placed.boxes)
    return entry or last, result, top, fed


def chart_input(panel: Panel) -> Chart:
    """What enters the first layer, as a node of its own."""
    node = panel.chart.node(panel.chart.feet[0]) if panel.chart.feet else panel.chart.nodes[0]
    step = node.steps[-1] if node.steps else panel.chart.nodes[-1].steps[0]
    sums = panel.chart.nodes[-1]
    record = sums.record
    own = next((one for one in step.inputs if record is not None and one.shape == record.shape), record)
    entering = Node(
        "input",
        "LAYER INPUT",
        0,
        (0.5, 0.62),
        sums.steps[:1] if own is record else (step,),
        own,
        remark="one vector for every place",
        outline="boundary",
    )
    return Chart((entering,), (), ("input",), "input")


def panel_surface(panel: Panel, look: Look) -> str:
    """Panels of one look are told apart by what stands in them."""
    kinds = {branch.part for branch in panel.staging.stage.branches}
    if kinds <= {"feed_forward", "experts"}:
        return f"{look.own}_panel_two"
    return f"{look.own}_panel"


def enter(canvas: Canvas, last: Box, feet: Sequence[Box], look: Look) -> None:
    """The stream's way into a stage: from the box below to every box that reads it."""
    for foot in feet:
        knee = foot.bottom - 5
        if abs(foot.x - last.x) < 1:
            canvas.line((last.x, last.top), (foot.x, foot.bottom), role=look.own, width=2)
        elif foot.left + 4 < last.x < foot.right - 4:
            canvas.line((last.x, last.top), (last.x, foot.bottom), role=look.own, width=2)
        else:
            canvas.line(
                (last.x, last.top), (last.x, knee), (foot.x, knee), (foot.x, foot.bottom), role=look.own, radius=5
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


def draw_frame_title(canvas: Canvas, frame: Frame, left: float, width: float, top: float) -> None:
    """Which layers a frame is of, how many there are, and their parameters."""
    title = (
        "LAYER" if frame.is_only else f"LAYER{'S' if frame.group.count > 1 else ''} {spell_layers(frame.group.layers)}"
    )
    times = f" × {frame.group.count}" if frame.group.count > 1 else ""
    runs = [Run(title, LABEL + 2, "text", "bold")]
    runs += [Run(times, LABEL + 2, "accent:boundary", "bold")] if times else []
    if frame.group.shared:
        runs.append(Run("  one set of weights", NOTE, "quiet"))
    canvas.note(left + 14, top + 22, (tuple(runs),))
    if frame.params:
        each = " each" if frame.group.count > 1 and not frame.group.shared else ""
        canvas.note(
            left + width - 10, top + 19, (words(f"{frame.params:,} parameters{each}", NOTE, "quiet"),), align="right"
        )


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
