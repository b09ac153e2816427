"""Rows of another tower that are added to a stream between its layers, where its image stands (Qwen3-VL)."""

from collections.abc import Collection, Iterator, Sequence
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
    return {number: way[-1] for number, way in list_ways(flow, layers, theirs)}


def list_ways(flow: Flow, layers: Sequence[Layer], theirs: Collection[int]) -> Iterator[tuple[int, list[int]]]:
    """The layers, from 0, behind which rows are added, with the steps that work these out, their source last."""
    for number, (one, following) in enumerate(pairwise(layers)):
        end, begun = end_of(one), following[0].joints[0].stream
        is_next = begun is None or begun <= end
        between = [] if is_next else [node for node in flow.behind(begun, most=MOST_BEHIND) if node > end]
        ways = (find_added(flow, node, end, theirs) for node in between)
        way = next((way for way in ways if way), None)
        if way is not None:
            yield number, way


def find_added(flow: Flow, node: int, end: int, theirs: Collection[int]) -> list[int]:
    """The way of rows that a step adds to some that only were moved since a layer, and last the sum that they begin at.

    Empty where they begin at no sum of another tower.
    """
    makers = flow.makers[node]
    if flow.op(node) not in SUMS or len(makers) != 2:
        return []
    own = [flow.carried_from(maker) == end for maker in makers]
    if own.count(True) != 1:
        return []
    behind = list(flow.behind(makers[own.index(False)], most=MOST_BEHIND, ends=lambda place: place in theirs))
    source = next((one for one in behind if one in theirs), None)
    return [] if source is None else [*(one for one in behind if one not in theirs), source]
