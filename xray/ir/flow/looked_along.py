"""Along which axes of rows an attention looks, and which rows are alike: followed through the moves between."""

from collections.abc import Collection, Sequence
from itertools import chain
from math import prod

from xray.ir.flow.attention_sites import count_pairs, list_sites, operand_places
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import REPEATS
from xray.ir.flow.regrouping import MOVES, Axes, Piece, follow, move_axes
from xray.ir.flow.softmax_axis import read_equation

FARTHEST = 30


def runs_alike(flow: Flow, maker: int | None) -> bool:
    """Whether neighbouring rows are one row, repeated: that of a view, say, for all places of it."""
    moves: list[int] = []
    while maker is not None and flow.op(maker) in MOVES and flow.makers[maker]:
        moves.append(maker)
        maker = flow.makers[maker][0]
    if maker is None or flow.op(maker) not in REPEATS or not flow.steps[maker].inputs:
        return False
    given, made = flow.steps[maker].inputs[0].shape, flow.output(maker).shape
    if flow.op(maker) == "repeat_interleave":
        return any(1 < own < whole for own, whole in zip(given, made, strict=False))
    before, after = follow(flow, moves)
    given = (1,) * (len(made) - len(given)) + tuple(given)
    repeated = [piece for axis, own in zip(before, given, strict=False) if own == 1 for piece in axis]
    return len(after) > 1 and len(after[-2]) > 1 and after[-2][-1] in repeated


def looks_along(flow: Flow, node: int, axes: Collection[int]) -> bool | None:
    """Whether the attention to which what a step makes comes first looks along some axes of it; None if not known.

    One that makes one row of all looks along no places where it does so for more sequences than came in: then these
    are the places, and what it looks at are columns of each.
    """
    shape = flow.output(node).shape
    laid: Axes = [[Piece(size)] for size in shape]
    marked = [laid[axis][0] for axis in axes]
    sites = {site.scores: site for site in list_sites(flow)}
    here, left = node, FARTHEST
    while readers := [one for one in flow.leaf_readers(here) if one in sites or flow.leaf_readers(one)] if left else []:
        reader, left = min(readers), left - 1
        if reader in sites:
            parts = {part for piece in marked for part in piece.spread()}
            if all(parts.isdisjoint(spread_axis(laid[axis])) for axis in list_pairing(flow, reader, here)):
                return False
            queries, keys = count_pairs(flow, sites[reader])
            given = {one.shape[0] for one in flow.one_pass.arguments if one.source is None and one.shape}
            return not queries == 1 < keys or prod(shape[:-1]) // prod(shape[axis] for axis in axes) in given
        moved = carry_axes(flow, reader, here, laid)
        if moved is None:
            return None
        laid, here = moved, reader
    return None


def spread_axis(axis: Sequence[Piece]) -> list[Piece]:
    """The parts of an axis, as far as they were cut."""
    return [*chain.from_iterable(piece.spread() for piece in axis)]


def list_pairing(flow: Flow, product: int, maker: int) -> list[int]:
    """The axes of an operand that are no axes of the other, or are summed over: not those of sequences and heads."""
    first, second = operand_places(flow, product)
    number = first if flow.makers[product][first] == maker else second
    letters, count = read_equation(flow.steps[product]), len(flow.steps[product].inputs[number].shape)
    if letters is None or len(letters[number]) != count:
        return [count - 2, count - 1]
    shared = {*letters[0]} & {*letters[1]} & {*letters[2]}
    return [axis for axis, letter in enumerate(letters[number]) if letter not in shared]


def carry_axes(flow: Flow, node: int, maker: int, laid: Axes) -> Axes | None:
    """The axes of rows behind a step that moves them, or works on each alone; None where it may do anything else."""
    before, after = flow.output(maker).shape, flow.output(node).shape
    if flow.op(node) in MOVES:
        return move_axes(flow, node, laid)
    if before[1:] == after:  # one of several that lay side by side
        return laid[1:]
    is_each = len(before) == len(after) and before[:-1] == after[:-1]
    return [*laid[:-1], laid[-1] if before == after else [Piece(after[-1])]] if is_each else None
