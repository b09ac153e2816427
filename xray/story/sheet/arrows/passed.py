"""What is worked out on the ways of arrows into a box, and stands in no box: the box says so."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.story.cards.boxless import Unsaid
from xray.story.charts.between_chart import LEFT_OUT, list_places
from xray.story.charts.chart import Chart, Node
from xray.story.sentences.of_ways_past import describe_passed
from xray.story.sheet.arrows.proof import list_taken, put_charts
from xray.story.sheet.columns import Column


def tell_passed(columns: Sequence[Column], unsaid: Unsaid) -> list[Column]:
    """The columns, each box of which says what is `unsaid` and lies on the ways of data from others to it."""
    made: dict[int, set[int]] = {}
    for phase in (phase for column in columns for phase in column.phases):
        flow = phase.reading.flow
        nodes = (node for chart in phase.charts for node in chart.nodes if not node.is_given)
        boxes = (list_places(flow, node) for node in nodes)
        held = {step for own in boxes for step in own if flow.op(step) not in CARRYING}
        made.setdefault(id(flow), set()).update(held, phase.towering.sums)
    return [tell_column(column, unsaid, made) for column in columns]


def tell_column(column: Column, unsaid: Unsaid, made: dict[int, set[int]]) -> Column:
    """A column in each phase that it shows; `made` are the sums of streams and the steps of boxes of each pass."""
    flow = column.reading.flow
    left = {node for _, other, nodes in unsaid if other is flow for node in nodes}
    charts = {id(one): tell_chart(flow, one, left, made[id(flow)]) for one in column.charts} if left else {}
    twin = None if column.twin is None else tell_column(column.twin, unsaid, made)
    return put_charts(replace(column, twin=twin), charts)


def tell_chart(flow: Flow, chart: Chart, left: Collection[int], made: Collection[int]) -> Chart:
    """A chart, each box of which says what of the steps that are `left` works on what is `made` before it.

    What boxes of other charts are led to as well is on the way to none: a condition of all layers (Kandinsky 3).
    """
    own = set[int]().union(*(list_places(flow, node) for node in chart.nodes))
    left = {step for step in left if own.issuperset(list_taking(flow, step, made))}
    boxes = (list_places(flow, node) for node in chart.nodes if is_telling(node))
    laid = {step for box in boxes if all(flow.op(step) in CARRYING for step in box) for step in box}
    nodes = [(node, list_passed(flow, node, left, made, laid)) for node in chart.nodes]
    return replace(chart, nodes=tuple(replace(node, told=(*node.told, told)) if told else node for node, told in nodes))


def list_taking(flow: Flow, step: int, made: Collection[int]) -> set[int]:
    """The steps among those that are `made` to which one leads over no other of them."""
    ahead = flow.ahead(step, within=lambda one: one == step or one not in made)
    return {reader for one in ahead for reader in flow.leaf_readers(one) if reader in made}


def is_telling(node: Node) -> bool:
    """Whether a box says what is worked out on the way to it."""
    return not node.is_given and node.form == "box" and not node.key.startswith(LEFT_OUT)


def list_passed(flow: Flow, node: Node, left: Collection[int], made: Collection[int], laid: Collection[int]) -> str:
    """What a box says of the steps that are `left` by which it reads what was made before, by no other box.

    Nor by one that does but lay out what comes in, `laid`, which says it: the numbers by which a sound is weighed
    before its columns stand side by side (Dots3Note).
    """
    if not is_telling(node):
        return ""
    own = list_places(flow, node)
    first = {maker for step in own for maker, _ in list_taken(flow, step)} - own
    back = {*flow.behind(*first, within=lambda one: one not in own, ends=made.__contains__)}
    ends, free = back.intersection(made), back.difference(made)
    near = flow.behind(*first, within=free.difference(laid).__contains__)
    way = free.intersection(flow.ahead(*ends, within=back.__contains__)).intersection(near)
    return describe_passed(Counter(flow.op(step).rstrip("_") for step in sorted(way.intersection(left))))
