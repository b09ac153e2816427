"""Which operand of the scores is the keys: the one whose axis the softmax runs along."""

from collections.abc import Iterable

from xray.ir.trace import Step
from xray.ir.turns import TURNED, read_turn


def operand_of_axis(product: Step, softmax: Step) -> int | None:
    """The input of the product that gives the axis along which softmax makes weights; None where that is unknown."""
    count = len(product.inputs)
    if not product.outputs or not softmax.outputs or count < 2:
        return None
    first, second = count - 2, count - 1
    back = read_axis(softmax)
    letters = read_equation(product)
    if letters is not None:
        left, right, out = letters
        if -back > len(out):
            return None
        letter = out[back]
        in_left, in_right = letter in left, letter in right
        return None if in_left == in_right else (first if in_left else second)
    if back == -1:
        return second
    return first if back == -2 else None


def read_pair(product: Step, softmax: Step) -> tuple[int, int]:
    """Where queries and keys lie in scores, counted from the last axis: the last two, unless letters tell otherwise.

    Weights are made along the keys, be they in front (Transformer-XL's "ibnd,jbnd->ijbn").
    """
    letters, keys = read_equation(product), read_axis(softmax)
    if keys == -1 or letters is None or -keys > len(letters[2]):
        return -2, -1
    left, right, made = letters
    asked = next((one for one in (left, right) if made[keys] in one), "")
    queries = [place for place, one in enumerate(made, -len(made)) if one not in asked]
    return (queries[0], keys) if len(queries) == 1 and made[keys] not in set(left) & set(right) else (-2, -1)


def is_summed_over(softmax: Step, weighed: Iterable[Step], product: Step, weights: int) -> bool:
    """Whether a product adds up along the axis of the weights that come to 1; where this was laid out anew, it may.

    `weighed` are the steps between both, and `weights` is the input of the product that they lead to.
    """
    axis, size = read_axis(softmax), softmax.outputs[0].shape[read_axis(softmax)]
    for step in weighed:
        before, after = step.inputs[0].shape, step.outputs[0].shape
        order = read_turn(step) if step.op in TURNED else None
        if order is not None:
            axis = order.index(len(order) + axis) - len(order)
        elif step.op in TURNED or (len(before) != len(after) and before[axis:] != after[axis:]):
            return size in after
        size = after[axis]
    letters = read_equation(product)
    if letters is not None:
        own = letters[weights - len(product.inputs) + 2]
        return -axis > len(own) or own[axis] not in letters[2]
    return axis == (-1 if weights == len(product.inputs) - 2 else -2)


def read_axis(softmax: Step) -> int:
    """The axis along which a softmax makes weights, counted from the last one, -1."""
    rank = len(softmax.outputs[0].shape)
    dim = softmax.settings.get("dim", softmax.settings.get("arg1", -1))
    if not isinstance(dim, int) or isinstance(dim, bool) or rank == 0:
        dim = -1
    return dim - rank if dim >= 0 else dim


def read_equation(step: Step) -> tuple[str, str, str] | None:
    """The letters of both operands and of the result of an einsum, ellipses left out; None for other products."""
    text = next((value for value in step.settings.values() if isinstance(value, str) and "->" in value), None)
    if step.op != "einsum" or text is None:
        return None
    given, _, out = text.replace(" ", "").replace("...", "").partition("->")
    left, comma, right = given.partition(",")
    return (left, right, out) if comma and "," not in right else None
