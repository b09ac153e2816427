"""Axes that were cut into pieces and put together again: what rotary places do to the width of a head."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xray.capture.axes.groups import Groups
from xray.capture.axes.joins import ELEMENTWISE, VIEWS, Tensors
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.ir.trace import Pass, Step
from xray.ir.turns import TURNED

CUTTING = frozenset({"chunk", "split", "tensor_split", "split_with_sizes"})
PASSED = (
    ELEMENTWISE | VIEWS | TURNED | SIDE_BY_SIDE | CUTTING | {"stack", "unbind", "select", "index", "repeat_interleave"}
)
"""What may be done to a piece on its way, its numbers turned or scaled, but not made anew."""
MOST_BEHIND = 24


@dataclass(frozen=True)
class Piece:
    """A part of an axis: that axis, from where to where, and the axis that the part became."""

    whole: int
    start: int
    stop: int
    axis: int


def join_cut_axes(one_pass: Pass, at: dict[str, Tensors], groups: Groups) -> None:
    """Join each axis that was cut into pieces with the one as which all of them, in order, lie side by side again."""
    pieces = {step.id: list(list_pieces(step, at[step.id])) for step in one_pass.steps}
    for step in one_pass.steps:
        dim = step.settings.get("dim", 0)
        if step.op not in SIDE_BY_SIDE or len(step.inputs) < 2 or not isinstance(dim, int):
            continue
        rank = len(step.outputs[0].shape) if step.outputs else 0
        if rank == 0 or any(len(record.shape) != rank for record in step.inputs):
            continue
        given = [first + dim % rank for first in at[step.id].ins]
        behind = [find_pieces(one_pass, record.source, pieces) for record in step.inputs]
        whole = find_whole(behind, given, groups)
        if whole is not None:
            groups.join(whole, at[step.id].outs[0] + dim % rank)


def list_pieces(step: Step, at: Tensors) -> Iterator[Piece]:
    """The pieces into which a step cuts an axis, or the one that it takes of it."""
    if not step.inputs or not step.outputs:
        return
    before, rank = step.inputs[0].shape, len(step.inputs[0].shape)
    if step.op in CUTTING:
        alike = all(len(record.shape) == rank for record in step.outputs)
        cut = [axis for axis in range(rank) if alike and step.outputs[0].shape[axis] < before[axis]]
        sizes = [record.shape[cut[0]] for record in step.outputs] if len(cut) == 1 else []
        if sizes and sum(sizes) == before[cut[0]]:
            stops = list(accumulate(sizes))
            for number, (size, stop) in enumerate(zip(sizes, stops, strict=True)):
                yield Piece(at.ins[0] + cut[0], stop - size, stop, at.outs[number] + cut[0])
    elif step.op == "index":
        marks = [mark.strip() for mark in str(step.settings.get("index", "")).split(",")]
        is_rest = set(marks[:-1]) <= {":", "..."} and (len(marks) == rank or "..." in marks[:-1])
        ends = read_slice(marks[-1], before[-1]) if is_rest and rank else None
        if ends is not None:
            yield Piece(at.ins[0] + rank - 1, *ends, at.outs[0] + rank - 1)


def read_slice(mark: str, size: int) -> tuple[int, int] | None:
    """From where to where a mark as `:24` takes of an axis; every other number, `1::2`, counts as a half of its own."""
    ends = mark.split(":")
    if len(ends) not in (2, 3) or any(end and not end.lstrip("-").isdecimal() for end in ends):
        return None
    start, stop, step = slice(*(int(end) if end else None for end in ends)).indices(size)
    if step == 1:
        return start, stop
    is_whole = step > 1 and start < step and stop == size and size % step == 0
    return (start * size // step, (start + 1) * size // step) if is_whole else None


def find_pieces(one_pass: Pass, source: str | None, pieces: dict[str, list[Piece]]) -> list[Piece]:
    """The pieces that a tensor was made of, by steps that turn or scale them at most."""
    found: list[Piece] = []
    todo, seen = [source], {source}
    while todo and len(seen) < MOST_BEHIND:
        step = one_pass.by_id.get(todo.pop(0) or "")
        if step is None:
            continue
        found += pieces[step.id]
        if step.op in PASSED and not step.module:
            makers = [record.source for record in step.inputs if record.source not in seen]
            todo += makers
            seen.update(makers)
    return found


def find_whole(behind: Sequence[Sequence[Piece]], given: Sequence[int], groups: Groups) -> int | None:
    """The axis of which each of several tensors holds the next piece, from its beginning to its end."""
    for first in behind[0]:
        here = 0
        for pieces, axis in zip(behind, given, strict=True):
            ends = (
                piece.stop
                for piece in pieces
                if groups.find(piece.whole) == groups.find(first.whole)
                and piece.start == here
                and is_alike(groups, piece.axis, axis)
            )
            here = next(ends, -1)
            if here < 0:
                break
        if here == groups.size(first.whole):
            return first.whole
    return None


def is_alike(groups: Groups, one: int, other: int) -> bool:
    """Whether two axes are the same, or hold the same ones in another order."""
    if groups.size(one) != groups.size(other):
        return False
    parts = [sorted(map(groups.find, groups.parts(axis))) for axis in (one, other)]
    return groups.find(one) == groups.find(other) or (bool(parts[0]) and parts[0] == parts[1])
