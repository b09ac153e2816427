"""The chart of what is done behind a layer to the boxes beside its stream, which the next layer reads."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, CURVES, DROPOUTS, SUMS
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart, Edge, Node, Place, describe_params, steps_at
from xray.story.charts.operation_labels import label_step
from xray.story.recognition.between import is_linear
from xray.story.streams.corrected import SIDES, Correction, adds_to_boxes
from xray.story.wording import plural

BESIDE: Place = (0.76, 0.46)
"""Right of the stream, which goes by."""
MOST_STEPS = 6
"""So many steps of a head are drawn one by one."""
BOXES = "boxes"
NEXT, BOXES_SO_FAR = "for the next layer", "+ BOXES SO FAR"


def chart_correction(flow: Flow, found: Correction) -> Chart:
    """What a layer gives made to numbers that are added to those of the boxes, the boxes of these, and their places."""
    add = found.add
    own = list_head(flow, found)
    nodes = list(draw_head(flow, found, own))
    if add is not None:
        told = BOXES_SO_FAR if flow.output(add).shape[-1] == SIDES else "+ THESE NUMBERS SO FAR"
        beside = sorted((one for one in found.beside if flow.is_leaf(one)), reverse=True)
        nodes.append(Node("corrected", told, 0, BESIDE, steps_at(flow, add, *beside), flow.output(add)))
    known = {flow.places[step.id] for node in nodes for step in node.steps}
    nodes.append(draw_boxes(flow, found, known))
    nodes = [Node(**{**vars(node), "row": row}) for row, node in enumerate(nodes)]
    edges = [Edge(one.key, other.key) for one, other in pairwise(nodes)]
    for number, (top, way) in enumerate(list_places(flow, found)):
        linear = [node for node in sorted(way) if is_linear(flow, node)]
        label = "LINEAR" if len(linear) == 1 else f"{len(linear)} LINEAR LAYERS"
        steps = steps_at(flow, top, *sorted(way - {top}, reverse=True))
        told = (describe_params(flow, *linear), name_use(flow, found, way))
        nodes.append(Node(f"places{number}", label, len(nodes), BESIDE, steps, flow.output(top), told=told))
        edges.append(Edge(BOXES, f"places{number}"))
    return Chart(tuple(nodes), tuple(edges), (nodes[0].key,), BOXES)


def list_head(flow: Flow, found: Correction) -> list[int]:
    """The steps that make of what a layer gives what is added to the boxes, those left out that move numbers."""
    top = found.boxes if found.add is None else found.add
    made = [maker for maker in flow.makers[top] if maker in found.nodes]
    way = flow.behind(*made, within=found.nodes.__contains__)
    return sorted(node for node in way if flow.is_leaf(node) and flow.op(node) not in CARRYING | DROPOUTS)


def draw_head(flow: Flow, found: Correction, own: Sequence[int]) -> Iterator[Node]:
    """The steps of a head one above the other, each curve with what it bends; all in one box where they part."""
    moved = [{flow.carried_from(maker, CARRYING | DROPOUTS) for maker in flow.makers[node]} for node in own]
    follows = all(before in makers for before, makers in zip(own, moved[1:], strict=False))
    if not own:
        return
    if not follows or len(own) > MOST_STEPS:
        linear = [node for node in own if is_linear(flow, node)]
        label = f"{plural(len(linear), 'LINEAR LAYER').upper()}"
        yield Node("head", label, 0, BESIDE, steps_at(flow, *reversed(own)), flow.output(own[-1]), tell(flow, own))
        return
    for number, node in enumerate(own):
        if number and flow.op(node) in CURVES and is_linear(flow, own[number - 1]):
            continue
        bend = own[number + 1 : number + 2] if is_linear(flow, node) else []
        bend = [one for one in bend if flow.op(one) in CURVES]
        label = " + ".join([name_step(flow, node, found), *(label_step(flow, one) for one in bend)])
        held = [*reversed(bend), node]
        yield Node(f"head{node}", label, 0, BESIDE, steps_at(flow, *held), flow.output(held[0]), tell(flow, [node]))


def name_step(flow: Flow, node: int, found: Correction) -> str:
    """What a step of a head is called: a sum may add what the layer before gave (D-FINE)."""
    others = [flow.carried_from(maker) for maker in flow.makers[node]] if flow.op(node) in SUMS else []
    return "+ WHAT THE LAYER BEFORE GAVE" if any(one is not None and one < found.end for one in others) else label_step(
        flow, node
    )


def tell(flow: Flow, nodes: Sequence[int]) -> str:
    return describe_params(flow, *nodes)


def draw_boxes(flow: Flow, found: Correction, known: Collection[int]) -> Node:
    """The boxes: by what numbers become these, where that is one step, else all steps in one box."""
    rest = [node for node in sorted(found.nodes, reverse=True) if flow.is_leaf(node) and node not in known]
    bends = [node for node in rest if flow.op(node) not in CARRYING | DROPOUTS | CLAMPS]
    label = label_step(flow, bends[0]) if len(bends) == 1 else "BOXES OF THESE"
    return Node(BOXES, label, 0, BESIDE, steps_at(flow, *rest), flow.output(found.boxes), told=(NEXT,))


def list_places(flow: Flow, found: Correction) -> Iterator[tuple[int, frozenset[int]]]:
    """The linear layers by which the next layer's places are made of boxes: the last of each way, with all behind."""
    linear = [node for node in sorted(found.places) if is_linear(flow, node)]
    for node in linear:
        ahead = set(flow.ahead(node, within=found.places.__contains__)) - {node}
        if ahead.isdisjoint(linear):
            way = flow.behind(node, within=lambda one: one in found.places and one != found.boxes)
            yield node, frozenset(one for one in way if flow.is_leaf(one))


def name_use(flow: Flow, found: Correction, way: Collection[int]) -> str:
    """What the next layer does with what linear layers make of the boxes: it may be added to its scores (SAM 3)."""
    ahead = flow.ahead(max(way), within=lambda one: one in found.places or one == max(way))
    readers = {flow.op(reader) for one in ahead for reader in flow.readers.get(one, ()) if reader not in found.places}
    return "added to its scores there" if "mask_scores" in readers else NEXT


def adds_boxes(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a step behind the last layer adds what that gave to the boxes as the layers before left them."""
    if flow.op(node) not in SUMS or not towering.corrections or flow.output(node).shape[-1:] != (SIDES,):
        return False
    return adds_to_boxes(flow, node, set(flow.ahead(towering.last_layer)), towering.corrections[-1])
