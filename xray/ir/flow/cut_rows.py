"""Rows that are cut out of what was put side by side, or stacked: of which part, where the cut proves it."""

import re

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, SIDE_BY_SIDE
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
    """The makers of what a step takes; of what it cuts out of a join, that of the part alone."""
    cut = find_cut_part(flow, place)
    return [maker for _, maker in (flow.given(place) if cut is None else [cut]) if maker is not None]


def read_span(index: str, shape: tuple[int, ...], axis: int) -> tuple[int, int] | None:
    """The first place that an index such as ":, :32, :" takes along an axis, and the one behind the last one."""
    pieces = [piece.strip() for piece in index.split(",")]
    place = axis % len(shape)
    if place >= len(pieces) or any(not takes_one_axis(piece) for piece in pieces[: place + 1]) or not shape[place]:
        return None
    bounds = [int(one) if one.strip() else None for one in pieces[place].split(":")]
    if len(bounds) == 1 and bounds[0] is not None:
        return bounds[0] % shape[place], bounds[0] % shape[place] + 1
    first, end, step = slice(*bounds).indices(shape[place])
    return (first, end) if step == 1 and first < end else None


def takes_one_axis(piece: str) -> bool:
    """Whether a piece of an index is a number or a slice, so that the next piece is of the next axis."""
    return bool(re.fullmatch(r"-?\d+|(-?\d+)?:(-?\d+)?(:(-?\d+)?)?", piece.replace(" ", "")))
