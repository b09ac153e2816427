"""Boxes that go along with a stream, and are corrected behind each layer by what that gives (RT-DETR, SAM 3)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, GRIDS, SOFTMAXES, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.trace import name_weights
from xray.story.recognition.between import find_region, is_linear, list_reading_data

SIDES = 4
"""So many numbers a box has."""
FEWEST_LAYERS, MOST_MOVED = 3, 6
CUTTING = frozenset({"index", "select", "narrow", "slice"})


@dataclass(frozen=True)
class Correction:
    """What is worked out behind a layer, from 0, to correct the boxes that the next one reads.

    `nodes` are the steps from the `end` of the layer to the boxes that the next one reads, which `boxes` makes, and
    `beside` those that lay out what they read besides. `add` adds what the layer gives to what the boxes, or the
    numbers of which they are made, were before; None where they begin there. `places` are the steps on the ways from
    the boxes to those of the next layer. `first` are those that correct the boxes which the layer itself read, where
    the numbers of which later ones are made begin beside them (D-FINE).
    """

    layer: int
    end: int
    boxes: int
    add: int | None
    nodes: frozenset[int]
    beside: frozenset[int]
    places: frozenset[int]
    first: frozenset[int] = frozenset()

    @property
    def steps(self) -> frozenset[int]:
        """All that is done to the boxes behind the layer."""
        return self.nodes | self.beside


def find_corrections(flow: Flow, layers: Sequence[tuple[int, Collection[int]]]) -> tuple[Correction, ...]:
    """The corrections of the boxes behind each layer but the last; `layers` are given by what ends each, and its steps.

    There are none but where each layer's sum adds to what the one before left, by steps that learn nothing, and where
    the numbers are proven to say where in a picture something is: any four might be corrected so.
    """
    found: list[Correction] = []
    if len(layers) < FEWEST_LAYERS:
        return ()
    for number, (end, _) in enumerate(layers[:-1]):
        following, inside = layers[number + 1][0], frozenset(layers[number + 1][1])
        boxes = find_boxes(flow, end, following, inside)
        region = None if boxes is None else find_region(flow, end, boxes)
        if boxes is None or region is None or not any(is_linear(flow, node) for node in region.inner):
            return ()
        add = find_add(flow, region.inner, found[-1]) if found else None
        if found and add is None:
            return ()
        free = set(range(end + 1, following)).difference(inside)
        if add is not None and goes_past(flow, add, boxes, free, inside):
            return ()  # the numbers that are corrected are more than boxes (the quads of PP-DocLayout v4)
        places = list_places(flow, boxes, following, inside)
        if not say_where(flow, boxes, inside | places):
            return ()
        found.append(Correction(number, end, boxes, add, region.inner, region.beside, places))
    first = begin(flow, found[0], found[1])
    return (replace(first, first=correct_first(flow, first, layers[0])) if first.add is None else first, *found[1:])


def find_boxes(flow: Flow, end: int, following: int, inside: Collection[int]) -> int | None:
    """The step that makes 4 numbers for each row of what a layer ended with, by which alone these reach the next one.

    Of several such steps behind one another it is the last.
    """
    rows = flow.output(end).shape
    free = set(flow.ahead(end, within=lambda one: one < following and one not in inside))
    made = {flow.carried_from(node) for node in free if is_boxes(flow, node, rows)}
    held = sorted(one for one in made if one is not None and one > end and is_boxes(flow, one, rows))
    for node in reversed(held):
        if list_places(flow, node, following, inside) and not goes_past(flow, held[0], node, free, inside):
            return node
    return None


def goes_past(flow: Flow, start: int, boxes: int, free: Collection[int], inside: Collection[int]) -> bool:
    """Whether what a step makes reaches those of the next layer through `free` steps past the boxes."""
    past = set(flow.ahead(start, within=lambda one: one in free and one != boxes))
    return any(maker in past for one in inside for maker in flow.makers[one])


def is_boxes(flow: Flow, node: int, rows: Sequence[int]) -> bool:
    """Whether a step makes 4 numbers for each row, or for most of these, as where one stands in front (SAM 3)."""
    made = flow.output(node)
    is_box = made.is_float and len(made.shape) == len(rows) and made.shape[-1] == SIDES < rows[-1]
    return is_box and made.shape[:-2] == rows[:-2] and rows[-2] <= 2 * made.shape[-2] <= 2 * rows[-2]


def say_where(flow: Flow, boxes: int, nodes: Collection[int]) -> bool:
    """Whether a map is sampled at points made of some numbers, or sines are made of these.

    Nothing is learned on the way, and no rows are multiplied by rows.
    """

    def leads_on(node: int) -> bool:
        return node in nodes and not flow.steps[node].params and not is_product(flow, node)

    made = set(flow.ahead(boxes, within=leads_on))
    is_sampled = any(flow.op(node) in GRIDS and flow.makers[node][1] in made for node in made)
    return is_sampled or any(flow.op(node) in ("sin", "cos") for node in made)


def list_places(flow: Flow, boxes: int, following: int, inside: Collection[int]) -> frozenset[int]:
    """The steps on the ways from boxes to those of a layer that ends at a step; empty where there is no way."""
    made = set(flow.ahead(boxes, within=lambda one: one < following and (one == boxes or one not in inside)))
    read = {maker for node in inside for maker in flow.makers[node] if maker in made}
    return frozenset(flow.behind(*read, within=made.__contains__))


def find_add(flow: Flow, nodes: Collection[int], before: Correction) -> int | None:
    """The first sum among some steps that adds to what a correction before left."""
    return next((node for node in sorted(nodes) if adds_to_boxes(flow, node, nodes, before)), None)


def adds_to_boxes(flow: Flow, node: int, nodes: Collection[int], before: Correction) -> bool:
    """Whether a step adds what some steps make to what a correction before left, by steps that learn nothing.

    That is as wide: the boxes, or the numbers that were added up there.
    """
    others = [maker for maker in flow.makers[node] if maker not in nodes] if flow.op(node) in SUMS else []
    if len(others) != 1 or len(flow.makers[node]) != 2:
        return False
    width = flow.output(node).shape[-1:]
    made = before.nodes.__contains__
    way = flow.behind(
        *others, within=lambda one: one > before.end and (made(one) or not flow.steps[one].params), ends=made
    )
    left = [one for one in way if one in before.nodes and flow.output(one).shape[-1:] == width]
    return bool(left) and (before.add is None or max(left) >= before.add)


def begin(flow: Flow, first: Correction, second: Correction) -> Correction:
    """The first correction with its sum, where it adds as much to what there was before the first layer ended."""
    shape = None if second.add is None else flow.output(second.add).shape
    sums = (node for node in sorted(first.nodes) if flow.op(node) in SUMS and flow.output(node).shape == shape)
    beside = {node: [one for one in flow.makers[node] if one not in first.nodes] for node in sums}
    add = next((node for node, made in beside.items() if len(made) == 1 and len(flow.makers[node]) == 2), None)
    return replace(first, add=add)


def correct_first(flow: Flow, begun: Correction, layer: tuple[int, Collection[int]]) -> frozenset[int]:
    """The steps behind a layer that add what it gives to the boxes which it read itself; none where it read others."""
    end, inside = layer[0], frozenset(layer[1])

    def is_read(node: int) -> bool:
        is_box = node < end and is_boxes(flow, node, flow.output(end).shape)
        places = list_places(flow, node, end, inside) if is_box else frozenset[int]()
        return bool(places) and say_where(flow, node, inside | places)

    for node in sorted(begun.nodes):
        others = [maker for maker in flow.makers[node] if maker not in begun.nodes] if flow.op(node) in SUMS else []
        if len(others) != 1 or len(flow.makers[node]) != 2 or flow.output(node).shape[-1:] != (SIDES,):
            continue
        before = flow.behind(*others, within=lambda one: not flow.steps[one].params)
        if any(map(is_read, before)):
            return frozenset(flow.behind(node, within=begun.steps.__contains__))
    return frozenset()


def count_steps(flow: Flow, first: Correction, found: Correction) -> int | None:
    """How many of the numbers that are corrected weigh as many others for each of the 4; None where none do.

    A softmax makes the weights, and what they weigh is the same for each row (D-FINE). Boxes that the first layer's
    were corrected to are read beside what is weighed, where there are any.
    """
    before = set(flow.ahead(*(max(first.first),) if first.first else (), within=first.nodes.__contains__))
    if before and not any(maker in before for node in found.steps for maker in flow.makers[node]):
        return None
    made = set() if found.add is None else set(flow.ahead(found.add, within=found.nodes.__contains__))
    data = list_reading_data(flow)
    for node in sorted(filter(flow.is_leaf, made)):
        width = flow.output(node).shape[-1] if flow.op(node) in SOFTMAXES and flow.output(node).shape else 0
        if found.add is None or SIDES * width != flow.output(found.add).shape[-1]:
            continue
        ahead = sorted(filter(flow.is_leaf, flow.ahead(node, within=made.__contains__)))
        weighed = next((one for one in ahead if flow.op(one) not in CARRYING | SOFTMAXES), node)
        others = [maker for maker in flow.makers[weighed] if maker not in made]
        if len(others) == 1 and others[0] not in data:
            return width
    return None


def corrects_again(flow: Flow, end: int, before: Correction) -> bool:
    """Whether what the last layer ended with is added to what the correction before left, too."""
    return find_add(flow, set(flow.ahead(end)) - {end}, before) is not None


def are_shared(flow: Flow, corrections: Sequence[Correction]) -> bool | None:
    """Whether one set of weights works in all corrections, or each has its own; None where neither is so."""
    learned = [{name_weights(flow.steps[node]) for node in one.nodes if flow.steps[node].params} for one in corrections]
    if all(one == learned[0] for one in learned):
        return True
    return False if sum(map(len, learned)) == len(set().union(*learned)) else None


def is_measured(flow: Flow, node: int) -> bool:
    """Whether a step adds to numbers of one box for each row, which were moved and cut at most."""

    def is_box(here: int) -> bool:
        shape = flow.output(here).shape
        return len(shape) == len(("batch", "row", "side")) and shape[-1] == SIDES

    def moves(here: int) -> bool:
        return flow.op(here) in CARRYING | CUTTING and not is_box(here)

    makers = flow.makers[node] if flow.op(node) in SUMS else ()
    way = {maker for maker in makers if maker is not None and moves(maker)}
    return any(map(is_box, flow.behind(*way, within=lambda one: moves(one) or is_box(one), ends=is_box)))


def list_placing(flow: Flow, corrections: Sequence[Correction], inside: Collection[int]) -> set[int]:
    """The sums of a layer, among its steps `inside`, that add places made of boxes to its stream.

    They are known by the weights that make them: before the first layer those of the boxes that came first do so.
    """
    held = {name_weights(flow.steps[node]) for one in corrections for node in one.places if flow.steps[node].params}
    found: set[int] = set()
    for node in inside:
        others = [maker for maker in flow.makers[node] if maker not in inside] if flow.op(node) in SUMS else []
        for maker in others:
            way = flow.behind(maker, most=MOST_MOVED, ends=lambda one: bool(flow.steps[one].params))
            learned = {name_weights(flow.steps[one]) for one in way if flow.steps[one].params}
            found |= {node} if learned and learned <= held else set()
    return found
