"""What stands in each column of a sheet: a tower with its charts, and beside it the same tower in another phase."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xray.ir.trace import Pass, Trace
from xray.story.anatomy.attentions import Attention, Looking
from xray.story.anatomy.tree import Link
from xray.story.body.naming import change_all
from xray.story.body.reading import Reading, read_passes
from xray.story.body.together import has_substance, learned_paths, list_others, look_out
from xray.story.body.towers import Towering
from xray.story.charts.alike import tell_chart
from xray.story.charts.chart import Chart
from xray.story.charts.condition_chart import chart_condition
from xray.story.charts.dropouts import tell_dropped_above
from xray.story.charts.narrow import align_rows, narrow_chart
from xray.story.charts.rows_chart import tell_added_again
from xray.story.charts.steps.same_weights import SAME_WEIGHTS
from xray.story.entrance.also_given import name_in_common
from xray.story.entrance.entrance_chart import chart_entrance, without_places
from xray.story.entrance.given import find_input
from xray.story.entrance.led_in import paint_led
from xray.story.entrance.own_widths import tell_own_width
from xray.story.exits.handed_out import add_given, add_tapped, show_handed
from xray.story.exits.meeting_chart import add_comparisons
from xray.story.exits.met_maps import chart_met_maps
from xray.story.facts.unused import find_unworked
from xray.story.sentences.of_parts import describe_weights_between, describe_weights_of_entrance
from xray.story.sheet.behind_towers import chart_leaving, list_last_meetings, read_met_maps
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.counting import count_frames
from xray.story.sheet.panels import REMARKS, SKIP, Lane
from xray.story.sheet.planning import Frame, plan_frames, tell_panels
from xray.story.sheet.words import Words, find_words
from xray.story.type_sizes import PANEL_PAD

WIDE_DETAIL, DETAIL, NARROW_DETAIL, BRIEF = 620.0, 344.0, 316.0, 138.0
"""How wide charts are: branches beside each other, a tower alone, one of several, and a narrow form."""


@dataclass(frozen=True)
class Column:
    """A tower with its charts, its frames and its look, and the pass that it was read from.

    `twin` is the same tower in another phase, drawn narrow beside it. `words` are those that it reads, `condition` is
    how it is worked out what scales, shifts and gates its sublayers; `passing` is how far its lines are apart in all.
    """

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
    words: Words | None = None
    twin: "Column | None" = None
    condition: Chart | None = None
    passing: float = 0.0

    @property
    def width(self) -> float:
        """How wide its frames are."""
        beside = BRIEF + 14 if self.twin is not None else REMARKS if self.remarks else 0
        return self.detail + SKIP + 2 * PANEL_PAD + 22 + beside + self.passing

    @property
    def around(self) -> list[Chart]:
        """What is drawn around its layers and between them, from its entrance to its exit, and beside it."""
        between = (chart for frame in self.frames for chart in (frame.bridge, frame.corrected))
        return [one for one in (self.entrance, self.exit, self.condition, *between) if one is not None]

    @property
    def charts(self) -> list[Chart]:
        """All that it draws by boxes: what stands around its layers, and sublayers that are opened."""
        panels = (panel for frame in self.frames for panel in frame.panels)
        return [*self.around, *(panel.chart for panel in panels if panel.is_open)]

    @property
    def phases(self) -> tuple["Column", ...]:
        """The column in each phase that it shows."""
        return (self,) if self.twin is None else (self, self.twin)

    @property
    def name(self) -> str:
        """The name of its tower."""
        return self.towering.tower.name

    def lanes(self, left: float) -> tuple[Lane, ...]:
        """Where each phase goes up, if the frames begin there."""
        inner = left + PANEL_PAD + SKIP
        main = Lane(inner, self.detail, self.look)
        if self.twin is None:
            return (main,)
        return (main, Lane(left + self.width - PANEL_PAD - 8 - BRIEF, BRIEF, self.twin.look))


def phase_of(one_pass: Pass) -> str:
    """What a pass is part of: training, inference, or no more than a forward pass."""
    return {"training": "training", "encode": "inference", "decode": "inference"}.get(one_pass.kind, "forward")


def choose_main(readings: Sequence[Reading]) -> Reading | None:
    """The pass with the most sums on its streams; None if no stream has anything that is known."""
    main = max(readings, key=lambda one: sum(len(tower.stagings) for tower in one.towers), default=None)
    return main if main is not None and main.towers and has_substance(main) else None


def collect_towers(readings: Sequence[Reading], main: Reading) -> list[tuple[Reading, Towering]]:
    """The towers of the pass that has most of them, behind those that other passes alone went through.

    A tower is known again by the modules that it runs: generating reads the question once, in a pass of its own.
    """
    own = [(main, towering) for towering in main.towers]
    return settle_memory([*reversed([*list_others(readings, main)]), *own])


def settle_memory(towers: list[tuple[Reading, Towering]]) -> list[tuple[Reading, Towering]]:
    """The same, the tower of another pass called an encoder where the last one looks at nothing else out of its own."""
    last_reading, last = towers[-1]
    others = [place for place, (reading, _) in enumerate(towers) if reading is not last_reading]
    looks = [branch for branch in last.tower.branches if isinstance(branch, Attention) and branch.source is None]
    if len(others) != 1 or not looks:
        return towers
    place = others[0]
    reading, first = towers[place]
    named = replace(first, tower=replace(first.tower, name="encoder"))
    return [(reading, named) if number == place else one for number, one in enumerate(towers[:-1])] + [
        (last_reading, change_all(last, lambda branch: look_out(branch, "encoder")))
    ]


def read_columns(trace: Trace, *, all_layers: bool = False) -> list[Column]:
    """The columns of a trace's sheet; none for a network without a residual stream."""
    readings = read_passes(trace)
    main = choose_main(readings)
    if main is None:
        return []
    return plan_columns(trace, collect_towers(readings, main), readings, all_layers=all_layers)


def plan_columns(
    trace: Trace,
    towers: Sequence[tuple[Reading, Towering]],
    readings: Sequence[Reading] = (),
    *,
    all_layers: bool = False,
) -> list[Column]:
    """A column for every tower, from the first that runs to the last; `readings` are asked for other phases."""
    columns: list[Column] = []
    beside: dict[int, str] = {}
    station = 1
    single = len(towers) == 1
    for number, (reading, towering) in enumerate(towers):
        is_last = number == len(towers) - 1
        own = "decoder" if is_last and (not single or towering.tower.causal) else "encoder"
        colours = own, colour_memory(towers, number, own)

        def make(
            reading: Reading,
            towering: Towering,
            colours: tuple[str, str] = colours,
            station: int = station,
        ) -> Column:
            return make_column(trace, reading, towering, colours, station, single, all_layers=all_layers)

        column = grow(make(reading, towering), readings, make)
        twin = find_twin(reading, towering, readings)
        if twin is not None:
            other = grow(make(*twin), readings, make)
            if shape_of(other) == shape_of(column):
                column = set_beside(column, other)
        if not is_last and column.exit is not None and len(column.exit.nodes) == 1:
            column = replace(column, last_station=0)
        condition = towering.condition
        if condition is not None and column.twin is None:
            column = replace(column, condition=chart_condition(reading.flow, condition, beside))
            beside = dict.fromkeys(condition.first, towering.tower.name) | beside
        columns.append(tell_drawn(paint_leading(column), columns))
        station = max(station, *(panel.station for frame in column.frames for panel in frame.panels)) + 1
        station += bool(column.last_station)
    return name_entrances(columns)


def name_entrances(columns: Sequence[Column]) -> list[Column]:
    """The columns, where one argument comes into several of one pass with its name in all of them."""
    found = [*columns]
    for reading in {id(one.reading): one.reading for one in columns if one.twin is None}.values():
        own = [place for place, one in enumerate(columns) if one.reading is reading and one.twin is None]
        named = name_in_common(reading.flow, [columns[place].entrance for place in own])
        for place, entrance in zip(own, named, strict=True):
            found[place] = replace(found[place], entrance=entrance)
    return found


def paint_leading(column: Column) -> Column:
    """The column, with its boxes that lead there from other towers as what they are: of that tower, or of none."""
    bridges = [frame.bridge for frame in column.frames]
    has_own = column.look.own == "decoder"
    entrance, *painted = paint_led(
        column.reading.flow, column.towering, column.reading.towers, [column.entrance, *bridges], has_own=has_own
    )
    frames = (replace(frame, bridge=bridge) for frame, bridge in zip(column.frames, painted, strict=True))
    return replace(column, entrance=entrance, frames=tuple(frames))


def tell_drawn(column: Column, before: Sequence[Column]) -> Column:
    """The column, with the boxes of its ends whose weights stand in one before too: they have none of their own.

    So both towers of a forecast begin with the kind of each series (Informer), an encoder and its decoder with one
    table, and what one tower ends with may be worked out once more for the next (Kosmos-2). What scores letters last
    may have done so between layers (Granite Speech 5), or be the table that the words were looked up in (GPT-2).
    """
    flow, others = column.reading.flow, [one for one in before if one.reading is column.reading]
    drawn = [(chart, SAME_WEIGHTS) for one in others for chart in (one.entrance, one.exit)]
    layers = [(panel.chart, SAME_WEIGHTS) for frame in column.frames for panel in frame.panels if panel.is_open]
    layers += [(frame.corrected, SAME_WEIGHTS) for frame in column.frames if frame.corrected is not None]
    bridges = [(frame.bridge, frame.group.layers[0]) for frame in column.frames]
    between = [(one, describe_weights_between(SAME_WEIGHTS, number)) for one, number in bridges]
    begun = [(one.entrance, describe_weights_of_entrance(SAME_WEIGHTS)) for one in (*others, column)]
    frames = tuple(
        replace(frame, bridge=tell_chart(flow, frame.bridge, [*drawn, *begun]), panels=tell_panels(flow, frame))
        for frame in column.frames
    )
    leaving = tell_chart(flow, column.exit, [*begun, *layers, *between])
    return replace(column, entrance=tell_chart(flow, column.entrance, drawn), frames=frames, exit=leaving)


def grow(column: Column, readings: Sequence[Reading], make: Callable[[Reading, Towering], Column]) -> Column:
    """A column whose panels show what only later turns do: there keys and values join those of the turns before."""
    own = column.reading
    learned = learned_paths(own.flow, column.towering)
    for other in readings:
        if other is own or own.flow.one_pass.kind != "decode" or other.flow.one_pass.kind != "decode":
            continue
        for towering in other.towers:
            later = make(other, towering) if learned & learned_paths(other.flow, towering) else column
            if later is not column and shape_of(later) == shape_of(column):
                frames = tuple(map(grow_frame, column.frames, later.frames))
                column = replace(column, frames=frames)
    return column


def grow_frame(frame: Frame, later: Frame) -> Frame:
    """A frame with the panels of a later one that have all its nodes and more."""
    panels = [
        two if {node.key for node in two.chart.nodes} > {node.key for node in one.chart.nodes} else one
        for one, two in zip(frame.panels, later.panels, strict=True)
    ]
    return replace(frame, panels=tuple(panels))


def set_beside(column: Column, beside: Column) -> Column:
    """A column with the same tower in another phase beside it, in its narrow form, like rows on one height.

    What is done to boxes behind a layer is drawn in neither: it would stand where the other phase goes up.
    """
    look = replace(beside.look, is_narrow=True)
    frames: list[Frame] = []
    narrow: list[Frame] = []
    for wide_frame, other in zip(column.frames, beside.frames, strict=True):
        pairs = [
            align_rows(one.chart, narrow_chart(two.chart, look.alike))
            for one, two in zip(wide_frame.panels, other.panels, strict=True)
        ]
        for found, frame, number in ((frames, wide_frame, 0), (narrow, other, 1)):
            panels = tuple(replace(panel, chart=pair[number]) for panel, pair in zip(frame.panels, pairs, strict=True))
            found.append(replace(frame, panels=panels, corrected=None, correcting=0))
    entrance, below = column.entrance, beside.entrance
    if entrance is not None and below is not None:
        entrance, below = align_rows(entrance, narrow_chart(without_places(below), look.alike))
    leaving = None if beside.exit is None else narrow_chart(beside.exit, look.alike)
    twin = replace(beside, look=look, frames=tuple(narrow), entrance=below, exit=leaving)
    return replace(
        column,
        twin=twin,
        frames=tuple(frames),
        entrance=entrance,
        remarks=False,
        last_station=column.last_station or beside.last_station,
    )


def colour_memory(towers: Sequence[tuple[Reading, Towering]], number: int, own: str) -> str:
    """In what a tower's memory is painted: as the tower that made it, of which all but the last have one colour."""
    last, looking = towers[-1][1].tower.name, towers[number][1].tower.branches
    is_of_last = len(towers) == 1 or any(
        last in (one.source, getattr(one, "beside", None)) for one in looking if isinstance(one, Looking)
    )
    return "decoder" if own == "encoder" and is_of_last else "encoder"


def make_column(
    trace: Trace,
    reading: Reading,
    towering: Towering,
    colours: tuple[str, str],
    station: int,
    single: bool,
    *,
    all_layers: bool,
) -> Column:
    """A tower as it goes through one pass, and through those of the same kind."""
    flow = reading.flow
    kind = flow.one_pass.kind
    passes = (flow.one_pass, *(one for one in trace.passes if one.kind == kind and one is not flow.one_pass))
    given = find_input(flow, towering) if towering.tower.reads == "ids" else None
    words = find_words(flow, passes, *given) if given is not None else None
    met = read_met_maps(reading)
    apart = frozenset[int]().union(*(maps.nodes | maps.finer for end, maps in met.items() if end != towering.end))
    below = replace(towering, entrance=towering.entrance - apart)
    entrance = chart_entrance(flow, below, has_words=words is not None)
    entrance = tell_added_again(flow, towering, tell_own_width(entrance, towering.tower.d_model))
    in_rows = all_layers or words is not None
    frames = plan_frames(flow, towering, station + 1, reading.towers, all_layers=all_layers, in_rows=in_rows)
    following = station + 1 + sum(panel.is_open for frame in frames for panel in frame.panels)
    leaving = chart_leaving(reading, towering)
    if towering.end in met and leaving is None:
        leaving = chart_met_maps(flow, towering, met[towering.end])
    elif leaving is not None:
        leaving = add_comparisons(flow, leaving, towering.tower.name, list_last_meetings(reading))
    leaving = add_given(flow, towering, leaving)
    leaving = None if leaving is None else add_tapped(flow, towering.taps, show_handed(flow, leaving))
    leaving = tell_own_width(leaving, towering.tower.d_model)
    left = towering.end if towering.final is None else towering.last_layer
    leaving = None if leaving is None else tell_dropped_above(flow, leaving, left)
    wide = any(frame.is_wide for frame in frames)
    detail = WIDE_DETAIL if wide else DETAIL if single else NARROW_DETAIL
    look = Look(*colours, passes, phase_of(flow.one_pass))
    return Column(
        reading,
        towering,
        count_frames(reading, towering, frames, find_unworked(trace)),
        entrance,
        leaving,
        look,
        station,
        following if leaving is not None else 0,
        detail,
        (single or words is not None) and not wide,
        words=words,
    )


def find_twin(reading: Reading, towering: Towering, readings: Sequence[Reading]) -> tuple[Reading, Towering] | None:
    """The same tower in a pass of another phase; None where there is none."""
    own = phase_of(reading.flow.one_pass)
    learned = learned_paths(reading.flow, towering)
    for other in readings:
        if own != "forward" and phase_of(other.flow.one_pass) not in (own, "forward"):
            for one in other.towers:
                if learned and learned_paths(other.flow, one) == learned:
                    return other, one
    return None


def shape_of(column: Column) -> list[list[bool]]:
    """How many frames a column has, how many panels are in each, and which of them are open."""
    return [[panel.is_open for panel in frame.panels] for frame in column.frames]


def list_links(columns: Sequence[Column], links: Sequence[Link]) -> list[Link]:
    """How towers reach one another; memory that was made in another pass too, with one tower to come from."""
    last = columns[-1]
    others = [column for column in columns if column.reading is not last.reading and column.is_last]
    reads = any(panel.chart.memory for frame in last.frames for panel in frame.panels)
    across = [Link("memory", others[0].name, last.name)] if len(others) == 1 and reads else []
    told = {(link.kind, link.source, link.target) for link in links}
    return [*links, *(link for link in across if (link.kind, link.source, link.target) not in told)]
