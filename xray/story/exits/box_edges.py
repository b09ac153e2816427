"""The edges of boxes at the end of a model: half of the size of each is taken off its middle, and added to it."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIFFERENCES, SUMS
from xray.story.branches.caps import read_factor

EDGES = "EDGES OF BOXES: ± HALF THEIR SIZE"
SIDES = 4


def find_edges(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The steps that make edges of boxes, by the one that lays these side by side, where its parts are among `nodes`.

    The first two are a number of each box less half of another one, the last two the same and that half more.
    """
    found: dict[int, tuple[int, ...]] = {}
    stacks = {one for node in nodes for one in flow.readers.get(node, ()) if flow.op(one) == "stack"}
    for stack in sorted(stacks):
        parts = [part for part in flow.makers[stack] if part is not None and part in nodes]
        kinds = [flow.op(part) for part in parts]
        if len(kinds) != SIDES or len(flow.makers[stack]) != SIDES:
            continue
        halves = [half for part in parts for half in flow.makers[part] if half is not None and is_half(flow, half)]
        whole = {maker for part in parts for maker in flow.makers[part]} - {*halves}
        whole |= {flow.makers[half][0] for half in halves}
        less, more = kinds[: SIDES // 2], kinds[SIDES // 2 :]
        is_both = all(one in DIFFERENCES for one in less) and all(one in SUMS for one in more)
        cut = whole.pop() if len(whole) == 1 else None
        is_cut = cut is not None and len(flow.steps[cut].outputs) == SIDES
        if is_both and is_cut and len({*halves}) in (SIDES // 2, SIDES) and len(halves) == SIDES:
            found[stack] = tuple(sorted({stack, *parts, *halves}))
    return found


def is_half(flow: Flow, node: int) -> bool:
    """Whether a step gives half of what it is given."""
    return read_factor(flow, node) == 0.5
