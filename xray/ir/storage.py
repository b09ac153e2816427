"""How many bytes the steps of a pass store: what is a view of another tensor, or handed on, stores nothing."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from xray.ir.flow.remembering import once
from xray.ir.kinds import VIEWS, is_in_place
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.ir.turns import TURNED, guess_turn, read_turn, swap

Strides = tuple[int, ...]
SLICES = frozenset({"chunk", "split", "narrow", "slice", "index", "tensor_split", "split_with_sizes", "unsafe_chunk"})
COPYING_VIEWS = frozenset({"reshape", "flatten", "ravel", "reshape_as"})
"""Operations that are views where the numbers lie in order, and copies where they do not."""
TWISTS = frozenset({"movedim", "moveaxis", "numpy_t"})


@lru_cache(maxsize=256)
def bytes_per_element(dtype: str) -> int | None:
    """The bytes of one element: 4 for "float32", 2 for "bfloat16", 1 for "bool"; None where the name does not tell."""
    name = dtype.split(" ")[0]
    if name == "bool":
        return 1
    bits = re.search(r"\d+", name)
    return None if bits is None else -(-int(bits[0]) // 8)


def count_bytes(record: TensorRecord) -> int:
    """The bytes of a tensor's elements; 0 for a sparse one, whose record does not say how many are stored."""
    if " sparse" in record.dtype or " _mkldnn" in record.dtype:
        return 0
    return prod(record.shape) * (bytes_per_element(record.dtype) or 0)


@once
def measure_storage(one_pass: Pass) -> Mapping[str, int]:
    """The bytes that each step stored anew, by its id; steps that stored nothing are left out."""
    return {made: sum(sizes) for made, sizes in measure_outputs(one_pass).items()}


@once
def measure_outputs(one_pass: Pass) -> Mapping[str, tuple[int, ...]]:
    """The bytes that each step stored anew for each tensor that it made, by its id; without steps that stored nothing.

    Views are followed by their strides, so that a reshape of what was transposed counts as the copy that it is.
    """
    blocks, strides, stored = one_pass.blocks, dict[str, Strides | None](), dict[str, tuple[int, ...]]()
    fused = {step.parent for step in one_pass.steps if step.settings.get("derived")}
    for step in one_pass.steps:
        changes_input = is_in_place(step.op) or step.settings.get("inplace") is True
        if step.settings.get("derived") or (step.id in blocks and step.id not in fused) or changes_input:
            continue
        sizes = [0] * len(step.outputs)
        for number, record in enumerate(step.outputs):
            is_own = record.source == step.id or step.id in fused
            if record.role == "parameter" or not is_own:
                continue
            laid = lay_view(step, record, strides) if is_view(step) and step.id not in fused else None
            if laid is None:
                sizes[number] = count_bytes(record)
                laid = lay_fused(record.shape) if step.id in fused else in_order(record.shape)
            strides[record.source or step.id] = laid
        if any(sizes):
            stored[step.id] = tuple(sizes)
    return stored


def is_view(step: Step) -> bool:
    """Whether an operation looks at its first input in another way: indexing by numbers, and what is known to.

    A tensor of no axes is such a number, but for bool and uint8, by which torch indexes as by a mask.
    """
    if step.op == "index":
        return all(one.shape == () and one.dtype.startswith("int") for one in step.inputs[1:])
    if step.op == "unfold":  # the tensor's own adds an axis; the one of images copies
        return bool(step.inputs) and len(step.outputs[0].shape) == len(step.inputs[0].shape) + 1
    return step.op in VIEWS


def in_order(shape: Sequence[int]) -> Strides:
    """The strides of numbers that lie one behind the other."""
    return stack_strides(tuple(shape))


@lru_cache(maxsize=4096)
def stack_strides(shape: tuple[int, ...]) -> Strides:
    return tuple(prod(max(1, size) for size in shape[place + 1 :]) for place in range(len(shape)))


def lay_fused(shape: Sequence[int]) -> Strides:
    """The strides of what fused attention makes: its kernels write word by word, all heads of one word together."""
    if len(shape) != 4:
        return in_order(shape)
    return swap(in_order(swap(shape, 1, 2)), 1, 2)


def lay_view(step: Step, made: TensorRecord, strides: Mapping[str, Strides | None]) -> Strides | None:
    """The strides of a view; None where the operation had to copy."""
    if not step.inputs:
        return None
    base = step.inputs[0]
    laid = strides.get(base.source or "") or in_order(base.shape)
    if len(laid) != len(base.shape):
        laid = in_order(base.shape)
    if step.op in TURNED:
        return tuple(laid[axis] for axis in read_turn(step) or guess_turn(base.shape, made.shape))
    if step.op in SLICES and len(made.shape) == len(laid):
        return laid
    if step.op not in TWISTS and prod(base.shape) == prod(made.shape):
        fitted = refit(base.shape, laid, made.shape)
        if fitted is not None:
            return fitted
        return None if step.op in COPYING_VIEWS or step.module else in_order(made.shape)
    return (-1,) * len(made.shape)  # of an expanded or picked tensor nothing more is known


def refit(shape: Sequence[int], laid: Strides, wanted: Sequence[int]) -> Strides | None:
    """The strides with which the same numbers have another shape; None where no strides do, so that a copy is needed.

    Axes are taken in runs that lie in order; each run must be cut into whole axes of the new shape.
    """
    if prod(shape) == 0:
        return in_order(wanted)
    if -1 in laid:
        return None
    kept = [(size, stride) for size, stride in zip(shape, laid, strict=True) if size != 1]
    runs: list[tuple[int, int]] = []  # how many numbers, and the stride of the last axis
    for size, stride in kept:
        if runs and runs[-1][1] == size * stride:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    strides: list[int] = []
    left = list(wanted)
    for count, stride in reversed(runs):
        inner = stride
        while count > 1:
            size = left.pop() if left else 0
            if size == 0 or count % size:
                return None
            strides.insert(0, inner)
            inner, count = inner * size, count // size
    return tuple([1] * len(left) + strides) if all(size == 1 for size in left) else None
