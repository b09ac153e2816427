"""Numbers that follow from the steps alone, such as a mask made by counting places: worked out again without a model.

A number that depends on weights or on data is unknown, and stands as NaN. What hides a score is so low that nothing
added to it matters: it stays as it is, whatever unknown is added.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from xray.ir.records import PADDING, VISIBLE, TensorRecord
from xray.ir.trace import Setting, Step
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CASTING, DROPOUTS, LOOKUPS
from xray.story.recognition.projections import is_product, is_projection
from xray.story.recognition.remembering import once

Values = NDArray[np.float64]
MOST = 1 << 20
"""Tensors with more numbers than this are not worked out."""

DEEPEST = 64
LOW = -1e3
"""What softmax makes nothing of, beside scores of any usual size."""

RESHAPES = frozenset(["view", "reshape", "unsqueeze", "squeeze", "flatten", "contiguous", "unflatten", "unsafe_view"])
SAME = CASTING | DROPOUTS | frozenset(["long", "int", "clone", "detach", "alias", "nan_to_num", "lift_fresh"])
TURNED = frozenset(["transpose", "swapaxes", "swapdims"])


@dataclass(frozen=True)
class Known:
    """What was worked out before; with `learned` numbers unknown, or taken as 0 where only what hides is asked for."""

    learned: float
    values: dict[int, Values | None] = field(default_factory=dict)


def values_of(flow: Flow, place: int | None) -> Values | None:
    """What a step makes, as far as it follows from the steps; None where nothing of it does."""
    return None if place is None else work_out(flow, place, keep_values(flow), DEEPEST)


@once
def keep_values(flow: Flow) -> Known:
    """Numbers of a pass, those that are learned unknown."""
    del flow
    return Known(np.nan)


@once
def keep_hiding(flow: Flow) -> Known:
    """Numbers of a pass as if all that is learned were 0, which hides nothing."""
    del flow
    return Known(0.0)


def work_out(flow: Flow, place: int, kept: Known, left: int) -> Values | None:
    """The numbers of a step, those before it worked out first."""
    known = kept.values
    if place in known:
        return known[place]
    step = flow.steps[place]
    if left == 0 or not step.outputs or prod(step.outputs[0].shape) > MOST or not flow.is_leaf(place):
        return None
    compute = RULES.get(step.op.rstrip("_"))
    if compute is None or step.params:
        known[place] = None
        if kept.learned == 0 and (
            step.params or step.op in LOOKUPS or is_projection(flow, place) or is_product(flow, place)
        ):
            known[place] = np.zeros(step.outputs[0].shape)
        return known[place]
    given = [
        read_outside(record, kept.learned) if maker is None else work_out(flow, maker, kept, left - 1)
        for record, maker in flow.given(place)
    ]
    known[place] = apply(compute, step, given)
    return known[place]


def read_outside(record: TensorRecord, learned: float) -> Values | None:
    """What is known of a tensor that no step made: of a mask its cells; which keys are padding counts as unknown."""
    if record.role == "parameter" and prod(record.shape) <= MOST:
        return np.full(record.shape, learned)
    facts = record.mask
    if facts is None or facts.cells is None or len(record.shape) < 2:
        return unknown(record.shape)
    visible = {"additive": 0.0, "true_is_visible": 1.0, "true_is_hidden": 0.0}[facts.polarity]
    hidden = {"additive": -np.inf, "true_is_visible": 0.0, "true_is_hidden": 1.0}[facts.polarity]
    letters = {VISIBLE: visible, PADDING: np.nan}
    cells = [letters.get(cell, hidden) for square in facts.cells for row in square for cell in row]
    return np.asarray(cells).reshape(record.shape) if len(cells) == prod(record.shape) else unknown(record.shape)


def apply(compute: "Rule", step: Step, given: "list[Values | None]") -> Values | None:
    """A rule on operands of which some may be unknown; None where the result says nothing, or has another shape."""
    filled = [
        unknown(record.shape) if values is None or values.shape != record.shape else values
        for record, values in zip(step.inputs, given, strict=True)
    ]
    if any(one is None for one in filled):
        return None
    try:
        with np.errstate(all="ignore"):
            found = compute(step, [one for one in filled if one is not None])
        if found is None:
            return None
        found = np.asarray(found, dtype=np.float64)
        shape = step.outputs[0].shape
        found = found if found.shape == shape else np.broadcast_to(found, shape)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError):
        return None
    return None if np.isnan(found).all() and found.size else found


def unknown(shape: tuple[int, ...]) -> Values | None:
    """A tensor of which nothing is known; None if it is too large to be held."""
    return np.full(shape, np.nan) if prod(shape) <= MOST else None


Rule = Callable[[Step, "list[Values]"], "Values | None"]


def read_scores_alone(flow: Flow, scored: tuple[int, ...], kept: Known) -> Values | None:
    """What is added to scores of 0 on their way to a softmax; what hides is very low, what is not known is NaN."""
    first = scored[0]
    step = flow.steps[first]
    if not step.outputs or prod(step.outputs[0].shape) > MOST:
        return None
    start: Values | None = np.zeros(step.outputs[0].shape)
    if step.op == "baddbmm":
        record, maker = next(flow.given(first))
        addend = read_outside(record, kept.learned) if maker is None else work_out(flow, maker, kept, DEEPEST)
        start = unknown(step.outputs[0].shape) if addend is None else np.broadcast_to(addend, step.outputs[0].shape)
    made: dict[int, Values | None] = {first: start}
    for place in scored[1:-1]:
        step = flow.steps[place]
        name = step.op.rstrip("_")
        compute = SCORE_RULES.get(name) or RULES.get(name)
        if compute is None or not step.outputs:
            return None
        given = [
            made[maker]
            if maker in made
            else read_outside(record, kept.learned)
            if maker is None
            else work_out(flow, maker, kept, DEEPEST)
            for record, maker in flow.given(place)
        ]
        made[place] = apply(compute, step, given)
        if made[place] is None:
            return None
    last = flow.makers[scored[-1]][0]
    return None if last is None else made.get(last)


def number(step: Step, name: str = "other") -> float | None:
    """A setting as a number."""
    value = step.settings.get(name)
    return float(value) if isinstance(value, int | float | bool) or value in ("inf", "-inf") else None


def pair(step: Step, given: list[Values]) -> tuple[Values, Values]:
    """Both operands of an operation, of which the second may be a plain number."""
    if len(given) > 1:
        return given[0], given[1]
    return given[0], np.asarray(np.nan if (other := number(step)) is None else other)


def add(step: Step, given: list[Values]) -> Values:
    left, right = pair(step, given)
    alpha = number(step, "alpha")
    right = right if alpha is None else alpha * right
    hidden = np.fmin(left, np.broadcast_to(right, np.broadcast_shapes(left.shape, right.shape)))
    total = left + right
    return np.where(np.isnan(total) & (hidden <= LOW), hidden, total)


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
    return blend(mask, scores, np.asarray(-np.inf)) if is_bool else add(step, [scores, mask])


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
    value = next((v for name in ("fill_value", "other", "arg2") if (v := number(step, name)) is not None), None)
    return None if value is None else np.full(step.outputs[0].shape, value)


def written(step: Step, given: list[Values]) -> Values | None:
    """`tensor` of one number."""
    del given
    value = number(step, "input")
    return None if value is None or step.outputs[0].shape else np.asarray(value)


def reshape(step: Step, given: list[Values]) -> Values:
    return given[0].reshape(step.outputs[0].shape)


def transpose(step: Step, given: list[Values]) -> Values | None:
    first, second = (number(step, name) for name in ("dim0", "dim1"))
    return None if first is None or second is None else np.swapaxes(given[0], int(first), int(second))


def permute(step: Step, given: list[Values]) -> Values | None:
    dims = [number(step, name) for name in ("other", *(f"arg{n}" for n in range(2, 9)))]
    order = [int(one) for one in dims if one is not None]
    return np.transpose(given[0], order) if len(order) == given[0].ndim else None


def spread(step: Step, given: list[Values]) -> Values:
    """`expand`."""
    shape = step.outputs[0].shape
    return np.broadcast_to(given[0].reshape((1,) * (len(shape) - given[0].ndim) + given[0].shape), shape)


def repeat(step: Step, given: list[Values]) -> Values:
    shape = step.outputs[0].shape
    source = given[0].reshape((1,) * (len(shape) - given[0].ndim) + given[0].shape)
    return np.tile(source, [after // before for before, after in zip(source.shape, shape, strict=True)])


def pick(step: Step, given: list[Values]) -> Values | None:
    """Indexing by what is written there."""
    if len(given) > 1:
        same = given[0].size and (given[0] == given[0].flat[0]).all()
        return np.full(step.outputs[0].shape, given[0].flat[0]) if same else None  # wherever it is picked
    index = read_index(step.settings)
    return None if index is None or len(given) != 1 else given[0][index]  # type: ignore[index]  # slices and numbers


def cut(step: Step, given: list[Values]) -> Values | None:
    """A part of a tensor in which all numbers are the same."""
    return np.full(step.outputs[0].shape, given[0].flat[0]) if (given[0] == given[0].flat[0]).all() else None


def put(step: Step, given: list[Values]) -> Values | None:
    """A number written into a part of a tensor."""
    index, value = read_index(step.settings), number(step, "values")
    if index is None or value is None or len(given) != 1:
        return None
    found = np.array(given[0])
    found[index] = value  # type: ignore[index]  # slices and numbers
    return found


def read_index(settings: Mapping[str, Setting]) -> tuple[object, ...] | None:
    """An index such as ":, None, 0:5, ..." as one that numpy takes."""
    text = settings.get("index")
    if not isinstance(text, str):
        return (int(text),) if isinstance(text, int) and not isinstance(text, bool) else None
    found: list[object] = []
    for piece in (one.strip() for one in text.split(",")):
        if piece == "None":
            found.append(None)
        elif piece == "...":
            found.append(Ellipsis)
        elif ":" in piece:
            bounds = [int(one) if one.strip() else None for one in piece.split(":")]
            found.append(slice(*bounds))
        else:
            found.append(int(piece))
    return tuple(found)


def triangle(cut: Callable[..., Values]) -> Rule:
    def cut_out(step: Step, given: list[Values]) -> Values:
        shift = next((v for name in ("diagonal", "other") if (v := number(step, name)) is not None), 0)
        return cut(given[0], int(shift))

    return cut_out


def total(step: Step, given: list[Values]) -> Values | None:
    """`cumsum`."""
    dim = next((v for name in ("dim", "other") if (v := number(step, name)) is not None), None)
    return None if dim is None else np.cumsum(given[0], axis=int(dim))


def join(step: Step, given: list[Values]) -> Values:
    dim = number(step, "dim")
    return np.concatenate([one for one in given if one.size or one.ndim > 1], axis=int(dim or 0))


def first_of_two(how: Callable[[Values, Values], Values]) -> Rule:
    """`max` and `min` of two tensors; of one alone nothing is known."""
    return lambda step, given: how(given[0], given[1]) if len(given) == 2 else None


RULES: dict[str, Rule] = {
    "add": add,
    "sub": lambda step, given: add(step, [given[0], -pair(step, given)[1]]) if number(step, "alpha") is None else None,
    "rsub": lambda step, given: pair(step, given)[1] - given[0],
    "mul": multiply,
    "multiply": multiply,
    "div": elementwise(np.divide),
    "floor_divide": elementwise(np.floor_divide),
    "remainder": elementwise(np.mod),
    "pow": elementwise(np.power),
    "maximum": elementwise(np.maximum),
    "minimum": elementwise(np.minimum),
    "max": first_of_two(np.fmax),
    "min": first_of_two(np.fmin),
    "neg": single(np.negative),
    "sqrt": single(np.sqrt),
    "exp": single(np.exp),
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
    "expand": spread,
    "expand_as": spread,
    "broadcast_to": spread,
    "repeat": repeat,
    "index": pick,
    "index_select": pick,
    "gather": pick,
    "index_put": put,
    "permute": permute,
    **dict.fromkeys(("split", "chunk", "unbind", "narrow", "slice", "select"), cut),
    "triu": triangle(np.triu),
    "tril": triangle(np.tril),
    "cumsum": total,
    "cat": join,
    **dict.fromkeys(RESHAPES, reshape),
    **dict.fromkeys(SAME, single(lambda one: one)),
    **dict.fromkeys(TURNED, transpose),
}
"""How each operation works on numbers of which some are unknown."""


def shift(step: Step, given: list[Values]) -> Values:
    """What is taken from a whole row of scores makes no difference to softmax."""
    if len(given) == 2 and given[1].shape[-1:] == (1,) and given[0].shape[-1] > 1:
        return given[0]
    return add(step, [given[0], -pair(step, given)[1]])


SCORE_RULES: dict[str, Rule] = {
    "sub": shift,
    "mask_scores": mask_scores,
    "tanh": single(lambda one: np.where(one <= LOW, one, np.tanh(one))),
    "scale": single(lambda one: one),
    "mul": lambda step, given: np.where(given[0] <= LOW, given[0], multiply(step, given)),
    "div": lambda step, given: np.where(given[0] <= LOW, given[0], np.divide(*pair(step, given))),
    "clamp": single(lambda one: one),
}
"""The same on the way of scores: what hides goes on hiding, whatever it is scaled by."""
