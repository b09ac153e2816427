"""What no box tells: parts with parameters that are not drawn, and operations that are worked out beside drawn ones."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.attention_sites import hides_places
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, DROPOUTS, NORMS, SOFTMAXES, SUMS, TIMES, WRITES
from xray.ir.flow.projections import is_product, is_projection
from xray.ir.flow.remembering import once
from xray.ir.kinds import only_moves
from xray.ir.records import TensorRecord
from xray.story.branches.before_last import is_learned
from xray.story.charts.steps.written_out import COMPARED, list_flags
from xray.story.recognition.between import (
    is_linear,
    is_times_one,
    list_leading_on,
    list_reading_data,
    puts_around,
    works_on_weights,
)
from xray.story.recognition.values.value_shapes import number


def list_unsaid_of(flow: Flow, nodes: Collection[int], drawn: Collection[str], *, enters: bool = False) -> list[int]:
    """Those of some steps that work numbers out and are none of those that are drawn, told by id.

    What no data makes is left out, as is what only moves numbers, or leads to nothing, and single numbers that are made
    of flags and whole ones. What puts numbers around others does more (BiT's zeros before its pool), as does what hides
    some. So does what lies on the way of boxes that no data makes where it `enters` a tower (SAM 2's points, where none
    come in).
    """
    working = list_reading_data(flow) | (list_beside_boxes(flow, nodes, drawn) if enters else set())
    return [
        node
        for node in nodes
        if node in working and flow.is_leaf(node) and flow.steps[node].id not in drawn and works_out(flow, node)
    ]


def list_aside_of(flow: Flow, nodes: Collection[int], drawn: Collection[str]) -> list[int]:
    """Those of some steps that no data reaches, and that work numbers out by linear layers, or weigh them by a softmax.

    With all that becomes of these among them, the norms before them (LightSANs), and none of those that are drawn: a
    second attention that places alone make joins the stream's own (ConViT). So does what reads it out of what the model
    holds, where it was put (Oasis). What works on parameters alone makes weights, of which a box tells. What works with
    weights that a box has of another layer is told of there.
    """
    data, numbers, shown = list_reading_data(flow), list_of_numbers(flow), list_shown(flow, drawn)
    apart = {node for node in nodes if flow.is_leaf(node) and node not in numbers and not works_on_weights(flow, node)}
    begun = [node for node in apart - data if is_linear(flow, node) or flow.op(node) in SOFTMAXES]
    begun = [node for node in begun if flow.steps[node].id not in drawn and flow.steps[node].path not in shown]
    made = {*begun, *flow.ahead(*begun, within=apart.__contains__)} & apart
    made |= {node for node in flow.behind(*begun, within=(apart - data).__contains__) if flow.op(node) in NORMS}
    return [node for node in sorted(made) if flow.steps[node].id not in drawn and works_out(flow, node)]


def works_out(flow: Flow, node: int) -> bool:
    """Whether a step makes numbers that lead on, and that are others than those that it is given."""
    step, op = flow.steps[node], flow.op(node)
    changes_nothing = is_times_one(flow, node) or (op in SUMS and number(step) == 0) or is_bias(flow, node)
    is_moved = only_moves(op) and not puts_around(flow, node) and not hides_places(flow, node)
    is_moved |= op in CARRYING | DROPOUTS
    if not step.outputs or 0 in flow.output(node).shape or changes_nothing or is_moved or is_lost(flow, node):
        return False
    is_many = prod(flow.output(node).shape) > 1 or node in list_of_numbers(flow)
    return is_many and (flow.output(node).is_float or makes_flags(flow, node))


@once
def list_of_numbers(flow: Flow) -> frozenset[int]:
    """The steps that work on numbers of data: none that work on masks, places and what a model holds alone.

    Numbers are what is given as such, or by an earlier pass, and what a table or learned numbers make of whole ones.
    """
    data = list_reading_data(flow)
    given = {(one.shape, one.dtype) for one in flow.one_pass.arguments}
    found: set[int] = set()
    for node in sorted(data):
        if (flow.is_leaf(node) and flow.steps[node].params) or any(
            record.role == "parameter"
            or (record.is_float and (maker in found if maker is not None else comes_in(record, given)))
            for record, maker in flow.taken(node)
        ):
            found.add(node)
    return frozenset(found)


def comes_in(record: TensorRecord, given: Collection[tuple[tuple[int, ...], str]]) -> bool:
    """Whether what no step of a pass made is of an earlier one, or may be among what is `given` to the whole."""
    return bool(record.source) or (record.shape, record.dtype) in given


def list_beside_boxes(flow: Flow, nodes: Collection[int], drawn: Collection[str]) -> set[int]:
    """Those of some steps that no data reaches, and that lead to a drawn one which none reaches, or go on with one.

    What works on parameters alone makes weights: the box that reads these tells of it.
    """
    data = list_reading_data(flow)
    alone = {node for node in nodes if flow.is_leaf(node) and node not in data and any(flow.taken(node))}
    alone = {node for node in alone if not works_on_weights(flow, node)}
    boxes = {node for node in alone if flow.steps[node].id in drawn}
    return alone & {*flow.behind(*boxes), *flow.ahead(*boxes)} if boxes else set()


def list_of_no_data(flow: Flow, drawn: Collection[str]) -> list[int]:
    """The steps that work out of nothing that comes in what is handed out, and that no data reads (SAM 3).

    Nothing is told where no end works on data: what came in is made in the pass itself then (words to ids).
    """
    data, handed = list_reading_data(flow), flow.one_pass.results
    ends = [node for node, step in enumerate(flow.steps) if step.id in handed and flow.is_leaf(node)]
    made = () if data.isdisjoint(ends) else flow.behind(*(node for node in ends if node not in data))
    alone = (node for node in made if flow.is_leaf(node) and data.isdisjoint(flow.ahead(node)))
    told = (node for node in alone if flow.steps[node].id not in drawn and not only_moves(flow.op(node)))
    floats = (node for node in told if flow.op(node) not in CARRYING and flow.output(node).is_float)
    return [node for node in floats if prod(flow.output(node).shape) > 1]


def makes_flags(flow: Flow, node: int) -> bool:
    """Whether a step compares numbers and makes 1 and 0 of that, be it by a cast behind it."""
    casts = [one for one in flow.leaf_readers(node) if flow.op(one) in CASTING]
    return any(list_flags(flow, one)[:1] == (node,) for one in (node, *casts)) or weighs_by_flags(flow, node)


def weighs_by_flags(flow: Flow, node: int) -> bool:
    """Whether a step compares numbers of data with others, and a step multiplies numbers by the 1 and 0 of that.

    Flags may be written over before, or moved (whom the second expert of ST-MoE takes); those that hide are masks.
    """
    if flow.op(node) not in COMPARED or node not in list_of_numbers(flow) or flow.output(node).dtype != "bool":
        return False
    moving = CARRYING | WRITES
    ways = flow.ahead(node, within=lambda one: one == node or flow.op(one) in moving)
    return any(flow.op(one) in TIMES for way in ways for one in flow.leaf_readers(way))


def is_lost(flow: Flow, node: int) -> bool:
    """Whether what a step makes leads to nothing that the model hands out."""
    leading = list_leading_on(flow)
    return leading is not None and node not in leading


def follow(flow: Flow, node: int, kept: Collection[str] = CARRYING) -> tuple[set[int], set[int]]:
    """A step with those that go on with what it makes by operations that are `kept`, and all others that read these."""
    moved = {node, *flow.ahead(*flow.readers.get(node, ()), within=lambda one: flow.op(one) in kept)}
    return moved, {one for here in moved for one in flow.leaf_readers(here)} - moved


def is_bias(flow: Flow, node: int) -> bool:
    """Whether a step adds learned rows, one picked for each place, to what a product makes: the bias of each expert's.

    The box of experts counts these. Learned rows as such, added to a product, are in no box unless it holds that step;
    nor is what is added to scores, that no learned numbers made (AST).
    """
    if flow.op(node) not in SUMS or len(flow.makers[node]) != 2:
        return False
    data = list_reading_data(flow)
    picked = [maker for record, maker in flow.given(node) if maker in data and is_learned(flow, record, maker)]
    made = [maker for record, maker in flow.given(node) if not is_learned(flow, record, maker)]
    product = flow.carried_from(made[0]) if len(picked) == len(made) == 1 else None
    if product is None or is_projection(flow, product):
        return product is not None
    is_any = is_product(flow, product) or flow.op(product).endswith("mm")
    return is_any and any(is_learned(flow, record, maker) for record, maker in flow.given(product))


def find_boxless(flow: Flow, around: Collection[int], drawn: Collection[str]) -> set[int]:
    """The steps around layers that stand in no box, where learned numbers reach them.

    So a head proposes boxes, and linear layers make places of these, before the first layer of a decoder (LW-DETR).
    What works with weights that a box has of another layer is told of there. Turns of places alone are no part.
    """
    if not around:
        return set()
    shown = list_shown(flow, drawn)
    reached = flow.ahead(*(node for node, step in enumerate(flow.steps) if step.params and flow.is_leaf(node)))
    left = (node for node in {*around}.intersection(reached) if flow.is_leaf(node))
    return {node for node in left if flow.steps[node].id not in drawn and flow.steps[node].path not in shown}


def list_shown(flow: Flow, drawn: Collection[str]) -> set[str]:
    """The paths of the steps with weights among those that are drawn, told by id."""
    places = (flow.places[one] for one in drawn if one in flow.places)  # of another pass: keys that a cache kept
    return {flow.steps[place].path for place in places if flow.steps[place].params}
