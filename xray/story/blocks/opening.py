"""Which blocks of a model are opened: as deep as asked, and those that are named."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from xray.errors import UsageError
from xray.ir.trace import Step, Trace
from xray.story.blocks.tree import Tree
from xray.text import show_controls

DEEPEST = 60
"""No block deeper than this is opened."""
MOST_NAMED = 6
"""How many blocks an error names."""


@dataclass(frozen=True)
class Choice:
    """How much of a model is opened: `depth` levels of blocks (None: as many as stay readable), and by name.

    The names are patterns on the paths of blocks, in which * stands for anything. What is opened is opened with all
    around it; what is closed stays closed.
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
    blocks = dict.fromkeys(
        step.path for one_pass in trace.passes for step in one_pass.steps if step.id in one_pass.blocks
    )
    for word, patterns in (("open", choice.opened), ("close", choice.closed)):
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in blocks):
                named = ", ".join(show_controls(path) for path in list(blocks)[:MOST_NAMED])
                more = f" and {len(blocks) - MOST_NAMED:,} more" if len(blocks) > MOST_NAMED else ""
                raise UsageError(
                    f"{word}={show_controls(pattern)!r} fits no block. Blocks: {named or 'none'}{more}. "
                    '* stands for anything, as in "encoder.layers.*".'
                )


class Openness:
    """Tells for each block of one pass whether it is opened."""

    def __init__(self, tree: Tree, choice: Choice, depth: int) -> None:
        self.tree = tree
        self.choice = choice
        self.depth = depth
        self.named: set[int] = set()
        if choice.opened:
            for place, step in enumerate(tree.steps):
                if tree.inside[place] and fits(step, choice.opened):
                    around = place
                    while around >= 0 and around not in self.named:
                        self.named.add(around)
                        around = tree.parents[around]

    def opens(self, places: Iterable[int]) -> bool:
        """Whether the block that stands for those at these places is opened."""
        listed = tuple(places)
        if self.choice.closed and any(fits(self.tree.steps[place], self.choice.closed) for place in listed):
            return False
        level = self.tree.levels[listed[0]]
        return level < DEEPEST and (level < self.depth or any(place in self.named for place in listed))


def fits(step: Step, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(step.path, pattern) for pattern in patterns)
