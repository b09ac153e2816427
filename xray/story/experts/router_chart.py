"""What rows go through on their way to a router alone: it may be a small network with a norm of its own (ZAYA)."""

from collections.abc import Collection
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import opening_norms
from xray.story.branches.feed_forward import steps_behind
from xray.story.charts.chart import WHOLE, Chart, Edge, Node, Place
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.experts.earlier_router import HandedOn, find_handed_on
from xray.story.recognition.between import Region


def add_way(flow: Flow, region: Region, router: int, routing: Collection[int], chart: Chart) -> Chart:
    """The chart of experts above what rows go through before their router alone, if that is anything."""
    steps = list_way(flow, region, router, routing)
    handed = find_handed_on(flow, region.inner, router)
    labels = {} if handed is None else {handed.add: name_handed_on(handed)}
    folded = {} if handed is None else {handed.add: handed.nodes}
    way = chart_operations(flow, steps, max(steps), labels, "way", folded=folded) if steps else None
    if way is None:
        return chart
    is_alone = not {"shared", "down"} & {node.key for node in chart.nodes}
    place = WHOLE if is_alone else chart.node("router").place
    raised = chart.raised(way.rows)
    return Chart(
        (*(lay_within(node, place) for node in way.nodes), *raised.nodes),
        (*way.edges, Edge(way.head, "router"), *raised.edges),
        (*way.feet, *(foot for foot in raised.feet if foot != "router")),
        raised.head,
        raised.memory,
    )


def name_handed_on(handed: HandedOn) -> str:
    """What the sum is called that adds what an earlier router worked out."""
    return f"+ THE ROUTER BEFORE{' × LEARNED NUMBERS' * (handed.scale is not None)}"


def lay_within(node: Node, place: Place) -> Node:
    """A box in a part of the width."""
    (centre, width), (middle, share) = node.place, place
    return node if place == WHOLE else replace(node, place=(middle + (centre - 0.5) * share, width * share))


def list_way(flow: Flow, region: Region, router: int, routing: Collection[int]) -> set[int]:
    """The steps that lead to a router and to nothing else; without a norm that the branch begins with."""
    nodes = region.inner
    behind = steps_behind(flow, router, nodes) - {router}
    apart = {router, *routing}
    others = nodes - behind - apart
    shared = set(flow.behind(*others, within=lambda place: place in nodes and place not in apart))
    opened = {node for norm in opening_norms(flow, region, region.start) for node in norm.nodes}
    return behind - shared - opened
