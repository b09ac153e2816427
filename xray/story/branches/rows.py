"""Rows of the batch: whether keys come from other rows than the queries that look at them, as in pairs of images."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, SHAPING, TURNS
from xray.ir.trace import Step
from xray.ir.turns import list_numbers
from xray.story.branches.operands import Side
from xray.story.recognition.between import Region
from xray.story.recognition.value_shapes import numbers

SWAPS = frozenset({"flip", "roll"})
PICKS = frozenset({"index", "select", "index_select", "narrow", "slice"})
LAYING_OUT = (SHAPING | CASTING) - TURNS - PICKS
"""They leave numbers in the order in which they lie, so that each row of the batch stays together."""
MOST_BEHIND = 400


def looks_at_another_row(flow: Flow, query: Side, key: Side, value: Side, region: Region) -> bool:
    """Whether keys and values are of rows of the batch that were swapped or picked as those of the queries were not."""
    asked, offered, said = (list_moves(flow, side, region) for side in (query, key, value))
    return bool((offered & said) - asked)


def list_moves(flow: Flow, side: Side, region: Region) -> set[int]:
    """The steps between the stream and an operand that swap or pick whole rows of the batch."""
    start = region.start
    if start is None:
        return set()
    behind = flow.behind(*side.nodes, most=MOST_BEHIND, within=lambda place: place > start)
    return {node for node in behind if moves_rows(flow, node, start)}


def moves_rows(flow: Flow, node: int, start: int) -> bool:
    """Whether a step swaps or picks whole rows of the stream, and nothing within any of them."""
    step, stream = flow.steps[node], flow.output(start).shape
    before = step.inputs[0].shape if step.inputs else ()
    if step.op not in SWAPS | PICKS or len(stream) < 3 or prod(before) != prod(stream) or not prod(stream):
        return False
    axes = list_swapped(flow, node) if step.op in SWAPS else list_picked(before, flow.output(node).shape)
    row = prod(stream[1:])
    return (
        bool(axes)
        and all(before[axis] > 1 and prod(before[axis + 1 :]) % row == 0 for axis in axes)
        and lies_as(flow, node, start)
    )


def list_swapped(flow: Flow, node: int) -> list[int]:
    """The axes that a step flips or rolls, counted from 0."""
    step, rank = flow.steps[node], len(flow.output(node).shape)
    return list_rolled(step) if step.op == "roll" else [number % rank for number in list_numbers(step)]


def list_rolled(step: Step) -> list[int]:
    """The axes that a step rolls, counted from 0; none where it rolls all numbers as one row."""
    rank = len(step.outputs[0].shape)
    return [one % rank for one in numbers(step, "dims")]


def list_picked(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    """The axes of which a step may have taken one place, or a few."""
    if len(after) == len(before):
        return [axis for axis, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    return [axis for axis in range(len(before)) if before[:axis] + before[axis + 1 :] == after]


def lies_as(flow: Flow, node: int, start: int) -> bool:
    """Whether what a step reads lies as the stream does, be it with other axes."""
    here = flow.makers[node][0]
    while here is not None and here > start and flow.op(here) in LAYING_OUT:
        here = flow.makers[here][0]
    return here == start
