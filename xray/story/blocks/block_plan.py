"""A pass as blocks: which are opened, which neighbours stand as one, and what stands for every step.

How to use it:

    plan = plan_blocks(one_pass)                       # as deep as stays readable
    plan = plan_blocks(one_pass, Choice(depth=2, closed=("encoder",)))
    for item in plan.items: item.kind, item.heads, item.count, item.inside
    plan.owners[plan.tree.places[step.id]]             # the number of the item that stands for a step
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from xray.ir.trace import Pass, Step
from xray.story.blocks.bundles import Slot, bundle_slots
from xray.story.blocks.opening import DEEPEST, Choice, Openness
from xray.story.blocks.repeats import find_repeats, portray_steps
from xray.story.blocks.tree import Tree, grow_tree

READABLE = 72
"""As many nodes can be read at a glance; deeper is opened only when asked for."""
LONGEST_WAY = 26
"""So many nodes one above the other still fit a screen."""
MOST_NEIGHBOURS = 48
"""More neighbours in one block than this are gathered into bundles."""
FEWEST_NEIGHBOURS = 12
"""Where that is still too much, bundles are made larger, down to so many neighbours."""
MOST_UNFOLDED = 300
"""The same where nothing is to be folded."""
MOST_GLUE = 4
"""More operations than this in a row outside of the model stand as one bundle."""
NOBODY = -1

ItemKind = Literal["step", "closed", "open", "group", "bundle"]


@dataclass(frozen=True)
class Item:
    """What stands at one place of the drawing.

    A "step" is a single operation, a "closed" block one node for all inside it, an "open" block a frame around its
    `inside`; a "group" is a frame around neighbours that repeat together, a "bundle" one node for neighbours that are
    too many to be shown. `heads` are the neighbours themselves, of the first time where `count` times the same follow;
    if not `is_alike`, the others differ in size. `number` tells the items that are nodes apart, NOBODY for frames.
    """

    kind: ItemKind
    number: int
    heads: tuple[Step, ...]
    first: int
    length: int
    count: int = 1
    is_alike: bool = True
    inside: tuple["Item", ...] = ()
    last: Step | None = None

    @property
    def is_frame(self) -> bool:
        """Whether it is drawn around others."""
        return self.kind in ("open", "group")


@dataclass(frozen=True)
class Plan:
    """The items of a pass; for each place of the tree the node that stands for it, and the step that is shown for it.

    `variants` has the steps of other sizes that a shown one stands for, itself first, by its place. `depth` is how many
    levels were opened, of `levels`.
    """

    one_pass: Pass
    tree: Tree
    items: tuple[Item, ...]
    nodes: tuple[Item, ...]
    owners: tuple[int, ...]
    shown: tuple[int, ...]
    variants: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    depth: int = 0
    levels: int = 0

    def holder(self, step_id: str | None) -> int:
        """The number of the node that stands for a step, or of the one around it; NOBODY where there is none."""
        place = self.tree.places.get(step_id or "", NOBODY)
        while place >= 0:
            if self.owners[place] != NOBODY:
                return self.owners[place]
            place = self.tree.parents[place]
        return NOBODY


def plan_blocks(
    one_pass: Pass, choice: Choice | None = None, *, all_layers: bool = False, room: int = READABLE
) -> Plan:
    """The plan of a pass: repeated neighbours stand once unless all are asked for, blocks opened as chosen.

    Without a depth as many levels are opened as `room` nodes allow, one at least.
    """
    choice = choice or Choice()
    tree = grow_tree(one_pass)
    levels = max((tree.levels[place] + 1 for place, held in enumerate(tree.inside) if held), default=0)
    planner = Planner(tree, choice, all_layers=all_layers)
    if choice.depth is not None:
        return planner.plan(one_pass, choice.depth, levels)
    room = MOST_UNFOLDED if all_layers else room
    best = planner.plan(one_pass, min(1, levels), levels)
    while not all_layers and planner.most > FEWEST_NEIGHBOURS and is_too_much(best, room):
        planner.gather_closer()
        best = planner.plan(one_pass, min(1, levels), levels)
    for depth in range(2, min(levels, DEEPEST) + 1):
        deeper = planner.plan(one_pass, depth, levels)
        if len(deeper.nodes) > room or (not all_layers and longest_way(deeper) > LONGEST_WAY):
            break
        best = deeper
    return best


def is_too_much(plan: Plan, room: int) -> bool:
    """Whether a plan of the outermost blocks alone is more than can be read."""
    return len(plan.nodes) > room or longest_way(plan) > 2 * LONGEST_WAY


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


class Planner:
    """Makes plans of one pass at several depths; what repeats is looked for once."""

    def __init__(self, tree: Tree, choice: Choice, *, all_layers: bool) -> None:
        self.tree = tree
        self.choice = choice
        self.all_layers = all_layers
        self.portraits = portray_steps(tree)
        self.kin = portray_steps(tree, loosely=True)
        self.slots: dict[tuple[int, ...], tuple[Slot, ...]] = {}
        self.openness = Openness(tree, choice, 0)
        self.nodes: list[Item] = []
        self.most = MOST_UNFOLDED if all_layers else MOST_NEIGHBOURS

    def gather_closer(self) -> None:
        """From now on half as many neighbours stand beside each other."""
        self.most //= 2
        self.slots.clear()

    def plan(self, one_pass: Pass, depth: int, levels: int) -> Plan:
        self.openness.depth = depth
        self.nodes = []
        items = tuple(self.build(self.tree.roots))
        owners, shown = [NOBODY] * len(self.tree.steps), list(range(len(self.tree.steps)))
        variants: dict[int, tuple[Step, ...]] = {}
        for item in items:
            assign(item, self.tree, owners, shown, variants)
        return Plan(one_pass, self.tree, items, tuple(self.nodes), tuple(owners), tuple(shown), variants, depth, levels)

    def build(self, neighbours: tuple[int, ...], *, repeats: bool = True) -> Iterator[Item]:
        """The items of neighbours in one block."""
        for slot in self.arrange(neighbours, repeats=repeats):
            yield self.build_slot(slot)

    def build_slot(self, slot: Slot) -> Item:
        heads, tree = slot.heads, self.tree
        steps = tuple(tree.steps[place] for place in heads)
        length = tree.ends[heads[-1]] - heads[0]
        whole = (heads[0], length, slot.count, slot.is_alike)
        if slot.is_bundle:
            return self.node("bundle", steps, *whole, last=tree.steps[heads[-1]])
        if len(heads) > 1:
            inside = tuple(self.build(heads))
            return Item("group", NOBODY, steps, *whole, inside)
        last = tree.steps[heads[0] + length * (slot.count - 1)]
        if not tree.inside[heads[0]]:
            return self.node("step", steps, *whole, last=last)
        if self.openness.opens(heads[0] + length * number for number in range(slot.count)):
            inside = tuple(self.build(tree.inside[heads[0]]))
            if tree.levels[heads[0]] == 0 or heads[0] in self.openness.named or not is_mere_wrapper(inside):
                return Item("open", NOBODY, steps, *whole, inside, last)
            self.nodes.pop()
        return self.node("closed", steps, *whole, last=last)

    def node(
        self,
        kind: ItemKind,
        heads: tuple[Step, ...],
        first: int,
        length: int,
        count: int,
        is_alike: bool,
        *,
        last: Step,
    ) -> Item:
        item = Item(kind, len(self.nodes), heads, first, length, count, is_alike, (), last)
        self.nodes.append(item)
        return item

    def arrange(self, neighbours: tuple[int, ...], *, repeats: bool) -> tuple[Slot, ...]:
        """The neighbours with those that repeat as one slot, and where too many are left, in bundles."""
        known = self.slots.get(neighbours)
        if known is not None:
            return known
        slots = [Slot((place,)) for place in neighbours]
        if not self.all_layers and repeats:
            slots = self.fold(neighbours, self.portraits, is_alike=True)
            if len(slots) > MOST_NEIGHBOURS:
                loosely = self.fold(neighbours, self.kin, is_alike=False)
                slots = min(slots, loosely, key=len)
        if neighbours == self.tree.roots and any(self.tree.inside[place] for place in neighbours):
            slots = bundle_glue(slots, self.tree)
        found = tuple(bundle_slots(slots, self.tree, self.most))
        self.slots[neighbours] = found
        return found

    def fold(self, neighbours: Sequence[int], portraits: Sequence[int], *, is_alike: bool) -> list[Slot]:
        slots: list[Slot] = []
        at = 0
        for run in find_repeats(self.tree, neighbours, portraits):
            slots += [Slot((place,)) for place in neighbours[at : run.start]]
            heads = tuple(neighbours[run.start : run.start + run.period])
            slots.append(Slot(heads, run.count, is_alike))
            at = run.end
        return slots + [Slot((place,)) for place in neighbours[at:]]


def is_mere_wrapper(inside: Sequence[Item]) -> bool:
    """Whether an opened block would show one closed block and nothing else."""
    return len(inside) == 1 and inside[0].kind == "closed" and inside[0].count == 1


def bundle_glue(slots: Sequence[Slot], tree: Tree) -> list[Slot]:
    """The slots beside the model itself with many operations in a row as one bundle."""
    kept: list[Slot] = []
    row: list[Slot] = []
    for slot in (*slots, None):
        if slot is not None and not any(tree.inside[place] for place in slot.heads):
            row.append(slot)
            continue
        kept += bundle_slots(row, tree, 1) if len(row) > MOST_GLUE else row
        row = []
        if slot is not None:
            kept.append(slot)
    return kept


def assign(item: Item, tree: Tree, owners: list[int], shown: list[int], variants: dict[int, tuple[Step, ...]]) -> None:
    """Write down for every step of an item, and of those that it stands for, which node and which step stand for it."""
    first, behind = item.first, item.first + item.length
    if item.is_frame:
        for one in item.inside:
            assign(one, tree, owners, shown, variants)
    else:
        owners[first:behind] = [item.number] * item.length
    for number in range(1, item.count):
        start = first + number * item.length
        owners[start : start + item.length] = owners[first:behind]
        shown[start : start + item.length] = shown[first:behind]
    if not item.is_alike:
        for place in range(first, behind):
            if shown[place] == place:
                variants[place] = tuple(tree.steps[place + number * item.length] for number in range(item.count))
