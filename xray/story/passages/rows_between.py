"""Rows of another tower that are added to a stream between its layers, where its image stands (Qwen3-VL)."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.body.layers import Layer

MOST_BEHIND = 60


def list_added_between(flow: Flow, layers: Sequence[Layer], theirs: Collection[int]) -> tuple[int, ...]:
    """The layers, from 0, behind which rows are added that are made of `theirs`, the sums of other towers."""
    found: list[int] = []
    for number, (one, following) in enumerate(pairwise(layers)):
        end, begun = one[-1].joints[-1].add, following[0].joints[0].stream
        is_next = begun is None or begun <= end
        between = [] if is_next else [node for node in flow.behind(begun, most=MOST_BEHIND) if node > end]
        if any(adds_rows(flow, node, end, theirs) for node in between):
            found.append(number)
    return tuple(found)


def adds_rows(flow: Flow, node: int, end: int, theirs: Collection[int]) -> bool:
    """Whether a step adds rows of another tower to some that only were moved since a layer ended."""
    makers = flow.makers[node]
    if flow.op(node) not in SUMS or len(makers) != 2:
        return False
    own = [flow.carried_from(maker) == end for maker in makers]
    if own.count(True) != 1:
        return False
    behind = flow.behind(makers[own.index(False)], most=MOST_BEHIND, ends=lambda place: place in theirs)
    return any(one in theirs for one in behind)
