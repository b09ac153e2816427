"""What is opened first where not everything can be: what holds most of the weights and of the products."""

from collections.abc import Iterator

from xray.story.blocks.items import NOBODY, Plan
from xray.story.blocks.kinds import kind_of
from xray.story.blocks.tree import Tree

LONGEST_WAY = 28
"""So many nodes one above the other can still be followed."""
WORKING = frozenset({"weights", "convolution", "attention", "recurrent"})

Substance = tuple[int, int]
"""How many weights, and how many operations that use weights or multiply."""


def is_too_much(plan: Plan, room: int) -> bool:
    """Whether a plan of the outermost blocks alone is more than can be read."""
    return len(plan.nodes) > room or longest_way(plan) > 2 * LONGEST_WAY


def is_readable(plan: Plan, room: int, *, is_folded: bool) -> bool:
    """Whether a plan can be read at a glance; where nothing is folded it may be as tall as it likes."""
    return len(plan.nodes) <= room and (not is_folded or longest_way(plan) <= LONGEST_WAY)


def longest_way(plan: Plan) -> int:
    """How many nodes the longest way through a plan has: what its height comes from."""
    ways = [1] * len(plan.nodes)
    for place, sources in enumerate(plan.tree.sources):
        end = plan.owners[place]
        if plan.shown[place] == place and end != NOBODY:
            for source in sources:
                start = plan.owners[source] if source >= 0 else NOBODY
                if NOBODY < start < end:
                    ways[end] = max(ways[end], ways[start] + 1)
    return max(ways, default=0)


def list_closed(plan: Plan) -> Iterator[int]:
    """The kinds of closed blocks in a plan, those with most substance first."""
    found: dict[int, Substance] = {}
    for node in plan.nodes:
        if node.kind == "closed" and node.piece is None:
            weights, working = measure(plan.tree, node.first)
            kind = plan.tree.kind_of_block(node.first)
            known = found.get(kind, (0, 0))
            found[kind] = (known[0] + weights * node.count, known[1] + working * node.count)
    yield from sorted(found, key=lambda one: found[one], reverse=True)


def measure(tree: Tree, place: int) -> Substance:
    """How much of a model stands in a block."""
    inside = range(place + 1, tree.ends[place])
    working = sum(kind_of(tree.steps[one]) in WORKING for one in inside if not tree.inside[one])
    return tree.steps[place].params, working
