"""Charts of what a tower hands out: what earlier layers gave (DeepStack), and maps of several sizes (SAM 3's eye)."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS
from xray.story.body.towers import Towering
from xray.story.charts.chart import LEFT_HALF, RIGHT_HALF, Chart, Edge, Node, steps_at
from xray.story.charts.drawn_steps import MOST_AT_ALL
from xray.story.charts.operations_chart import SAME_WEIGHTS, chart_operations
from xray.story.charts.same_numbers import tell_chart
from xray.story.exits.last_steps import reach_behind
from xray.story.exits.several_heads import place_heads, stack_lane
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.recognition.between import list_reading_data
from xray.story.sentences.of_parts import describe_elsewhere
from xray.story.streams.taps import Tap

MOST_LEVELS = 4


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


def chart_levels(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps that lead from a tower's end to maps that are handed out, each behind its own last convolution.

    None where there are not several, or where one is made of what an earlier layer gives too.
    """
    end = towering.last_layer
    reached, _ = reach_behind(flow, end, others)
    tops = [place for place in sorted(reached) if flow.op(place) in FINDINGS and ends_level(flow, place, reached)]
    nodes = set(flow.behind(*tops, within=reached.__contains__)) - {end}
    data = list_reading_data(flow)
    makers = {maker for node in nodes for maker in flow.makers[node] if maker in data}
    learned = {place for place in reached if place > end and flow.is_leaf(place) and flow.steps[place].params}
    if not 1 < len(tops) <= MOST_LEVELS or not makers <= nodes | {end} or not learned <= nodes:
        return None
    chart = chart_operations(flow, nodes, max(tops), None, "out", begins=(end,), most=MOST_AT_ALL)
    if chart is None:
        return None
    in_order = sorted(chart.nodes, key=lambda node: flow.places[node.steps[0].id])
    return place_heads(replace(chart, nodes=tuple(in_order)), MOST_LEVELS)


def ends_level(flow: Flow, finder: int, reached: Collection[int]) -> bool:
    """Whether nothing but moves works on what a convolution makes, and the model hands that out."""
    moved = {finder, *flow.ahead(*flow.readers.get(finder, ()), within=lambda one: flow.op(one) in CARRYING)}
    readers = {one for place in moved for one in flow.readers.get(place, ()) if flow.is_leaf(one)} - moved
    return readers.isdisjoint(reached) and not flow.one_pass.results.isdisjoint(flow.steps[one].id for one in moved)
