"""By what norms multiply rows: by their weights, by 1 + these, by a gate of their own."""

from collections.abc import Collection, Iterator
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CURVES, NORMS, SCALINGS
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.norms import Norm
from xray.story.recognition.statistics import is_measure, is_of_weights


def list_from_one(flow: Flow, norm: Norm) -> Iterator[bool | None]:
    """For each of a norm's weights whether rows are multiplied by 1 + it; None where that is not known."""
    for node in norm.nodes:
        is_whole, made = flow.op(node) in NORMS, flow.output(node).shape
        if flow.steps[node].params and flow.is_leaf(node):
            yield False if is_whole else None
        elif is_whole or flow.op(node) in SCALINGS:
            given = [one for one in flow.given(node) if one[0].shape != made and prod(one[0].shape) > 1]
            weights = [maker for record, maker in given if is_of_weights(flow, record, maker)]
            yield from (is_from_one(flow, maker) for maker in weights[:1])  # a second one is added (layer norm)


def is_from_one(flow: Flow, maker: int | None) -> bool | None:
    """Whether a step adds 1 to weights; False where they are only moved, None where more is done with them."""
    made = flow.carried_from(maker, CARRYING | CASTING)
    if made is None or flow.op(made) in CARRYING | CASTING:
        return False
    adds_one = flow.op(made) in ("add", "add_") and flow.steps[made].settings.get("other") == 1
    return True if adds_one and is_from_one(flow, flow.makers[made][0]) is False else None


def find_brought(flow: Flow, norm: Norm) -> int | None:
    """The step before a norm that multiplies each row by a number of its own from beside, of which the norm tells not.

    So rows are brought to the size of others (Gemma 3n's streams). None where the norm is of the product itself.
    """
    times = flow.carried_from(norm.origin)
    if times is None or flow.op(times) not in SCALINGS or len(flow.makers[times]) != 2:
        return None
    made = flow.output(times).shape
    others = [maker for record, maker in flow.given(times) if record.shape == (*made[:-1], 1)]
    measured = [maker for node in norm.nodes if is_measure(flow, node) for maker in flow.makers[node]]
    is_apart = bool(measured) and times not in flow.behind(*measured, within=lambda place: place >= times)
    return times if len(others) == 1 and others[0] in list_reading_data(flow) and is_apart else None


def list_own_gate(flow: Flow, norm: Norm, within: Collection[int]) -> tuple[int, ...]:
    """The steps of a norm's gate, shares that are worked out of what it makes (A.X K2), the product last.

    None where anything reads what the norm makes past it.
    """
    moved = {norm.end}
    readers: set[int] = set()
    todo = [norm.end]
    while todo:
        for reader in flow.readers.get(todo.pop(), ()):
            if reader in within and reader not in moved | readers:
                is_move = flow.op(reader) in CARRYING
                (moved if is_move else readers).add(reader)
                todo += [reader] if is_move else []
    for times in sorted(readers):
        way = list_shares(flow, times, norm.end, within)
        if way and readers <= {*way, times}:
            return (*way, times)
    return ()


def list_shares(flow: Flow, times: int, end: int, within: Collection[int]) -> list[int]:
    """The steps that work out by what a product multiplies a row: linear layers and a bend, of that row alone."""
    given = flow.steps[times].inputs
    if flow.op(times) not in SCALINGS or len(given) != 2 or given[0].shape != given[1].shape:
        return []
    others = [maker for maker in flow.makers[times] if flow.carried_from(maker) != flow.carried_from(end)]
    if len(others) != 1 or None in others:
        return []
    way = sorted(flow.behind(*others, within=lambda place: place > end and place in within))
    sources = {maker for node in way for maker in flow.makers[node] if maker is not None}
    is_gate = any(is_linear(flow, node) for node in way) and any(flow.op(node) in CURVES for node in way)
    return way if is_gate and sources <= {end, *way} else []
