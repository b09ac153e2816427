"""Parts with parameters that no box tells of: neither a drawn one, nor one of a layer that stands for others."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import product

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import NORMS, SUMS
from xray.ir.flow.remembering import once_for
from xray.ir.flow.weights import gather_weights, list_common
from xray.story.anatomy.branches import Convolution, Experts
from xray.story.anatomy.tree import Untold
from xray.story.body.ends import list_lending, name_outermost
from xray.story.body.stages import Staging
from xray.story.cards.boxless import list_drawn_once
from xray.story.charts.counted_weights import MOVES, weights_at
from xray.story.facts.unused import name_kind
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import weights_of
from xray.story.regions.drawn_steps import list_drawn
from xray.story.sheet.columns import Column
from xray.story.sheet.stand_ins import list_own


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
    boxes = {id(flow): drawn[id(flow)] | list_of_closed(columns, flow) for flow, _ in told}
    known = {one.partition(" ")[0] for flow, _ in told for one in list_boxed(flow, boxes[id(flow)])}
    boxed, lending = {*map(name_table, known)}, {id(flow): list_lending(flow, nodes) for flow, nodes in told}
    phases = [phase for column in columns for phase in column.phases]
    for phase in phases:
        flow = phase.reading.flow
        for own, other in list_stages(phase, phases):
            known |= list_at_places(flow, own, other, boxed) | list_of_experts(flow, own, other, boxed)
        for nodes, others, inside in list_pairs(phase, phases, drawn[id(flow)]):
            held, like = (weights_of(flow, some, lending[id(flow)]) for some in (nodes, others))
            known |= list_named_alike(held, [one for one in like if name_table(one) in boxed], inside)
        known |= weights_of(flow, list_lone(phase)).keys()
        left_out = list_left_out(phase, [one for one in phases if one.towering is phase.towering])
        known |= weights_of(flow, left_out, lending[id(flow)]).keys()
    return name_outermost([flow for flow, _ in told], known)


def list_boxed_around(columns: Sequence[Column]) -> set[str]:
    """The parameters that boxes around layers and between them work with, and those of conditions."""
    found = set[str]()
    for phase in (phase for column in columns for phase in column.phases):
        nodes = (node for chart in phase.around for node in chart.nodes if not node.is_given)
        found |= list_boxed(phase.reading.flow, {step.id for node in nodes for step in node.steps})
    return found


def list_of_closed(columns: Sequence[Column], flow: Flow) -> set[str]:
    """The steps of a pass that the boxes of closed stages stand for: their sums, and what makes a bias of scores."""
    phases = (phase for column in columns for phase in column.phases if phase.reading.flow is flow)
    closed = (panel for phase in phases for frame in phase.frames for panel in frame.panels if not panel.is_open)
    return {step.id for panel in closed for node in panel.chart.nodes for step in node.steps}


def list_boxed(flow: Flow, drawn: Collection[str]) -> set[str]:
    """The parameters that boxes work with: those of their steps, and those that are laid out for their sums."""
    places = [place for one, place in flow.places.items() if one in drawn]
    laid = (one for place in places if flow.op(place) in MOVES | SUMS for one in flow.given(place))
    sources = (learned_source(flow, *one, MOVES) for one in laid)
    own = {one.weight for one in sources if one is not None and one.weight}
    return {*weights_at(flow, places), *gather_weights(flow, places), *own}


def list_stages(phase: Column, phases: Sequence[Column]) -> Iterator[tuple[Staging, Staging]]:
    """Each stage for which an open one stands, with this: that of its group, or each that is like it.

    These have the same parts, and do the same, where any do: the one alone that its box names, if that is among them.
    With the closed one of its group, whose box says some.
    """
    flow = phase.reading.flow
    drawn = (frame for one in phases if one.reading.flow is flow for frame in one.frames)
    opened = [panel for frame in drawn for panel in frame.panels if panel.is_open]
    for frame in phase.frames:
        layers = [phase.towering.layers[number] for number in frame.group.layers]
        for place, panel in enumerate(frame.panels):
            own = panel.staging
            alike = [panel] if panel.is_open else [one for one in opened if name_parts(one.staging) == name_parts(own)]
            same = [one for one in alike if name_works(flow, one.staging) == name_works(flow, own)]
            named = [one for one in same if one.station == panel.like]
            told = [*(one.staging for one in named or same or alike), *([] if panel.is_open else [own])]
            yield from product((one[place] for one in layers if place < len(one)), told)


def list_pairs(
    phase: Column, phases: Sequence[Column], drawn: Collection[str]
) -> Iterator[tuple[Collection[int], Collection[int], Collection[str]]]:
    """The steps of each stage for which an open one stands, those of this, and the parameters that stand inside of it.

    So does what is drawn once beside the layers for all that is of its kind there; rows that are added to a stream
    only where that sum is `drawn` for one of them.
    """
    flow, towering, condition = phase.reading.flow, phase.towering, phase.towering.condition
    untold = frozenset[int]() if condition is None else condition.untold
    for own, like in list_stages(phase, phases):
        yield own.nodes - untold, like.nodes, [name for _, name in list_working(flow, like)]
    is_summed = any(flow.steps[rows.add].id in drawn for rows in towering.added)
    kinds: list[list[Collection[int]]] = [
        [tap.nodes for tap in towering.taps],
        [{*rows.nodes, rows.add, rows.end} for rows in towering.added if is_summed],
        [(one.steps - one.first) | one.places for one in towering.corrections],
        [] if condition is None else [condition.nodes - untold],
    ]
    yield from ((own, set[int]().union(*alike), ()) for alike in kinds for own in alike)


def name_parts(staging: Staging) -> list[tuple[str, bool]]:
    """What kinds of parts a stage has, and whether each looks at nothing but the stream."""
    return [(one.part, getattr(one, "source", "self") == "self") for one in staging.stage.branches]


def name_works(flow: Flow, staging: Staging) -> list[str]:
    """What the steps of a stage do that work with parameters, in order."""
    return [op for op, _ in list_working(flow, staging)]


def list_lone(phase: Column) -> set[int]:
    """The convolutions that stand alone in closed stages, whose boxes name them by their kernel (FastViT)."""
    flow, found = phase.reading.flow, set[int]()
    for frame in phase.frames:
        closed = [place for place, panel in enumerate(frame.panels) if not panel.is_open]
        layers = [phase.towering.layers[number] for number in frame.group.layers]
        for own in (layer[place] for layer, place in product(layers, closed) if place < len(layer)):
            working = {node for node in list_own(own) if weights_of(flow, [node])}
            named = [one for one in own.stage.branches if isinstance(one, Convolution) and one.kernel]
            found |= working if len(working) == len(named) == len(own.stage.branches) == 1 else set()
    return found


def list_left_out(phase: Column, whole: Sequence[Column]) -> set[int]:
    """The steps of layers that are told to be left out: they are in no column of the `whole` tower.

    With those that the stream goes through past a stage that is closed: its box says so.
    """
    framed = {number for column in whole for one in column.frames for number in one.group.layers}
    left = (staging for number, layer in enumerate(phase.towering.layers) if number not in framed for staging in layer)
    closed = (panel.staging for frame in phase.frames for panel in frame.panels if not panel.is_open)
    past = (joint.past for staging in closed for joint in staging.joints)
    return set[int]().union(*(one.nodes for one in left), *past)


def list_at_places(flow: Flow, own: Staging, like: Staging, boxed: Collection[str]) -> set[str]:
    """The parameters of a stage that stand where boxed ones do in another, whatever their names.

    As many of its steps work with parameters as there, and do the same, in order; but for norms where it has none.
    """
    held, told = (list_working(flow, one) for one in (own, like))
    left = NORMS.difference(op for op, _ in held)
    told = [one for one in told if one[0] not in left]
    alike = zip(held, told, strict=True) if [op for op, _ in held] == [op for op, _ in told] else ()
    return {one for (_, one), (_, other) in alike if name_table(other) in boxed}


def list_of_experts(flow: Flow, own: Staging, like: Staging, boxed: Collection[str]) -> set[str]:
    """The parameters of experts of a stage where several boxed ones of another are called so, but for their numbers.

    No place of the drawn layer may have chosen these: its box stands for each of its experts.
    """
    kinds = Counter(name_kind(one) for one in {name_table(name) for _, name in list_working(flow, like)} & {*boxed})
    several = {kind for kind, count in kinds.items() if count > 1}
    has_experts = any(isinstance(one, Experts) for one in own.stage.branches)
    return {name for _, name in list_working(flow, own) if has_experts and name_kind(name) in several}


@once_for
def list_working(flow: Flow, staging: Staging) -> list[tuple[str, str]]:
    """What each step of a stage does, once for every parameter that it works with, and that.

    With what makes keys and values of rows that come from beside it, which stands in its box too.
    """
    sites = (one.site for one in staging.branches if one.site is not None)
    made = (way.projection for site in sites for way in (site.key, site.value))
    nodes = sorted({*list_own(staging), *(node for node in made if node is not None)})
    return [(flow.op(node), name) for node in nodes for name in weights_of(flow, [node])]


def list_named_alike(held: Collection[str], like: Collection[str], inside: Collection[str]) -> set[str]:
    """The parameters whose names end as those of others, but for numbers in lists.

    The end of one is all but what it begins with as do all those that stand `inside` of a stage; its module at least.
    """
    paths = [split_path(one)[:-1] for one in inside]
    first = list_common(paths)
    ends = [one[len(list_common([one[:-2], first])) :] for one in map(split_path, like)]
    return {name for name in held if any(split_path(name)[-len(one) :] == one for one in ends)}


def name_table(name: str) -> str:
    """A parameter without the row that is taken of it."""
    return name.partition("[")[0]


def split_path(name: str) -> list[str]:
    """What the modules around a parameter are called, and itself, from outside, without their numbers in lists."""
    return [one for one in name_table(name).split(".") if not one.isdigit()]
