"""Rows that are divided by their own lengths, so that all are one long."""

from collections.abc import Collection, Iterator

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, LENGTHS, SUMS, TIMES
from xray.story.recognition.values.value_shapes import number

BY_LENGTH = "÷ ITS LENGTH"
ITS_LENGTH = f"EACH ROW {BY_LENGTH}"
BY_SIZES = "÷ THE SUM OF SIZES"
"""What divides by the sum of absolute values does."""
NEXT_TO_NOTHING = 1e-3
ROOTS = LENGTHS | {"sqrt"}
KEEPING = CARRYING | {"clamp", "clamp_min", "clamp_min_"}


def divides_by_length(flow: Flow, node: int) -> bool:
    """Whether a step divides every row of something by its length."""
    return any(
        found[-1] == node
        for maker in flow.makers[node][:1]
        if maker is not None
        for found in list_unit_lengths(flow, maker)
    )


def list_unit_lengths(flow: Flow, origin: int) -> Iterator[list[int]]:
    """The steps by which rows are divided by their own lengths, in order: the last of them divides."""
    for end in flow.readers.get(origin, ()):
        makers = flow.makers[end]
        if flow.op(end) == "normalize" and is_of_squares(flow, end) and is_of_rows(flow, end):
            yield [end]
        elif flow.op(end) in DIVISIONS and len(makers) == 2 and makers[0] == origin:
            way = walk_length(flow, makers[1], origin)
            if way:
                yield [*way[::-1], end]
        elif flow.op(end) in TIMES and len(makers) == 2 and makers[0] != makers[1]:
            way = walk_length(flow, next(maker for maker in makers if maker != origin), origin, roots=("rsqrt",))
            if way:
                yield [*way[::-1], end]


def walk_length(flow: Flow, here: int | None, origin: int, roots: Collection[str] = ROOTS) -> list[int]:
    """The steps that work out how long each row is, the last first; none where it is not proven.

    `roots` are the operations that may end it: one divided by a root is worked out in one step too.
    """
    way: list[int] = []
    while here is not None and here != origin and here > origin:
        way.append(here)
        here = flow.makers[here][0] if flow.makers[here] else None
    ops = [flow.op(node) for node in way if flow.op(node) not in KEEPING and not adds_next_to_nothing(flow, node)]
    powers = [number(flow.steps[node]) for node in way if flow.op(node) == "pow"]
    is_length = len(ops) == 1 and ops[0] in LENGTHS & {*roots} and all(is_of_squares(flow, node) for node in way)
    is_root = ops[1:2] == ["sum"] and (ops[0] in {*roots} - LENGTHS or ("sqrt" in roots and powers[:1] == [0.5]))
    is_square = len(ops) == 3 and (ops[2] == "square" or powers[-1:] == [2] or multiplies_itself(flow, way[-1]))
    sums = [node for node in way if flow.op(node) == "sum" or flow.op(node) in LENGTHS]
    proven = here == origin and (is_length or (is_root and is_square)) and all(is_of_rows(flow, node) for node in sums)
    return way if proven else []


def adds_next_to_nothing(flow: Flow, node: int) -> bool:
    """Whether a step adds one number so small that it but keeps others from dividing by nothing."""
    added = number(flow.steps[node])
    return (
        flow.op(node) in SUMS
        and len(flow.steps[node].inputs) == 1
        and added is not None
        and abs(added) < NEXT_TO_NOTHING
    )


def multiplies_itself(flow: Flow, node: int) -> bool:
    """Whether a step multiplies something by itself."""
    return flow.op(node) == "mul" and len(flow.makers[node]) == 2 and len(set(flow.makers[node])) == 1


def is_of_squares(flow: Flow, node: int) -> bool:
    """Whether a step works out a root of squares, as a length is one, and no other norm of numbers."""
    return all(number(flow.steps[node], name) in (None, 2) for name in ("p", "ord"))


def is_of_rows(flow: Flow, node: int) -> bool:
    """Whether a step works along the last axis alone."""
    step = flow.steps[node]
    names = ("dim", "axis", "arg2" if step.op == "topk" else "other")
    unsaid = {"normalize": 1, "topk": -1, "sort": -1}.get(step.op)
    told = next((step.settings[name] for name in names if name in step.settings), unsaid)
    return str(told) in ("-1", str(len(step.inputs[0].shape) - 1))


def takes_highest(flow: Flow, node: int) -> bool:
    """Whether a step that takes some numbers of many takes the highest of them, and not the lowest."""
    settings = flow.steps[node].settings
    return settings.get("largest", settings.get("arg3", True)) is True
