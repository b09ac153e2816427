"""In whose block the steps stand that lead from one tower to the next: a block that holds the layers of one alone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS
from xray.story.body.towers import Towering
from xray.story.entrance.tables import looks_up_places
from xray.story.recognition.between import is_linear, list_reading_data


@dataclass(frozen=True)
class Leading:
    """The steps that lead to a tower from others, which are known by their ends.

    `inside` are those that stand in the block of the tower that they come from, `between` those below the first layer
    that stand in no tower's block.
    """

    inside: Mapping[int, frozenset[int]]
    between: Mapping[tuple[int, ...], frozenset[int]]


def read_leading(flow: Flow, towering: Towering, towers: Collection[Towering]) -> Leading:
    """What of the steps below a tower, and of those that add rows between its layers, comes from other `towers`.

    What is worked out of what the tower reads itself is its own, but for what stands behind others in their block.
    """
    homes = find_homes(flow, towers)
    sums = frozenset[int]().union(*(one.sums for one in towers))
    nodes = towering.entrance.union(*(rows.nodes for rows in towering.added))
    reached: dict[int, set[int]] = {}
    for one in (other for other in towers if other.end != towering.end):
        begun = [reader for node in one.sums for reader in flow.readers.get(node, ())]
        reached[one.end] = set(flow.ahead(*begun, within=lambda node: node not in sums))
    own = list_own(flow, nodes, set[int]().union(*reached.values()))
    holders = {node: list_holders(flow, homes, node) for node in nodes}
    inside: dict[int, frozenset[int]] = {}
    for end, led in reached.items():
        theirs = {node for node in nodes if end in holders[node]}
        found = frozenset(flow.behind(*theirs & led, within=(theirs & led | theirs - own).__contains__))
        inside |= {end: found} if found else {}
    between: dict[tuple[int, ...], frozenset[int]] = {}
    for node in sorted(towering.entrance.difference(own)):
        ends = tuple(end for end, led in reached.items() if node in led)
        if ends and not holders[node]:
            between[ends] = between.get(ends, frozenset()) | {node}
    return Leading(inside, between)


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
        and (is_linear(flow, node) or (flow.op(node) in LOOKUPS and not looks_up_places(flow, node)))
    ]
    return set(flow.ahead(*begun, within=lambda node: node in nodes))
