"""The chart of what is worked out behind earlier layers and handed out beside what a tower ends with (DeepStack)."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.story.charts.chart import LEFT_HALF, RIGHT_HALF, Chart, Edge, Node, steps_at
from xray.story.charts.operations_chart import SAME_WEIGHTS, chart_operations
from xray.story.charts.same_numbers import tell_chart
from xray.story.exits.several_heads import stack_lane
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.sentences.of_parts import describe_elsewhere
from xray.story.streams.taps import Tap


def add_tapped(flow: Flow, taps: Sequence[Tap], leaving: Chart) -> Chart:
    """The chart of an exit with what is worked out behind earlier layers beside it, once for layers that do the same.

    It stays as it is where nothing is worked out, or where boxes of it would stand side by side.
    """
    working = [tap for tap in taps if list_working(flow, tap)]
    if not working or not are_alike(flow, working) or not leaving.is_one_lane:
        return leaving
    last = working[-1]
    chart = chart_operations(flow, last.nodes, last.end, label_joined_rows(flow, last.nodes), "tap")
    chart = tell_chart(chart, [(leaving, SAME_WEIGHTS)])
    if chart is None or not chart.is_one_lane:
        return leaving
    told = describe_elsewhere([tap.layer for tap in working[:-1]])
    label, out = f"WHAT LAYER {last.layer + 1} GAVE", flow.output(last.source)
    first = Node("tapped", label, 0, RIGHT_HALF, steps_at(flow, last.source), out, told=(told,) if told else ())
    lane = stack_lane(chart.nodes, 1, RIGHT_HALF)
    own = [replace(node, place=LEFT_HALF) for node in leaving.nodes]
    edges = (*leaving.edges, Edge(first.key, lane[0].key), *chart.edges)
    return replace(leaving, nodes=(*own, first, *lane), edges=edges)


def list_working(flow: Flow, tap: Tap) -> list[int]:
    """The steps behind a layer that do more than move numbers."""
    return [one for one in sorted(tap.nodes) if flow.is_leaf(one) and flow.op(one) not in CARRYING]


def are_alike(flow: Flow, taps: Sequence[Tap]) -> bool:
    """Whether the same is done behind each of some layers."""
    return len({tuple((flow.op(one), flow.output(one).shape) for one in list_working(flow, tap)) for tap in taps}) == 1
