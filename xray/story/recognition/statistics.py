"""Means and spreads by which norms scale: which steps work them out, and what they are of."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    SCALINGS,
    STATISTICS,
)
from xray.ir.flow.remembering import once_each
from xray.ir.records import TensorRecord
from xray.story.recognition.lengths import multiplies_itself

RUNNING = frozenset({"cumsum"})
BENT = frozenset({"pow", "square", "abs"})
"""What is done to rows before their mean tells how far they spread."""
LONGEST = 12
MAP, SIGNAL = len(("batch", "channels", "height", "width")), len(("batch", "channels", "place"))


def tells_of(flow: Flow, origin: int | None, statistics: Collection[int]) -> bool:
    """Whether statistics are of what they scale, and not of what a linear layer has made that of (HY V4's last mixing).

    It may have been multiplied before, by the length that it is brought to (Gemma 3n).
    """
    begun = flow.carried_from(origin)
    if begun is None:
        return True
    read = {here for one in statistics for here in (one, *flow.behind(*flow.makers[one], most=LONGEST))}
    roots = {begun, *map(flow.carried_from, flow.makers[begun])} if flow.op(begun) in SCALINGS else {begun}
    return not read.isdisjoint(roots)


def has_statistics(flow: Flow, place: int) -> bool:
    """Whether a mean or a spread is among the steps that work something out."""
    return any(is_measure(flow, one) for one in collect_statistics(flow, place))


def is_of_weights(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is a parameter, or worked out of parameters alone, in a few steps."""
    return record.role == "parameter" if maker is None else comes_of_weights(flow, maker)


@once_each
def comes_of_weights(flow: Flow, maker: int) -> bool:
    """Whether what a step makes is worked out of parameters alone, in a few steps.

    Of what such steps take the shape or the type alone may be data: a weight that is cast to the type of rows.
    """
    behind, roots = [maker], set[str]()
    for node in behind:
        for record, before in flow.taken(node):
            if before is None:
                roots.add(record.role)
            elif before not in behind:
                behind.append(before)
        if len(behind) >= LONGEST:
            return False
    return roots == {"parameter"}


def is_side(flow: Flow, place: int, number: int, width: tuple[int, ...]) -> bool:
    """Whether an operand is learned or a statistic: one number for each place, or the same row everywhere."""
    record = flow.steps[place].inputs[number]
    if len(record.shape) <= 1:
        return record.shape in ((), (1,), width)
    is_row = record.shape[-1:] == width and set(record.shape[:-1]) == {1}
    return (
        (record.shape[-1] == 1 and not tells_of_maps(flow, place, number))
        or is_row
        or is_of_places(flow, place, number)
    )


def tells_of_maps(flow: Flow, place: int, number: int) -> bool:
    """Whether an operand is a mean or a spread of each whole map of a picture, as in an instance norm."""
    shape, made = flow.steps[place].inputs[number].shape, flow.output(place).shape
    maker = flow.makers[place][number]
    if len(made) < MAP or maker is None or set(made[2:]) == {1} or shape != (*made[:2], *(1 for _ in made[2:])):
        return False
    found = collect_statistics(flow, maker)
    return any(is_measure(flow, one) for one in found) and not any(flow.op(one) in RUNNING for one in found)


def is_of_places(flow: Flow, place: int, number: int) -> bool:
    """Whether an operand has one number for each place: of rows, or of a map, whose channels are its second axis."""
    shape, made = flow.steps[place].inputs[number].shape, flow.output(place).shape
    if len(shape) > 1 and shape == (*made[:-1], 1):
        return True
    return len(made) >= SIGNAL and shape == (made[0], 1, *made[2:]) and (len(made) >= MAP or weighs_first(flow, place))


def weighs_first(flow: Flow, place: int) -> bool:
    """Whether rows are multiplied by learned numbers along their second axis, a few steps on: channels lie there."""
    shape, here = flow.output(place).shape, place
    for _ in range(SIGNAL):
        given = flow.given(here)
        laid = (1, shape[1], 1)
        if any(one.shape in (laid, laid[1:]) and is_of_weights(flow, one, maker) for one, maker in given):
            return True
        readers = [one for one in flow.leaf_readers(here) if flow.op(one) in SCALINGS]
        if len(readers) != 1 or flow.output(readers[0]).shape != shape:
            return False
        here = readers[0]
    return False


def weighs_places(flow: Flow, place: int, number: int) -> bool:
    """Whether an operand has numbers for places, and is not learned, be they the same in every head (Inkling 2)."""
    shape, maker = flow.steps[place].inputs[number].shape, flow.makers[place][number]
    if is_of_places(flow, place, number):
        return True
    return shape[-1:] == (1,) and prod(shape) > 1 and not is_of_weights(flow, flow.steps[place].inputs[number], maker)


def is_measure(flow: Flow, place: int) -> bool:
    """Whether a step tells of many numbers at once: a mean, a spread, or the sums of all places so far."""
    summed = next(iter(flow.makers[place]), None) if flow.op(place) in RUNNING else None
    return flow.op(place) in STATISTICS or (summed is not None and flow.op(summed) == "sum")


def collect_statistics(flow: Flow, place: int) -> set[int]:
    """The steps that work out a mean or a spread, back to where they read the whole."""
    found: set[int] = set()
    todo = [place]
    while todo and len(found) < LONGEST:
        here = todo.pop()
        if here in found or not flow.steps[here].outputs:
            continue
        found.add(here)
        step = flow.steps[here]
        if is_measure(flow, here):
            squared = next(iter(flow.makers[here]), None)
            if step.op in RUNNING and squared is not None:
                found.add(squared)
                squared = next(iter(flow.makers[squared]), None)
            if squared is not None and (flow.op(squared) in BENT or multiplies_itself(flow, squared)):
                found.add(squared)
            continue
        if step.op != "sum":  # what adds up squares for a length may read a mean of rows, which is no statistic of them
            todo += [maker for maker in flow.makers[here] if maker is not None]
    return found
