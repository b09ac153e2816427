"""Norms with a gate of their own: their rows times shares that are worked out of the same rows (A.X K2)."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, SCALINGS
from xray.story.recognition.between import is_linear
from xray.story.recognition.norms import Norm


def list_own_gate(flow: Flow, norm: Norm, within: Collection[int]) -> tuple[int, ...]:
    """The steps of that gate, the product last; none where anything reads what the norm makes past it."""
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
