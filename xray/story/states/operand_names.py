"""What the boxes of queries, keys and values are called on their way to a state, and in which lanes they stand."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose, sqrt

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, TURNS
from xray.ir.flow.projections import is_product
from xray.story.branches.scored.caps import name_times, read_factor
from xray.story.charts.chart import CENTRE, LEFT, RIGHT, Place
from xray.story.recognition.between import is_linear
from xray.story.recognition.lengths import BY_LENGTH, list_unit_lengths
from xray.story.states.operands import (
    SOLVES,
    Operand,
    StateOperands,
    find_operands,
    list_cuts,
    list_repeats,
    reach,
)
from xray.story.streams.shortcuts import find_any_norm

LANES = {"Q": LEFT, "K": CENTRE, "V": RIGHT}
MOST_BEHIND = 12


@dataclass(frozen=True)
class Ways:
    """What steps are called, those that stand for several, and the lanes of those that stand above each other.

    `count` is how many of them are cuts into heads, repeats of these and norms; `behind` are the steps between these
    and the state.
    """

    labels: Mapping[int, str] = field(default_factory=dict)
    folded: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    lanes: Mapping[int, Place] = field(default_factory=dict)
    count: int = 0
    behind: frozenset[int] = frozenset()


def name_ways(flow: Flow, nodes: Collection[int]) -> Ways:
    """The boxes of queries, keys and values on their way to a state; none where the ways are not proven."""
    found = find_operands(flow, nodes)
    if found is None:
        return Ways()
    labels: dict[int, str] = {}
    folded: dict[int, tuple[int, ...]] = {}
    lanes: dict[int, Place] = {}
    behind: set[int] = set()
    for letter, way in (("Q", found.query), ("K", found.key), ("V", found.value)):
        own = name_way(flow, way, letter)
        labels |= {node: label for node, (label, _) in own.items()}
        folded |= {node: group for node, (_, group) in own.items() if len(group) > 1}
        lanes |= dict.fromkeys(own, LANES[letter])
        boxed = {node for _, group in own.values() for node in group}
        behind |= {node for node in way.steps if node > max(boxed) and flow.op(node) not in CARRYING}
    count = len(lanes)
    for node, letter, label, group in (*name_solved(flow, nodes, found), *name_scores(flow, nodes, found)):
        labels[node], lanes[node] = label, LANES[letter]
        folded |= {node: group} if len(group) > 1 else {}
    return Ways(labels, folded, lanes, count, frozenset(behind))


def name_way(flow: Flow, way: Operand, letter: str) -> dict[int, tuple[str, tuple[int, ...]]]:
    """The boxes of one way: the cut into heads, repeats of these, norms, and by what number they are multiplied."""
    times = dict(list_repeats(flow, way))
    found: dict[int, tuple[str, tuple[int, ...]]] = {way.cut: (f"HEADS {letter}", (way.cut,))}
    last: int | None = None
    for node in (way.cut, *way.steps):
        for own in list_unit_lengths(flow, node):
            if own[-1] in way.steps:
                last, found[own[-1]] = own[-1], (f"{letter} {BY_LENGTH}", tuple(sorted(own, reverse=True)))
        if node in found:
            continue
        norm, factor = find_any_norm(flow, node), read_factor(flow, node)
        if norm is not None:
            last, found[node] = node, (f"NORM {letter}", norm.nodes)
        elif times.get(node, 1) > 1:
            last, found[node] = None, (f"REPEAT {letter} ×{times[node]}", (node,))
        elif factor is not None and factor != 1 and last is not None:
            is_root = isclose(factor, 1 / sqrt(way.width), rel_tol=1e-6)
            label, group = found[last]
            found[last] = (f"{label}, {f'÷√{way.width}' if is_root else name_times(factor)}", (*group, node))
    return found


def name_solved(
    flow: Flow, nodes: Collection[int], operands: StateOperands
) -> Iterator[tuple[int, str, str, tuple[int, ...]]]:
    """The steps that solve a triangular system, by what it is solved for."""
    letters = {operands.key.cut: "K", operands.value.cut: "V"}
    for node in nodes:
        cuts = list_cuts(flow, reach(flow, flow.makers[node][-1])) if flow.op(node) in SOLVES else set()
        if len(cuts) == 1 and cuts <= letters.keys():
            letter = letters[cuts.pop()]
            yield node, letter, f"TRIANGULAR SOLVE {letter}", (node,)


def name_scores(
    flow: Flow, nodes: Collection[int], operands: StateOperands
) -> Iterator[tuple[int, str, str, tuple[int, ...]]]:
    """The products of queries or keys with all keys of their piece, each with the decays that multiply it."""
    letters = {operands.query.cut: "Q", operands.key.cut: "K"}
    for node in nodes:
        if not is_product(flow, node) or is_linear(flow, node) or len(flow.makers[node]) < 2:
            continue
        first, second = flow.makers[node][-2:]
        cuts = [list_cuts(flow, reach(flow, maker)) for maker in (first, second)]
        if len(cuts[0]) != 1 or not cuts[0] <= letters.keys() or cuts[1] != {operands.key.cut}:
            continue
        if second is None or flow.op(second) not in TURNS:
            continue
        letter, faded = letters[cuts[0].pop()], find_faded(flow, node)
        label = f"{letter}·K^T"
        yield (node, letter, label, (node,)) if faded is None else (faded, letter, f"{label} × DECAYS", (faded, node))


def find_faded(flow: Flow, node: int) -> int | None:
    """The step that multiplies what another gives, and nothing else reads, by exp of running sums; None without one."""
    readers = flow.leaf_readers(node)
    if len(readers) != 1 or flow.op(readers[0]) not in SCALINGS:
        return None
    others = [flow.carried_from(maker) for maker in flow.makers[readers[0]] if maker != node]
    if len(others) != 1 or others[0] is None or flow.op(others[0]) != "exp":
        return None
    behind = flow.behind(others[0], most=MOST_BEHIND)
    return readers[0] if any(flow.op(one) == "cumsum" for one in behind) else None
