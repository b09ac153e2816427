"""Sums in layers to which something is added that was made before all layers: their first input, or rows of a table."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.story.body.stages import Staging
from xray.story.charts.chart import Chart, Node
from xray.story.entrance.tables import table_rows
from xray.story.passages.added_places import ADDED_UP
from xray.story.sentences.of_parts import FIRST_READ, LOOKED_UP


def tell_recalled(flow: Flow, chart: Chart, start: int | None, every: Sequence[Staging]) -> Chart:
    """The chart of a sublayer whose sums say what they add that was made before all layers; `every` layer has it."""
    begun = flow.carried_from(start)
    told = tuple(set.intersection(*(set(list_told(flow, one.nodes, begun)) for one in every))) if every else ()
    if not told:
        return chart
    return replace(chart, nodes=tuple(tell_node(flow, node, begun, told, every) for node in chart.nodes))


def tell_node(flow: Flow, node: Node, begun: int | None, told: Sequence[str], every: Sequence[Staging]) -> Node:
    """A box of a sum with what is told of it in all layers; in the first one alone all begins with its input."""
    if not node.label.startswith(ADDED_UP):
        return node
    own = [text for text in list_told(flow, {flow.places[step.id] for step in node.steps}, begun) if text in told]
    own = [text for text in own if text != FIRST_READ or any(one.joints[0].region.start != begun for one in every)]
    counted = (node.extra,) if own and node.extra else ()
    return replace(node, told=(*node.told, *own, *counted), extra="" if own else node.extra)


def list_told(flow: Flow, nodes: Collection[int], begun: int | None) -> list[str]:
    """What some sums add that was made before all layers."""
    found = dict.fromkeys(text for node in nodes if flow.op(node) in SUMS for text in spell_added(flow, node, begun))
    return list(found)


def spell_added(flow: Flow, node: int, begun: int | None) -> Iterator[str]:
    """What a sum adds, be it moved or multiplied by one number, that the first layer reads or a table holds."""
    for maker in flow.makers[node]:
        origin = walk_back(flow, maker)
        if origin is None or begun is None:
            continue
        if origin == begun:
            yield FIRST_READ
        elif flow.op(origin) in LOOKUPS and (rows := table_rows(flow, origin)) is not None:
            yield LOOKED_UP.format(rows=rows)


def walk_back(flow: Flow, place: int | None) -> int | None:
    """The step whose numbers others only move, or multiply by one number."""
    while place is not None:
        if flow.op(place) in SCALINGS:
            rows = [maker for record, maker in flow.given(place) if record.shape]
            if len(rows) != 1:
                return place
            place = rows[0]
        elif flow.op(place) in CARRYING and flow.makers[place]:
            place = flow.makers[place][0]
        else:
            return place
    return None
