"""A loop whose turns all stand in the record: the same steps of the same lines again and again, none learned."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS

FEWEST_TURNS = 8
"""Fewer turns than these are drawn step by step."""
FEWEST_STEPS = 2
"""So many steps a turn has; one sum behind the other is no loop (LayoutLM's nine tables)."""


@dataclass(frozen=True)
class Turns:
    """The steps of a loop in order, how often it goes round, and the first step behind it that reads what it made."""

    steps: tuple[int, ...]
    count: int
    end: int


def find_turns(flow: Flow, nodes: Collection[int]) -> Turns | None:
    """The longest loop among some steps; None if they hold none whose results go on."""
    leaves = [node for node in sorted(nodes) if flow.is_leaf(node)]
    signs = [(flow.op(node), flow.steps[node].location) for node in leaves]
    turn = find_distance(signs)
    if turn is None or turn < FEWEST_STEPS:
        return None
    alike = [one == other for one, other in zip(signs, signs[turn:], strict=False)]
    start, length = find_run(alike)
    inside = leaves[start : start + length + turn]
    reading = {reader for node in inside for reader in flow.readers.get(node, ()) if reader in nodes}
    behind = sorted(reading.difference(inside))
    count = len(inside) // turn
    if (
        count < FEWEST_TURNS
        or not behind
        or any(flow.steps[node].is_learned or flow.op(node) in LOOKUPS for node in inside)
    ):
        return None
    return Turns(tuple(inside), count, behind[0])


def find_distance(signs: Sequence[object]) -> int | None:
    """How far steps of one kind stand from the next of that kind, where most do so; None where few come again."""
    places = defaultdict(list)
    for place, sign in enumerate(signs):
        places[sign].append(place)
    often = [held for held in places.values() if len(held) >= FEWEST_TURNS]
    distances = Counter(after - before for held in often for before, after in pairwise(held))
    return max(distances, key=distances.__getitem__, default=None)


def find_run(alike: Sequence[bool]) -> tuple[int, int]:
    """Where the longest run of what is true begins, and how long it is."""
    best, start = (0, 0), 0
    for place, is_so in enumerate((*alike, False)):
        if not is_so:
            best = max(best, (place - start, -start))
            start = place + 1
    return -best[1], best[0]
