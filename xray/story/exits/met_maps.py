"""What stands behind a tower's layers, in its block, before another one begins: finer maps are met there (RT-DETR).

Or convolutions alone: the last stage of an eye, whose sums end before it, and the neck of SAM's.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, SIDE_BY_SIDE
from xray.ir.trace import Step
from xray.story.body.towers import Towering, list_results
from xray.story.charts.chart import Chart
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.entry_labels import label_entry
from xray.story.passages.homes import read_leading
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.recognition.between import read_sizes


@dataclass(frozen=True)
class MetMaps:
    """The steps of a tower's block behind its layers that alone lead to the next tower, and those whose maps they meet.

    `finer` are the latter: they work on what a third tower gives, and lead nowhere else. Those that stand in no tower's
    block are `between`.
    """

    nodes: frozenset[int]
    finer: frozenset[int]
    between: frozenset[int]


def list_met_maps(flow: Flow, towers: Sequence[Towering]) -> Mapping[int, MetMaps]:
    """What is met behind the layers of towers, by their ends; or convolutions there that go on alone (D-FINE's eye)."""
    found: dict[int, MetMaps] = {}
    for one in towers if len(towers) > 1 else ():
        leading = read_leading(flow, one, towers)
        for via, finer in leading.met.items():
            nodes = leading.inside[via] - finer
            if any(flow.steps[node].params for node in nodes) and via not in found:
                between = frozenset[int]().union(*leading.onward.get(via, {}).values())
                found[via] = MetMaps(frozenset(nodes), finer, between)
        met = frozenset[int]().union(*leading.met.values())
        for via, held in leading.inside.items():
            giver = next(other for other in towers if other.end == via)
            nodes = held - met if goes_on(flow, held, one.entrance) else leave_last(flow, held - met)
            is_own = len(towers) > 2 or is_handed(flow, nodes, one.entrance)
            if via not in leading.met and via not in found and is_own and is_last_stage(flow, nodes, giver):
                found[via] = MetMaps(nodes, frozenset(), frozenset())
    return found


def is_last_stage(flow: Flow, nodes: Collection[int], giver: Towering) -> bool:
    """Whether there are convolutions over neighbours in a tower's block that all work on what its last layer gives.

    Where some work on what an earlier one gives, they stand where ways can lead to them (SAM 2's neck).
    """
    finders = (node for node in nodes if flow.op(node) in FINDINGS and flow.steps[node].params)
    are_wide = any(max(read_sizes(flow, node, "kernel_size"), default=1) > 1 for node in finders)
    earlier = giver.sums - {giver.end, giver.last_layer}
    makers = {flow.carried_from(maker) for node in nodes for maker in flow.makers[node] if maker not in nodes}
    return are_wide and earlier.isdisjoint(makers)


def is_handed(flow: Flow, nodes: Collection[int], entrance: Collection[int]) -> bool:
    """Whether a model hands out what some steps lead to before the next tower's first layer: latents (VibeVoice)."""
    onward = flow.ahead(*nodes, within=lambda one: one in entrance)
    return not flow.one_pass.results.isdisjoint(flow.steps[one].id for one in (*nodes, *onward))


def leave_last(flow: Flow, nodes: frozenset[int]) -> frozenset[int]:
    """Some steps without the last convolution and what is behind it: with that the next tower begins (DEIMv2)."""
    last = max((node for node in nodes if flow.op(node) in FINDINGS), default=None)
    return nodes if last is None else nodes.difference(flow.ahead(last, within=nodes.__contains__))


def goes_on(flow: Flow, nodes: Collection[int], entrance: Collection[int]) -> bool:
    """Whether an entrance does more with what some of its steps make than move it: there a way can lead to a box."""
    behind = set(flow.ahead(*nodes, within=entrance.__contains__)).difference(nodes)
    alone = {node for node in behind if flow.op(node) in SIDE_BY_SIDE and len(flow.makers[node]) == 1}  # SAM 3's
    return any(flow.is_leaf(node) and flow.op(node) not in CARRYING | DROPOUTS for node in behind - alone)


def chart_met_maps(flow: Flow, towering: Towering, maps: MetMaps) -> Chart | None:
    """The steps behind a tower's layers in which it meets finer maps, which are led there from their own tower."""
    nodes = maps.nodes | maps.finer
    labels = label_joined_rows(flow, nodes) | {node: label for node in nodes if (label := label_entry(flow, node))}
    begins = list_results(flow, towering)
    chart = chart_operations(flow, nodes, max(nodes), labels, "out", is_entrance=True, begins=begins)
    if chart is None:
        return None
    memory = tuple(
        node.key for node in chart.nodes if node.key in chart.memory and works_in(flow, node.steps, maps.finer)
    )
    own = tuple(key for key in chart.feet if key not in memory)
    boxes = (replace(one, surface="ghost") if works_in(flow, one.steps, maps.between) else one for one in chart.nodes)
    return replace(chart, nodes=tuple(boxes), feet=own, memory=memory)


def works_in(flow: Flow, steps: Sequence[Step], nodes: Collection[int]) -> bool:
    """Whether any of a box's steps is among some."""
    return any(flow.places[step.id] in nodes for step in steps)
