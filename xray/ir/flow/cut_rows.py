"""Rows that are cut out of what was put side by side, or stacked: of which part, where the cut proves it."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.index_spans import read_span
from xray.ir.flow.operation_kinds import CASTING, SIDE_BY_SIDE
from xray.ir.kinds import is_in_place
from xray.ir.records import TensorRecord


def find_cut_part(flow: Flow, place: int) -> tuple[TensorRecord, int | None] | None:
    """Of what was put side by side, the part with all that a step cuts out, and its maker; None where not one has."""
    parts = list_cut_parts(flow, place)
    return parts[0] if len(parts) == 1 else None


def list_cut_parts(flow: Flow, place: int) -> list[tuple[TensorRecord, int | None]]:
    """Of what was put side by side, the parts of which a step cuts out some, each with its maker."""
    if flow.op(place) != "index" or len(flow.steps[place].inputs) != 1:
        return []
    join = flow.carried_from(flow.makers[place][0], CASTING)
    if join is None or flow.op(join) not in SIDE_BY_SIDE | {"stack"}:
        return []
    whole = flow.output(join).shape
    axis = flow.steps[join].settings.get("dim", 0)
    if not isinstance(axis, int) or not whole:
        return []
    span = read_span(str(flow.steps[place].settings.get("index", "")), whole, axis)
    found, begin = list[tuple[TensorRecord, int | None]](), 0
    for record, maker in flow.given(join):
        end = begin + (record.shape[axis] if len(record.shape) == len(whole) else int(flow.op(join) == "stack"))
        if span is not None and max(begin, span[0]) < min(end, span[1]):
            found.append((record, maker))
        begin = end
    return found


def list_cut_makers(flow: Flow, place: int) -> list[int]:
    """The makers of the numbers that a step takes, none of those of none; of what it cuts of a join that of the part.

    What it cuts out beside rows that were changed is as it was before these were.
    """
    kept = find_kept(flow, place)
    if kept is not None:
        return [kept]
    cut = find_cut_part(flow, place)
    given = flow.given(place) if cut is None else [cut]
    return [maker for record, maker in given if maker is not None and 0 not in record.shape]


def find_kept(flow: Flow, place: int) -> int | None:
    """The maker of what a step cuts out of rows of which only others were changed; None where that is not proven.

    So it is with `rows[1:] += more`, where what is put back in its place is what was changed there (Gemma 3n).
    """
    put = flow.carried_from(flow.makers[place][0], CASTING) if flow.op(place) == "index" else None
    if put is None or flow.op(put) != "index_put_" or len(set(flow.makers[put])) != 1:
        return None
    change = flow.makers[put][0]
    cut = flow.makers[change][0] if change is not None and is_in_place(flow.op(change)) else None
    if cut is None or flow.op(cut) != "index" or len(flow.makers[cut]) != 1:
        return None
    whole = flow.output(put).shape
    taken, changed, first = (str(flow.steps[one].settings.get("index", "")) for one in (place, put, cut))
    is_whole = first == changed and flow.steps[cut].inputs[0].shape == whole
    return flow.makers[cut][0] if is_whole and are_apart(taken, changed, whole) else None


def are_apart(one: str, other: str, shape: tuple[int, ...]) -> bool:
    """Whether two indices take different places along an axis, so that nothing is in both."""
    spans = ((read_span(one, shape, axis), read_span(other, shape, axis)) for axis in range(len(shape)))
    return any(here and there and max(here[0], there[0]) >= min(here[1], there[1]) for here, there in spans)
