"""Passes that are alike but for lengths that grow: a generation loop as one, with the shapes of all its turns.

How to use it:

    for group in group_passes(trace):
        group.shown                        # the pass that is drawn
        group.same_step(step.id)           # that step in every pass of the group that has it, in order
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.story.shapes import ShapeText

MOST_ALIKE = 0.6
"""Two passes belong together if so much of what they call is the same."""


@dataclass(frozen=True)
class PassGroup:
    """Passes of one kind that call the same modules; `first` is the place of each in the trace, from 1."""

    passes: tuple[Pass, ...]
    places: tuple[int, ...]

    @cached_property
    def shown(self) -> Pass:
        """The pass that stands for all: the last of those that most are like."""
        looks = [tuple(step.id for step in one.steps) for one in self.passes]
        return self.passes[max(range(len(looks)), key=lambda number: (looks.count(looks[number]), number))]

    def same_step(self, step_id: str) -> tuple[Step, ...]:
        """The step of that id in every pass that has it."""
        return tuple(one.by_id[step_id] for one in self.passes if step_id in one.by_id)

    def missing(self) -> tuple[str, ...]:
        """The modules that another pass of the group calls and the shown one does not."""
        known = self.shown.by_id
        found = dict.fromkeys(
            step.path for one in self.passes for step in one.steps if step.module and step.id not in known
        )
        return tuple(found)


def group_passes(trace: Trace) -> tuple[PassGroup, ...]:
    """The passes of a trace in groups, in the order in which each first ran."""
    groups: list[tuple[tuple[str, str], frozenset[str], list[int]]] = []
    for place, one_pass in enumerate(trace.passes):
        head, called = head_of(one_pass), calls_of(one_pass)
        for group_head, group_called, places in groups:
            if head == group_head and len(called & group_called) >= MOST_ALIKE * len(called | group_called):
                places.append(place)
                break
        else:
            groups.append((head, called, [place]))
    return tuple(
        PassGroup(tuple(trace.passes[place] for place in places), tuple(place + 1 for place in places))
        for _, _, places in groups
    )


def head_of(one_pass: Pass) -> tuple[str, str]:
    """What a pass is of: its kind, and the class of the first block in it."""
    return one_pass.kind, next((step.module for step in one_pass.steps if step.id in one_pass.blocks), "")


def calls_of(one_pass: Pass) -> frozenset[str]:
    """The modules that a pass calls; all of its steps where there are none."""
    modules = frozenset(step.id for step in one_pass.steps if step.module)
    return modules or frozenset(step.id for step in one_pass.steps)


def read_sizes(records: Sequence[TensorRecord]) -> ShapeText:
    """One shape for a tensor of several passes or layers: sizes that differ as first→last, or as a range."""
    first = records[0]
    if any(len(record.shape) != len(first.shape) for record in records):
        return ShapeText(("…",), ("",))
    columns = zip(*(record.shape for record in records), strict=True)
    return ShapeText(tuple(map(describe_sizes, columns)), first.axes)


def describe_sizes(sizes: Sequence[int]) -> str:
    if min(sizes) == max(sizes):
        return str(sizes[0])
    return f"{sizes[0]}→{sizes[-1]}" if sizes[0] != sizes[-1] else f"{min(sizes)}–{max(sizes)}"
