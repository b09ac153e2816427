"""Which blocks of a model are opened: as deep as asked, and those that are named."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from xray.errors import UsageError
from xray.ir.trace import Step, Trace
from xray.story.blocks.tree import Tree
from xray.story.facts.selection import find_near
from xray.text import show_controls

DEEPEST = 60
"""No block deeper than this is opened."""
MOST_NAMED = 6
"""How many blocks an error names."""


@dataclass(frozen=True)
class Choice:
    """How much of a model is opened: `depth` levels of blocks (None: as many as stay readable), and by name.

    The names are patterns on paths, in which * stands for anything. What is opened is opened with all around it, be it
    a block, one step, or in a layer that another one stands for; what is closed stays closed.
    """

    depth: int | None = None
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def check_choice(trace: Trace, choice: Choice) -> None:
    """Hold a choice to the trace.

    Raises:
        UsageError: the depth is negative, or a pattern fits no block.
    """
    if choice.depth is not None and choice.depth < 0:
        raise UsageError(f"depth={choice.depth} is below 0. 0 draws the whole model as one block.")
    if not choice.opened and not choice.closed:
        return
    steps = [(one_pass, step) for one_pass in trace.passes for step in one_pass.steps]
    every = dict.fromkeys(step.path for _, step in steps)
    blocks = dict.fromkeys(step.path for one_pass, step in steps if step.id in one_pass.blocks)
    for word, patterns, paths in (("open", choice.opened, every), ("close", choice.closed, blocks)):
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in paths):
                raise UsageError(
                    f"{word}={show_controls(pattern)!r} fits no block. {name_near(pattern, blocks, list(every))}. "
                    '* stands for anything, as in "encoder.layers.*".'
                )


def name_near(pattern: str, blocks: Collection[str], every: Sequence[str]) -> str:
    """The paths that come nearest to a pattern that fits none; the first blocks where none is near."""
    near = find_near(pattern, list(blocks)) or find_near(pattern, every)
    if near:
        return f"Near it: {', '.join(map(show_controls, near))}"
    named = ", ".join(show_controls(path) for path in list(blocks)[:MOST_NAMED])
    more = f" and {len(blocks) - MOST_NAMED:,} more" if len(blocks) > MOST_NAMED else ""
    return f"Blocks: {named or 'none'}{more}"


class Openness:
    """Tells for each block of one pass whether it is opened: by its depth, by its name, or as one of a kind.

    `named` are the places of what is opened by name, with all around them; `kin` are kinds of blocks.
    """

    def __init__(self, tree: Tree, choice: Choice) -> None:
        self.tree = tree
        self.choice = choice
        self.depth = 0
        self.kin: set[int] = set()
        self.named: set[int] = set()
        if choice.opened:
            for place, step in enumerate(tree.steps):
                if fits(step, choice.opened):
                    self.name(place)

    def name(self, place: int) -> None:
        """Open a place with all around it."""
        while place >= 0 and place not in self.named:
            self.named.add(place)
            place = self.tree.parents[place]

    def name_shown(self, shown: Sequence[int]) -> bool:
        """Open what stands for a named place in a fold, as its like in the first layer; whether there was any."""
        others = {shown[place] for place in self.named} - self.named
        for place in others:
            self.name(place)
        return bool(others)

    def opens(self, places: Iterable[int]) -> bool:
        """Whether the block that stands for those at these places is opened."""
        listed = tuple(places)
        if self.choice.closed and any(fits(self.tree.steps[place], self.choice.closed) for place in listed):
            return False
        level = self.tree.levels[listed[0]]
        is_kin = bool(self.kin) and self.tree.kind_of_block(listed[0]) in self.kin
        return level < DEEPEST and (level < self.depth or is_kin or any(place in self.named for place in listed))


def fits(step: Step, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(step.path, pattern) for pattern in patterns)
