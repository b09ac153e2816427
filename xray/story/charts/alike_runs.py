"""Steps that are the same again and again, one behind the other, in one box where there is no room for each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.charts.chart import Node, describe_params
from xray.story.charts.operation_labels import label_step

LONGEST, LEAST_TIMES = 2, 3
"""Of how many boxes a turn is at most, and how often it is at least."""
EACH_KEPT = ", EACH HANDED ON"
Group = tuple[int, ...]
Behind = Mapping[int, Mapping[int, Group]]
"""What stands in the box of a step behind it."""
Turn = Behind
"""The steps of one turn, in order, each with what stands in its box."""


def find_runs(flow: Flow, drawn: Sequence[int], behind: Behind) -> list[tuple[Group, int]]:
    """The drawn steps of each run, and how many of them are one turn of it; each reads what the one before gives."""
    marks = [
        (label_step(flow, one), flow.output(one).shape, *map(flow.op, behind.get(one, {})), flow.steps[one].module)
        for one in drawn
    ]
    found, at = list[tuple[Group, int]](), 0
    while at < len(drawn):
        runs = [(count_turns(flow, drawn[at:], marks[at:], long, behind), long) for long in range(1, LONGEST + 1)]
        times, long = max(runs, key=lambda one: (one[0] >= LEAST_TIMES, one[0] * one[1], -one[1]))
        if times >= LEAST_TIMES:
            found.append((tuple(drawn[at : at + times * long]), long))
        at += times * long if times >= LEAST_TIMES else 1
    return found


def count_turns(flow: Flow, drawn: Sequence[int], marks: Sequence[object], long: int, behind: Behind) -> int:
    """How often the first so many of some steps are done, one time behind the other."""
    here = 0
    while here < len(drawn) and marks[here] == marks[here % long]:
        before = (drawn[here - 1], *behind.get(drawn[here - 1], ())) if here else ()
        makers = flow.makers[drawn[here]]
        if before and (not makers or flow.carried_from(makers[0]) != max(before)):
            break
        here += 1
    return here // long


def find_kept(flow: Flow, run: Group, long: int, held: Collection[int]) -> set[bool]:
    """Whether what each turn but the last gives is read by others than `held`, all that the box of a run stands for."""
    ends = [max(own for own in held if own < begin) for begin in run[long::long]]
    return {any(flow.is_leaf(one) and one not in held for one in flow.readers.get(end, ())) for end in ends}


def tell_run(flow: Flow, node: Node, turn: Turn, times: int, *, is_kept: bool) -> Node:
    """A box that stands for several turns, by what each of them does; its own label is that of the last step."""
    before = [" + ".join(label_step(flow, part) for part in (one, *behind)) for one, behind in [*turn.items()][:-1]]
    extra = describe_params(flow, *(flow.places[step.id] for step in node.steps))
    label = f"{times} TIMES{EACH_KEPT if is_kept else ''}: {'; '.join((*before, node.label))}"
    return replace(node, label=label, extra=extra)
