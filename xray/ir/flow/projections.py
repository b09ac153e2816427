"""Linear layers however they are written: a step that multiplies what it reads by learned numbers."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, JOINS, PRODUCTS, SHAPING
from xray.ir.flow.remembering import once_each
from xray.ir.flow.softmax_axis import read_equation
from xray.ir.kinds import is_pointwise
from xray.ir.trace import Step

PICKS = frozenset({"index", "index_select", "gather"})
LINEARS = frozenset({"linear", "addmm", "conv1d_pointwise"})


@once_each
def is_projection(flow: Flow, place: int) -> bool:
    """Whether the step multiplies one tensor by weights that are no data."""
    step = flow.steps[place]
    number = data_input(flow, place)
    if number is None or not step.outputs or not step.outputs[0].shape or not step.inputs[number].shape:
        return False
    if step.op in LINEARS:
        return True
    if step.op in PRODUCTS:
        many = range(len(step.inputs))
        return len(many) > 1 and not is_product(flow, place) and any(is_weight(flow, place, one) for one in many)
    return is_linear_by_count(flow, place)


def is_product(flow: Flow, place: int) -> bool:
    """Whether the step multiplies two tensors of which neither is a weight.

    What a kernel works out that does an attention at once are products, be the queries learned rows alone (AIMv2).
    """
    step = flow.steps[place]
    if step.op not in PRODUCTS or len(step.inputs) < 2 or not step.outputs:
        return False
    left, right = step.inputs[-2:]
    first = len(step.inputs) - 2
    if min(len(left.shape), len(right.shape)) < 2:
        return False
    if step.settings.get("derived"):
        return True
    if meets_picked_rows(flow, place):
        return True
    return not is_weight(flow, place, first) and not is_weight(flow, place, first + 1)


def meets_picked_rows(flow: Flow, place: int) -> bool:
    """Whether each place meets rows of its own, picked from a table by how far others are (MViTv2): no linear layer.

    Which ones are picked is worked out of no data: weights of experts that were chosen are picked too.
    """
    if not meets_each_its_own(flow.steps[place]):
        return False
    for maker in flow.makers[place]:
        here = maker
        while here is not None and flow.op(here) in SHAPING and len(flow.makers[here]) == 1:
            here = flow.makers[here][0]
        if here is not None and flow.op(here) in PICKS and picks_of_table(flow, here):
            return True
    return False


def meets_each_its_own(step: Step) -> bool:
    """Whether a product multiplies several matrices, each by another one: along an axis that both and the result have.

    For a product without an equation that is one before the last two.
    """
    letters = read_equation(step)
    if letters is not None:
        return bool(set.intersection(*map(set, letters)))
    before = [one.shape[:-2] for one in step.inputs]
    return step.op in ("matmul", "bmm") and len(set(before)) == 1 and prod(before[0]) > 1


def picks_of_table(flow: Flow, place: int) -> bool:
    """Whether a step picks rows of a parameter by numbers that no data made."""
    table, *by = flow.given(place)
    behind = [one for _, maker in by if maker is not None for one in flow.behind(maker)]
    roots = {record.role for one in (place, *behind) for record, maker in flow.given(one) if maker is None}
    return table[0].role == "parameter" and bool(by) and roots == {"parameter"}


def data_input(flow: Flow, place: int) -> int | None:
    """Which input of a projection is the data."""
    step = flow.steps[place]
    if not step.inputs:
        return None
    if step.op == "addmm":
        return 1 if len(step.inputs) > 1 else 0
    if step.op in PRODUCTS:
        for number in range(len(step.inputs)):
            if not is_weight(flow, place, number):
                return number
        return None
    return 0


def is_weight(flow: Flow, place: int, number: int) -> bool:
    """Whether an input of a product is a parameter, or one that was only turned; never the first of two plain ones.

    Nor is it a plain one of which nothing is summed: frequencies that meet places, each with each.
    """
    record, maker = flow.before_moves(flow.steps[place].inputs[number], flow.makers[place][number], SHAPING)
    if record.role == "parameter":
        return True
    if maker is not None and flow.op(maker) in JOINS:
        return all(is_weight(flow, maker, one) for one in range(len(flow.steps[maker].inputs)))
    others = [other for other in range(len(flow.steps[place].inputs)) if other != number]
    plain = (
        bool(others)
        and maker is None
        and record.source is None
        and len(record.shape) == 2
        and record.role == "activation"
        and flow.steps[place].inputs[number].shape[-2:-1] != (1,)
    )
    return plain and number > 0 and flow.op(place) in ("mm", "matmul") and flow.makers[place][others[0]] is not None


def is_linear_by_count(flow: Flow, place: int) -> bool:
    """Whether a module of unknown kind has just the parameters of a linear layer between its two widths.

    A norm over the batch may have so many by chance: 2 for each channel of a map 16 wide that has 128 (RT-DETR).
    """
    step = flow.steps[place]
    if not flow.is_leaf(place) or not step.params or len(step.inputs) != 1 or len(step.outputs) != 1:
        return False
    if is_pointwise(step.op) or step.op in FINDINGS:
        return False
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if len(before) < 2 or before[:-1] != after[:-1]:
        return False
    return step.params in (before[-1] * after[-1], before[-1] * after[-1] + after[-1])


def scales_alone(flow: Flow, node: int) -> bool:
    """Whether an einsum multiplies each number of rows by learned ones of its own, and adds none up (GAU)."""
    letters = read_equation(flow.steps[node])
    return letters is not None and set(letters[0] + letters[1]) == set(letters[2])
