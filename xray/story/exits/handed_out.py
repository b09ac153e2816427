"""Charts of what a tower hands out: what earlier layers gave (DeepStack), and maps of several sizes (SAM 3's eye)."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isclose, prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, TURNS
from xray.story.anatomy.branch_words import times
from xray.story.body.towers import Towering
from xray.story.charts.alike import tell_chart
from xray.story.charts.chart import BROAD, LEFT_HALF, RIGHT_HALF, Chart, Edge, Node, chart_alone, stack_charts, steps_at
from xray.story.charts.steps.drawn_steps import MOST_AT_ALL
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.charts.steps.same_weights import SAME_WEIGHTS
from xray.story.exits.behind.last_steps import reach_behind
from xray.story.exits.handed_rows import tell_pooled
from xray.story.exits.loss_chart import PICKS, is_loss
from xray.story.exits.several_heads import place_heads, stack_lane
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.recognition.between import list_reading_data
from xray.story.sentences.of_ways_past import describe_elsewhere
from xray.story.streams.taps import Tap

MOST_LEVELS, MOST_PARTS = 4, 3
HANDED_TOO, SOME_HANDED_TOO = "handed out too", "a part of it is handed out too"
READ_BY_NOTHING = "read by nothing"
TAKING = frozenset({"index", "select", "narrow", "slice"})


def add_tapped(flow: Flow, taps: Sequence[Tap], leaving: Chart) -> Chart:
    """The chart of an exit with what is worked out behind earlier layers beside it, once for layers that do the same.

    It stays as it is where nothing is worked out, or where boxes of it would stand side by side.
    """
    working = [tap for tap in taps if list_working(flow, tap)]
    if not working or not are_alike(flow, working) or not leaving.is_one_lane:
        return leaving
    last = working[-1]
    chart = chart_operations(flow, last.nodes, last.end, label_joined_rows(flow, last.nodes), "tap")
    chart = tell_chart(flow, chart, [(leaving, SAME_WEIGHTS)])
    if chart is None or not chart.is_one_lane:
        return leaving
    drawn = {flow.places[step.id] for node in chart.nodes for step in node.steps}
    chart = replace(chart, nodes=tuple(tell_pooled(flow, node, last.source, drawn) for node in chart.nodes))
    told = describe_elsewhere([tap.layer for tap in working[:-1]])
    label, out = name_given(last.layer), flow.output(last.source)
    first = Node("tapped", label, 0, RIGHT_HALF, steps_at(flow, last.source), out, told=(told,) if told else ())
    lane = stack_lane(chart.nodes, 1, RIGHT_HALF)
    own = [replace(node, place=LEFT_HALF) for node in leaving.nodes]
    edges = (*leaving.edges, Edge(first.key, lane[0].key), *chart.edges)
    return replace(leaving, nodes=(*own, first, *lane), edges=edges)


def add_given(flow: Flow, towering: Towering, leaving: Chart | None) -> Chart | None:
    """The chart of an exit with what the last layer gave below all of it, where the model hands that out, too (CLIP).

    Alone where there is no such chart, and nothing reads it in the one pass (GLM-Image's eye).
    """
    boxed = {flow.places[step.id] for node in (leaving.nodes if leaving else ()) for step in node.steps}
    ends = list_given(towering) - boxed
    handed = {end: share for end, share in list_handed(flow, ends | boxed).items() if end in ends}
    if not handed:
        return leaving
    label, end = name_given(len(towering.layers) - 1), max(handed)
    if leaving is None:
        is_all_there_is = flow.one_pass.kind == "forward" and isclose(handed[end], 1)
        if not is_all_there_is or is_read_on(flow, end):
            return None
    moved = [end] if leaving is not None else list_moved(flow, end)
    given = chart_alone(Node("handed", label, 0, BROAD, steps_at(flow, *moved), flow.output(moved[-1])))
    return given if leaving is None else stack_charts(given, leaving)


def list_moved(flow: Flow, node: int) -> list[int]:
    """A step and those that do nothing but lay what it gives out otherwise, one behind the other (PatchTST)."""
    found, readers = [node], flow.leaf_readers(node)
    while len(readers) == 1 and flow.op(readers[0]) in CARRYING:
        found, readers = [*found, readers[0]], flow.leaf_readers(readers[0])
    return found


def list_given(towering: Towering) -> set[int]:
    """What the last layer of a tower ends with: its sum, and the norms behind it that are its own."""
    last = towering.layers[-1][-1]
    add = last.joints[-1].add
    return {add, *(norm.end for norm in last.norms if norm.end > add)}


def name_given(layer: int) -> str:
    """What a box is called of what a layer, from 0, gave."""
    return f"WHAT LAYER {layer + 1:,} GAVE"


def list_working(flow: Flow, tap: Tap) -> list[int]:
    """The steps behind a layer that do more than move numbers."""
    return [one for one in sorted(tap.nodes) if flow.is_leaf(one) and flow.op(one) not in CARRYING]


def are_alike(flow: Flow, taps: Sequence[Tap]) -> bool:
    """Whether the same is done behind each of some layers."""
    return len({tuple((flow.op(one), flow.output(one).shape) for one in list_working(flow, tap)) for tap in taps}) == 1


def chart_levels(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps that lead from a tower's end to maps that are handed out, each behind its own last convolution.

    None where there are not several, or where one is made of what an earlier layer gives too.
    """
    end = towering.last_layer
    reached, _ = reach_behind(flow, end, others)
    tops = [place for place in sorted(reached) if flow.op(place) in FINDINGS and ends_level(flow, place, reached)]
    nodes = set(flow.behind(*tops, within=reached.__contains__)) - {end}
    data = list_reading_data(flow)
    makers = {maker for node in nodes for maker in flow.makers[node] if maker in data}
    learned = {place for place in reached if place > end and flow.is_leaf(place) and flow.steps[place].params}
    if not 1 < len(tops) <= MOST_LEVELS or not makers <= nodes | {end} or not learned <= nodes:
        return None
    chart = chart_operations(flow, nodes, max(tops), None, "out", begins=(end,), most=MOST_AT_ALL)
    if chart is None:
        return None
    in_order = sorted(chart.nodes, key=lambda node: flow.places[node.steps[0].id])
    return place_heads(replace(chart, nodes=tuple(in_order)), MOST_LEVELS)


def ends_level(flow: Flow, finder: int, reached: Collection[int]) -> bool:
    """Whether nothing but moves works on what a convolution makes, and the model hands that out."""
    moved = {finder, *flow.ahead(*flow.readers.get(finder, ()), within=lambda one: flow.op(one) in CARRYING)}
    readers = {one for place in moved for one in flow.leaf_readers(place)} - moved
    return readers.isdisjoint(reached) and not flow.one_pass.results.isdisjoint(flow.steps[one].id for one in moved)


def show_handed(flow: Flow, chart: Chart) -> Chart:
    """The chart whose last box has the shape in which the model hands it out: its axes may be swapped before (SAM).

    Or its only row may be taken (SigLIP 2). Boxes that others read say so, where what they make is handed out, too.
    """
    chart = tell_handed(flow, chart)
    node = chart.node(chart.heads[0])
    place = flow.places.get(node.steps[0].id) if node.steps and len(chart.heads) == 1 else None
    if place is None or node.record is None:
        return chart
    readers = flow.leaf_readers(place)
    handed = [flow.steps[one].id in flow.one_pass.results for one in (place, *readers)]
    if handed != [False, True] or not (flow.op(readers[0]) in TURNS or takes_all(flow, readers[0])):
        return chart
    shown = replace(node, steps=(flow.steps[readers[0]], *node.steps), record=flow.output(readers[0]))
    return replace(chart, nodes=tuple(shown if one is node else one for one in chart.nodes))


def takes_all(flow: Flow, node: int) -> bool:
    """Whether a step takes all numbers there are: the only row, say."""
    maker = flow.makers[node][0]
    return flow.op(node) in TAKING and maker is not None and is_all(flow, node, maker)


def tell_handed(flow: Flow, chart: Chart) -> Chart:
    """The chart with a word in boxes that are read on, be it by another tower, where what they make leaves too.

    So in those that nothing reads (the last norm of LLaVA-OneVision's eye). Where predictions are measured, or a next
    word is chosen, nothing is said: the pass hands these out for that.
    """
    read, places = {edge.source for edge in chart.edges}, {one.key: find_place(flow, one) for one in chart.nodes}
    handed = list_handed(flow, [*places.values()])
    parts = list_parts(flow, [*places.values()])

    def tell(node: Node) -> Node:
        place = places[node.key]
        share = 0.0 if place is None else handed.get(place, 0.0)
        if place is not None and handed and node.key not in read and leads_nowhere(flow, place):
            return replace(node, told=(*node.told, READ_BY_NOTHING))
        if place in parts and node.key not in read and not is_read_on(flow, place):
            return replace(node, told=(*node.told, f"handed out: {' and '.join(parts[place])}"))
        if place is None or not share or not (node.key in read or is_read_on(flow, place)):
            return node
        return replace(node, told=(*node.told, HANDED_TOO if isclose(share, 1) else SOME_HANDED_TOO))

    return replace(chart, nodes=tuple(map(tell, chart.nodes)))


def list_parts(flow: Flow, boxed: Collection[int | None]) -> dict[int, list[str]]:
    """The shapes of what is handed out of each of some steps, where a few parts of it are, and never all (PE Audio)."""
    found: dict[int, list[str]] = {}
    for end, here, _, _ in follow_handed(flow, boxed):
        found.setdefault(here, []).append("" if is_all(flow, end, here) else times(flow.output(end).shape))
    return {here: shapes for here, shapes in found.items() if all(shapes) and len(shapes) <= MOST_PARTS}


def is_all(flow: Flow, end: int, place: int) -> bool:
    """Whether one step gives as many numbers as another one."""
    return prod(flow.output(end).shape) == prod(flow.output(place).shape)


def leads_nowhere(flow: Flow, place: int) -> bool:
    """Whether nothing reads what a step gives, moved at most, nor is it handed out, or any of it; all that is known.

    What comes from no known step later, as wide or as many numbers, may be it.
    """
    steps, shape = flow.steps, flow.output(place).shape
    moved = {*flow.ahead(place, within=lambda here: here == place or flow.op(here) in CARRYING | TAKING)}
    later = (record for one in steps[place + 1 :] if flow.is_leaf(flow.places[one.id]) for record in one.inputs)
    unknown = (record.shape for record in later if record.source is None and record.role == "activation")
    if any(one[-1:] == shape[-1:] or prod(one) == prod(shape) for one in unknown):
        return False
    ends = [record for one in steps if one.parent is None for record in one.outputs]
    if any(one.source is None for one in ends) or any(one.error is not None for one in steps):
        return False
    is_handed = any(steps[one].id in flow.one_pass.results for one in moved)
    return not is_handed and not is_read_on(flow, place)


def find_place(flow: Flow, node: Node) -> int | None:
    """Where the step stands that made what a box is of, whatever moves the box holds; None for one of no step here."""
    place, own = flow.places.get(node.steps[0].id) if node.steps else None, {step.id for step in node.steps}
    while place is not None and flow.op(place) in CARRYING and flow.makers[place]:
        maker = flow.makers[place][0]
        if maker is None or flow.steps[maker].id not in own:
            break
        place = maker
    return place


def list_handed(flow: Flow, boxed: Collection[int | None]) -> dict[int, float]:
    """The steps whose numbers a model hands out, moved at most, each with the share of them that leaves.

    Those that are `boxed` are told where they stand.
    """
    found: dict[int, dict[str, float]] = {}
    for _, here, taken, share in follow_handed(flow, boxed):
        found.setdefault(here, {})[taken] = share
    return {node: min(sum(shares.values()), 1.0) for node, shares in found.items()}


def follow_handed(flow: Flow, boxed: Collection[int | None]) -> list[tuple[int, int, str, float]]:
    """The steps that hand something out, each with where that was made, how it was taken of it, and how much it is.

    There are none where predictions are measured, or a next word is chosen: the pass hands these out for that. Nor are
    there where parts of a model were called one by one, each with what another gave.
    """
    outer = [step for step in flow.steps if step.parent is None and step.id in flow.one_pass.blocks]
    given = {record.source for step in outer for record in step.outputs} - {None}
    if any(record.source in given for step in outer for record in step.inputs):
        return []
    ends = [node for node, step in enumerate(flow.steps) if step.id in flow.one_pass.results and flow.is_leaf(node)]
    if any(is_loss(flow, node) or flow.op(node) in PICKS for node in ends):
        return []
    found = []
    for end in ends:
        here, taken, share = end, "", 1.0
        while here not in boxed and flow.op(here) in CARRYING | TAKING and flow.makers[here]:
            maker = flow.makers[here][0]
            if maker is None:
                break
            if flow.op(here) in TAKING:
                taken += f"{flow.op(here)} {sorted(flow.steps[here].settings.items())}"
                share *= prod(flow.output(here).shape) / max(prod(flow.output(maker).shape), 1)
            here = maker
        found.append((end, here, taken, share))
    return found


def is_read_on(flow: Flow, place: int) -> bool:
    """Whether a step works on what another one gives, be it moved before, or some of it taken."""
    moved = {*flow.ahead(place, within=lambda here: here == place or flow.op(here) in CARRYING | TAKING)}
    return any(flow.is_leaf(one) for here in moved for one in flow.readers.get(here, ()) if one not in moved)
