"""Rows of another tower that are added to a stream between its layers, where its image stands (Qwen3-VL)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.body.layers import Layer
from xray.story.passages.bridges import end_of
from xray.story.recognition.between import is_linear

MOST_BEHIND = 60


@dataclass(frozen=True)
class RowsBetween:
    """Rows that are added behind a layer, from 0: the steps that work them out, of what, and the steps that add them.

    `source` is the sum of another tower that they begin at, `end` what the next layer reads; `of` is what that tower is
    called, and `behind` the one of its layers that the sum ends, if it ends one. `given` is what they read of it: that
    sum, or what a norm behind it gives (BridgeTower's text).
    """

    layer: int
    nodes: tuple[int, ...]
    source: int
    given: int
    add: int
    end: int
    of: str = ""
    behind: int | None = None


def list_added_rows(flow: Flow, layers: Sequence[Layer], theirs: Collection[int]) -> Iterator[RowsBetween]:
    """The rows that are added behind layers, and made of some of `theirs`."""
    for number, (one, following) in enumerate(pairwise(layers)):
        end, begun = end_of(one), following[0].joints[0].stream
        if begun is None or begun <= end:
            continue
        between = [node for node in flow.behind(begun, most=MOST_BEHIND) if node > end]
        ways = ((node, find_added(flow, node, end, theirs)) for node in between)
        add, way = next(((node, way) for node, way in ways if way), (end, []))
        if way:
            yield RowsBetween(number, tuple(sorted(way[:-1])), way[-1], way[-1], add, begun)


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


def is_worked_out(flow: Flow, rows: RowsBetween) -> bool:
    """Whether rows go through a linear layer of their own before they are added."""
    return any(is_linear(flow, node) for node in rows.nodes)
