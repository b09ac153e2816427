"""What is the same in several places: numbers of layers that one is drawn for, weights of charts before, turns."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, SUMS
from xray.ir.trace import Step
from xray.story.body.stages import Staging
from xray.story.branches.scored.caps import read_factor
from xray.story.charts.chart import Chart, Node
from xray.story.charts.counted_weights import describe_params, weights_of_box
from xray.story.charts.steps.operation_labels import label_step
from xray.story.charts.steps.same_weights import DRAWN_BEFORE, describe_again
from xray.story.passages.bridges import name_convolution, read_dilation
from xray.story.recognition.scored_parts import read_scored
from xray.story.streams.scaled_streams import list_factors_past

TIMES = re.compile(r"[×÷·] ?([\d.,]*\d(e-?\d+)?|ONE NUMBER)")
LONGEST, LEAST_TIMES = 2, 3
"""Of how many boxes a turn is at most, and how often it is at least."""
EACH_KEPT = ", EACH HANDED ON"
Group = tuple[int, ...]
Behind = Mapping[int, Mapping[int, Group]]
"""What stands in the box of a step behind it."""
Turn = Behind
"""The steps of one turn, in order, each with what stands in its box."""


def blur_numbers(flow: Flow, chart: Chart, drawn: Staging, others: Sequence[Staging]) -> Chart:
    """The chart of a stage without the numbers by which other layers multiply by another (DiffLlama)."""
    own = list_factors(flow, drawn)
    alike = [[factor for _, factor in list_factors(flow, other)] for other in others]
    differing = {
        flow.steps[node].id
        for place, (node, factor) in enumerate(own)
        if any(factor not in (other[place : place + 1] if len(other) == len(own) else other) for other in alike)
    }
    chart = blur_masks(flow, spread_dilations(flow, chart, drawn, others), drawn, others)
    return replace(
        chart,
        nodes=tuple(
            replace(node, label=TIMES.sub("× A NUMBER OF EACH LAYER", node.label))
            if any(step.id in differing for step in node.steps)
            else node
            for node in chart.nodes
        ),
    )


def blur_masks(flow: Flow, chart: Chart, drawn: Staging, others: Sequence[Staging]) -> Chart:
    """The chart without the shapes of masks that have others in some layers, as masks of windows may (Gemma 2)."""
    own, alike = list_masks_read(flow, drawn), [list_masks_read(flow, other) for other in others]
    differing = {
        shape for place, shape in enumerate(own) if any(other[place : place + 1] != [shape] for other in alike)
    }
    if not differing:
        return chart
    nodes = (
        replace(node, beside=None) if node.beside is not None and node.beside.shape in differing else node
        for node in chart.nodes
    )
    return replace(chart, nodes=tuple(nodes))


def list_masks_read(flow: Flow, staging: Staging) -> list[tuple[int, ...]]:
    """The shape of each tensor that is added to scores of a stage, or hides some, in order."""
    sites = (branching.site for branching in staging.branches)
    parts = (part for site in sites if site is not None for part in read_scored(flow, site.scored))
    return [part.operand.record.shape for part in parts if part.operand is not None]


def spread_dilations(flow: Flow, chart: Chart, drawn: Staging, others: Sequence[Staging]) -> Chart:
    """The chart with how far apart convolutions read, from the least to the most where layers differ in that (DAC)."""
    own, alike = list_convolutions(flow, drawn), [list_convolutions(flow, other) for other in others]
    told: dict[str, tuple[str, str]] = {}
    for place, node in enumerate(own):
        found = {read_dilation(flow, other[place]) for other in alike if len(other) == len(own)}
        if len(found) > 1:
            plain = name_convolution(flow, node)
            apart = read_dilation(flow, node)
            here = plain if apart == 1 else f"{plain}, {apart} APART"
            told[flow.steps[node].id] = (here, f"{plain}, {min(found)} TO {max(found)} APART")
    nodes = []
    for box in chart.nodes:
        label = box.label
        for here, spread in (told[step.id] for step in box.steps if step.id in told):
            label = label.replace(here, spread, 1)
        nodes.append(replace(box, label=label))
    return replace(chart, nodes=tuple(nodes))


def list_convolutions(flow: Flow, staging: Staging) -> list[int]:
    """The convolutions of a stage, in order."""
    return [node for node in sorted(staging.nodes) if flow.is_leaf(node) and flow.op(node) in FINDINGS]


def list_factors(flow: Flow, staging: Staging) -> list[tuple[int, float]]:
    """The steps of a stage that multiply by one number, each with it, in order; with those of the stream past it."""
    past = {node for joint in staging.joints for node in list_factors_past(flow, joint)}
    found = ((node, read_factor(flow, node)) for node in sorted({*staging.nodes, *past}) if flow.is_leaf(node))
    return [(node, factor) for node, factor in found if factor is not None]


def tell_chart(flow: Flow, chart: Chart | None, before: Iterable[tuple[Chart | None, str]]) -> Chart | None:
    """A chart, with the boxes whose weights stand in charts before it said to have the same, in the words for these.

    A box of the very steps that stand there is said to be drawn before: one lookup of which both towers read a part.
    """
    drawn: dict[str, str] = {}
    known: set[str] = set()
    for one, told in before:
        for steps in () if one is None else map(list_reading, one.nodes):
            known.update(step.id for step in steps)
            for name in weights_of_box(flow, steps):
                drawn.setdefault(name, told)
    if chart is None or not drawn:
        return chart
    nodes = (
        replace(node, extra=DRAWN_BEFORE)
        if known.issuperset(step.id for step in list_reading(node)) and list_reading(node)
        else tell_node(flow, node, drawn)
        for node in chart.nodes
    )
    return replace(chart, nodes=tuple(nodes))


def tell_node(flow: Flow, node: Node, drawn: Mapping[str, str]) -> Node:
    """A box, with where its weights stand instead of how many they are, where each step has some that are drawn before.

    Those that it has beside these are counted still: the bias of a table that scores words (BERT), be it added by a
    step of its own (ESM).
    """
    held = [(step.op, one) for step in list_reading(node) if (one := weights_of_box(flow, [step]))]
    working = [one for op, one in held if op not in SUMS] or [one for _, one in held]
    if not working or any(drawn.keys().isdisjoint(one) for one in working):
        return node
    weights = {name: count for _, one in held for name, count in one.items()}
    told = drawn[min(drawn.keys() & weights.keys())]
    own = sum(count for name, count in weights.items() if name not in drawn)
    return replace(node, extra=describe_again(flow, node, told, own))


def list_reading(node: Node) -> list[Step]:
    """The steps of a box that work with weights which it counts; a box of what comes in says its name there."""
    comes_in = node.key.startswith(("given", "also")) and (node.record is None or node.record.role != "parameter")
    is_counted = bool(node.extra) and not comes_in
    return [step for step in node.steps if is_counted and (step.params or list_given(step))]


def list_given(step: Step) -> list[tuple[int, ...]]:
    """The shapes of the parameters that a step is given."""
    return [one.shape for one in step.inputs if one.role == "parameter"]


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
