"""States of all places that are worked out together in one tensor: parts of it are changed by other parts (mambapy)."""

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.story.states.operands import LEAST_TURNS


@dataclass(frozen=True)
class Scan:
    """The last sum of a scan, how many there are one behind the other, all its steps, and what holds all states.

    The first of its steps moves all states, or is the last sum.
    """

    end: int
    turns: int
    steps: tuple[int, ...]
    whole: TensorRecord


def find_scan(flow: Flow, nodes: Collection[int]) -> Scan | None:
    """The longest row of sums that each add to a part of some numbers a multiple of another part of them.

    Each but the first works on what the one before it left of these numbers. None where they are too few.
    """
    roots: dict[int, int] = {}
    turns: dict[int, int] = {}
    for node in sorted(nodes):
        root = find_changed(flow, node, roots)
        if root is not None:
            roots[node], turns[node] = root, turns.get(root, 0) + 1
    end = max(turns, key=lambda node: (turns[node], node), default=None)
    if end is None or turns[end] < LEAST_TURNS:
        return None
    first = end
    while roots[first] in roots:
        first = roots[first]
    whole = [(read, one) for one in flow.leaf_readers(end) for read, maker in flow.given(one) if maker == end]
    if not whole or prod(whole[0][0].shape) <= prod(flow.output(end).shape):
        return None
    own = {*flow.behind(end, within=lambda node: node in nodes and node > roots[first])}
    own |= {reader for _, reader in whole[:1] if flow.op(reader) in CARRYING}
    return Scan(end, turns[end], tuple(sorted(own, reverse=True)), whole[0][0])


def find_changed(flow: Flow, node: int, roots: dict[int, int]) -> int | None:
    """What last changed the numbers to a part of which a step adds a multiple of another part; None for others."""
    makers = flow.makers[node] if flow.op(node) in SUMS and flow.steps[node].outputs else ()
    if len(makers) != 2:
        return None
    (part, root), added = flow.before_moves(*next(flow.given(node))), makers[1]
    if root is None or added is None or flow.op(added) not in SCALINGS:
        return None
    others = [flow.carried_from(maker) for maker in flow.makers[added]]
    is_own = any(one == root or (one is not None and roots.get(one) == root) for one in others)
    return root if is_own and prod(part.shape) > prod(flow.output(node).shape) else None
