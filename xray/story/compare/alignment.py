"""Which step of one recording is which of another: by what they do and where they stand, names last.

Two passes are laid side by side as trees. Below each pair of blocks their steps are paired in order: first those that
hold the same, then those of the same name, then those that hold the same under another name, last those that do much
the same, whatever they are called: so the layers of two architectures are held against each other. A layer put between
two others is one layer added, a renamed module is one rename, and one operation more does not shift all that follow it.

How to use it:

    for pair in align_passes(before, after):
        pair.before, pair.after                    # a step each, or None where the other side has nothing like it
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from xray.ir.trace import Pass, Step

MANY = 4_000
"""Beyond so many neighbours the frequent ones are passed over in the search for what is alike."""


@dataclass(frozen=True)
class Pair:
    """A step before and the same one after; one of them is None for what was taken away or added.

    `renamed` is true where its own part of the path is another, numbers apart; `moved` where it stands at another place
    among its neighbours; `inside` where what holds it was itself taken away or added.
    """

    before: Step | None
    after: Step | None
    renamed: bool = False
    moved: bool = False
    inside: bool = False


@dataclass(frozen=True)
class Node:
    """A step with what it holds, the number of its kind of contents, and its own part of the path without numbers."""

    step: Step
    held: "tuple[Node, ...]"
    contents: int
    name: str


Key = Callable[[Node], object]
LIKE = 0.5
"""Two blocks are one under another name where they share so much of what they do."""


def align_passes(before: Pass, after: Pass) -> Iterator[Pair]:
    """The pairs of two passes, a block before what is inside it, in an order that keeps that of both sides."""
    kinds: dict[object, int] = {}
    yield from align(grow(before, kinds), grow(after, kinds))


def grow(one_pass: Pass, kinds: dict[object, int]) -> tuple[Node, ...]:
    """The steps of a pass as trees; steps with like contents, names and sizes aside, get the same number."""
    held: dict[str | None, list[Node]] = {}
    for step in reversed(one_pass.steps):
        inside = tuple(reversed(held.pop(step.id, [])))
        portrait = (step.op, step.module, tuple(node.contents for node in inside))
        own = step.path
        above = one_pass.by_id.get(step.parent or "")
        if above is not None:
            own = own.removeprefix(above.path + ".")
        node = Node(step, inside, kinds.setdefault(portrait, len(kinds)), re.sub(r"\d+", "0", own))
        held.setdefault(step.parent, []).append(node)
    return tuple(reversed(held.pop(None, [])))


def align(before: Sequence[Node], after: Sequence[Node]) -> Iterator[Pair]:
    """The pairs of neighbours, and of what they hold.

    A neighbour of one side only that holds what stood by itself on the other side was put around it.
    """
    pairs = list(pair_up(before, after, STAGES))
    gone = [one for one, other in pairs if other is None and one is not None]
    new = [other for one, other in pairs if one is None and other is not None]
    moved = {id(one): other for one, other in find_same_ids(gone, new)}
    around = {id(other): one for one, other in find_around(gone, new)}
    within = {id(one): other for other, one in find_around(new, gone)}
    taken = {id(node) for found in (moved, around, within) for node in found.values()}
    for one, other in pairs:
        if one is not None and other is not None:
            yield from list_pairs(one, other, moved=False)
        elif one is not None and id(one) in moved:
            yield from list_pairs(one, moved[id(one)], moved=True)
        elif one is not None and id(one) in within:
            yield Pair(one.step, None)
            yield from align(one.held, [within[id(one)]])
        elif other is not None and id(other) in around:
            yield Pair(None, other.step)
            yield from align([around[id(other)]], other.held)
        elif one is not None and id(one) not in taken:
            yield from list_alone(one, lambda step, inside: Pair(step, None, inside=inside))
        elif other is not None and id(other) not in taken:
            yield from list_alone(other, lambda step, inside: Pair(None, step, inside=inside))


def list_pairs(one: Node, other: Node, *, moved: bool) -> Iterator[Pair]:
    yield Pair(one.step, other.step, renamed=one.name != other.name and one.step.op != one.name, moved=moved)
    yield from align(one.held, other.held)


def list_alone(node: Node, make: Callable[[Step, bool], Pair], *, inside: bool = False) -> Iterator[Pair]:
    """A step that only one side has, and all that it holds."""
    yield make(node.step, inside)
    for held in node.held:
        yield from list_alone(held, make, inside=True)


def find_same_ids(gone: Sequence[Node], new: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Neighbours of the same id that no pairing in order brings together: they have moved."""
    ids = {node.step.id: node for node in new}
    for node in gone:
        if node.step.id in ids:
            yield node, ids[node.step.id]


def find_around(alone: Sequence[Node], holders: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Neighbours of one side that stand, as they are, inside a neighbour of the other side, which was put around."""
    left = {node.contents: node for node in alone if node.step.module}
    for holder in holders:
        found = next((left.pop(held.contents) for held in holder.held if held.contents in left), None)
        if found is not None:
            yield found, holder


def pair_up(
    before: Sequence[Node], after: Sequence[Node], stages: Sequence[Key]
) -> Iterator[tuple[Node | None, Node | None]]:
    """Neighbours in pairs: by the first stage what it finds alike, and what lies between by the stages after it."""
    if not stages or not before or not after:
        yield from pair_alike(before, after)
        return
    key, *rest = stages
    for start, end, other_start, other_end, alike in find_runs(
        [key(node) for node in before], [key(node) for node in after]
    ):
        if alike:
            yield from zip(before[start:end], after[other_start:other_end], strict=True)
        else:
            yield from pair_up(before[start:end], after[other_start:other_end], rest)


def pair_alike(before: Sequence[Node], after: Sequence[Node]) -> Iterator[tuple[Node | None, Node | None]]:
    """Neighbours under other names and of other classes: blocks that mostly hold the same operations, in order."""
    left = list(after)
    for node in before:
        place = next((place for place, other in enumerate(left) if are_alike(node, other)), None)
        if place is None:
            yield node, None
            continue
        yield from ((None, other) for other in left[:place])
        yield node, left[place]
        del left[: place + 1]
    yield from ((None, other) for other in left)


def are_alike(node: Node, other: Node) -> bool:
    """Whether half of what either of two blocks does, the other does as well; of whole models, the smaller of them."""
    if not (node.held and other.held and node.step.module and other.step.module):
        return False
    if any(inner.contents == alone.contents for alone, outer in ((node, other), (other, node)) for inner in outer.held):
        return False  # one was put around the other
    one, two = count_operations(node), count_operations(other)
    are_whole = node.step.parent is None and other.step.parent is None
    return (one & two).total() >= LIKE * (min if are_whole else max)(one.total(), two.total())


def count_operations(node: Node) -> Counter[str]:
    """How often a block does what, in all that it holds; parts that are alike count as one, however many layers."""
    if not node.held:
        return Counter([node.step.op])
    parts = {inner.contents if inner.held else inner.step.id: inner for inner in node.held}
    return sum(map(count_operations, parts.values()), Counter[str]())


def find_runs(before: Sequence[object], after: Sequence[object]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Runs of places in two lists, by turns alike and not; a None is like nothing."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start] and before[start] is not None:
        start += 1
    end, other_end = len(before), len(after)
    while end > start and other_end > start and before[end - 1] == after[other_end - 1] and before[end - 1] is not None:
        end, other_end = end - 1, other_end - 1
    if start:
        yield 0, start, 0, start, True
    if end > start or other_end > start:
        left = [(0, place) if one is None else one for place, one in enumerate(before[start:end])]
        right = [(1, place) if one is None else one for place, one in enumerate(after[start:other_end])]
        matcher = SequenceMatcher(None, left, right, autojunk=max(len(left), len(right)) > MANY)
        for tag, one, two, three, four in matcher.get_opcodes():
            yield start + one, start + two, start + three, start + four, tag == "equal"
    if end < len(before):
        yield end, len(before), other_end, len(after), True


def by_name_and_contents(node: Node) -> object:
    """Alike where both the name, numbers apart, and all that it holds are."""
    return node.name, node.step.op, node.contents


def by_name(node: Node) -> object:
    """Alike where name and operation are, whatever it holds."""
    return node.name, node.step.op


def by_contents(node: Node) -> object:
    """Alike under another name: a module that is, and holds, the same."""
    return node.contents if node.step.module or node.held else None


def by_name_alone(node: Node) -> object:
    """Alike in name, though it does something else now; only modules have names of their own."""
    return node.name if node.step.module else None


def by_class(node: Node) -> object:
    """Alike in class alone, renamed and changed inside."""
    return node.step.module if node.step.module and node.held else None


STAGES: tuple[Key, ...] = (by_name_and_contents, by_name, by_contents, by_name_alone, by_class)
