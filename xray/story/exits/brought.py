"""What is worked out beside a tower and meets what it gives behind its last layer: a network of the words so far."""

from collections.abc import Collection
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart, Edge, Node
from xray.story.charts.steps.operation_labels import label_step
from xray.story.entrance.entry_labels import label_entry
from xray.story.entrance.given import INPUTS
from xray.story.recognition.between import Region, is_linear, list_reading_data


def list_brought(flow: Flow, region: Region, condition: Collection[int]) -> frozenset[int]:
    """The steps beside a region that work on what comes in with weights of their own, with what they work out of it.

    So are words told apart from a sound, until both meet (transducers). A `condition` of the stream is drawn as such.
    """
    fed = (region.beside & list_reading_data(flow)).difference(condition)
    learned = {node for node in fed if flow.is_leaf(node) and (flow.op(node) in LOOKUPS or is_linear(flow, node))}
    begun = {node for node in fed if any(maker is None for _, maker in flow.taken(node))}
    worked = {node for node in fed if not begun.isdisjoint(flow.behind(node, within=fed.__contains__))}
    return frozenset(worked) if any(flow.op(node) in LOOKUPS for node in learned & worked) else frozenset()


def label_brought(flow: Flow, nodes: Collection[int]) -> dict[int, str]:
    """What those of some steps are called that have weights, or look something up."""
    own = [node for node in nodes if flow.is_leaf(node)]
    labels = {node: label_entry(flow, node) for node in own if flow.op(node) in LOOKUPS}
    return labels | {node: label_step(flow, node) for node in own if flow.steps[node].params and node not in labels}


def lead_brought(flow: Flow, chart: Chart, brought: Collection[int], end: int) -> Chart:
    """The chart with what comes in below the boxes of steps that were brought: the stream is not led to them.

    They are no tower's work, and so not in its colour. Where nothing else begins the chart, the stream, which ends with
    the step `end`, is led to all boxes that read it (Hydra).
    """
    own = {
        node.key: [place for step in node.steps if (place := flow.places[step.id]) in brought] for node in chart.nodes
    }
    painted = (replace(node, surface="condition") if own[node.key] else node for node in chart.nodes)
    chart = replace(chart, nodes=tuple(painted))
    feet = [key for key in chart.feet if own[key]]
    held = {flow.places[step.id] for node in chart.nodes for step in node.steps}
    reading = [node.key for node in chart.nodes if not own[node.key] and reads_stream(flow, node, end, held)]
    kept = tuple(key for key in chart.feet if key not in feet) or tuple(reading)
    if not feet or not kept:
        return chart
    raised = chart.raised(1)
    below: list[Node] = []
    for node in (one for one in raised.nodes if one.key in feet):
        reader = own[node.key][0]
        record = next((one for one, maker in flow.taken(reader) if maker is None and one.role != "parameter"), None)
        if record is not None:
            label = INPUTS["vectors" if record.is_float else "ids"]
            below.append(replace(node, key=f"given{node.key}", label=label, row=0, record=record, extra=""))
    edges = [Edge(f"given{key}", key) for key in feet if any(one.key == f"given{key}" for one in below)]
    return replace(raised, nodes=(*below, *raised.nodes), edges=(*edges, *raised.edges), feet=kept)


def reads_stream(flow: Flow, node: Node, end: int, held: Collection[int]) -> bool:
    """Whether a box reads what a stream ends with, through no step that is `held` in another one."""
    makers = (maker for step in node.steps for maker in flow.makers[flow.places[step.id]])
    return end in flow.behind(*makers, within=lambda one: one not in held)


def label_begun(flow: Flow, towering: Towering, nodes: Collection[int]) -> dict[int, str]:
    """The sums among some steps that add what a later layer than the first began with, with what they are called."""
    streams = {layer[0].joints[0].stream: number for number, layer in enumerate(towering.layers)}
    skips = {
        skip.add: skip.stream
        for chain in towering.chains
        for skip in chain.skips
        if chain.reaches_back(skip) and skip.stream in map(flow.carried_from, flow.makers[skip.add])
    }
    begun = {node: streams[skips[node]] for node in nodes if node in skips and skips[node] in streams}
    return {node: f"+ WHAT LAYER {number + 1} BEGAN WITH" for node, number in begun.items()}
