"""Rows beside a stream between two of its layers: learned ones, what it began with, or made of former rows (GroupViT).

They are put to those of the stream, or left behind by it for later layers to look at.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.story.streams.rejoined_rows import takes_rows_alone


@dataclass(frozen=True)
class RowsBeside:
    """Rows put beside a stream: `join` puts `count` to those of the stream, `nodes` make them, the last is the `end`.

    `source` takes the former rows of which they are made; None where they are made of learned numbers alone, and where
    they have `begun` the stream: it was made of what the `end` gives (OneFormer's task). So where the `end` took them
    out of what an earlier layer gave, the step `left_by`, and the stream went on without (CrossViT). Rows lie along the
    `axis`.
    """

    join: int
    count: int
    nodes: frozenset[int]
    end: int
    source: int | None = None
    begun: bool = False
    axis: int = 1
    left_by: int | None = None


def find_rows_beside(
    flow: Flow, before: int, join: int, sums: Collection[int], start: int | None, ends: Collection[int] = ()
) -> RowsBeside | None:
    """The rows that a step puts to all that a layer ended with, where learned numbers take part; None for any other.

    They are made of no data but rows of the same stream, as an earlier one of its `sums` gave them. Others are what a
    step gave of which the `start` of the stream was made, or were left out of what earlier layers ended with, `ends`.
    """
    given = list(flow.given(join)) if flow.op(join) in SIDE_BY_SIDE else []
    whole, made = flow.output(before).shape, flow.output(join)
    if len(given) != 2 or len(made.shape) != len(("batch", "row", "width")):
        return None
    own = [flow.carried_from(maker) == before and record.shape == whole for record, maker in given]
    rows, maker = given[own.index(False)] if own.count(True) == 1 else given[0]
    axis = 0 if made.axes[1] == "batch" else 1
    if own.count(True) != 1 or maker is None or not lie_end_to_end(axis, rows.shape, whole, made.shape):
        return None
    former = flow.carried_from(maker)
    if former is not None and former < before and start is not None and former in flow.behind(start):
        return RowsBeside(join, rows.shape[axis], frozenset(), former, begun=True, axis=axis)
    if takes_rows_alone(flow, maker) and (left_by := flow.makers[maker][0]) in ends:
        return RowsBeside(join, rows.shape[axis], frozenset(), maker, axis=axis, left_by=left_by)
    nodes = frozenset(flow.behind(maker, within=lambda node: node > before))
    sources = {one for node in nodes for one in flow.makers[node] if one is not None and one not in nodes}
    is_learned = any(flow.steps[node].is_learned for node in nodes)
    is_former = all(flow.carried_from(one) != before and flow.carried_from(one) in sums for one in sources)
    if not is_learned or not is_former or len(sources) > 1:
        return None
    return RowsBeside(join, rows.shape[axis], nodes, maker, next(iter(sources), None), axis=axis)


def lie_end_to_end(axis: int, rows: Sequence[int], whole: Sequence[int], made: Sequence[int]) -> bool:
    """Whether a tensor is as long along an axis as two others together, and as large as each along all others."""
    alike = all((*one[:axis], *one[axis + 1 :]) == (*made[:axis], *made[axis + 1 :]) for one in (rows, whole))
    return alike and rows[axis] + whole[axis] == made[axis]


def list_left_behind(
    flow: Flow, before: int, start: int, apart: Collection[int], layer: Collection[int]
) -> frozenset[int]:
    """The steps that work out rows for the steps of a `layer` while the stream goes on with others: norms of keys.

    They run between what one layer ends with and the `start` of the next, and read the former alone. `apart` are those
    of the stream's own way. Empty where learned numbers take no part.
    """
    made = {node for node in flow.ahead(before, within=lambda node: node < start) if flow.is_leaf(node)}
    free = {node for node in made if before < node and node not in apart}
    read = {maker for node in layer for maker in flow.makers[node] if maker is not None}
    ways = frozenset(flow.behind(*(read & free), within=free.__contains__))
    outside = {maker for node in ways for maker in flow.makers[node] if maker not in ways}
    is_learned = any(flow.steps[node].params for node in ways)
    return ways if is_learned and outside <= {before} else frozenset()
