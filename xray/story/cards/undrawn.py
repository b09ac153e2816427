"""Parts with parameters that no box tells of: neither a drawn one, nor one of a layer that stands for others."""

import re
from collections.abc import Collection, Iterator, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.ir.flow.weights import gather_weights, read_weights
from xray.story.anatomy.tree import Untold
from xray.story.body.ends import list_lending, name_outermost
from xray.story.body.stages import Staging
from xray.story.cards.boxless import list_drawn_once
from xray.story.charts.counted_weights import MOVES, weights_at
from xray.story.charts.stage_names import name_stage
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import weights_of
from xray.story.regions.drawn_steps import list_drawn
from xray.story.sheet.columns import Column
from xray.story.sheet.stand_ins import list_own

MEMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""The number of a module in its list."""


def list_told(columns: Sequence[Column]) -> list[tuple[Flow, set[int]]]:
    """The steps that are drawn of each pass."""
    told: dict[int, tuple[Flow, set[int]]] = {}
    for phase in (phase for column in columns for phase in column.phases):
        flow, condition = phase.reading.flow, phase.towering.condition
        nodes = told.setdefault(id(flow), (flow, set()))[1]
        nodes |= phase.towering.nodes - (frozenset() if condition is None else condition.boxless)
        nodes |= {flow.places[step.id] for node in phase.exit.nodes for step in node.steps} if phase.exit else set()
        nodes |= list_drawn_once(phase)
        panels = (panel for frame in phase.frames for panel in frame.panels)
        shown = {step.id for panel in panels for node in panel.chart.nodes for step in node.steps}
        nodes |= {flow.places[one] for one in shown & flow.places.keys()}  # some are another pass's (kept keys)
    return list(told.values())


def list_unboxed(columns: Sequence[Column]) -> tuple[Untold, ...]:
    """What no box works with, nor one of a layer that stands for others, or of what is drawn once for several."""
    drawn, told = list_drawn(columns), list_told(columns)
    boxed = {one.partition(" ")[0] for flow, _ in told for one in list_boxed(flow, drawn[id(flow)])}
    known, lending = {*boxed}, {id(flow): list_lending(flow, nodes) for flow, nodes in told}
    ends = {name_end(one) for one in boxed}
    phases = [phase for column in columns for phase in column.phases]
    for phase in phases:
        flow = phase.reading.flow
        for nodes, others in list_pairs(phase):
            held, like = (weights_of(flow, some, lending[id(flow)]) for some in (nodes, others))
            known |= list_stood_for(held, boxed.intersection((*like, *map(name_table, like))))
        whole = [one for one in phases if one.towering is phase.towering]
        opened, closed, left_out = list_closed(phase, whole)
        shown, shut = (weights_of(flow, some, lending[id(flow)]) for some in (opened, closed))
        apart = {name_member(one) for one in shown.keys() - known if name_table(one) not in known}
        known |= {one for one in shut if name_end(one) in ends and name_member(one) not in apart}
        known |= list_told_alike(phase, whole, {name_table(one) for one in boxed})
        known |= weights_of(flow, left_out, lending[id(flow)]).keys()
    return name_outermost([flow for flow, _ in told], known)


def list_boxed(flow: Flow, drawn: Collection[str]) -> set[str]:
    """The parameters that boxes work with: those of their steps, and those that are laid out for their sums."""
    places = [place for one, place in flow.places.items() if one in drawn]
    laid = (one for place in places if flow.op(place) in MOVES | SUMS for one in flow.given(place))
    sources = (learned_source(flow, *one, MOVES) for one in laid)
    own = {one.weight for one in sources if one is not None and one.weight}
    return {*weights_at(flow, places), *gather_weights(flow, places), *own}


def list_pairs(phase: Column) -> Iterator[tuple[Collection[int], Collection[int]]]:
    """The steps of each stage for which an open one of its group stands, with those of this.

    So does what is drawn once beside the layers for all that is of its kind there.
    """
    towering, condition = phase.towering, phase.towering.condition
    untold = frozenset[int]() if condition is None else condition.untold
    for frame in phase.frames:
        for place, panel in enumerate(frame.panels):
            others = (towering.layers[number] for number in frame.group.layers)
            own = panel.staging.nodes if panel.is_open else ()
            yield from ((one[place].nodes - untold, own) for one in others if place < len(one))
    kinds: list[list[Collection[int]]] = [
        [tap.nodes for tap in towering.taps],
        [{*rows.nodes, rows.add, rows.end} for rows in towering.added],
        [(one.steps - one.first) | one.places for one in towering.corrections],
        [] if condition is None else [condition.nodes - untold],
    ]
    yield from ((own, set[int]().union(*alike)) for alike in kinds for own in alike)


def list_closed(phase: Column, whole: Sequence[Column]) -> tuple[set[int], set[int], set[int]]:
    """The steps of the open stages of a tower, those of closed ones, and of layers that are told to be left out.

    Those are in no column of the `whole` tower. Of a closed stage is told at which station boxes are like its own, be
    they in another tower.
    """
    panels = [(frame, place, panel) for frame in phase.frames for place, panel in enumerate(frame.panels)]
    layers = phase.towering.layers
    framed = {number for column in whole for one in column.frames for number in one.group.layers}
    opened = set[int]().union(*(panel.staging.nodes for _, _, panel in panels if panel.is_open))
    shut = [(number, place) for frame, place, panel in panels if not panel.is_open for number in frame.group.layers]
    closed = set[int]().union(*(layers[number][place].nodes for number, place in shut if place < len(layers[number])))
    charts = (panel.chart for _, _, panel in panels if not panel.is_open)
    places = phase.reading.flow.places
    closed |= {places[step.id] for chart in charts for node in chart.nodes for step in node.steps if step.id in places}
    left = (staging for number, layer in enumerate(layers) if number not in framed for staging in layer)
    return opened, closed, set[int]().union(*(one.nodes for one in left))


def list_told_alike(phase: Column, whole: Sequence[Column], boxed: Collection[str]) -> set[str]:
    """The parameters that stand in stages where boxed ones do in that which is drawn for them, whatever their names.

    That is the open one of their group, or one of the `whole` tower that is open where theirs is closed. It is called
    as theirs are, and as many of its steps work with parameters, and do the same, in order.
    """
    flow, found = phase.reading.flow, set[str]()
    every = [one for part in whole for frame in part.frames for one in frame.panels if one.is_open]
    panels = [(frame, *one) for frame in phase.frames for one in enumerate(frame.panels)]
    for frame, place, panel in panels:
        likes = [list_working(flow, one.staging) for one in ([panel] if panel.is_open else every)]
        layers = [phase.towering.layers[number] for number in frame.group.layers]
        for kind, names in (list_working(flow, layer[place]) for layer in layers if place < len(layer)):
            alike = (zip(names, other, strict=True) for like, other in likes if like == kind)
            found |= {one for pairs in alike for one, other in pairs if name_table(other) in boxed}
    return found


def list_working(flow: Flow, staging: Staging) -> tuple[list[str], list[str]]:
    """What a stage is called, with what each of its steps does once for every parameter it works with, and these."""
    pairs = [(flow.op(node), name) for node in list_own(staging) for name in read_weights(flow, node)]
    return [name_stage(staging), *(op for op, _ in pairs)], [name for _, name in pairs]


def list_stood_for(held: Collection[str], boxed: Collection[str]) -> set[str]:
    """Those of some parameters that are called like a boxed one but for the numbers of their modules in lists.

    Where none of all is, as layers stand in lists that are called otherwise, by the end of the name alone.
    """
    for name_alike in (name_member, name_end):
        likes = {name_alike(one) for one in boxed}
        if found := {one for one in held if name_alike(one) in likes}:
            return found
    return set()


def name_table(name: str) -> str:
    """A parameter without the row that is taken of it."""
    return name.partition("[")[0]


def name_member(name: str) -> str:
    """A parameter by its path without the numbers of modules in lists."""
    return MEMBER.sub("", name_table(name))


def name_end(name: str) -> str:
    """A parameter by its name in its module, and by what that is called."""
    *blocks, own = name_member(name).split(".")
    return f"{next(filter(None, reversed(blocks)), '')}.{own}"
