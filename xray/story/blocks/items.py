"""What a plan by blocks consists of: items, of which some are nodes and some are frames around others."""

from dataclasses import dataclass, field
from typing import Literal

from xray.ir.trace import Pass, Step
from xray.story.blocks.pieces import Piece
from xray.story.blocks.tree import Tree

NOBODY = -1

ItemKind = Literal["step", "closed", "open", "group", "bundle"]
Differ = Literal["", "sizes", "settings"]
"""In what neighbours differ that stand once for several: in nothing, in sizes, or in settings alone."""


@dataclass(frozen=True)
class Item:
    """What stands at one place of the drawing.

    A "step" is a single operation, a "closed" block one node for all inside it, an "open" block a frame around its
    `inside`; a "group" is a frame around neighbours that repeat together, a "bundle" one node for neighbours that are
    too many to be shown. `heads` are the neighbours themselves, of the first time where `count` times the same follow,
    be it that they `differ` in sizes or settings. `number` tells the items that are nodes apart, NOBODY for frames.
    `piece` is what a closed block or a bundle is, where a reader knows that by one word.
    """

    kind: ItemKind
    number: int
    heads: tuple[Step, ...]
    first: int
    length: int
    count: int = 1
    differ: Differ = ""
    inside: tuple["Item", ...] = ()
    last: Step | None = None
    piece: Piece | None = None

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
    if item.differ:
        for place in range(first, behind):
            if shown[place] == place:
                variants[place] = tuple(tree.steps[place + number * item.length] for number in range(item.count))
