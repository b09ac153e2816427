"""A pass as blocks: which are opened, which neighbours stand as one, and what stands for every step.

How to use it:

    plan = plan_blocks(one_pass)                       # as deep as stays readable
    plan = plan_blocks(one_pass, Choice(depth=2, closed=("encoder",)))
    for item in plan.items: item.kind, item.heads, item.count, item.inside
    plan.owners[plan.tree.places[step.id]]             # the number of the item that stands for a step
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from xray.ir.trace import Pass, Step
from xray.story.blocks.bundles import Slot, bundle_slots, gather_pieces
from xray.story.blocks.items import NOBODY, Differ, Item, ItemKind, Plan, assign
from xray.story.blocks.opening import Choice, Openness
from xray.story.blocks.pieces import IDLE, Piece, mark_places
from xray.story.blocks.repeats import find_repeats, portray_steps
from xray.story.blocks.substance import is_readable, is_too_much, list_closed
from xray.story.blocks.tree import Tree, grow_tree

READABLE = 72
"""As many nodes can be read at a glance; deeper is opened only when asked for."""
MOST_NEIGHBOURS = 48
"""More neighbours in one block than this are gathered into bundles."""
FEWEST_NEIGHBOURS = 12
"""Where that is still too much, bundles are made larger, down to so many neighbours."""
FEWEST_NODES = 9
"""A drawing of fewer nodes shows so little that the next one may be as tall as two."""
MOST_UNFOLDED = 300
"""The same where nothing is to be folded."""
MOST_GLUE = 4
"""More operations than this in a row outside of the model stand as one bundle."""
MOST_TRIED = 40
"""So many kinds of blocks are tried to be opened."""


def plan_blocks(
    one_pass: Pass, choice: Choice | None = None, *, all_layers: bool = False, room: int = READABLE
) -> Plan:
    """The plan of a pass: repeated neighbours stand once unless all are asked for, blocks opened as chosen.

    Without a depth the outermost blocks are opened, and then, as long as `room` nodes allow, those with most substance.
    """
    choice = choice or Choice()
    planner = Planner(one_pass, choice, all_layers=all_layers)
    if choice.depth is not None:
        return planner.plan(choice.depth)
    room = MOST_UNFOLDED if all_layers else room
    best = planner.plan(1)
    while not all_layers and planner.most > FEWEST_NEIGHBOURS and is_too_much(best, room):
        planner.gather_closer()
        best = planner.plan(1)
    tried: set[int] = set()
    while len(tried) < MOST_TRIED:
        kin = next((one for one in list_closed(best) if one not in tried), None)
        if kin is None:
            break
        tried.add(kin)
        wrapped = set(list_wrapped(planner.tree, kin)) - planner.openness.kin
        for opened in ({kin} | wrapped, {kin}) if wrapped else ({kin},):
            planner.openness.kin |= opened
            deeper = planner.plan(1)
            is_scant = len(best.nodes) < FEWEST_NODES and not is_too_much(deeper, room)
            if is_scant or is_readable(deeper, room, is_folded=not all_layers):
                best = deeper
                break
            planner.openness.kin -= opened
    return best


def list_wrapped(tree: Tree, kin: int) -> Iterator[int]:
    """The kinds of the blocks that stand alone, one in the other, in a block of a kind: opening it shows no more."""
    place = next(place for place, held in enumerate(tree.inside) if held and tree.kind_of_block(place) == kin)
    while len(tree.inside[place]) == 1 and tree.inside[tree.inside[place][0]]:
        place = tree.inside[place][0]
        yield tree.kind_of_block(place)


class Planner:
    """Makes plans of one pass at several depths; what repeats is looked for once."""

    def __init__(self, one_pass: Pass, choice: Choice, *, all_layers: bool) -> None:
        self.one_pass = one_pass
        self.tree = grow_tree(one_pass)
        self.levels = max(
            (self.tree.levels[place] + 1 for place, held in enumerate(self.tree.inside) if held), default=0
        )
        self.all_layers = all_layers
        self.portraits = portray_steps(self.tree)
        self.openness = Openness(self.tree, choice)
        self.pieces = mark_places(self.tree, one_pass)
        self.slots: dict[tuple[int, ...], tuple[Slot, ...]] = {}
        self.nodes: list[Item] = []
        self.deepest = 0
        self.most = MOST_UNFOLDED if all_layers else MOST_NEIGHBOURS

    @cached_property
    def loose_portraits(self) -> tuple[int, ...]:
        """What steps look like whose sizes do not matter."""
        return portray_steps(self.tree, loosely=True)

    def gather_closer(self) -> None:
        """From now on half as many neighbours stand beside each other."""
        self.most //= 2
        self.slots.clear()

    def plan(self, depth: int) -> Plan:
        """The plan with so many levels opened, and what is to be opened besides."""
        self.openness.depth = depth
        tree = self.tree
        while True:
            self.open_pieces()
            self.nodes, self.deepest = [], 0
            items = tuple(self.build(tree.roots))
            owners, shown = [NOBODY] * len(tree.steps), list(range(len(tree.steps)))
            variants: dict[int, tuple[Step, ...]] = {}
            for item in items:
                assign(item, tree, owners, shown, variants)
            if not self.openness.name_shown(shown):
                break
            self.slots.clear()
        return Plan(
            self.one_pass,
            tree,
            items,
            tuple(self.nodes),
            tuple(owners),
            tuple(shown),
            variants,
            min(self.deepest, self.levels),
            self.levels,
        )

    def open_pieces(self) -> None:
        """A piece of which any step is to be opened is none any more."""
        opened = {self.pieces[place] for place in self.openness.named} - {None, IDLE}
        if opened:
            self.pieces = tuple(None if piece in opened else piece for piece in self.pieces)

    def build(self, neighbours: tuple[int, ...], *, repeats: bool = True) -> Iterator[Item]:
        """The items of neighbours in one block."""
        for slot in self.arrange(neighbours, repeats=repeats):
            yield self.build_slot(slot)

    def build_slot(self, slot: Slot) -> Item:
        heads, tree = slot.heads, self.tree
        steps = tuple(tree.steps[place] for place in heads)
        length = tree.ends[heads[-1]] - heads[0]
        whole = (heads[0], length, slot.count, slot.differ)
        if slot.is_bundle:
            return self.node("bundle", steps, *whole, last=tree.steps[heads[-1]], piece=slot.piece)
        if len(heads) > 1:
            inside = tuple(self.build(heads))
            return Item("group", NOBODY, steps, *whole, inside)
        last = tree.steps[heads[0] + length * (slot.count - 1)]
        if not tree.inside[heads[0]]:
            return self.node("step", steps, *whole, last=last)
        places = range(heads[0], heads[0] + length * slot.count, length)
        is_named = any(place in self.openness.named for place in places)
        if (is_named or slot.piece is None) and self.openness.opens(places):
            inside = tuple(self.build(tree.inside[heads[0]]))
            if tree.levels[heads[0]] == 0 or is_named or not is_mere_wrapper(inside):
                self.deepest = max(self.deepest, tree.levels[heads[0]] + 1)
                return Item("open", NOBODY, steps, *whole, inside, last)
            self.nodes.pop()
        return self.node("closed", steps, *whole, last=last, piece=slot.piece)

    def node(
        self,
        kind: ItemKind,
        heads: tuple[Step, ...],
        first: int,
        length: int,
        count: int,
        differ: Differ,
        *,
        last: Step,
        piece: Piece | None = None,
    ) -> Item:
        item = Item(kind, len(self.nodes), heads, first, length, count, differ, (), last, piece)
        self.nodes.append(item)
        return item

    def arrange(self, neighbours: tuple[int, ...], *, repeats: bool) -> tuple[Slot, ...]:
        """The neighbours with those that repeat as one slot, and where too many are left, in bundles."""
        known = self.slots.get(neighbours)
        if known is not None:
            return known
        slots = [Slot((place,)) for place in neighbours]
        if not self.all_layers and repeats:
            slots = self.fold(neighbours, self.portraits)
            if len(slots) > MOST_NEIGHBOURS:
                slots = min(slots, self.fold(neighbours, self.loose_portraits), key=len)
        if neighbours == self.tree.roots and any(self.tree.inside[place] for place in neighbours):
            slots = bundle_glue(slots, self.tree)
        slots = gather_pieces(slots, self.pieces)
        found = tuple(bundle_slots(slots, self.tree, self.most))
        self.slots[neighbours] = found
        return found

    def fold(self, neighbours: Sequence[int], portraits: Sequence[int]) -> list[Slot]:
        slots: list[Slot] = []
        at = 0
        for run in find_repeats(self.tree, neighbours, portraits):
            slots += [Slot((place,)) for place in neighbours[at : run.start]]
            heads = tuple(neighbours[run.start : run.start + run.period])
            looks = [self.portraits[place] for place in neighbours[run.start : run.end]]
            is_alike = looks == looks[: run.period] * run.count
            slots.append(Slot(heads, run.count, differ="" if is_alike else self.tell_difference(heads, run.count)))
            at = run.end
        return slots + [Slot((place,)) for place in neighbours[at:]]

    def tell_difference(self, heads: Sequence[int], count: int) -> Differ:
        """In what neighbours differ that stand `count` times in a row: in sizes, or in settings alone."""
        length = self.tree.ends[heads[-1]] - heads[0]
        starts = (heads[0] + number * length for number in range(count))
        units = (self.tree.steps[start : start + length] for start in starts)
        sizes = {tuple(one.shape for step in unit for one in (*step.inputs, *step.outputs)) for unit in units}
        return "sizes" if len(sizes) > 1 else "settings"


def is_mere_wrapper(inside: Sequence[Item]) -> bool:
    """Whether an opened block would show one closed block, or one operation, and nothing else."""
    return len(inside) == 1 and inside[0].kind in ("closed", "step", "bundle") and inside[0].count == 1


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
