"""In whose block the steps stand that lead from one tower to the next: a block that holds the layers of one alone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS
from xray.story.body.towers import Towering, list_results
from xray.story.entrance.tables import looks_up_counted
from xray.story.recognition.between import is_linear, list_reading_data


@dataclass(frozen=True)
class Leading:
    """The steps that lead to a tower from others, which are known by their ends.

    `inside` are those that stand in the block of the tower that they come from, `between` those below the first layer
    that stand in no tower's block. `onward` are those of no block that lead nowhere but to what stands in a tower's
    block behind its layers, by that tower's end: so finer maps go into the pyramid of an encoder (RT-DETR). With those
    that stand in the block of the tower that they come from, or there already, these are `met` there.
    """

    inside: Mapping[int, frozenset[int]]
    between: Mapping[tuple[int, ...], frozenset[int]]
    onward: Mapping[int, Mapping[tuple[int, ...], frozenset[int]]] = field(default_factory=dict)
    met: Mapping[int, frozenset[int]] = field(default_factory=dict)


def read_leading(flow: Flow, towering: Towering, towers: Collection[Towering]) -> Leading:
    """What of the steps below a tower, and of those that add rows between its layers, comes from other `towers`.

    What is worked out of what the tower reads itself is its own, but for what stands behind others in their block.
    """
    homes = find_homes(flow, towers)
    sums = frozenset[int]().union(*(one.sums for one in towers))
    nodes = towering.entrance.union(*(rows.nodes for rows in towering.added))
    begun = {
        one.end: [reader for node in one.sums for reader in flow.readers.get(node, ())]
        for one in towers
        if one.end != towering.end
    }
    reached = {end: set(flow.ahead(*first, within=lambda node: node not in sums)) for end, first in begun.items()}
    own = list_own(flow, nodes, set[int]().union(*reached.values()))
    holders = {node: list_holders(flow, homes, node) for node in nodes}
    inside: dict[int, frozenset[int]] = {}
    for end, led in reached.items():
        theirs = {node for node in nodes if end in holders[node]}
        found = frozenset(flow.behind(*theirs & led, within=(theirs & led | theirs - own).__contains__))
        inside |= {end: found} if found else {}
    onward: dict[int, dict[tuple[int, ...], frozenset[int]]] = {}
    led_on, met = set[int](), dict[int, frozenset[int]]()
    for via, held in [*inside.items()]:
        others = [one for one in towers if one.end not in (via, towering.end)]
        sources = {one.end: one.nodes | list_results(flow, one) for one in others}
        given = frozenset[int]().union(*sources.values())
        brought = {node for node in held - reached[via] if comes_from(flow, node, given, towering.entrance)}
        met |= {via: frozenset(brought)} if brought else {}
        for node in list_leading_only(flow, towering.entrance, held):
            ends = tuple(end for end, tower in sources.items() if comes_from(flow, node, tower, towering.entrance))
            givers = [end for end in ends if end in holders[node]]
            met |= {via: met.get(via, frozenset()) | {node}} if ends else {}
            if len(givers) == 1:
                inside[givers[0]] = inside.get(givers[0], frozenset()) | {node}
            elif ends and not holders[node]:
                groups = onward.setdefault(via, {})
                groups[ends] = groups.get(ends, frozenset()) | {node}
                led_on.add(node)
    through = {end: held & reached[end] for end, held in inside.items()}  # what goes on from there, that tower gives
    for end, first in begun.items():
        walls = sums.union(*(held for via, held in through.items() if via != end))
        reached[end] = set(flow.ahead(*first, within=partial(is_free, walls)))
    own = list_own(flow, nodes.difference(led_on, *inside.values()), set[int]().union(*reached.values()))
    between: dict[tuple[int, ...], frozenset[int]] = {}
    for node in sorted(towering.entrance.difference(own, led_on)):
        ends = tuple(end for end, led in reached.items() if node in led)
        if ends and not holders[node]:
            between[ends] = between.get(ends, frozenset()) | {node}
    return Leading(inside, between, onward, met)


def is_free(walls: Collection[int], node: int) -> bool:
    """Whether a step is none of those behind which nothing is looked for."""
    return node not in walls


def list_leading_only(flow: Flow, nodes: Collection[int], held: Collection[int]) -> set[int]:
    """Those of some steps that work on data and lead nowhere but to those that are held, through any number of them."""
    data, found = list_reading_data(flow), set[int]()
    for node in sorted(nodes, reverse=True):
        readers = flow.leaf_readers(node)
        if node in data and node not in held and readers and all(one in held or one in found for one in readers):
            found.add(node)
    return found


def comes_from(flow: Flow, node: int, tower: Collection[int], within: Collection[int]) -> bool:
    """Whether what a step works on, or that step itself, is of a tower's own, through some others at most."""
    way = flow.behind(node, within=lambda one: one in within or one in tower, ends=tower.__contains__)
    return any(one in tower for one in way)


def find_homes(flow: Flow, towers: Collection[Towering]) -> dict[int, int]:
    """The outermost block that holds all sums of a tower and none of another one, by the tower's end."""
    homes: dict[int, int] = {}
    for towering in towers:
        others = [node for one in towers if one is not towering for node in one.sums]
        for block in flow.parents(min(towering.sums)):
            inside = range(block, flow.ends[block])
            if any(node in inside for node in others):
                break
            if all(node in inside for node in towering.sums):
                homes[towering.end] = block
    return homes


def list_holders(flow: Flow, homes: Mapping[int, int], node: int) -> set[int]:
    """The towers in whose block a step stands, or whose block holds its module, be it called from outside."""
    path = flow.steps[node].path
    held = {end for end, block in homes.items() if node in range(block, flow.ends[block])}
    above = {end: len(flow.steps[block].path) for end, block in homes.items() if is_above(flow.steps[block].path, path)}
    return held or {end for end, length in above.items() if length == max(above.values())}


def is_above(block: str, path: str) -> bool:
    """Whether a block holds what has a path."""
    return bool(block) and path.startswith(f"{block}.")


def list_own(flow: Flow, nodes: Collection[int], reached: Collection[int]) -> set[int]:
    """What of some steps is worked out of what a tower reads itself: words that it looks up, rows that it projects."""
    data = list_reading_data(flow)
    begun = [
        node
        for node in nodes
        if node in data
        and node not in reached
        and (is_linear(flow, node) or (flow.op(node) in LOOKUPS and not looks_up_counted(flow, node)))
    ]
    return set(flow.ahead(*begun, within=lambda node: node in nodes))
