"""Rows of another tower that are added to a stream between its layers, where its image stands (Qwen3-VL)."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.body.layers import Layer
from xray.story.passages.bridges import end_of

MOST_BEHIND = 60


def list_added_between(flow: Flow, layers: Sequence[Layer], theirs: Collection[int]) -> dict[int, int]:
    """The layers, from 0, behind which rows are added, each with the one of `theirs` that these are made of.

    `theirs` are the sums of other towers.
    """
    found: dict[int, int] = {}
    for number, (one, following) in enumerate(pairwise(layers)):
        end, begun = end_of(one), following[0].joints[0].stream
        is_next = begun is None or begun <= end
        between = [] if is_next else [node for node in flow.behind(begun, most=MOST_BEHIND) if node > end]
        sources = (find_added(flow, node, end, theirs) for node in between)
        source = next((source for source in sources if source is not None), None)
        found |= {} if source is None else {number: source}
    return found


def find_added(flow: Flow, node: int, end: int, theirs: Collection[int]) -> int | None:
    """The sum of another tower of which rows are made that a step adds to some that only were moved since a layer."""
    makers = flow.makers[node]
    if flow.op(node) not in SUMS or len(makers) != 2:
        return None
    own = [flow.carried_from(maker) == end for maker in makers]
    if own.count(True) != 1:
        return None
    behind = flow.behind(makers[own.index(False)], most=MOST_BEHIND, ends=lambda place: place in theirs)
    return next((one for one in behind if one in theirs), None)
