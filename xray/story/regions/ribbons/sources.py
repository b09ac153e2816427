"""Where a way between columns begins: at the box whose steps made what a box of another column reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.story.anatomy.attentions import Looking
from xray.story.attention.sampled import find_points
from xray.story.body.links import list_added_behind, list_products, list_taken_from
from xray.story.branches.weighed import list_other_scores
from xray.story.charts.chart import Chart, Node
from xray.story.layout import Box
from xray.story.sheet.columns import Column
from xray.story.sheet.panels import find_result
from xray.story.sheet.planning import Frame, Panel
from xray.story.sheet.standing import Standing

MOST_BEHIND = 400


@dataclass(frozen=True)
class Source:
    """A box in a column, and the number of the layer behind which it stands, from 0, where it stands for several."""

    column: int
    box: Box
    layer: int | None = None

    @property
    def key(self) -> tuple[int, str, int | None]:
        """What it is known by."""
        return self.column, self.box.id, self.layer


def list_sources(
    flow: Flow,
    node: Node,
    reader: int,
    columns: Sequence[Column],
    drawn: Mapping[int, Source | None],
    *,
    within: bool = False,
) -> list[Source]:
    """The boxes of other towers that what a node of a column reads was made in; none that is not known.

    `within` its tower, they are that tower's own. Boxes before layers count where what they make comes of a tower, or
    nothing else is read: no places that are added to keys.
    """
    own = {flow.places[step.id] for step in node.steps if step.id in flow.places and flow.is_leaf(flow.places[step.id])}
    name = columns[reader].name
    seen, found = set(own), dict[int, Source]()
    todo = [maker for place in own for maker in list_taken_from(flow, place, through_ids=True)]
    while todo and len(seen) < MOST_BEHIND:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        if here not in drawn:
            todo += list_taken_from(flow, here, through_ids=True)
        elif (source := drawn[here]) is not None and (columns[source.column].name == name) == within:
            found[here] = source
    sums = frozenset[int]().union(*(column.towering.sums | {column.towering.end} for column in columns))
    made = {place for place in found if any(one in sums for one in flow.behind(place))}
    return list({source.key: source for place, source in found.items() if place in made or not made}.values())


def list_begun(
    node: Node,
    reader: int,
    columns: Sequence[Column],
    standing: Sequence[Standing],
    drawn: Mapping[int, Source | None],
) -> list[Source]:
    """The boxes of its tower's own entrance that what a node of a column reads was made in (RT-DETR's maps)."""
    inner = list_sources(columns[reader].reading.flow, node, reader, columns, drawn, within=True)
    return [one for one in inner for placed in standing[one.column].entrances[:1] if one.box in placed.boxes.values()]


def list_drawn(
    flow: Flow, columns: Sequence[Column], standing: Sequence[Standing], *, with_moved: bool = False
) -> dict[int, Source | None]:
    """The steps of a pass that stand in boxes, each with its box; sums of streams that have no box with None.

    What a layer only moves is the stream still, and made before, unless it is asked for `with_moved`: then a box stands
    for what has as many numbers as it tells. What a box before or behind layers moves, that made.
    """
    found: dict[int, Source | None] = {}
    for number, (column, stands) in enumerate(zip(columns, standing, strict=True)):
        if column.reading.flow is not flow:
            continue
        charts: list[tuple[Chart, Mapping[str, Box]]] = [
            (shown.panels[0].chart, shown.placed[0].boxes) for shown in stands.drawn.shown
        ]
        charts += [(chart, placed.boxes) for chart, placed in stands.drawn.bridges]
        charts += [(column.entrance, stands.entrances[0].boxes)] if column.entrance and stands.entrances else []
        charts += [(column.exit, stands.exits[0].boxes)] if column.exit and stands.exits[0] else []
        for chart, boxes in charts:
            for node in chart.nodes:
                places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
                made = {place: Source(number, boxes[node.key]) for place in places if node.key in boxes}
                moves = frozenset[str]() if with_moved or chart in (column.entrance, column.exit) else CARRYING
                found |= {
                    place: one
                    for place, one in made.items()
                    if flow.is_leaf(place)
                    and flow.op(place) not in moves
                    and not (with_moved and node.record and prod(node.record.shape) != prod(flow.output(place).shape))
                }
        towering = column.towering
        found |= {place: found.get(place) for place in (*towering.sums, towering.end)}
        if column.is_last:
            found[towering.end] = Source(number, stands.ends(column)[0])
        for frame in column.frames:
            found |= list_layers(column, number, frame, stands)
    return found


def list_layers(column: Column, number: int, frame: Frame, stands: Standing) -> dict[int, Source | None]:
    """The sums of the layers of a frame, and the norms behind these, with the box of that sum in the layer it shows."""
    panels = {id(one): shown for shown in stands.drawn.shown for one in shown.panels[:1]}
    layers, found = column.towering.layers, dict[int, Source | None]()
    for place, panel in enumerate(frame.panels):
        shown = panels.get(id(panel))
        if shown is None:
            continue
        box = find_result(panel.chart, shown.placed[0])
        for layer in frame.group.layers:
            if place < len(layers[layer]):
                told = layer if frame.group.count > 1 else None
                add, norms = layers[layer][place].joints[-1].add, layers[layer][place].norms
                behind = {norm.end for norm in norms if norm.end > add} - {column.towering.end}
                found |= dict.fromkeys((add, *behind), Source(number, box, told))
    return found


def is_end(source: Source, columns: Sequence[Column], standing: Sequence[Standing]) -> bool:
    """Whether a way begins where the last frame of a tower is left: at the end of its last layer."""
    column = columns[source.column]
    layers = column.towering.tower.layers
    return column.is_last and source.box == standing[source.column].drawn.last and source.layer in (None, layers - 1)


def list_read(standing: Standing, beside: Collection[str]) -> list[list[tuple[Node, Box]]]:
    """The boxes of each stage that read another tower; `beside` are towers whose keys stand beside its own.

    None of an attention of which is not proven what it looks at: that is said to be another tensor.
    """
    rows = []
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        memory = () if is_of_unknown(panel) else panel.chart.memory
        keys = (*(node.key for node in panel.chart.nodes if node.joins in beside), *memory)
        rows.append([(panel.chart.node(key), boxes[key]) for key in keys if key in boxes])
    return [row for row in rows if row]


def is_of_unknown(panel: Panel) -> bool:
    """Whether it is not proven of an attention of a stage which towers give all that it looks at."""
    return any(getattr(one.branch, "is_of_unknown", False) for one in panel.staging.branches)


def list_joined(standing: Standing, beside: Collection[str]) -> list[tuple[Node, Box]]:
    """The boxes that put keys and values of other towers beside those of a column."""
    shown = ((one.panels[0].chart, one.placed[0].boxes) for one in standing.drawn.shown)
    return [(node, boxes[node.key]) for chart, boxes in shown for node in chart.nodes if node.joins in beside]


def list_closed(column: Column, standing: Standing) -> list[tuple[Node, Box, bool]]:
    """The boxes of whole attentions that look at another tower, as those of the steps that do so in the first layer.

    The last says whether keys alone are made of what it gives.
    """
    flow, found = column.reading.flow, []
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        if panel.is_open or is_of_unknown(panel):
            continue
        looking = [
            one
            for one in panel.staging.branches
            if isinstance(one.branch, Looking) and (one.branch.leaves_stream or getattr(one.branch, "beside", None))
        ]
        sites = [one.site for one in looking if one.site is not None]
        steps = tuple(flow.steps[node] for site in sites for way in (site.key, site.value) for node in way.nodes)
        is_alone = all(getattr(one.branch, "keys_alone", None) for one in looking)
        found += [(replace(node, steps=steps), boxes[node.key], is_alone) for node in panel.chart.nodes if steps]
    return found


def list_multiplied(column: Column, standing: Standing) -> list[list[tuple[Node, Box]]]:
    """The boxes of each stage that looks at nothing in which its rows are multiplied with what it did not make.

    So are those in which more of that is added then. A stage that is one box is led to as that.
    """
    flow, rows = column.reading.flow, []
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        alone = [one for one in panel.staging.branches if not isinstance(one.branch, Looking)]
        met = {node for one in alone for node in (*list_products(flow, one), *list_added_behind(flow, one))}
        steps = tuple(flow.steps[node] for node in sorted(met))
        found = [(node, [one for one in node.steps if one in steps]) for node in panel.chart.nodes if node.key in boxes]
        if not panel.is_open and len(found) == 1:
            found = [(found[0][0], [*steps])]
        rows.append([(replace(node, steps=tuple(own)), boxes[node.key]) for node, own in found if own])
    return [row for row in rows if row]


def list_scored(column: Column, standing: Standing) -> list[list[tuple[Node, Box]]]:
    """The boxes of each stage in which scores of other attentions are added, as those of the step alone that adds."""
    flow, rows = column.reading.flow, []
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        sites = [one.site for one in panel.staging.branches if one.site is not None]
        adds = {flow.steps[node].id for one in sites for node in one.scored if list_other_scores(flow, one, [node])}
        own = ((node, [step for step in node.steps if step.id in adds]) for node in panel.chart.nodes)
        rows += [[(replace(node, steps=tuple(found)), boxes[node.key])] for node, found in own if found]
    return rows


def list_pointed(column: Column, standing: Standing) -> list[tuple[Node, Box]]:
    """The boxes in which points of maps are worked out, as those of the step that adds offsets to places."""
    flow, found = column.reading.flow, list[tuple[Node, Box]]()
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        sampling = [(one, one.sampling) for one in panel.staging.branches if one.sampling is not None]
        points = {place for one, sampled in sampling if (place := find_points(flow, one, sampled)) is not None}
        ids = {flow.steps[place].id for place in points} if panel.is_open else set()
        nodes = (node for node in panel.chart.nodes if any(step.id in ids for step in node.steps))
        found += [(node, boxes[node.key]) for node in nodes if node.key in boxes]
    return found


def list_pointing(
    node: Node,
    reader: int,
    columns: Sequence[Column],
    standing: Sequence[Standing],
    drawn: Mapping[int, Source | None],
) -> list[Source]:
    """The boxes behind another tower's layers whose numbers are the places that points of a column are measured from.

    None where something learned works on these in between, in no box (LW-DETR's boxes).
    """
    flow = columns[reader].reading.flow
    own = [flow.places[step.id] for step in node.steps]
    before = [maker for place in own for maker in flow.makers[place]]
    if any(
        flow.steps[one].params
        for one in flow.behind(*before, most=MOST_BEHIND, ends=drawn.__contains__)
        if one not in drawn
    ):
        return []
    found = list_sources(flow, node, reader, columns, drawn)
    exits = {number: one.exits[0] for number, one in enumerate(standing) if columns[number].is_last}
    return [one for one in found if (leaving := exits.get(one.column)) and one.box in leaving.boxes.values()]


def list_entered(column: Column, standing: Standing) -> list[tuple[Node, Box]]:
    """The boxes of a tower's entrance that read what another one gives."""
    if column.entrance is None or not standing.entrances:
        return []
    chart, boxes = column.entrance, standing.entrances[0].boxes
    return [(chart.node(key), boxes[key]) for key in chart.memory or (chart.head,)]


def list_led_out(column: Column, standing: Standing) -> list[tuple[Node, Box]]:
    """The boxes behind a tower's last layer that read what another one gives, to add what they make of it."""
    leaving = standing.exits[0] if column.is_last else None
    if column.exit is None or leaving is None:
        return []
    return [(column.exit.node(key), leaving.boxes[key]) for key in column.exit.memory if key in leaving.boxes]


def list_led_between(column: Column, standing: Standing) -> list[tuple[Node, Box]]:
    """The boxes between layers that read nothing of the stream, nor of each other."""
    places, found = column.reading.flow.places, list[tuple[Node, Box]]()
    nodes = frozenset[int]().union(*(one.nodes for one in column.towering.bridges))
    for chart, placed in standing.drawn.bridges:
        led = {edge.target for edge in chart.edges}.union(chart.feet)
        apart = (node for node in chart.nodes if node.key not in led and node.key in placed.boxes)
        own = (node for node in apart if any(places.get(step.id) in nodes for step in node.steps))
        found += [(node, placed.boxes[node.key]) for node in own]
    return found
