"""Rows that a layer works out of its stream and puts beside it before a sublayer, as a message to it (X-CLIP)."""

from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SIDE_BY_SIDE, SUMS
from xray.story.recognition.between import does_mix, find_region, strip_plain


@dataclass(frozen=True)
class AddedRows:
    """Rows beside a stream: `join` puts `count` behind or before those that `stream` made; `nodes` work them out.

    `left_off` is True where the rows that the sublayer's sum gives go on without so many of them.
    """

    join: int
    stream: int
    count: int
    nodes: frozenset[int]
    left_off: bool = False


def find_added_rows(flow: Flow, join: int | None) -> AddedRows | None:
    """The rows that a step puts beside a stream, if they were worked out of it; None if it does anything else.

    All rows of the stream go by: where some were taken out, changed, and put back, none stand beside it (VOLO).
    """
    if join is None or flow.op(join) not in SIDE_BY_SIDE or len(flow.makers[join]) != 2:
        return None
    rows = [(record.shape, maker) for record, maker in flow.given(join)]
    (few, aside), (many, before) = sorted(rows, key=lambda one: one[0][1:2])
    stream = strip_plain(flow, before)
    if stream is None or aside is None or len(many) != len(("batch", "row", "width")) or few[::2] != many[::2]:
        return None
    is_beside = few[1] < many[1] and prod(flow.output(stream).shape) == prod(many) and stream < aside
    region = find_region(flow, stream, aside) if is_beside else None
    if region is None or not does_mix(flow, region.inner):
        return None
    return AddedRows(join, stream, few[1], region.inner | {join}, leaves_off(flow, join, many[1]))


def leaves_off(flow: Flow, join: int, rows: int) -> bool:
    """Whether all that reads the sum to which joined rows are added takes no more than so many of them."""
    shape = flow.output(join).shape
    sums = (one for one in flow.readers.get(join, ()) if flow.op(one) in SUMS and flow.output(one).shape == shape)
    taken = [one for total in sums for one in flow.leaf_readers(total)]
    return bool(taken) and all(flow.op(one) in CARRYING and flow.output(one).shape[1:2] == (rows,) for one in taken)
