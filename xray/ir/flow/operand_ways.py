"""The way of queries, keys or values: from the projection that made them to the product that reads them."""

from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import BARRIERS, CARRYING
from xray.ir.flow.projections import data_input, is_product, is_projection
from xray.ir.records import TensorRecord

MOST_NODES = 64
"""A way with more steps than this is not followed to its end."""


@dataclass(frozen=True)
class Way:
    """The steps from a projection, first, to the operand of a product; without a projection what leads there.

    `origin` is the step that made what the projection reads, moves and casts left out, `entry` that tensor as the
    projection reads it, `end` the operand itself. `is_foreign` says that something joined it from outside this pass.
    """

    projection: int | None
    nodes: tuple[int, ...]
    origin: int | None
    entry: TensorRecord | None
    end: TensorRecord
    is_foreign: bool


def find_way(flow: Flow, reader: int, number: int) -> Way:
    """The way that ends at an input of a step."""
    end = flow.steps[reader].inputs[number]
    start = flow.makers[reader][number]
    if start is None:
        return Way(None, (), None, end, end, is_foreign=True)
    slice_ = trace_back(flow, start)
    projections = [node for node in slice_ if is_projection(flow, node)]
    if len(projections) == 1:
        entry, origin = read_entry(flow, projections[0])
        foreign = any(
            maker is None and record.role != "parameter" and len(record.shape) == len(end.shape)
            for node in slice_
            if node != projections[0]
            for record, maker in flow.given(node)
        )
        return Way(projections[0], tuple(slice_), origin, entry, end, is_foreign=foreign)
    nodes = carrying_tail(flow, start)
    first = flow.makers[nodes[0]][0] if nodes else start
    entry = flow.steps[nodes[0]].inputs[0] if nodes else end
    foreign = first is None
    return Way(None, tuple(nodes), first, entry, end, is_foreign=foreign)


def trace_back(flow: Flow, start: int) -> list[int]:
    """The steps behind one, back to projections, as far as they lead to one; in order."""
    leads: dict[int, bool] = {}

    def follow(place: int) -> bool:
        if place in leads:
            return leads[place]
        leads[place] = False
        if len(leads) > MOST_NODES:
            return False
        if is_projection(flow, place):
            leads[place] = True
            return True
        if flow.op(place) in BARRIERS or is_product(flow, place):
            return False
        found = [follow(maker) for maker in flow.makers[place] if maker is not None]
        leads[place] = any(found)
        return leads[place]

    follow(start)
    return sorted(place for place, is_on_way in leads.items() if is_on_way)


def carrying_tail(flow: Flow, here: int | None, ops: frozenset[str] = CARRYING) -> list[int]:
    """The moves and casts that end at a step, or what else only some operations do."""
    nodes: list[int] = []
    while here is not None and flow.op(here) in ops and flow.makers[here]:
        nodes.append(here)
        here = flow.makers[here][0]
    return nodes[::-1]


def read_entry(flow: Flow, projection: int) -> tuple[TensorRecord | None, int | None]:
    """What a projection reads, and the step that really made it."""
    number = data_input(flow, projection)
    if number is None:
        return None, None
    record, maker = flow.steps[projection].inputs[number], flow.makers[projection][number]
    while (before := flow.before_move(maker, CARRYING)) is not None:
        record, maker = before
    return record, maker
