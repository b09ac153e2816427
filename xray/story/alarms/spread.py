"""Heads laid out across places: what one place's heads found, spread over the rows of several places."""

from collections.abc import Iterator, Sequence

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, COPIES, PLACING
from xray.ir.turns import TURNED, read_turn
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.recognition.between import is_linear

PRODUCTS = frozenset({"matmul", "linalg_matmul"})
"""Their result has a row for each query, behind the axis of heads; an einsum may lay it otherwise."""
LAYINGS = frozenset({"view", "reshape"})
KEEPING = CASTING | COPIES
AS_THEY_LIE: tuple[int, ...] = (0, 1, 2, 3)
MOST_STEPS, MOST_BEHIND = 8, 200


def check_spread(flow: Flow, sites: Sequence[Site]) -> Iterator[Alarm]:
    """The alarm of each attention whose heads are joined while their places still lie behind them."""
    for site in sites:
        laying = find_laying(flow, site)
        if laying is not None:
            lying, (_, rows, _) = flow.steps[laying].inputs[0].shape, flow.output(laying).shape
            heads = lying[1]
            among = sorted({head * rows // heads for head in range(heads)})
            text = (
                f"What {heads} heads found lies as {lying}, the places behind the heads, and is laid out as "
                f"{flow.output(laying).shape} as it lies: what they found for the first place stands in {len(among)} "
                f"of the {rows} rows, from row 0 to row {among[-1]}."
            )
            yield alarm_at(flow.one_pass, flow.steps[laying], "spread", text)


def find_laying(flow: Flow, site: Site) -> int | None:
    """The step that makes rows for a linear layer of (batch, heads, places, d_v) as it lies; None if none does.

    Up to there the axes are turned at most, back and forth, and rows put among others in the order of their places, as
    where some queries alone ask (Informer).
    """
    found = flow.output(site.weighted_sum).shape
    asks = flow.op(site.weighted_sum) in PRODUCTS and len(found) == len(AS_THEY_LIE)
    if not asks or flow.output(site.scores).shape[:3] != found[:3]:
        return None
    todo = [(site.weighted_sum, AS_THEY_LIE)]
    for here, order in todo:
        for reader in flow.leaf_readers(here) if len(todo) <= MOST_STEPS else ():
            step = flow.steps[reader]
            given, turn = flow.output(here).shape, read_turn(step) if step.op in TURNED else None
            if turn is not None:
                todo.append((reader, tuple(order[axis] for axis in turn)))
            elif step.op in KEEPING or (step.op in PLACING and puts_in_places(flow, reader, here)):
                todo.append((reader, order))
            elif step.op in LAYINGS and order == AS_THEY_LIE and joins_across(flow, reader, given):
                return reader if cuts_rows(flow, site, given) else None
    return None


def puts_in_places(flow: Flow, node: int, rows: int) -> bool:
    """Whether a step puts rows among those of more places, heads and widths as they are."""
    (*first, _, width), (*others, _, wide) = flow.output(node).shape, flow.output(rows).shape
    return flow.makers[node][-1] == rows and (first, width) == (others, wide)


def joins_across(flow: Flow, node: int, given: tuple[int, ...]) -> bool:
    """Whether a step makes rows of (batch, heads, places, d_v), as many as there are places, for a linear layer."""
    batch, heads, places, d_v = given
    is_several = heads > 1 and places > 1
    to_rows = flow.output(node).shape == (batch, places, heads * d_v)
    return is_several and to_rows and any(is_linear(flow, reader) for reader in flow.leaf_readers(node))


def cuts_rows(flow: Flow, site: Site, given: tuple[int, ...]) -> bool:
    """Whether queries are rows of places cut into heads, which were turned before the places then."""
    start = next((maker for record, maker in flow.given(site.scores) if record == site.query.end), None)
    behind = flow.behind(start, most=MOST_BEHIND, ends=lambda node: is_linear(flow, node))
    for node in behind:
        turn = read_turn(flow.steps[node]) if flow.op(node) in TURNED else None
        if turn is not None and flow.output(node).shape[-3:-1] == given[1:3]:
            last = len(turn) - 1
            if (turn[-3], turn[-1]) == (last - 1, last) and turn[-2] < last - 1:
                return True
    return False
