"""Whether places are added to queries and keys by an attention itself, beside what the entrance adds (DETR)."""

from collections.abc import Iterator
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE, SUMS
from xray.ir.records import TensorRecord
from xray.story.branches.operands.sides import Side, list_normed
from xray.story.passages.added_places import describe_sum, learned_source
from xray.story.recognition.between import Region, width_out


def adds_places(flow: Flow, query: Side, key: Side, region: Region) -> bool | None:
    """Whether places are added to queries and to keys; None where it is so of one of them, or is not proven."""
    found = {takes_places(flow, side, region) for side in (query, key)}
    return found.pop() if len(found) == 1 else None


def takes_places(flow: Flow, side: Side, region: Region) -> bool | None:
    """Whether places are added to an operand; None where rows from beside its branch are, and nobody knows which."""
    steps = list(list_additions(flow, side, region))
    is_told = any(next(describe_sum(flow, node, (), region.start), None) for node in steps)
    return is_told or (None if steps else False)


def list_additions(flow: Flow, side: Side, region: Region) -> Iterator[int]:
    """The steps that add rows from beside its branch to an operand, or lay them beside the numbers of its heads."""
    stream = region.inner if region.start is None else region.inner | {region.start}
    for node in side.nodes - list_normed(flow, side):
        given = [(record, maker) for record, maker in flow.given(node) if differs_by_place(flow, record, node)]
        is_behind = bool(side.projections) and node > side.projections[0]
        if len(given) < 2 or flow.op(node) not in SUMS | SIDE_BY_SIDE:
            continue
        if flow.op(node) in SIDE_BY_SIDE and not (is_behind and flow.output(node).shape[-1] > given[0][0].shape[-1]):
            continue
        if is_behind and any(is_one_row(flow, side, *one) for one in given):
            continue
        if not side.is_own or any(maker not in stream for _, maker in given):
            yield node


def differs_by_place(flow: Flow, record: TensorRecord, node: int) -> bool:
    """Whether what a step takes in has rows of its own for places, and not one for all of them, as a shift has."""
    made = flow.output(node)
    if min(len(record.shape), len(made.shape)) < 2 or prod(record.shape[:-1]) == 1:
        return False
    return record.shape[-2] > 1 or made.shape[-2] == 1 or made.axes[-2] == "batch"


def is_one_row(flow: Flow, side: Side, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is one learned row, be it cut into heads: a bias of a linear layer, or of queries (XLNet)."""
    learned = learned_source(flow, record, maker)
    return learned is not None and prod(learned.shape) in {width_out(flow, node) for node in side.projections}
