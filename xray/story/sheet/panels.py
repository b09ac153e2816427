"""A panel on the canvas: a stage's charts lane by lane, the stream's way in, and its title."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from re import split

from xray.story.canvas import Canvas, words
from xray.story.charts.between_chart import REJOINED, TAKEN
from xray.story.charts.chart import Chart, Node
from xray.story.charts.narrow import narrow_chart
from xray.story.charts.stage_names import name_stage
from xray.story.layout import LEADING, Box, Point
from xray.story.sentences.of_parts import describe_box
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.placing import STREAM, SUMS, Placed, draw_station, place_chart, rows_of
from xray.story.sheet.canvas.routing import Way, between, join
from xray.story.sheet.parts import find_read
from xray.story.sheet.planning import Panel
from xray.story.type_sizes import LABEL, NOTE, PANEL_PAD
from xray.story.wording import plural, wrap, wrap_evenly

SKIP, TITLE_ROW, REMARKS, BELOW_MEMORY = 34.0, 22.0, 136.0, 35.0
USUAL_LINES, MOST_LINES = 3, 4
"""On so many lines a title is told as it is, and on so many it may stand at all."""


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
    is_wide: bool = False,
    aside: float = 0.0,
) -> tuple[Shown, list[Box]]:
    """One stage in every lane; gives it as it stands, and the boxes that are entered first.

    Ribbons that come in are wide where towers have their words below them (`is_wide`). Remarks stand so far `aside`.
    """
    panel, look = panels[0], lanes[0].look
    before = len(canvas.panels)
    title = spell_title(canvas, name_stage(panel.staging), lanes[0].centre - 8 - (left + 20)) if panel.is_open else ()
    ceiling = floor + (TITLE_ROW + LABEL * LEADING * max(0, len(title) - 1) if panel.is_open else gap)
    y = ceiling
    entered: list[Box] = []
    if not lasts:
        charts = [chart_input(one, lane.look) for one, lane in zip(panels, lanes, strict=True)]
        placed = place_charts(canvas, charts, lanes, y, gap, panel.station)
        entered = [one.boxes["input"] for one in placed]
        lasts = entered
        y = max(box.top for box in entered) + gap
    else:
        y += gap * 0.6 * panel.is_open
    charts = [one.chart for one in panels]
    placed = place_charts(canvas, charts, lanes, y, gap, panel.station)
    above = ceiling - 3
    for lane, chart, one, last in zip(lanes, charts, placed, lasts, strict=True):
        enter(canvas, last, chart, one, lane.look, above, is_wide=is_wide)
    top = placed[0].top + gap
    surface = panel_surface(panel, look)
    canvas.panel(left + PANEL_PAD, floor, left + width - PANEL_PAD, top, surface, 14)
    canvas.panels.insert(before, canvas.panels.pop())
    if panel.is_open:
        inner, detail = lanes[0].left, lanes[0].width
        if not panel.staging.stage.replaces:
            result, is_apart = find_sum(panel.chart, placed[0]), bool(panel.staging.stage.since)
            begun = placed[0].boxes.get(TAKEN, lasts[0])
            draw_skip(canvas, begun, result, inner - STREAM, ceiling, look, apart=is_apart)
        draw_panel_title(canvas, panel, title, look, left, ceiling, width, lanes[0].centre, surface)
        draw_station(canvas, left, ceiling - 9, panel.station)
        if remarks:
            right = left + width - PANEL_PAD - 6
            draw_remarks(canvas, panel.chart, placed[0].boxes, inner + detail + 14 + aside, right, surface)
    return Shown(tuple(panels), tuple(placed), floor, top), entered


def find_result(chart: Chart, placed: Placed) -> Box:
    """The box that a panel is left by."""
    return placed.boxes.get(REJOINED) or find_sum(chart, placed)


def find_sum(chart: Chart, placed: Placed) -> Box:
    """The box of a panel that the stream is led to past its branches."""
    return placed.boxes[next((key for key in SUMS if key in placed.boxes), chart.head)]


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
    listed = [
        rows_of(canvas, chart, lane.width, lane.look, on_page=on_page)
        for chart, lane in zip(charts, lanes, strict=True)
    ]
    rows = [
        (max(height for height, _ in row), max(room for _, room in row))
        for row in zip_longest(*listed, fillvalue=(0.0, 0.0))
    ]
    return [
        place_chart(canvas, chart, lane.left, lane.width, floor, gap, lane.look, station, rows, on_page=on_page)
        for chart, lane in zip(charts, lanes, strict=True)
    ]


def chart_input(panel: Panel, look: Look) -> Chart:
    """What enters the first layer, as a node of its own."""
    step, own = find_read(panel.chart)
    steps = panel.chart.nodes[-1].steps[:1] if own is panel.chart.nodes[-1].record else (step,)
    if panel.block is not None:  # it may be given what another tower gives first
        begun, given = None if panel.entering is None else panel.entering.id, panel.block.inputs
        steps, own = (panel.block,), next((one for one in given if one.source == begun), given[0])
    elif panel.entering is not None:
        made, shape = panel.entering.outputs, None if own is None else own.shape
        steps, own = (panel.entering,), next((one for one in made if one.shape == shape), made[0])
    entering = Node(
        "input",
        f"BEHIND ITS {panel.behind.upper()}" if panel.behind else "LAYER INPUT",
        0,
        (0.5, 0.62),
        steps,
        own,
        remark=describe_box("input", None),
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


def enter(
    canvas: Canvas, last: Box, chart: Chart, placed: Placed, look: Look, above: float, *, is_wide: bool = False
) -> None:
    """The stream's way into a stage: from the box below to every box that reads it, around the others.

    What leads around boxes leaves the stream `above` the title of the stage. Where memory comes in below boxes of a
    row, the stream turns aside to those beside them below it: where its ribbon `is_wide`, with what goes past them.
    """
    thin = look.is_narrow
    start = last if last.top > above else replace(last, y=above, width=0.0, height=0.0)
    fed = {chart.node(key).row for key in chart.memory}
    ways = list(placed.ways)
    for key in (key for key in chart.feet if key in placed.boxes):
        foot = placed.boxes[key]
        dashed, width = thin and look.is_dashed, 1.6 if thin else 1.2
        if middle := between(last, foot, list(placed.boxes.values())):
            join(
                canvas,
                start,
                foot,
                middle,
                look.line,
                width=width,
                dashed=dashed,
                drawn=ways,
                sides=(1,),
                leftmost=placed.leftmost,
            )
            continue
        below = foot.bottom - BELOW_MEMORY if not is_wide or thin else above + 1
        knee = below if chart.node(key).row in fed else foot.bottom - 5
        points: tuple[Point, ...] = ((last.x, last.top), (last.x, knee), (foot.x, knee), (foot.x, foot.bottom))
        if abs(foot.x - last.x) < 1 or foot.left + 4 < last.x < foot.right - 4:
            points = ((last.x, last.top), (last.x, foot.bottom))
        ways.append(Way(start, foot, points))
        canvas.line(
            *points,
            role=look.line,
            dashed=dashed,
            width=2 if len(points) == 2 and not thin else width,
            radius=5,
            head_size=0.5 if thin else 0.6,
        )


def draw_skip(canvas: Canvas, last: Box, result: Box, lane: float, title: float, look: Look, *, apart: bool) -> None:
    """The residual line: from where the branch began, past it, to the sum; all of it if the branch is `apart`.

    It turns aside above the `title` of the panel.
    """
    points: tuple[Point, ...]
    if last.y > title:
        points = ((last.left, last.y), (lane, last.y), (lane, result.y), (result.left, result.y))
    else:
        start = max(last.top + 3, title - 2)
        points = ((last.x, start), (lane, start), (lane, result.y), (result.left, result.y))
        points = ((last.x, last.top), *points) if apart else points
    canvas.line(*points, role=look.own, width=3, radius=10, head_size=0.9, kind="skip")


def draw_remarks(
    canvas: Canvas, chart: Chart, boxes: Mapping[str, Box], left: float, right: float, surface: str
) -> None:
    """What happens in each row, in plain words beside it."""
    for row in range(chart.rows):
        told = tell_row([*chart.in_row(row)])
        box = next((boxes[node.key] for node in chart.in_row(row)), None)
        if not told or box is None:
            continue
        lines = tuple(words(line, NOTE, "quiet") for line in wrap(told, NOTE, right - left, canvas.measure, 4))
        canvas.note(left, box.y + len(lines) * NOTE * 0.56, lines, surface)


def tell_row(nodes: Sequence[Node]) -> str:
    """What stands beside a row of boxes; of which of queries, keys and values it is said, where not of all of them."""
    told = next((node.remark for node in nodes if node.remark), "")
    lanes = [node.key.partition("_")[2].upper() for node in nodes if node.remark == told]
    is_of_all = all(node.remark == told for node in nodes)
    return told if is_of_all or not all(lanes) else f"{', '.join(lanes)}: {told}"


def draw_panel_title(
    canvas: Canvas,
    panel: Panel,
    title: Sequence[str],
    look: Look,
    left: float,
    top: float,
    width: float,
    centre: float,
    surface: str,
) -> None:
    """What a panel is called, left of the stream's way in, and right of that its parameters."""
    lines = tuple(words(line, LABEL, f"accent:{look.own}", "bold") for line in title)
    canvas.note(left + 20, top - 3, lines, surface)
    counted = plural(panel.params, "parameter")
    if panel.params and centre + 10 + canvas.text_width(counted, NOTE) < left + width - PANEL_PAD - 6:
        canvas.note(centre + 10, top - 4, (words(counted, NOTE, "quiet"),), surface)


def spell_title(canvas: Canvas, title: str, room: float) -> tuple[str, ...]:
    """A title in lines that end before the stream's way in; where those are many, what follows is told with commas.

    A number stays with the word before it.
    """
    told = [
        wrap_evenly(split(r" (?!\d)", one), LABEL, room, canvas.measure, MOST_LINES, "bold")
        for one in (title, title.replace(" THEN ", ", "))
    ]
    return told[0] if len(told[0]) <= USUAL_LINES else told[1]
