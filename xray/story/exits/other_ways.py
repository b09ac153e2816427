"""What is added to what a tower gives behind its layers: finer maps, worked out of another one or of earlier layers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, SIDE_BY_SIDE, SPLITS, SUMS
from xray.story.body.towers import Towering
from xray.story.body.widths import end_of
from xray.story.charts.chart import Chart
from xray.story.charts.steps.operation_labels import label_step
from xray.story.recognition.between import list_reading_data
from xray.story.streams.asides import list_carried_readers

MOST_BEHIND = 400
RESIZING = "interpolate"
OF_OTHERS: Final = "memory"
"""The surface of boxes on such a way: they are in the colour of the tower that they come from."""
Ways = Mapping[int, frozenset[int]]
"""The sums that add what came another way, each with the steps of that way."""


def reach_joining(flow: Flow, top: int, end: int, others: Collection[int]) -> int:
    """The last sum that adds what came of another tower to what a step gives, with no more than moves before it.

    The step itself, where there is none.
    """
    here = top
    while True:
        readers = flow.leaf_readers(here)
        if len(readers) != 1 or readers[0] in others:
            return top
        here = readers[0]
        if find_way(flow, here, set(flow.ahead(end, within=here.__ge__)), others):
            top = here
        elif flow.op(here) not in CARRYING | DROPOUTS:
            return top


def list_finer(flow: Flow, towering: Towering, top: int, others: Collection[int]) -> list[tuple[str, tuple[int, ...]]]:
    """What boxes tell of how a map is made larger behind a tower, and a finer one, convolved, is added (SAM 2's neck).

    The finer one is what an earlier layer gave. Each has its steps, the last of them first; none where it is not so.
    """
    given = {end_of(layer): number for number, layer in enumerate(towering.layers[:-1])}
    found: list[tuple[str, tuple[int, ...]]] = []
    here = top
    while True:
        resized = [one for one in list_onward(flow, here, others) if flow.op(one) == RESIZING]
        sums = list_onward(flow, resized[0], others) if len(resized) == 1 else []
        if len(sums) != 1 or flow.op(sums[0]) not in SUMS:
            return found
        made = [one for one in map(flow.carried_from, flow.makers[sums[0]]) if one is not None and one != resized[0]]
        finder = made[0] if len(made) == 1 and flow.op(made[0]) in FINDINGS else None
        layer = None if finder is None else given.get(flow.carried_from(flow.makers[finder][0]) or top)
        if finder is None or layer is None:
            return found
        how = flow.steps[resized[0]].settings.get("mode", "nearest")
        found.append((f"RESIZED ({how})", (resized[0],)))
        found.append((f"+ {label_step(flow, finder)} OF WHAT LAYER {layer + 1} GAVE", (sums[0], finder)))
        here = sums[0]


def list_onward(flow: Flow, node: int, others: Collection[int]) -> list[int]:
    """The steps that read what another one gives, moved at most, and do more than move it."""
    readers = {one for one in list_carried_readers(flow, node) if flow.is_leaf(one)}
    return sorted(readers.difference(others))


def find_ways(flow: Flow, inner: Collection[int], others: Collection[int], sums: Collection[int]) -> Ways:
    """The sums among the steps of an exit that add what came of `others`, the steps of other towers, another way.

    None of the `sums` of the tower's own layers is on it.
    """
    found = ((node, find_way(flow, node, inner, others)) for node in sorted(inner))
    return {node: way for node, way in found if way and way.isdisjoint(sums)}


def find_way(flow: Flow, node: int, inner: Collection[int], others: Collection[int]) -> frozenset[int]:
    """The steps that work out of other towers alone, with weights, what a sum adds to rows of its exit; or none."""
    makers, shapes = flow.makers[node], {record.shape for record in flow.steps[node].inputs}
    if flow.op(node) not in SUMS or len(makers) != 2 or shapes != {flow.output(node).shape}:
        return frozenset()
    own, reading = [maker for maker in makers if maker in inner], list_reading_data(flow)
    other = [maker for maker in makers if maker is not None and maker not in inner]
    if len(own) != 1 or len(other) != 1:
        return frozenset()
    way = {one for one in flow.behind(*other, most=MOST_BEHIND, ends=others.__contains__) if one in reading}
    before = way & {*others}
    way -= before
    begun = any(maker is None and record.role != "parameter" for one in way for record, maker in flow.taken(one))
    is_learned = any(flow.is_leaf(one) and flow.steps[one].params for one in way)
    is_apart = way.isdisjoint(inner) and not begun and bool(before)
    return frozenset(way) if is_learned and is_apart else frozenset()


def list_led_across(flow: Flow, chart: Chart | None) -> frozenset[int]:
    """The steps in boxes of such ways that lead nowhere but to boxes of the same chart, and are not handed out.

    They are no end of the tower that they come from, though nothing else stands behind that (Nemotron 3.5 Transcribe).
    """
    boxes = () if chart is None else chart.nodes
    drawn = {flow.places[step.id] for node in boxes for step in node.steps if step.id in flow.places}
    lent = {flow.places[step.id] for node in boxes if node.surface == OF_OTHERS for step in node.steps}
    return frozenset(node for node in lent if leads_to_some(flow, node, drawn))


def leads_to_some(flow: Flow, node: int, drawn: Collection[int]) -> bool:
    """Whether what a step gives, cut and moved at most, is read by nothing but some steps, and not handed out.

    Be it that a number is added to it, as to what scales a norm.
    """
    carried = CARRYING | SPLITS
    plain = {one for one in flow.ahead(node) if flow.op(one) in SUMS and len(flow.steps[one].inputs) == 1}
    onward = flow.ahead(*flow.readers.get(node, ()), within=lambda one: flow.op(one) in carried or one in plain)
    moved = {node, *onward}
    readers = {one for here in moved for one in flow.leaf_readers(here)} - moved
    handed = flow.one_pass.results
    return bool(readers) and readers <= {*drawn} and handed.isdisjoint(flow.steps[one].id for one in moved)


def label_ways(flow: Flow, inner: Collection[int], ways: Ways) -> dict[int, str]:
    """What the sums are called that add what came another way, the steps with weights on these ways, and before them.

    So are those of the exit's own steps that make a map as large as the other one.
    """
    learned = (one for way in ways.values() for one in way if flow.is_leaf(one) and flow.steps[one].params)
    resized = [one for one in inner if ways and flow.op(one) == RESIZING and flow.is_leaf(one)]
    return {node: label_step(flow, node) for node in (*ways, *learned)} | dict.fromkeys(resized, "RESIZED")


def lead_ways(flow: Flow, chart: Chart, ways: Ways) -> Chart:
    """The chart with the first boxes of such ways as those that read another tower: the stream is not led to them."""
    steps = frozenset[int]().union(*ways.values())
    own = {node.key for node in chart.nodes if {flow.places[step.id] for step in node.steps} <= steps}
    reached = {edge.target for edge in chart.edges}
    begun: Sequence[str] = [node.key for node in chart.nodes if node.key in own - reached]
    nodes = (replace(node, surface=OF_OTHERS) if node.key in own else node for node in chart.nodes)
    feet = tuple(key for key in chart.feet if key not in own)
    return replace(chart, nodes=tuple(nodes), feet=feet, memory=(*chart.memory, *begun))


def lead_beside(flow: Flow, chart: Chart, others: Collection[int], begins: Collection[int]) -> Chart:
    """The chart with the boxes as those that read another tower that put what its layers gave beside the stream.

    That is stacked and moved on the way at most, and left out in part (Mllama). The chart `begins` with the stream.
    """
    boxes = {flow.places[step.id]: node.key for node in chart.nodes for step in node.steps if step.id in flow.places}
    kept, walls = CARRYING | SIDE_BY_SIDE | {"stack", "index"}, {*others, *boxes, *begins}
    found = list[str]()
    for join in (one for one in boxes if flow.op(one) in SIDE_BY_SIDE):
        ends = [one for one in others if one < join]
        ways = [{*flow.behind(one, ends=walls.__contains__)} for one in flow.makers[join]]
        apart = [way for way in ways if way.isdisjoint(boxes) and not way.isdisjoint(ends)]
        plain = all(flow.op(one) in kept for way in apart for one in way.difference(others))
        found += [boxes[join]] * (plain and len(ways) > len(apart) == 1)
    return replace(chart, memory=tuple(dict.fromkeys((*chart.memory, *found))))
