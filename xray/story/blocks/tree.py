"""A pass as a tree of blocks, numbered so that what a block holds stands directly behind it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xray.ir.trace import Pass, Step

OUTSIDE = -1
"""The place of a maker that is not in the pass."""


@dataclass(frozen=True)
class Tree:
    """The steps of a pass by their place: each block before what is inside it, and that up to its end.

    `inside` has the places of what each block holds directly, `ends` the place behind the last step in it (behind the
    step itself for a leaf), `levels` how many blocks are around each step.
    """

    steps: tuple[Step, ...]
    roots: tuple[int, ...]
    inside: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    levels: tuple[int, ...]

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each step by its id."""
        return {step.id: place for place, step in enumerate(self.steps)}

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """For each step the places of those that made its inputs, in order; what was handed on counts as made anew."""
        return tuple(
            tuple(self.find_maker(one.source, place) for one in step.inputs) for place, step in enumerate(self.steps)
        )

    def find_maker(self, source: str | None, reader: int) -> int:
        """The place of the step that a reader has a tensor from: its maker, or the last that handed it on unchanged.

        A step that hands on (dropout that does nothing, an identity) counts if its block is around the reader too, or
        gives back what was handed on.
        """
        place = OUTSIDE if source is None else self.places.get(source, OUTSIDE)
        for other in reversed(self.handed_on.get(place, ())):
            if other < reader and self.reaches(other, source, reader):
                return other
        return place

    def reaches(self, other: int, source: str | None, reader: int) -> bool:
        """Whether what a step hands on comes out of the blocks around it, up to one that is around the reader."""
        around = self.parents[other]
        while around != OUTSIDE and not around < reader < self.ends[around]:
            if all(record.source != source for record in self.steps[around].outputs):
                return False
            around = self.parents[around]
        return True

    @cached_property
    def handed_on(self) -> dict[int, list[int]]:
        """The leaves that give back what they were given, by the place of the step that made it."""
        found: dict[int, list[int]] = defaultdict(list)
        for place, step in enumerate(self.steps):
            if not self.inside[place] and len(step.outputs) == 1:
                source = self.places.get(step.outputs[0].source or "", place)
                if source < place and any(one.source == step.outputs[0].source for one in step.inputs):
                    found[source].append(place)
        return dict(found)

    @cached_property
    def readers(self) -> tuple[tuple[tuple[int, str], ...], ...]:
        """For each step the leaves that read what it made, each with its name for the input, numbers left out."""
        found: list[list[tuple[int, str]]] = [[] for _ in self.steps]
        for place, step in enumerate(self.steps):
            if not self.inside[place]:
                for record, source in zip(step.inputs, self.sources[place], strict=True):
                    if source != OUTSIDE:
                        found[source].append((place, record.name.rstrip("0123456789")))
        return tuple(map(tuple, found))

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The place of the block around each step, -1 where there is none."""
        around = [OUTSIDE] * len(self.steps)
        for place, held in enumerate(self.inside):
            for one in held:
                around[one] = place
        return tuple(around)

    def kind_of_block(self, place: int) -> int:
        """A number for what is done at a place, the same wherever the same operations stand; sizes do not matter."""
        known = self.kinds.get(place)
        if known is None:
            step = self.steps[place]
            inside = tuple(self.kind_of_block(one) for one in self.inside[place])
            known = self.kinds[place] = hash((step.op, step.module, len(step.inputs), inside))
        return known

    @cached_property
    def kinds(self) -> dict[int, int]:
        """What `kind_of_block` found before."""
        return {}

    def size(self, place: int) -> int:
        """How many steps stand at a place: the step itself and all inside it."""
        return self.ends[place] - place


def grow_tree(one_pass: Pass) -> Tree:
    """The tree of a pass; steps keep their order as far as blocks allow."""
    held: dict[str | None, list[Step]] = defaultdict(list)
    known = one_pass.by_id
    for step in one_pass.steps:
        held[step.parent if step.parent in known else None].append(step)
    steps: list[Step] = []
    inside: list[list[int]] = []
    ends: list[int] = []
    levels: list[int] = []
    roots: list[int] = []
    waiting: list[tuple[Step, int]] = [(step, OUTSIDE) for step in reversed(held[None])]
    while waiting:
        step, around = waiting.pop()
        place = len(steps)
        steps.append(step)
        inside.append([])
        ends.append(place + 1)
        levels.append(0 if around == OUTSIDE else levels[around] + 1)
        (roots if around == OUTSIDE else inside[around]).append(place)
        waiting += [(one, place) for one in reversed(held.get(step.id, ()))]
    for place in reversed(range(len(steps))):
        if inside[place]:
            ends[place] = ends[inside[place][-1]]
    return Tree(tuple(steps), tuple(roots), tuple(map(tuple, inside)), tuple(ends), tuple(levels))


def name_place(step: Step) -> str:
    """What a step is called inside its block: the last word of its path, with the one before where that is a number."""
    parts = step.path.split(".")
    return ".".join(parts[-2:]) if parts[-1].isdigit() else parts[-1]


def name_range(steps: Sequence[Step]) -> str:
    """What neighbours that are alike are called together, "layers.0 … layers.125"."""
    first, last = name_place(steps[0]), name_place(steps[-1])
    return first if first == last else f"{first} … {last}"
