"""A tower's frames on the canvas, one above the other, and the streams through them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xray.story.canvas import Canvas, words
from xray.story.charts.bridge_chart import Adding
from xray.story.charts.chart import Chart
from xray.story.layout import Box, Point, Run, line_width
from xray.story.sentences.of_models import OF_GROUPS
from xray.story.sheet.canvas.placing import Placed, place_chart
from xray.story.sheet.canvas.routing import CLEAR, join
from xray.story.sheet.panels import TITLE_ROW, Lane, Shown, draw_panel, enter, find_result, place_charts
from xray.story.sheet.planning import Frame
from xray.story.sheet.single_rows import draw_compact, draw_pair
from xray.story.type_sizes import LABEL, NOTE, PANEL_PAD
from xray.story.wording import spell_layers, wrap_evenly

TITLE_TOP, BRIDGE, BESIDE, LEAST_BESIDE, PAST = 34.0, 24.0, 8.0, 60.0, 4.6
MOST_HIGH, MOST_ROWS = 4, 25
"""So many high rows of single layers, and rows of nodes a tower may have before it is drawn closer."""


@dataclass(frozen=True)
class Drawn:
    """What a tower's frames have become on the canvas: for each lane the first and last box, and what memory feeds.

    `besides` are more boxes that the first lane enters, where a bridge that stands lowest reads the stream in several;
    `bridges` are those of the first lane, each with its boxes. So high is `written` over the last frame. `ends` is
    where the stream leaves frames, by the last layer of each, and `adding` are the boxes between frames that add what
    was made before, with what that is.
    """

    firsts: tuple[Box, ...]
    lasts: tuple[Box, ...]
    memory: tuple[tuple[tuple[Box, ...], ...], ...]
    shown: tuple[Shown, ...]
    top: float
    besides: tuple[Box, ...] = ()
    bridges: tuple[tuple[Chart, Placed], ...] = ()
    written: float = 0.0
    ends: Mapping[int, Point] = field(default_factory=dict[int, Point])
    adding: tuple[tuple[Box, Adding], ...] = ()

    @property
    def first(self) -> Box:
        """The box that the first lane enters first."""
        return self.firsts[0]

    @property
    def last(self) -> Box:
        """The box that the first lane leaves last."""
        return self.lasts[0]


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
    passed: tuple[float, float] | None = None,
) -> Drawn:
    """All frames of a tower, one above the other, and the streams through them; `frames` has those of every lane.

    Where lines go up beside the charts, frames are `passed` by them, from the first one to the last.
    """
    lasts: list[Box] = []
    firsts: list[Box] = []
    besides: list[Box] = []
    memory: list[list[tuple[Box, ...]]] = [[] for _ in lanes]
    shown: list[Shown] = []
    bridges: list[tuple[Chart, Placed]] = []
    own, aside = lanes[0].look.own, 0.0 if passed is None else passed[1] - passed[0]
    ends: dict[int, Point] = {}
    adding: list[tuple[Box, Adding]] = []
    y = floor
    written = floor
    together = list(zip(*frames, strict=True))
    rows = [group for group in together if group[0].is_compact]
    panels_in_full = [panel for frame in frames[0] if not frame.is_compact for panel in frame.panels]
    is_many = len(rows) > MOST_HIGH or sum(panel.chart.rows for panel in panels_in_full) > MOST_ROWS
    is_paired = bool(rows) and is_many and all(group[0].is_compact for group in together[-len(rows) :])
    rest = together[: -len(rows)] if is_paired else together
    for number, group in enumerate(rest):
        if group[0].bridge is not None:
            y, feet, beside, lasts, placed_below = draw_bridge(canvas, group, lanes, y, gap, lasts)
            bridges += [(group[0].bridge, one) for one in placed_below[:1]]
            boxes = placed_below[0].boxes if placed_below else {}
            adding += [(boxes[one.key], one) for one in group[0].earlier if one.key in boxes]
            besides = besides if firsts else beside
            firsts = firsts or feet
        if group[0].is_compact:
            y, lasts = draw_compact(canvas, group, lanes, left, width, y, lasts)
            continue
        bottom, before = y, len(canvas.panels)
        y += PANEL_PAD
        for panels in zip(*(frame.panels for frame in group), strict=True):
            panel, entered = draw_panel(
                canvas, panels, lanes, left, width, y, gap, lasts, remarks=remarks, is_wide=bool(name), aside=aside
            )
            firsts = firsts or entered
            lasts = [find_result(one.chart, placed) for one, placed in zip(panels, panel.placed, strict=True)]
            for place, (one, placed) in enumerate(zip(panels, panel.placed, strict=True)):
                fed = tuple(placed.boxes[key] for key in one.chart.memory if key in placed.boxes)
                memory[place] += [fed] if fed else []
            shown.append(panel)
            y = panel.top + PANEL_PAD
        if group[0].corrected is not None:
            y = draw_corrected(canvas, group[0], group[0].corrected, lanes[0], left, width, y, gap, lasts[0])
        canvas.panel(left, bottom, left + width, y, f"{own}_frame", 24, "casing", 2.4)
        canvas.panels.insert(before, canvas.panels.pop())
        written = draw_frame_title(canvas, group[0], left, width, y, name, layers, lanes[0].centre, passed)
        ends[group[0].group.layers[-1]] = (lasts[0].x, y + PAST)
        y += 34 if number + 1 < len(frames[0]) else 0
    for place in range(0, len(rows) if is_paired else 0, 2):
        y, lasts = draw_pair(canvas, rows[place : place + 2], lanes, left, width, y, lasts)
    if not firsts:
        raise ValueError("a tower without a frame")
    return Drawn(
        tuple(firsts),
        tuple(lasts),
        tuple(map(tuple, memory)),
        tuple(shown),
        y,
        tuple(besides),
        tuple(bridges),
        max(y, written),
        ends,
        tuple(adding),
    )


def draw_bridge(
    canvas: Canvas, frames: Sequence[Frame], lanes: Sequence[Lane], floor: float, gap: float, lasts: Sequence[Box]
) -> tuple[float, list[Box], list[Box], list[Box], list[Placed]]:
    """What the stream goes through between two frames; gives how high it reaches, where it is entered and left.

    It is entered in each lane at one box, and in the first lane at those beside this one too. Its boxes come last.
    """
    charts = [frame.bridge for frame in frames if frame.bridge is not None]
    if len(charts) < len(lanes):
        return floor, [], [], list(lasts), []
    placed = place_charts(canvas, charts, lanes, floor, gap, None, on_page=True)
    for lane, chart, one, last in zip(lanes, charts, placed, lasts, strict=False):
        others, ways, look = list(one.boxes.values()), [*one.ways], lane.look
        for foot in chart.feet:
            above = floor - 2 * CLEAR
            join(
                canvas,
                last,
                one.boxes[foot],
                others,
                look.phase,
                width=2,
                dashed=look.is_dashed,
                drawn=ways,
                above=above,
            )
    feet = [one.boxes[chart.feet[0]] for chart, one in zip(charts, placed, strict=True)]
    beside = [placed[0].boxes[foot] for foot in charts[0].feet[1:]]
    heads = [one.boxes[chart.head] for chart, one in zip(charts, placed, strict=True)]
    return max(one.top for one in placed) + BRIDGE, feet, beside, heads, placed


def draw_corrected(
    canvas: Canvas,
    frame: Frame,
    chart: Chart,
    lane: Lane,
    left: float,
    width: float,
    floor: float,
    gap: float,
    last: Box,
) -> float:
    """What is done behind a layer to the boxes beside its stream, right of that; gives how high its panel reaches."""
    before, ceiling = len(canvas.panels), floor + TITLE_ROW
    placed = place_chart(canvas, chart, lane.left, lane.width, ceiling + gap * 0.6, gap, lane.look, None)
    enter(canvas, last, chart, placed, lane.look, ceiling - 3)
    top, surface = placed.top + gap, f"{lane.look.own}_panel"
    canvas.panel(left + PANEL_PAD, floor, left + width - PANEL_PAD, top, surface, 14)
    canvas.panels.insert(before, canvas.panels.pop())
    title = [words("BOXES CORRECTED", LABEL, f"accent:{lane.look.own}", "bold")]
    if len(frame.corrected_behind) < len(frame.group.layers):
        title.append(words(f"behind layers {spell_layers(frame.corrected_behind)}", NOTE, "quiet"))
    canvas.note(left + 20, ceiling - 3 + 11 * (len(title) - 1), tuple(title), surface)
    if frame.correcting:
        told = (words(f"{frame.correcting:,} more parameters", NOTE, "quiet"),)
        canvas.note(lane.centre + 10, ceiling - 4, told, surface)
    return top + PANEL_PAD


def draw_frame_title(
    canvas: Canvas,
    frame: Frame,
    left: float,
    width: float,
    top: float,
    name: str,
    layers: int,
    centre: float,
    passed: tuple[float, float] | None = None,
) -> float:
    """Which layers a frame is of, how many, and their parameters: on one line, or on two where there is a name.

    The stream leaves a frame at the `centre` of its charts: what is written above it ends before. Gives how high what
    is written behind that goes, on more lines where it has no room beside lines by which the frame is `passed`.
    """
    count, room = frame.group.count, centre - left - 24
    times = (
        f" × {count}"
        if count > 1 or (frame.is_only and name)
        else f" of {layers}"
        if not frame.is_only and layers
        else ""
    )
    own = "LAYER" if frame.is_only else f"LAYER{'S' if count > 1 else ''}"
    spelled = [""] if frame.is_only else [f" {spell_layers(frame.group.layers, begun)}" for begun in (None, 2, 1)]
    titles = [
        [
            Run(f"{name} {own}{layers_told}".strip(), LABEL + 2, "text", "bold"),
            *([Run(times, LABEL + 2, "accent:boundary", "bold")] if times else []),
        ]
        for layers_told in spelled
    ]
    runs = next((one for one in titles if name or line_width(tuple(one), canvas.measure) < room), titles[-1])
    said = [f"what comes behind its {frame.behind}"] if frame.behind else []
    shared = ", ".join([*said, *(one for sentence in OF_GROUPS if (one := sentence.tell(frame.group)))])
    counted = count_parameters(frame) if frame.params else ""
    if not name:
        beside = [*runs, Run(f"  {shared}", NOTE, "quiet")] if shared else runs
        fits = line_width(tuple(beside), canvas.measure) < room
        canvas.note(left + 14, top + 22, (tuple(beside if fits else runs),))
        right, pieces = break_count(canvas, counted, centre, left + width - 10, passed)
        lines = tuple(words(one, NOTE, "quiet") for one in (shared if not fits else "", *pieces) if one)
        return canvas.note(right, top + 19 + 11 * (len(lines) - 1), lines, align="right").top if lines else top
    runs += [Run(f"  {shared}", NOTE, "quiet")] if shared else []
    told = [words(one, NOTE, "quiet") for one in wrap_evenly(counted.split(), NOTE, room, canvas.measure, 3)]
    note = canvas.note(left + 14, top + TITLE_TOP + 11 * max(len(told) - 1, 0), (tuple(runs), *told))
    canvas.boxes[-1] = replace(note, id=f"layer_name_{name.lower()}_{frame.group.layers[0]}")
    return note.top


def break_count(
    canvas: Canvas, counted: str, centre: float, right: float, passed: tuple[float, float] | None
) -> tuple[float, tuple[str, ...]]:
    """Where what is told of parameters ends, and its lines: right of the stream, and of what passes by if it can."""
    if passed is None:
        return right, wrap_evenly(counted.split(), NOTE, right - centre - BESIDE, canvas.measure, 3)
    room = right - passed[1] - BESIDE
    if room < LEAST_BESIDE:
        right = min(right, passed[0] - BESIDE)
        room = right - centre - BESIDE
    return right, wrap_evenly(counted.split(), NOTE, room, canvas.measure, 3)


def count_parameters(frame: Frame) -> str:
    """The parameters of each layer of a frame; where they differ, those of the one that is drawn, or the most.

    Where layers share some, those of all layers are told, counted once.
    """
    if frame.together is not None:
        return f"{frame.together:,} parameters in all"
    if any(frame.more) and any(panel.is_open for panel in frame.panels):
        return f"layer {frame.group.layers[0] + 1} drawn: {frame.params:,} parameters{tell_others(frame)}"
    if frame.whole is not None:
        return f"{frame.params:,} of its {frame.whole:,} parameters"
    each = " each" if frame.group.count > 1 and not frame.group.shared else ""
    most = frame.params + max(frame.more, default=0)
    return f"{'up to ' if any(frame.more) else ''}{most:,} parameters{each}"


def tell_others(frame: Frame) -> str:
    """Which layers of a frame have more parameters than the one that is drawn, or fewer, where all differ alike."""
    layers = [layer for layer, more in zip(frame.group.layers, frame.more, strict=True) if more]
    more, *others = set(frame.more) - {0}
    if others:
        return ""
    have = "layer {} has" if len(layers) == 1 else "layers {} have"
    return f"; {have.format(spell_layers(layers))} {abs(more):,} {'more' if more > 0 else 'fewer'}"
