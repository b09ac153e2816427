"""The chart of what is done behind a layer to the boxes beside its stream, which the next layer reads."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, CURVES, DROPOUTS, SCALINGS, SIDE_BY_SIDE, SUMS, WAVES
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart, Edge, Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.steps.operation_labels import label_step
from xray.story.passages.added_places import OF_SINES
from xray.story.recognition.between import is_linear
from xray.story.streams.corrected import SIDES, Correction, adds_to_boxes, is_boxes

BESIDE: Place = (0.76, 0.46)
"""Right of the stream, which goes by."""
MOST_STEPS = 6
"""So many steps of a head are drawn one by one."""
BOXES = "boxes"
NEXT, BOXES_SO_FAR, NUMBERS_SO_FAR = "for the next layer", "+ BOXES SO FAR", "+ THESE NUMBERS SO FAR"
OF_LOGARITHMS = "OF LOGARITHMS"
LOGARITHMS = frozenset({"log", "log2", "log10", "log1p"})
BEFORE_GAVE, OF_THESE = "+ WHAT THE LAYER BEFORE GAVE", "BOXES OF THESE"


def chart_correction(flow: Flow, found: Correction) -> Chart:
    """What is made of what a layer gives and added to numbers of the boxes, the boxes of these, and their places."""
    nodes = list(draw_head(flow, found))
    if found.add is not None:
        made = flow.output(found.add)
        beside = sorted((one for one in found.beside if flow.is_leaf(one)), reverse=True)
        nodes.append(Node("corrected", name_sum(flow, found.add), 0, BESIDE, steps_at(flow, found.add, *beside), made))
    nodes.append(draw_boxes(flow, found, {flow.places[step.id] for node in nodes for step in node.steps}))
    edges = [Edge(one.key, other.key) for one, other in pairwise(nodes)]
    for number, node in enumerate(draw_places(flow, found)):
        nodes.append(replace(node, key=f"places{number}"))
        edges.append(Edge(BOXES, f"places{number}"))
    nodes = [replace(node, row=row) for row, node in enumerate(nodes)]
    return Chart(tuple(nodes), tuple(edges), (nodes[0].key,), BOXES)


def draw_head(flow: Flow, found: Correction) -> Iterator[Node]:
    """The steps of a head one above the other, each curve with what it bends; all in one box where they part."""
    own = list_head(flow, found)
    read = [{flow.carried_from(maker, CARRYING | DROPOUTS) for maker in flow.makers[node]} for node in own]
    is_row = all(before in makers for before, makers in zip(own, read[1:], strict=False))
    if own and (not is_row or len(own) > MOST_STEPS):
        steps = steps_at(flow, *reversed(own))
        yield Node("head", name_linear(flow, own), 0, BESIDE, steps, flow.output(own[-1]), describe_params(flow, *own))
        return
    for number, node in enumerate(own):
        if number and flow.op(node) in CURVES and is_linear(flow, own[number - 1]):
            continue  # it stands with the linear layer
        bend = [one for one in own[number + 1 : number + 2] if is_linear(flow, node) and flow.op(one) in CURVES]
        label = " + ".join([name_step(flow, node, found), *(label_step(flow, one) for one in bend)])
        held = (*bend, node)
        extra = describe_params(flow, node)
        yield Node(f"head{node}", label, 0, BESIDE, steps_at(flow, *held), flow.output(held[0]), extra)


def list_head(flow: Flow, found: Correction) -> list[int]:
    """The steps that make of what a layer gives what is added to the boxes, but for those that move numbers."""
    top = found.boxes if found.add is None else found.add
    made = [maker for maker in flow.makers[top] if maker in found.nodes]
    way = flow.behind(*made, within=found.nodes.__contains__)
    return sorted(node for node in way if flow.is_leaf(node) and flow.op(node) not in CARRYING | DROPOUTS)


def name_step(flow: Flow, node: int, found: Correction) -> str:
    """What a step of a head is called: a sum may add what the layer before gave (D-FINE)."""
    others = [flow.carried_from(maker) for maker in flow.makers[node]] if flow.op(node) in SUMS else []
    is_earlier = any(one is not None and one < found.end for one in others)
    return BEFORE_GAVE if is_earlier else label_step(flow, node)


def name_linear(flow: Flow, nodes: Collection[int]) -> str:
    """What a box is called that holds several steps: by its linear layers."""
    count = sum(is_linear(flow, node) for node in nodes)
    return "LINEAR" if count == 1 else f"{count} LINEAR LAYERS"


def draw_boxes(flow: Flow, found: Correction, known: Collection[int]) -> Node:
    """The boxes: by what numbers become these, where that is one step, else all steps in one box."""
    rest = [node for node in sorted(found.nodes, reverse=True) if flow.is_leaf(node) and node not in known]
    bends = [node for node in rest if flow.op(node) not in CARRYING | DROPOUTS | CLAMPS]
    label = label_step(flow, bends[0]) if len(bends) == 1 else OF_THESE
    return Node(BOXES, label, 0, BESIDE, steps_at(flow, *rest), flow.output(found.boxes), told=(NEXT,))


def draw_places(flow: Flow, found: Correction) -> Iterator[Node]:
    """The linear layers by which the next layer's places are made of boxes, those of each way in one box."""
    linear = [node for node in sorted(found.places) if is_linear(flow, node)]
    for top in linear:
        ahead = set(flow.ahead(top, within=found.places.__contains__)) - {top}
        if ahead.isdisjoint(linear):
            behind = flow.behind(top, within=lambda one: one in found.places and one != found.boxes)
            way = sorted((one for one in behind if flow.is_leaf(one)), reverse=True)
            told = (describe_params(flow, *filter(linear.__contains__, way)), name_use(flow, found, top))
            label = name_linear(flow, way) + name_read(flow, min(filter(linear.__contains__, way)))
            steps = steps_at(flow, *way)
            yield Node("places", label, 0, BESIDE, steps, flow.output(top), told=told)


def name_read(flow: Flow, first: int) -> str:
    """Of what numbers made of boxes the `first` of linear layers is, such as sines; "" where it reads any others."""
    laid = CARRYING | SIDE_BY_SIDE | SCALINGS | {"stack"}
    way = flow.behind(*flow.makers[first][:1], ends=lambda one: flow.op(one) not in laid)
    made = {flow.op(one) for one in way} - laid - {"sign"}
    return f" {OF_SINES}" if made and made <= WAVES else f" {OF_LOGARITHMS}" if made and made <= LOGARITHMS else ""


def name_use(flow: Flow, found: Correction, top: int) -> str:
    """What the next layer does with what linear layers make of the boxes: it may be added to its scores (SAM 3)."""
    ahead = flow.ahead(top, within=found.places.__contains__)
    readers = {flow.op(reader) for one in ahead for reader in flow.readers.get(one, ()) if reader not in found.places}
    return "for the next layer's scores" if "mask_scores" in readers else NEXT


def label_last(flow: Flow, towering: Towering, nodes: Collection[int]) -> dict[int, str]:
    """What the sums behind the last layer are called by which boxes are corrected there as behind each other one."""
    if not towering.corrections:
        return {}
    ahead, before = set(flow.ahead(towering.last_layer)), towering.corrections[-1]
    sums = [node for node in nodes if flow.op(node) in SUMS and adds_to_boxes(flow, node, ahead, before)]
    told = {node: name_sum(flow, node) for node in sums if flow.output(node).shape[-1] in list_widths(flow, before)}
    given = (
        node for node in nodes if flow.op(node) in SUMS and before.end in map(flow.carried_from, flow.makers[node])
    )
    return told | (dict.fromkeys(given, BEFORE_GAVE) if told else {})


def find_last_boxes(flow: Flow, towering: Towering, sums: Mapping[int, str]) -> tuple[int, ...]:
    """The steps that make boxes of numbers added up behind the last layer as others were made, the last one first."""
    before = towering.corrections[-1] if towering.corrections else None
    wide = [node for node, told in sums.items() if told == NUMBERS_SO_FAR]
    if before is None or before.add is None or len(wide) != 1:
        return ()
    rows = flow.output(before.end).shape
    (add,), ahead = wide, set(flow.ahead(*wide))
    held, others = ([one for one in sorted(some) if is_boxes(flow, one, rows)] for some in (ahead, before.nodes))
    place = others.index(before.boxes)
    if place >= len(held) or flow.op(held[place]) != flow.op(before.boxes):
        return ()
    way = set(flow.behind(held[place], within=ahead.__contains__)) - {add}
    return tuple(sorted((one for one in way if flow.is_leaf(one)), reverse=True))


def list_widths(flow: Flow, found: Correction) -> set[int]:
    """Of how many numbers for each row sums may be that correct boxes."""
    return {SIDES} | ({flow.output(found.add).shape[-1]} if found.add is not None else set())


def name_sum(flow: Flow, node: int) -> str:
    """What a sum is called that corrects boxes, or the numbers of which these are made."""
    return BOXES_SO_FAR if flow.output(node).shape[-1] == SIDES else NUMBERS_SO_FAR
