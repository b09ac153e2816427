"""How operations work on numbers of which some are unknown, which are NaN."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.operation_kinds import CASTING, DROPOUTS
from xray.ir.trace import Step
from xray.ir.turns import TURNED
from xray.story.recognition.values.value_shapes import (
    Values,
    cut,
    join,
    move_round,
    number,
    pick,
    pile,
    put,
    put_in_blocks,
    repeat,
    repeat_each,
    reshape,
    spread,
    total,
    transpose,
    turn,
)

Rule = Callable[[Step, list[Values]], Values | None]
LOW = -1e3
"""What softmax makes nothing of, beside scores of any usual size."""
LOWEST = -50
"""The lower one of two numbers hides, if it is no higher than this (Swin takes -100)."""

NATIVE = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
"""torch's kernels for whole attentions and layers, which take a row of padding for each sequence."""
RESHAPES = frozenset(["view", "reshape", "unsqueeze", "squeeze", "flatten", "contiguous", "unflatten", "unsafe_view"])
SAME = CASTING | DROPOUTS | frozenset(["long", "int", "clone", "detach", "alias", "nan_to_num", "lift_fresh"])


def pair(step: Step, given: list[Values]) -> tuple[Values, Values]:
    """Both operands of an operation, one of which may be a plain number."""
    if len(given) > 1:
        return given[0], given[1]
    if (first := number(step, "input")) is not None:
        return np.asarray(first), given[0]
    return given[0], np.asarray(np.nan if (other := number(step)) is None else other)


def is_of_bools(step: Step) -> bool:
    """Whether a step makes of bools one: a sum of such is True where one of them is, a product where both are."""
    return all(record.dtype == "bool" for record in (*step.inputs, *step.outputs))


def add(step: Step, given: list[Values]) -> Values:
    if is_of_bools(step):
        return either(step, given)
    left, right = pair(step, given)
    alpha = number(step, "alpha")
    right = right if alpha is None else alpha * right
    hidden = np.fmin(left, np.broadcast_to(right, np.broadcast_shapes(left.shape, right.shape)))
    total = left + right
    return np.where(np.isnan(total) & (hidden <= LOW), hidden, total)


def subtract(step: Step, given: list[Values]) -> Values:
    left, right = pair(step, given)
    return add(step, [left, -right])


def multiply(step: Step, given: list[Values]) -> Values:
    left, right = pair(step, given)
    total = left * right
    return np.where((left == 0) | (right == 0), 0.0, total)


def both(step: Step, given: list[Values]) -> Values:
    left, right = pair(step, given)
    unsure = np.isnan(left) | np.isnan(right)
    return np.where((left == 0) | (right == 0), 0.0, np.where(unsure, np.nan, 1.0))


def either(step: Step, given: list[Values]) -> Values:
    left, right = pair(step, given)
    is_true = ((left != 0) & ~np.isnan(left)) | ((right != 0) & ~np.isnan(right))
    unsure = np.isnan(left) | np.isnan(right)
    return np.where(is_true, 1.0, np.where(unsure, np.nan, 0.0))


def compare(how: Callable[[Values, Values], Values]) -> Rule:
    """A comparison; what is compared with something unknown is unknown."""

    def compared(step: Step, given: list[Values]) -> Values:
        left, right = pair(step, given)
        return np.where(np.isnan(left) | np.isnan(right), np.nan, how(left, right).astype(float))

    return compared


def elementwise(how: Callable[[Values, Values], Values]) -> Rule:
    return lambda step, given: how(*pair(step, given))


def single(how: Callable[[Values], Values]) -> Rule:
    return lambda step, given: how(given[0])


def invert(step: Step, given: list[Values]) -> Values:
    del step
    return np.where(np.isnan(given[0]), np.nan, (given[0] == 0).astype(float))


def choose(step: Step, given: list[Values]) -> Values:
    """`where`: its second and third operands may be plain numbers."""
    condition, rest = given[0], list(given[1:])
    plain = [number(step, name) for name in ("input", "other") if number(step, name) is not None]
    if len(rest) == 1 and plain:
        first_is_plain = number(step, "input") is not None
        rest = [np.asarray(plain[0]), rest[0]] if first_is_plain else [rest[0], np.asarray(plain[0])]
    elif not rest and len(plain) == 2:
        rest = [np.asarray(plain[0]), np.asarray(plain[1])]
    yes, no = rest
    return blend(condition, yes, no)


def blend(condition: Values, yes: Values, no: Values) -> Values:
    """Where a condition is not known, so is the outcome, unless both are the same."""
    certain = np.where(condition != 0, yes, no)
    return np.where(np.isnan(condition) & ~np.equal(yes, no), np.nan, certain)


def fill(step: Step, given: list[Values]) -> Values:
    """`masked_fill`."""
    value = given[2] if len(given) > 2 else np.asarray(number(step, "value"), dtype=float)
    return blend(given[1], value, given[0])


def mask_scores(step: Step, given: list[Values]) -> Values:
    """The mask of an opened attention: true is visible, or it is added."""
    is_bool = any(record.dtype == "bool" for record in step.inputs)
    mask_at = next((n for n, record in enumerate(step.inputs) if record.dtype == "bool"), len(given) - 1)
    scores, mask = given[1 - mask_at] if len(given) > 1 else given[0], given[mask_at]
    if len(given) == 1:
        return given[0]
    if mask.ndim == 2 and scores.ndim == 4 and is_for_keys(step, mask, scores):
        mask = mask[:, None, None, :]
    return blend(mask, scores, np.asarray(-np.inf)) if is_bool else add(step, [scores, mask])


def same_sequence(step: Step, given: list[Values]) -> Values | None:
    """The mask of a varlen kernel: each query sees keys of its own sequence, the last beside the last."""
    ends = [one.astype(float) for one in given]
    if len(ends) != 2 or any(one.ndim != 1 or np.isnan(one).any() for one in ends):
        return None
    queries, keys = (np.arange(size) for size in step.outputs[0].shape[-2:])
    rows, columns = (
        np.searchsorted(one, places, side="right") for one, places in zip(ends, (queries, keys), strict=True)
    )
    inside = (rows > 0) & (rows < len(ends[0]))
    last = [one[np.minimum(which, len(one) - 1)] for one, which in zip(ends, (rows, rows), strict=True)]
    away = keys[None, :] - (queries + last[1] - last[0])[:, None]
    left, right = number(step, "left"), number(step, "right")
    right = 0 if step.settings.get("is_causal") is True else right
    seen = (rows[:, None] == columns[None, :]) & inside[:, None]
    seen &= away >= -left if left is not None and left >= 0 else True
    seen &= away <= right if right is not None and right >= 0 else True
    shown: Values = seen.astype(float).reshape(step.outputs[0].shape)
    return shown


def is_for_keys(step: Step, mask: Values, scores: Values) -> bool:
    """Whether a mask of two axes has a row for each sequence, not for each query."""
    sequences, queries = scores.shape[0], scores.shape[2]
    if len(mask) != sequences or sequences == 1:
        return False
    return sequences != queries or any(f".{kernel}." in step.path for kernel in NATIVE)


def count(step: Step, given: list[Values]) -> Values | None:
    """`arange`."""
    del given
    named = [number(step, name) for name in ("input", "other", "arg2")]
    bounds = [one for one in named if one is not None]
    if not bounds:
        bounds = [one for one in (number(step, "start"), number(step, "end"), number(step, "step")) if one is not None]
    length = step.outputs[0].shape[0]
    if len(bounds) == 1:
        return np.arange(length, dtype=float)
    stride = bounds[2] if len(bounds) > 2 else 1.0
    return bounds[0] + stride * np.arange(length, dtype=float)


def constant(value: float) -> Rule:
    return lambda step, given: np.full(step.outputs[0].shape, value)


def filled(step: Step, given: list[Values]) -> Values | None:
    """`full` and its like."""
    del given
    value = number(step, "fill_value", "other", "arg2")
    return None if value is None else np.full(step.outputs[0].shape, value)


def written(step: Step, given: list[Values]) -> Values | None:
    """`tensor` of one number, `new_tensor`, and `scalar_tensor`."""
    del given
    value = number(step, "input", "s", "other")
    return None if value is None or step.outputs[0].shape else np.asarray(value)


def triangle(cut: Callable[..., Values]) -> Rule:
    def cut_out(step: Step, given: list[Values]) -> Values:
        shift = number(step, "diagonal", "other") or 0
        return cut(given[0], int(shift))

    return cut_out


def list_places(how: Callable[[int, int, int], tuple[NDArray[np.int_], ...]]) -> Rule:
    """`triu_indices` and `tril_indices`."""

    def listed(step: Step, given: list[Values]) -> Values | None:
        del given
        names = (("row", "input"), ("col", "other"), ("offset", "arg2"))
        rows, columns, offset = (number(step, *one) for one in names)
        return (
            None
            if rows is None or columns is None
            else np.stack(how(int(rows), int(offset or 0), int(columns))).astype(float)
        )

    return listed


def cast(step: Step, given: list[Values]) -> Values:
    """A change of type; whatever is not 0 is True."""
    if not step.outputs or step.outputs[0].dtype != "bool" or not step.inputs or step.inputs[0].dtype == "bool":
        return given[0]
    return np.where(np.isnan(given[0]), np.nan, (given[0] != 0).astype(float))


def along(how: Callable[..., Values]) -> Rule:
    """What is made of all numbers along an axis, or of all that there are."""

    def gathered(step: Step, given: list[Values]) -> Values | None:
        dim = number(step, "dim", "other")
        if len(given) != 1 or np.isnan(given[0]).any():
            return None
        found = how(given[0], axis=None if dim is None else int(dim))
        return np.asarray(found, dtype=float).reshape(step.outputs[0].shape)

    return gathered


def first_of_two(how: Callable[[Values, Values], Values]) -> Rule:
    """`max` and `min` of two tensors; of one alone nothing is known."""
    return lambda step, given: how(given[0], given[1]) if len(given) == 2 else None


RULES: dict[str, Rule] = {
    "add": add,
    "sub": lambda step, given: subtract(step, given) if number(step, "alpha") is None else None,
    "rsub": lambda step, given: add(step, [pair(step, given)[1], -given[0]]),
    "mul": multiply,
    "multiply": multiply,
    "div": elementwise(np.divide),
    "floor_divide": elementwise(np.floor_divide),
    "remainder": elementwise(np.mod),
    "pow": elementwise(np.power),
    "maximum": elementwise(np.maximum),
    "minimum": elementwise(np.minimum),
    "max": first_of_two(np.maximum),
    "min": first_of_two(np.minimum),
    "neg": single(np.negative),
    "sqrt": single(np.sqrt),
    "exp": single(np.exp),
    "reciprocal": single(np.reciprocal),
    "log": single(np.log),
    "log2": single(np.log2),
    "abs": single(np.abs),
    "and": both,
    "logical_and": both,
    "bitwise_and": both,
    "or": either,
    "logical_or": either,
    "bitwise_or": either,
    "invert": invert,
    "logical_not": invert,
    "bitwise_not": invert,
    "not": invert,
    "bool": single(lambda one: np.where(np.isnan(one), np.nan, (one != 0).astype(float))),
    "lt": compare(np.less),
    "le": compare(np.less_equal),
    "gt": compare(np.greater),
    "ge": compare(np.greater_equal),
    "eq": compare(np.equal),
    "ne": compare(np.not_equal),
    "where": choose,
    "masked_fill": fill,
    "arange": count,
    "zeros": constant(0.0),
    "zeros_like": constant(0.0),
    "new_zeros": constant(0.0),
    "ones": constant(1.0),
    "ones_like": constant(1.0),
    "new_ones": constant(1.0),
    "full": filled,
    "full_like": filled,
    "new_full": filled,
    "tensor": written,
    "scalar_tensor": written,
    "new_tensor": written,
    "expand": spread,
    "expand_as": spread,
    "broadcast_to": spread,
    "repeat": repeat,
    "index": pick,
    "index_select": pick,
    "gather": pick,
    "index_put": put,
    **dict.fromkeys(("split", "chunk", "unbind", "narrow", "slice", "select"), cut),
    "triu_indices": list_places(np.triu_indices),
    "tril_indices": list_places(np.tril_indices),
    "triu": triangle(np.triu),
    "tril": triangle(np.tril),
    "cumsum": total,
    "cat": join,
    **dict.fromkeys(RESHAPES | {"view_as", "reshape_as"}, reshape),
    **dict.fromkeys(SAME, cast),
    "any": along(np.any),
    "all": along(np.all),
    "sum": along(np.sum),
    "flip": turn,
    "roll": move_round,
    "repeat_interleave": repeat_each,
    "stack": pile,
    "block_diag": put_in_blocks,
    "same_sequence": same_sequence,
    **dict.fromkeys(TURNED, transpose),
}
"""How each operation works on numbers of which some are unknown."""


def shift_along(axis: int) -> Rule:
    """What is taken from a whole row of scores makes no difference to a softmax along that axis, such as -1."""

    def shift(step: Step, given: list[Values]) -> Values:
        lengths = [one.shape[axis] if one.ndim >= -axis else 1 for one in given]
        if len(given) == 2 and lengths[1] == 1 < lengths[0]:
            return given[0]
        return add(step, [given[0], -pair(step, given)[1]])

    return shift


SCORE_RULES: dict[str, Rule] = {
    "mask_scores": mask_scores,
    "tanh": single(lambda one: np.where(one <= LOW, one, np.tanh(one))),
    "scale": single(lambda one: one),
    "mul": lambda step, given: np.where(given[0] <= LOW, given[0], multiply(step, given)),
    "div": lambda step, given: np.where(given[0] <= LOW, given[0], np.divide(*pair(step, given))),
    "clamp": single(lambda one: one),
}
"""The same on the way of scores: what hides goes on hiding, whatever it is scaled by."""
