"""The edges of boxes at the end of a model: half of the size of each is taken off its middle, and added to it."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIFFERENCES, SUMS
from xray.story.branches.scored.caps import read_factor

EDGES = "EDGES OF BOXES: ± HALF THEIR SIZE"
SIDES = 4


def find_edges(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The steps that make edges of boxes, by the one that lays these side by side, where its parts are among `nodes`.

    The first two are a number of each box less half of another one, the last two the same and that half more. Where two
    halves serve two edges each, these are those of one axis; a recording does not tell which number of a cut is read.
    """
    found: dict[int, tuple[int, ...]] = {}
    stacks = {one for node in nodes for one in flow.readers.get(node, ()) if flow.op(one) == "stack"}
    for stack in sorted(stacks):
        parts = [part for part in flow.makers[stack] if part is not None and part in nodes]
        if len(parts) != SIDES or len(flow.makers[stack]) != SIDES:
            continue
        less, more = parts[: SIDES // 2], parts[SIDES // 2 :]
        is_both = all(flow.op(one) in DIFFERENCES for one in less) and all(flow.op(one) in SUMS for one in more)
        halves = [half for part in parts if (half := find_half(flow, part)) is not None]
        if not is_both or len(halves) != SIDES or not are_paired(halves):
            continue
        whole = {maker for part in parts for maker in flow.makers[part]} - {*halves}
        whole |= {flow.makers[half][0] for half in halves}
        cut = whole.pop() if len(whole) == 1 else None
        if cut is not None and len(flow.steps[cut].outputs) == SIDES:
            found[stack] = tuple(sorted({stack, *parts, *halves}))
    return found


def find_half(flow: Flow, part: int) -> int | None:
    """The half that a step adds to a number or takes off it; None where it takes a number off a half."""
    makers = flow.makers[part]
    halves = [place for place, maker in enumerate(makers) if maker is not None and read_factor(flow, maker) == 0.5]
    is_one = len(makers) == 2 and len(halves) == 1 and (flow.op(part) in SUMS or halves == [1])
    return makers[halves[0]] if is_one else None


def are_paired(halves: Sequence[int]) -> bool:
    """Whether the last two of four halves are the first two in the same order, or each was worked out anew."""
    less, more = halves[: SIDES // 2], halves[SIDES // 2 :]
    return len({*halves}) == SIDES or (len({*halves}) == SIDES // 2 and less == more)
