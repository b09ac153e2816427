"""Norms of one stream that stand side by side at the foot of a branch, each below what reads it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.charts.chart import BROAD, Chart, Edge, Node, describe_params
from xray.story.charts.operations_chart import spread
from xray.story.recognition.norms import Norm


def lead_norms(flow: Flow, norms: Sequence[Norm], drawn: Sequence[Node], chart: Chart) -> Chart:
    """A branch above the boxes of its norms: what chooses experts, and these, may have one each (Gemma 4)."""
    taken = {flow.steps[node].id for norm in norms for node in norm.nodes}
    nodes = [without(flow, one, taken) for one in chart.nodes]
    chart = replace(chart, nodes=tuple(nodes)).raised(1)
    led = {box.key: list_readers(flow, chart, norm.end) for box, norm in zip(drawn, norms, strict=True)}
    in_order = sorted(drawn, key=lambda box: min((chart.node(key).place for key in led[box.key]), default=BROAD))
    below = (replace(box, place=spread(number, len(drawn))) for number, box in enumerate(in_order))
    edges = [Edge(key, reader) for key, readers in led.items() for reader in readers]
    fed = {edge.target for edge in edges}
    fed |= {edge.target for edge in chart.edges if edge.source in fed and not chart.node(edge.source).steps}
    bare = [foot for foot in chart.feet if foot not in fed]
    return replace(chart, nodes=(*below, *chart.nodes), edges=(*edges, *chart.edges), feet=(*led, *bare))


def without(flow: Flow, node: Node, taken: Collection[str]) -> Node:
    """A box without some of its steps, and without their parameters: these stand in a box of their own."""
    steps = tuple(step for step in node.steps if step.id not in taken)
    if len(steps) == len(node.steps):
        return node
    before, after = (describe_params(flow, *(flow.places[one.id] for one in some)) for some in (node.steps, steps))
    told = tuple(after if one == before else one for one in node.told)
    return replace(node, steps=steps, extra=after if node.extra == before else node.extra, told=told)


def list_readers(flow: Flow, chart: Chart, made: int) -> list[str]:
    """The boxes that a step's result goes into; of those that stand above boxes without steps, these."""
    own = {node.key: {flow.places[step.id] for step in node.steps} for node in chart.nodes}
    held = set[int]().union(*own.values())
    found: list[str] = []
    for key, steps in own.items():
        makers = (maker for step in steps for maker in flow.makers[step] if maker not in steps)
        if made in flow.behind(*makers, within=lambda place: place not in held):
            below = [edge.source for edge in chart.edges if edge.target == key]
            found += [one for one in below if not own[one]] or [key]
    return found
