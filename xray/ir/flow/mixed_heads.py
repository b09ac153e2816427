"""Scores and weights that are mixed across heads, each pair of places by itself (Shazeer et al. 2020, section 2)."""

from collections.abc import Collection, Iterable
from math import prod

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    FINDINGS,
    MASKINGS,
    NORMS,
    PRODUCTS,
    SCALINGS,
    SUMS,
    TRANSPOSED,
    TURNS,
)
from xray.ir.flow.projections import data_input, is_weight
from xray.ir.flow.softmax_axis import read_axis, read_equation
from xray.ir.turns import TURNED, read_turn

RANK = len(("batch", "heads", "queries", "keys"))
BATCH_NORMS = frozenset({"batch_norm", "batch_norm2d"})
OVER_HEADS = NORMS | BATCH_NORMS
"""What may normalise weights that were mixed: the numbers of all heads at a pair of places, or each head by itself."""
Axes = tuple[int, ...]
"""For each axis of a tensor, which one of the scores it was."""
ORDER: Axes = tuple(range(RANK))


def read_mixing(flow: Flow, node: int) -> tuple[int, Axes] | None:
    """Along which axis a step multiplies by a learned square, and which axis of its input each of its output was.

    It may be a linear layer, a product with a parameter or a convolution of 1×1; None where it is none of these.
    """
    data = data_input(flow, node) if flow.is_leaf(node) else None
    if data is None or len(flow.steps[node].inputs[data].shape) != RANK or len(flow.output(node).shape) != RANK:
        return None
    shape = flow.steps[node].inputs[data].shape
    if flow.op(node) == "einsum":
        return read_letters(flow, node, data)
    if flow.output(node).shape != shape or data != 0:
        return None
    if flow.op(node) in FINDINGS - TRANSPOSED:
        return (1, ORDER) if is_square(flow, node, shape[1], (1, 1)) else None
    if flow.op(node) == "linear" or flow.op(node) in PRODUCTS:
        return (RANK - 1, ORDER) if is_square(flow, node, shape[-1], ()) else None
    return None


def is_square(flow: Flow, node: int, size: int, kernel: tuple[int, ...]) -> bool:
    """Whether the weights of a step are as many rows of as many numbers, with a kernel behind these."""
    step = flow.steps[node]
    if step.params:
        are_ones = not kernel or set(str(step.settings.get("kernel_size")).split("x")) == {"1"}
        return len(step.inputs) == 1 and are_ones and step.params in (size * size, size * size + size)
    return len(step.inputs) > 1 and step.inputs[1].shape == (size, size, *kernel) and is_weight(flow, node, 1)


def read_letters(flow: Flow, node: int, data: int) -> tuple[int, Axes] | None:
    """The same of an einsum: one letter is summed over, and a new one takes its place, be its axes laid out anew."""
    letters, inputs = read_equation(flow.steps[node]), flow.steps[node].inputs
    if letters is None or len(inputs) != 2 or not is_weight(flow, node, 1 - data):
        return None
    given, table, out = letters[data], letters[1 - data], letters[2]
    summed, made = ([one for one in table if one in side] for side in (given, out))
    if (len(table), len(given), len(summed), len(made)) != (2, RANK, 1, 1) or summed == made:
        return None
    read = [summed[0] if letter == made[0] else letter for letter in out]
    if sorted(read) != sorted(given) or len(set(given)) != RANK or len(set(inputs[1 - data].shape)) != 1:
        return None
    return given.index(summed[0]), tuple(given.index(letter) for letter in read)


def find_axis_of_heads(flow: Flow, product: int) -> int | None:
    """Which axis of scores is that of heads: both queries and keys have it, and it is not that of the batch."""
    if len(flow.output(product).shape) != RANK or any(
        len(one.shape) != RANK for one in flow.steps[product].inputs[-2:]
    ):
        return None
    letters = read_equation(flow.steps[product])
    if letters is None:
        return 1 if flow.op(product) != "einsum" else None
    shared = [place for place, one in enumerate(letters[2]) if one in letters[0] and one in letters[1]]
    return shared[1] if len(letters[2]) == RANK and len(shared) == 2 and shared[0] == 0 else None


def list_shared_axes(flow: Flow, product: int) -> list[int]:
    """The axes of scores that queries and keys both have, by the letters of an einsum: batch and heads, say.

    All but the last two where letters do not tell it, or where all heads share one key: then keys have no such axis.
    """
    letters, rank = read_equation(flow.steps[product]), len(flow.output(product).shape)
    left, right, made = letters or ("", "", "")
    shared = [axis for axis, one in enumerate(made) if one in left and one in right]
    return shared if len(made) == rank and len(shared) > 1 else list(range(rank - 2))


def keeps_pairs(flow: Flow, scored: Collection[int], weighed: Collection[int], weighted_sum: int) -> bool:
    """Whether nothing but heads is mixed from a product up to a softmax, and behind that up to the weighted sum.

    The axes lie before both as the product laid them out, the keys last. No score is bent: by how much is told of each.
    """
    product, softmax = min(scored), max(scored)
    heads = find_axis_of_heads(flow, product)
    is_bent = any(flow.op(node) in CURVES for node in scored)
    if heads in (None, RANK - 1) or read_axis(flow.steps[softmax]) != -1 or is_bent:
        return False
    before = follow_axes(flow, product, [*scored], product, is_weighed=False)
    behind = follow_axes(flow, softmax, weighed, product, is_weighed=True)
    makers = (maker for maker in flow.makers[weighted_sum][-2:] if maker is not None)
    return before[softmax] == ORDER and any(behind.get(maker) == ORDER for maker in makers)


def follow_axes(flow: Flow, start: int, nodes: Iterable[int], product: int, *, is_weighed: bool) -> dict[int, Axes]:
    """Where the axes of scores lie in what some steps behind another one give, which has them in their order."""
    heads, lies = find_axis_of_heads(flow, product), {start: ORDER}
    for node in sorted({*nodes} - {start}):
        lies[node] = () if heads is None else lay_axes(flow, node, lies, heads, is_weighed=is_weighed)
    return lies


def lay_axes(flow: Flow, node: int, lies: dict[int, Axes], heads: int, *, is_weighed: bool) -> Axes:
    """Where the axes of scores lie in what a step gives, by where they lay before; () where that is not known."""
    given = [(record.shape, lies[maker]) for record, maker in flow.given(node) if maker in lies]
    if not given or any(axes != given[0][1] or len(axes) != RANK for _, axes in given):
        return ()
    shape, axes = given[0]
    mixing = read_mixing(flow, node)
    if mixing is not None:
        return tuple(axes[place] for place in mixing[1]) if axes[mixing[0]] == heads else ()
    if flow.op(node) in TURNS:
        turn = read_turn(flow.steps[node]) if flow.op(node) in TURNED else None
        return () if turn is None else tuple(axes[place] for place in turn)
    if flow.op(node) in OVER_HEADS:
        return axes if axes[1 if flow.op(node) in BATCH_NORMS else -1] == heads and is_of_one_axis(flow, node) else ()
    others = [record for record, maker in flow.given(node) if maker not in lies and prod(record.shape) > 1]
    if is_weighed and (flow.op(node) in MASKINGS or (others and flow.op(node) in SUMS | SCALINGS)):
        return ()
    return axes if flow.output(node).shape == shape else ()


def is_of_one_axis(flow: Flow, node: int) -> bool:
    """Whether a norm works on the last axis alone, or on each number of the second one by itself."""
    told = flow.steps[node].settings.get("normalized_shape", flow.steps[node].settings.get("other"))
    return flow.op(node) in BATCH_NORMS or str(told) == str(flow.output(node).shape[-1])


def add_sides(flow: Flow, way: Collection[int], first: int) -> list[int]:
    """A way, with the steps by which what it carries is mixed across heads before it is added to itself."""
    found = {*way, first}
    makers = [maker for node in way if flow.op(node) in SUMS for maker in flow.makers[node]]
    for maker in makers:
        side = {*flow.behind(maker, within=lambda one: one not in way and one != first and is_aside(flow, one))}
        begin = {one for place in side for one in flow.makers[place]} - {*side, None}
        if any(read_mixing(flow, one) is not None for one in side) and begin <= {*way, first}:
            found |= side
    return sorted(found - ({first} - {*way}))


def mix_known(flow: Flow, node: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a step that mixes heads makes of numbers: 0 where all heads have 0, up to one for each head; else NaN."""
    axis, order = read_mixing(flow, node) or (0, ())
    return np.where(np.broadcast_to((values == 0).all(axis=axis, keepdims=True), values.shape), 0.0, np.nan).transpose(
        order
    )


def is_aside(flow: Flow, node: int) -> bool:
    """Whether a step mixes across heads, or moves what is mixed so."""
    return flow.op(node) in CARRYING or (prod(flow.output(node).shape) > 0 and read_mixing(flow, node) is not None)
