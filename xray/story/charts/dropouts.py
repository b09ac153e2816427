"""Which boxes say what share of what they give is dropped, be it that nothing is dropped now."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROP_PATHS, DROPOUTS
from xray.ir.trace import Step
from xray.story.charts.chart import Chart, Node
from xray.story.sentences.of_parts import DROPPED_FIRST

AT_WORK = re.compile(r"dropout (?!0(?:,|$))[^,]+(?:$|, (?!idle))")


def tell_dropped(flow: Flow, chart: Chart, apart: Collection[str] = (), before: int | None = None) -> Chart:
    """The chart whose boxes say what share of what they give is dropped; not those `apart`, whose rows others read.

    Only dropouts in no box are told, and those `before` a step: of the last step of a box, of its bend, of their views.
    """
    own = {node.key: list_own(flow, node) for node in chart.nodes}
    drawn = {step.id for node in chart.nodes for step in node.steps}

    def tell(node: Node) -> Node:
        others = {place for key, places in own.items() if key != node.key for place in places}
        begins = own[node.key] - others
        ways = flow.ahead(*begins, within=lambda one: one in begins or goes_on(flow, one, others))
        found = [one for one in list_dropouts(flow, *sorted(ways)) if read_share(flow, one) and one.id not in drawn]
        dropped = [one for one in found if before is None or flow.places[one.id] < before]
        told = describe_dropout(flow, dropped)
        return replace(node, steps=(*node.steps, *dropped), told=(*node.told, told)) if told else node

    return replace(chart, nodes=tuple(node if node.key in apart else tell(node) for node in chart.nodes))


def list_own(flow: Flow, node: Node) -> frozenset[int]:
    """The steps of a box behind which its numbers may be dropped: the one that gives them, and those that work."""
    places = [flow.places[step.id] for step in node.steps]
    end = next((place for place in places if flow.output(place) is node.record), next(iter(places), None))
    return frozenset(
        place for place in places if place == end or (flow.op(place) not in CARRYING and flow.is_leaf(place))
    )


def goes_on(flow: Flow, node: int, others: Collection[int]) -> bool:
    """Whether a step moves numbers alone, and stands in none of some other boxes."""
    return node not in others and flow.op(node) in CARRYING


def tell_dropped_above(flow: Flow, chart: Chart, start: int) -> Chart:
    """The chart above a step with its dropouts; the one box that reads what the step gives says what it drops first."""
    chart = tell_dropped(flow, chart)
    dropped = [one for one in list_dropouts(flow, start) if read_share(flow, one)]
    readers = [one for one in flow.leaf_readers(start) if flow.steps[one] not in dropped]
    feet = [node for node in chart.nodes if node.key in chart.feet and node.steps]
    if not dropped or len(feet) != 1 or any(one < flow.places[dropped[0].id] for one in readers):
        return chart
    told = DROPPED_FIRST.format(dropout=describe_dropout(flow, dropped))
    node = replace(feet[0], steps=(*feet[0].steps, *dropped), told=(*feet[0].told, told))
    return replace(chart, nodes=tuple(node if one is feet[0] else one for one in chart.nodes))


def list_dropouts(flow: Flow, *places: int) -> tuple[Step, ...]:
    """The dropouts right behind some steps, those that drop nothing included, but of copies that nothing reads.

    So a copy of rows may be dropped after all that works on them has read them (WeNet's places).
    """
    pairs = ((place, one) for place in places for one in (*flow.readers.get(place, ()), *flow.handed.get(place, ())))
    found = (one for place, one in pairs if flow.op(one) in DROPOUTS and not is_of_copy(flow, place, one))
    return tuple(flow.steps[one] for one in dict.fromkeys(found))


def is_of_copy(flow: Flow, place: int, dropout: int) -> bool:
    """Whether all that reads what a step gives stands before a dropout of it, and nothing reads what that gives."""
    others = [one for one in flow.leaf_readers(place) if flow.op(one) not in DROPOUTS]
    kept = flow.one_pass.results & {flow.steps[place].id, flow.steps[dropout].id}
    return bool(others) and max(others) < dropout and not flow.readers.get(dropout) and not kept


def list_kernels(flow: Flow, softmax: int) -> tuple[Step, ...]:
    """The kernel of which a softmax is told as a part, where it drops a share of what that gives."""
    around = flow.places.get(flow.steps[softmax].parent or "") if flow.steps[softmax].settings.get("derived") else None
    return () if around is None or not read_share(flow, flow.steps[around]) else (flow.steps[around],)


def drops_now(node: Node) -> bool:
    """Whether a box tells of a share that is dropped now, and not of one that is dropped while something is learned."""
    return AT_WORK.search(", ".join((node.extra, *node.told))) is not None


def describe_dropout(flow: Flow, steps: Sequence[Step]) -> str:
    """How much is dropped; where nothing changed, that it did nothing.

    A function that is told to drop none while nothing is learned may be told more while something is (NLLB). Of all
    that a branch gives a share may be dropped besides: where that is none, nothing is said of it.
    """
    paths = [step for step in steps if step.op in DROP_PATHS and read_share(flow, step)]
    values = [step for step in steps if step.op not in DROP_PATHS and tells_share(flow, step)]
    return ", ".join(describe_share(flow, step) for step in (*values[:1], *paths[:1]))


def tells_share(flow: Flow, step: Step) -> bool:
    """Whether the share that a step drops is recorded, and is no 0 that stands there since nothing is learned."""
    share = read_share(flow, step)
    return share is not None and (bool(share) or step.settings.get("training") is not False)


def describe_share(flow: Flow, step: Step) -> str:
    """What share one step drops, and whether it did nothing now."""
    share, what = read_share(flow, step) or 0, "drop path" if step.op in DROP_PATHS else "dropout"
    idle = any(flow.steps[one] is step for found in flow.handed.values() for one in found)
    return f"{what} {share:.3g}" + (", idle" if idle and share else "")


def read_share(flow: Flow, step: Step) -> float | None:
    """The share of numbers, or of whole branches, that a step drops, as it is recorded; None where it is not.

    A kernel of attention drops it of its weights.
    """
    is_known = step.op.endswith("dropout") or step.op in DROP_PATHS
    share = step.settings.get("p", step.settings.get("drop_prob")) if is_known else step.settings.get("dropout_p")
    share = flow.dropped.get(flow.places[step.id], share)
    return float(share) if isinstance(share, int | float) else None
