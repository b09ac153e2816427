"""Rows that were picked of a stream, worked on, and put back where they were: the stream goes on behind that."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, PLACING
from xray.ir.kinds import is_in_place

PICKS = frozenset({"index", "masked_select", "index_select"})
PUTS = PLACING | {"masked_scatter", "masked_scatter_"}


def list_put_back(flow: Flow, end: int) -> tuple[int, ...]:
    """The steps behind one that put rows back, first what it made, then other rows of the same stream (Higgs Audio)."""
    found = [end]
    while len(found) == 1 or found[-1] != found[-2]:
        here = found[-1]
        found.append(next((one for one in flow.readers.get(here, ()) if puts_back(flow, one, here)), here))
    return tuple(found[1:-1])


def find_put_back(flow: Flow, made: int) -> int | None:
    """The step that puts the rows that one made back into the stream they were picked of; None where there is none."""
    puts = (one for one in flow.readers.get(made, ()) if puts_back(flow, one, made) and flow.makers[one][0] != made)
    return next(puts, None)


def puts_back(flow: Flow, place: int, made: int) -> bool:
    """Whether a step puts rows where they were picked: what a step made, or what was worked out of rows of that."""
    makers = flow.makers[place]
    if flow.op(place) not in PUTS or not flow.is_leaf(place) or len(makers) < len(("stream", "rows")):
        return False
    stream, rows = makers[0], makers[-1]
    if stream is None or rows is None or (made not in (stream, flow.carried_from(rows, CARRYING))):
        return False
    behind = flow.behind(rows, within=lambda one: one > stream)
    return any(flow.op(one) in PICKS and flow.makers[one][0] == stream for one in behind)


def find_changed_in_place(flow: Flow, node: int) -> tuple[int, str] | None:
    """The step behind which some rows, or numbers of each, stand changed among others, and of how many; or None.

    So it is behind `x[..., :2] += y`.
    """
    makers, readers = flow.makers[node], flow.leaf_readers(node)
    put, cut = next(iter(readers), None), next(iter(makers), None)
    if put is None or cut is None or flow.op(put) != "index_put_" or {*flow.makers[put]} != {node}:
        return None
    if not is_in_place(flow.op(node)) or flow.op(cut) != "index":
        return None
    whole, part = flow.output(put).shape, flow.output(cut).shape
    index = {str(flow.steps[one].settings.get("index", "")) for one in (put, cut)}
    cuts = [axis - len(whole) for axis, size in enumerate(whole) if part[axis : axis + 1] != (size,)]
    what = {-1: "NUMBERS", -2: "ROWS"}.get(cuts[0]) if len(cuts) == 1 else None
    if what is None or len(whole) != len(part) or len(index) > 1 or flow.steps[cut].inputs[0].shape != whole:
        return None
    return put, f"IN {part[cuts[0]]:,} OF {whole[cuts[0]]:,} {what}"
