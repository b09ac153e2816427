"""What frames a tower has: one for every group of layers that are alike, a panel for every stage in it."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.weights import gather_weights
from xray.ir.trace import Step
from xray.story.anatomy.tree import Group
from xray.story.attention.brought_rows import has_longer
from xray.story.body.layers import Mask, list_masks, spread_dropped
from xray.story.body.numbered import find_begun_block
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering
from xray.story.branches.scored.scores import has_sinks_inside
from xray.story.charts.alike import blur_numbers, tell_node
from xray.story.charts.between_chart import add_parted, chart_left_out
from xray.story.charts.bridge_chart import Adding, chart_bridge, list_adding, name_kept
from xray.story.charts.chart import Chart, Node, stack_charts
from xray.story.charts.dropouts import tell_dropped
from xray.story.charts.norms_apart import leave_first_moves, leave_moves_before
from xray.story.charts.stage_chart import chart_stage
from xray.story.charts.steps.same_weights import SAME_WEIGHTS, tell_again
from xray.story.charts.sum_chart import chart_closed, tell_recalled
from xray.story.entrance.own_widths import tell_own_width
from xray.story.exits.corrected_chart import chart_correction
from xray.story.passages.added_places import ADDED_UP, OF_SINES
from xray.story.sheet.layer_blocks import Layer, find_block
from xray.story.sheet.parts import find_entering
from xray.story.sheet.stand_ins import Boxes, describe_boxes, find_like, tell_like
from xray.story.streams.corrected import list_placing
from xray.story.wording import spell_layers

PLACES = "+ PLACES"
PLACED = re.compile(rf"{ADDED_UP}|\+ [\w ]+ {OF_SINES}")
MOST_FRAMES = 8
"""So many frames a tower may have."""


@dataclass(frozen=True)
class Panel:
    """One stage in a frame: its chart, whether it is opened, its station; and the block that holds its whole layer.

    `entering` made the stream that the stage begins with. What stands before a first layer and is a part of its block
    is what it comes `behind`. One that `leaves_out` something has an attention of which a softmax stands in no box.
    One that is not opened has boxes `like` those of another of its tower, at that station.
    """

    staging: Staging
    chart: Chart
    is_open: bool
    station: int
    block: Step | None = None
    entering: Step | None = None
    behind: str | None = None
    leaves_out: bool = False
    params: int = 0
    like: int | None = None


@dataclass(frozen=True)
class Frame:
    """A group of layers with the panels of one of them, from the bottom up; `is_only`: it holds all layers.

    A compact one is a row: what it holds is drawn in full elsewhere. `masks` are those that its attentions read, `keys`
    how many keys each of them has, `bridge` is what the stream goes through before it, `earlier` are its boxes that add
    what was made before. `params` are those of the layer that is drawn, `more` are how many more each layer has, below
    0 if fewer; `together` are those of all layers, each counted once, where layers share some, and `whole` those of a
    block of which a part stands before it. `corrected` is what is done behind the layer to the boxes beside its stream,
    with so many parameters `correcting` and placing them: it is `corrected_behind` these of its layers.
    """

    group: Group
    panels: tuple[Panel, ...]
    is_only: bool
    is_compact: bool = False
    bridge: Chart | None = None
    earlier: tuple[Adding, ...] = ()
    masks: tuple[Mask, ...] = ()
    keys: tuple[int, ...] = ()
    params: int = 0
    more: tuple[int, ...] = ()
    together: int | None = None
    whole: int | None = None
    corrected: Chart | None = None
    corrected_behind: tuple[int, ...] = ()
    correcting: int = 0

    @property
    def behind(self) -> str | None:
        """The part of its block that stands before it."""
        return self.panels[0].behind if self.panels else None

    @property
    def is_wide(self) -> bool:
        """Whether branches stand beside each other in it."""
        stages = (panel.staging.stage for panel in self.panels if panel.is_open)
        return any(stage.parallel or stage.beside for stage in stages)


def plan_frames(
    flow: Flow,
    towering: Towering,
    station: int,
    towers: Sequence[Towering] = (),
    *,
    all_layers: bool = False,
    in_rows: bool = False,
) -> list[Frame]:
    """The frames of a tower: each distinct stage is opened once, in the frame with the most layers first.

    Layers that are alike stand in one frame, unless all are asked for. Those that are drawn in full elsewhere stand in
    rows where that is wanted. Boxes may tell that they add what one of the `towers` begins with.
    """
    first = station
    groups = list(towering.tower.groups)
    if all_layers:
        groups = sorted(
            (replace(group, layers=(layer,)) for group in groups for layer in group.layers),
            key=lambda group: group.layers,
        )
    else:
        groups = part_last(groups)
    groups = [spread_anew(flow, towering, group) for group in groups]
    layers = [towering.layers[group.layers[0]] for group in groups]
    charts = [
        [chart_panel(flow, towering, group, place, towers) for place in range(len(layer))]
        for group, layer in zip(groups, layers, strict=True)
    ]
    order = sorted(
        range(len(groups)), key=lambda number: (-groups[number].count, -sum(len(one.nodes) for one in charts[number]))
    )
    kept = sorted(order) if all_layers else keep_frames(groups, order)
    drawn = {layer for number in kept for layer in groups[number].layers}
    opened: dict[int, set[int]] = {}
    seen: list[frozenset[str]] = []
    kinds: dict[tuple[int, int], Boxes] = {}
    for number in [number for number in order if number in kept]:
        for place, chart in enumerate(charts[number]):
            keys = frozenset(map(name_kind, chart.nodes))
            stage = layers[number][place].stage
            keys |= {f"{branch.part} {getattr(branch, 'source', '')}" for branch in stage.branches}
            keys |= {"longer"} if has_longer(chart.nodes) else set()
            keys |= {"joined" for branch in stage.branches if getattr(branch, "joined", None)}
            kinds[number, place] = describe_boxes(flow, layers[number][place], chart)
            keys |= {f"{op} × {times}" for op, times in kinds[number, place].works}
            if all(not keys <= other for other in seen):
                seen.append(keys)
                opened.setdefault(number, set()).add(place)
    if in_rows and kept:  # rows stand on what is drawn in full
        opened[kept[0]] = opened.get(kept[0]) or set(range(len(layers[kept[0]])))
    stations = {
        kinds[number, place]: station + count
        for count, (number, place) in enumerate((one, two) for one in kept for two in sorted(opened.get(one, ())))
    }
    frames = []
    begun_block = find_begun_block(flow, towering.layers, towering.entrance) if towering.tower.before else None
    for number in kept:
        block = find_block(flow, layers[number])
        panels = []
        for place, staging in enumerate(layers[number]):
            is_open = place in opened.get(number, set())
            is_row = in_rows and not opened.get(number)
            whole = add_parted(flow, staging, charts[number][place])
            whole = whole if place else leave_moves_before(flow, whole, block)
            like = find_like(kinds[number, place], stations)
            chart = whole if is_open or is_row else chart_closed(flow, staging, whole, tell_like(like))
            begun = find_entering(flow, staging, whole, is_open=is_open)
            entering = None if begun is None else flow.steps[begun]
            told = station if is_open else max(station - 1, first)
            is_behind = begun_block is not None and groups[number].layers == (0,) and not place
            behind = towering.tower.before if is_behind else None
            at = None if is_open or like is None else like[0]
            panels.append(Panel(staging, chart, is_open, told, block, entering, behind, like=at))
            station += is_open
        compact = in_rows and not opened.get(number)
        masks = list_masks(flow, layers[number])
        bridge = chart_bridge(flow, towering, groups[number].layers)
        below = groups[kept[kept.index(number) - 1]].layers if number != kept[0] else ()
        bridge = add_left_out(flow, towering, groups[number].layers[0], below, drawn, bridge)
        earlier = tuple(list_adding(flow, towering, groups[number].layers[0]))
        seen_keys = tuple(count_keys(flow, layers[number]))
        held = tuple(panels)
        frame = Frame(groups[number], held, len(groups) == 1, compact, bridge, earlier, masks, seen_keys)
        if frame.behind and begun_block is not None:
            frame = replace(frame, whole=flow.steps[begun_block].params)
        frames.append(add_corrected(flow, towering, frame))
    return frames


def keep_frames(groups: Sequence[Group], order: Sequence[int]) -> list[int]:
    """The numbers of the groups that are drawn, of those in order: the first, that of the last layer, one of a kind.

    Groups are of a kind whose sublayers are, one after the other.
    """
    last = max(range(len(groups)), key=lambda number: groups[number].layers[-1])
    kinds = {number: tuple(one.part for stage in groups[number].stages for one in stage.branches) for number in order}
    firsts = {kind: number for number, kind in reversed(list(kinds.items()))}.values()
    ranked = sorted(order, key=lambda number: (number not in (0, last), number not in firsts))
    return sorted(ranked[:MOST_FRAMES])


def add_left_out(
    flow: Flow, towering: Towering, layer: int, below: Collection[int], drawn: Collection[int], bridge: Chart | None
) -> Chart | None:
    """What stands before a layer, above the mark of those right before it that are not in the frame `below`.

    They are in no frame, or in others: no layer of that frame gives what this one reads (Nemotron-H).
    """
    first = layer
    while first and first - 1 not in below:
        first -= 1
    if first == layer:
        return bridge
    end = towering.layers[layer - 1][-1].joints[-1].add
    left = range(first, layer)
    known = sum(one in drawn for one in left)
    told = "AS DRAWN BEFORE" if known == len(left) else "NOT DRAWN HERE" if known else "NOT DRAWN"
    mark = chart_left_out(flow, spell_layers(left), end, told, towering.layers[layer][0].joints[0].add)
    return mark if bridge is None else stack_charts(mark, bridge)


def add_corrected(flow: Flow, towering: Towering, frame: Frame) -> Frame:
    """The frame with what is done behind its first layer to boxes, or behind one that is alike where these begin."""
    if not towering.corrections:
        return frame
    frame = replace(frame, panels=tuple(tell_places_of_boxes(flow, towering, one) for one in frame.panels))
    own = [one for one in towering.corrections if one.layer in frame.group.layers and one.add is not None]
    if not own or frame.is_compact or not any(panel.is_open for panel in frame.panels):
        return frame
    behind = tuple(one.layer for one in own)
    return replace(frame, corrected=chart_correction(flow, own[0]), corrected_behind=behind)


def tell_places_of_boxes(flow: Flow, towering: Towering, panel: Panel) -> Panel:
    """The panel in which sums that add places made of boxes to the stream are called so."""
    inside = frozenset[int]().union(*({joint.add, *joint.region.inner} for joint in panel.staging.joints))
    added = {flow.steps[node].id for node in list_placing(flow, towering.corrections, inside)}

    def tell(node: Node) -> Node:
        adds = any(one.id in added for one in node.steps)
        return replace(node, label=PLACED.sub(PLACES, node.label)) if adds else node

    return replace(panel, chart=replace(panel.chart, nodes=tuple(map(tell, panel.chart.nodes))))


def part_last(groups: Sequence[Group]) -> list[Group]:
    """Groups of layers so that the last one holds the last layer: what leaves a tower leaves the topmost frame.

    Layers behind all of the last group are parted from their groups, each run of them that are alike (Gemma 3: 5 local
    layers and one that sees all in turn, and two local ones at last). Where these would be too many frames, the last
    layer alone is parted from its group (NeoMME).
    """
    begun = groups[-1].layers[-1] + 1
    behind = sorted((layer, number) for number, group in enumerate(groups) for layer in group.layers if layer >= begun)
    runs = [[layer for layer, _ in run] for _, run in groupby(behind, key=itemgetter(1))]
    if not runs:
        return list(groups)
    if len(groups) + len(runs) > MOST_FRAMES:
        begun, runs = behind[-1][0], [[behind[-1][0]]]
    held = [replace(group, layers=tuple(layer for layer in group.layers if layer < begun)) for group in groups]
    numbers = dict(behind)
    return [*held, *(replace(groups[numbers[run[0]]], layers=tuple(run)) for run in runs)]


def spread_anew(flow: Flow, towering: Towering, group: Group) -> Group:
    """A group that may be a part of one, with the shares that its own layers drop."""
    if group in towering.tower.groups:
        return group
    dropouts, drop_paths = spread_dropped(flow, [towering.layers[layer] for layer in group.layers])
    return replace(group, dropouts=dropouts, drop_paths=drop_paths)


def chart_panel(flow: Flow, towering: Towering, group: Group, place: int, towers: Sequence[Towering]) -> Chart:
    """The chart of a stage of a group's first layer: its numbers are those of all its layers, its width the group's."""
    every = [towering.layers[layer][place] for layer in group.layers]
    chart = blur_numbers(flow, chart_stage(flow, every[0]), every[0], every)
    chart = tell_dropped(flow, leave_first_moves(flow, chart, every), apart=chart.heads)
    chart = tell_recalled(flow, chart, towering.start, every)
    return tell_own_width(name_kept(flow, towering, towers, chart), group.d_model)


def count_keys(flow: Flow, layer: Layer) -> Iterator[int]:
    """How many keys each attention of a layer looks at; a sink beside their scores is none (DeepSeek-V4)."""
    for site in (one.site for staging in layer for one in staging.branches):
        if site is not None:
            yield flow.output(site.softmax).shape[-1] - has_sinks_inside(flow, site)


def name_kind(node: Node) -> str:
    """What a node is, whatever its sizes are; moves that only lay rows out anew are all of one kind."""
    is_move = node.key.startswith(("heads", "tail", "cut")) or (
        node.key.startswith("bend") and "CONVOLUTION" in node.label
    )
    return f"{node.key.rstrip('0123456789')} {'' if is_move else node.label.rstrip('0123456789')}"


def tell_panels(flow: Flow, frame: Frame) -> tuple[Panel, ...]:
    """The panels of a layer, whose boxes that work with the weights of an earlier one are said to have the same."""
    seen: dict[str, str] = {}
    told: list[Panel] = []
    for panel in frame.panels:
        nodes = [tell_node(flow, node, seen) for node in panel.chart.nodes] if seen else panel.chart.nodes
        chart = replace(panel.chart, nodes=tuple(tell_again(flow, nodes)))
        told.append(replace(panel, chart=chart) if panel.is_open else panel)
        seen |= dict.fromkeys(gather_weights(flow, panel.staging.nodes), SAME_WEIGHTS)
    return tuple(told)
