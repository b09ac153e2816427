"""The maps of several sizes that a tower gives: each worked out of its end alone, by convolutions (SAM 3's eye)."""

from collections.abc import Collection
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS
from xray.story.body.towers import Towering
from xray.story.charts.chart import Chart
from xray.story.charts.drawn_steps import MOST_AT_ALL
from xray.story.charts.operations_chart import chart_operations
from xray.story.exits.last_steps import reach_behind
from xray.story.exits.several_heads import place_heads
from xray.story.recognition.between import list_reading_data

MOST_LEVELS = 4


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
