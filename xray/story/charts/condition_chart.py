"""The chart of a condition: from what it is made of to what scales, shifts and gates the first layer."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, SCALINGS, SIDE_BY_SIDE, WAVES
from xray.ir.records import TensorRecord
from xray.story.branches.scored.caps import name_times, read_factor
from xray.story.charts.chart import Chart, Edge, Node
from xray.story.charts.counted_weights import weights_of_box
from xray.story.charts.steps.drawn_steps import MOST_AT_ALL, is_substance
from xray.story.charts.steps.operation_labels import label_step
from xray.story.charts.steps.operations_chart import chart_operations, spread
from xray.story.entrance.entry_labels import label_entry
from xray.story.passages.conditions import Conditioning, list_given, name_source

INPUT = "_input"
"""How the key of a box ends that stands for what another one reads from outside."""

SIGNS = {"add": "+", "sub": "−", "mul": "×"}
MANY = len(("batch", "place", "width"))


def chart_condition(flow: Flow, condition: Conditioning, drawn: Mapping[int, str]) -> Chart | None:
    """How a condition is worked out for the first layer, the steps left out that are drawn beside another tower.

    What is read of these has a box, with the name of that tower (HunyuanDiT).
    """
    nodes = condition.first.difference(drawn)
    if not nodes:
        return None
    given = list_told(flow, nodes)
    labels: dict[int, str] = {}
    names: dict[int, str] = {}
    meeting = {node for node in given if meets_given(flow, node, nodes, given)}
    for node, (_, name) in given.items():
        told = name.replace("_", " ").upper() or "FROM OUTSIDE"
        names[node] = told
        behind = flow.behind(node, within=nodes.__contains__)
        for earlier in [one for one in behind if one not in {node, *meeting} and names.get(one) == told]:
            labels.pop(earlier, None)  # it only says where this step takes the same from
        if not is_substance(flow, node, nodes):
            labels[node] = label_step(flow, node) if node in meeting else told
    waves = list_waves(flow, nodes)
    labels |= {node: f"SINES AND COSINES{name_lone(flow, node, nodes, given)}" for node in waves}
    labels |= {node: name_scale(flow, node) for node in nodes if scales_rows(flow, node)}
    chart = chart_operations(flow, nodes, max(nodes), labels, "beside", folded=waves, most=MOST_AT_ALL)
    if chart is None:
        return None

    def settle(node: Node) -> Node:
        place = flow.places[node.steps[0].id] if node.steps else -1
        record = given[place][0] if place in (labels.keys() & given) - meeting else node.record
        label = label_entry(flow, place) if condition.are_looked_at and place >= 0 else ""
        each = place in condition.alone and bool(weights_of_box(flow, node.steps))
        extra = f"{node.extra} × {condition.layers} layers" if each and node.extra else node.extra
        return replace(node, surface="condition", record=record, label=label or node.label, extra=extra)

    chart = replace(chart, nodes=tuple(map(settle, chart.nodes)))
    for node in names.keys() - (labels.keys() - meeting):
        chart = add_input(chart, f"beside{node}", names[node], given[node][0])
    read = [(node, record, drawn[one]) for node in nodes for record, one in flow.given(node) if one and one in drawn]
    for node, record, tower in read:
        if f"beside{node}" in chart.feet and record.is_float:
            chart = add_input(chart, f"beside{node}", f"MADE BESIDE THE {tower.upper()} TOWER", record)
    return chart


def meets_given(flow: Flow, node: int, nodes: frozenset[int], given: Collection[int]) -> bool:
    """Whether what comes from outside meets at a step what was made of such: rows beside their mean (Mochi)."""
    made = [maker for maker in flow.makers[node] if maker in nodes]
    return any(one in given for one in flow.behind(*made, within=nodes.__contains__))


def scales_rows(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows, made for each place, by one number: not by 1, if it is known (Gemma 4's)."""
    step = flow.steps[node]
    lone = [record for record in step.inputs if record.role != "parameter" and prod(record.shape) == 1]
    if flow.op(node) not in SCALINGS or len(step.inputs) != len(lone) + 1 or len(flow.output(node).shape) < MANY:
        return False
    factor = read_factor(flow, node)
    return bool(lone) if factor is None else factor != 1


def name_scale(flow: Flow, node: int) -> str:
    """By what number a step multiplies rows."""
    factor = read_factor(flow, node)
    return f"{'÷' if divides_rows(flow, node) else '×'} ONE NUMBER" if factor is None else name_times(factor)


def divides_rows(flow: Flow, node: int) -> bool:
    """Whether a step divides what it is given first, and that is more than one number."""
    return flow.op(node) in DIVISIONS and prod(flow.steps[node].inputs[0].shape) > 1


def list_told(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[TensorRecord, str]]:
    """What comes from outside, with its name, by the steps that read it.

    A question that is asked of it, such as which ids stand for an image, is none where its numbers are read too.
    Numbers that no block is given are the model's own. Of two that meet at once both are told (ACE-Step's times).
    """
    named = ((node, record, name_source(flow, node, record)) for node, record in list_given(flow, nodes))
    found: dict[int, tuple[TensorRecord, str]] = {}
    for node, record, name in named:
        if name is not None:
            former = found[node][1] if node in found and flow.op(node) in SIGNS else ""
            is_both = bool(former and name) and former != name
            found[node] = (record, f"{former} {SIGNS[flow.op(node)]} {name}" if is_both else name)
    asked = {node for node in found if flow.output(node).dtype == "bool"}
    read = {(name, record.shape) for node, (record, name) in found.items() if node not in asked}
    return {
        node: (record, name)
        for node, (record, name) in found.items()
        if node not in asked or (name, record.shape) not in read
    }


def name_lone(flow: Flow, node: int, nodes: Collection[int], given: Mapping[int, tuple[TensorRecord, str]]) -> str:
    """Of which number waves are that the pass itself makes and that comes from nowhere else; "" if it is not known."""
    behind = set(flow.behind(node, within=nodes.__contains__))
    made = [one for one in behind if flow.op(one) == "full" and prod(flow.output(one).shape) == 1]
    if len(made) != 1 or not given.keys().isdisjoint(behind):
        return ""
    ahead = [one for one in flow.ahead(made[0], within=behind.__contains__) if one not in (made[0], node)]
    meets = [flow.op(one) for one in ahead if flow.op(one) not in CARRYING | WAVES | SIDE_BY_SIDE]
    settings = flow.steps[made[0]].settings
    told = settings.get("other", settings.get("fill_value"))
    return f" OF {told:,.15g}" if type(told) in (int, float) and meets in ([], ["mul"]) else ""


def add_input(chart: Chart, reader: str, name: str, record: TensorRecord) -> Chart:
    """The chart with what one of its nodes reads from outside, in the row below that."""
    if all(node.key != reader for node in chart.nodes):
        return chart
    if chart.node(reader).row == 0:
        chart = chart.raised(1)
    above = chart.node(reader)
    below = Node(f"{reader}{INPUT}", name, above.row - 1, above.place, above.steps[:1], record, surface="condition")
    beside = [*chart.in_row(below.row), below]
    in_order = sorted(beside, key=lambda one: one.place) if len(beside) > 1 else []
    places = {node.key: spread(number, len(beside)) for number, node in enumerate(in_order)}
    nodes = (replace(node, place=places.get(node.key, node.place)) for node in (*chart.nodes, below))
    return replace(chart, nodes=tuple(nodes), edges=(*chart.edges, Edge(below.key, reader)))


def list_waves(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The steps that put sines and cosines side by side, each with those that make these.

    Where another step puts such halves in another order, it stands for both.
    """
    found: dict[int, tuple[int, ...]] = {}
    for node in sorted(nodes):
        makers = [flow.carried_from(maker, CARRYING) for maker in flow.makers[node]]
        waves = [one for one in makers if one is not None and (flow.op(one) in ("sin", "cos") or one in found)]
        if flow.op(node) in SIDE_BY_SIDE and len(waves) == len(makers):
            inner = {one for wave in waves for one in found.get(wave, (wave,)) if one in nodes}
            found[node] = tuple(sorted({node, *inner}))
    inside = {one for node, group in found.items() for one in group if one != node}
    return {node: group for node, group in found.items() if node not in inside}
