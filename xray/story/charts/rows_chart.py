"""Rows that a branch works on and that are not the stream as it comes: of several streams, of before, put beside."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS, SUMS
from xray.ir.flow.projections import is_product
from xray.story.anatomy.branches import Unknown
from xray.story.body.stages import Branching
from xray.story.body.towers import Towering
from xray.story.charts.chart import (
    BROAD,
    Chart,
    Node,
    chart_alone,
    steps_at,
)
from xray.story.charts.counted_weights import describe_params
from xray.story.exits.handed_rows import name_rows
from xray.story.recognition.added_rows import AddedRows
from xray.story.recognition.between import is_linear, list_reading_data, projections_in
from xray.story.recognition.mixed_streams import Mixing
from xray.story.recognition.norms import spell_norm
from xray.story.sentences.of_parts import ADDED_AGAIN, BY_ATTENTION, LED_IN, MADE_OF, describe_box
from xray.story.streams.joints import Joint
from xray.story.streams.shortcuts import find_any_norm


def chart_gather(flow: Flow, mixing: Mixing) -> Chart:
    """Several streams weighed and added up to the one row that a branch works on, as a chart of its own."""
    label, extra = f"{mixing.count} STREAMS INTO ONE", describe_params(flow, *mixing.weights, mixing.gather)
    places = (mixing.gather, *mixing.weights, mixing.gather)
    node = Node("gather", label, 0, BROAD, steps_at(flow, *places), flow.output(mixing.gather), extra)
    return chart_alone(node)


def chart_spread(flow: Flow, mixing: Mixing) -> Chart:
    """One row given back to every stream as a chart of its own."""
    label = f"ONE INTO {mixing.count} STREAMS"
    node = Node("spread", label, 0, BROAD, steps_at(flow, mixing.spread), flow.output(mixing.spread))
    return chart_alone(node)


def chart_since(flow: Flow, joint: Joint) -> Chart:
    """What a branch reads that began before other sums, as a chart of its own: the stream, or what a norm made."""
    start = joint.region.start or 0  # it is a sum, or a norm behind one
    norm = find_any_norm(flow, start) if joint.normed else None
    what = "STREAM" if norm is None else spell_norm(flow, norm)
    label = f"{what} BEFORE THE LAST {joint.since} SUMS"
    places = (start,) if norm is None else (start, *(node for node in norm.nodes if node != start))
    remark = describe_box("since", None)
    return chart_alone(Node("since", label, 0, BROAD, steps_at(flow, *places), flow.output(start), remark=remark))


def chart_added(flow: Flow, added: AddedRows) -> Chart:
    """Rows worked out of the stream and put beside it, as a chart of its own."""
    label = "WITH ONE MORE ROW" if added.count == 1 else f"WITH {added.count:,} MORE ROWS"
    extra = describe_params(flow, *(node for node in added.nodes if flow.is_leaf(node)))
    places = (added.join, *sorted(added.nodes - {added.join}))
    told = tuple(tell_added(flow, added))
    node = Node("added", label, 0, BROAD, steps_at(flow, *places), flow.output(added.join), extra, told=told)
    return chart_alone(node)


def tell_added(flow: Flow, added: AddedRows) -> Iterator[str]:
    """Which row of each sequence rows beside a stream are made of, and how many of them look at each other (X-CLIP)."""
    read = {name_rows(flow, node) for node in added.nodes if flow.is_leaf(node)} - {""}
    if len(read) == 1:
        yield MADE_OF.format(row=read.pop().lower())
    looking = [flow.output(site.softmax).shape for site in list_sites(flow) if site.softmax in added.nodes]
    if looking:
        sequences, *_, queries, keys = looking[0]
        are_all = len(looking) == 1 and sequences * keys == flow.output(added.join).shape[0] * added.count
        yield BY_ATTENTION + f": {keys:,} look at each other" * (are_all and queries == keys > 1)


def list_led_in(flow: Flow, found: Branching) -> frozenset[int]:
    """The steps beside a branch that is not known that make rows for its products by linear layers (GroupViT's keys).

    They work on data, and not on what the branch begins with.
    """
    if not isinstance(found.branch, Unknown):
        return frozenset()
    inner = found.region.inner
    apart = found.region.beside & list_reading_data(flow)
    made = (maker for node in inner if is_product(flow, node) for maker in flow.makers[node] if maker in apart)
    ways = (frozenset(flow.behind(maker, within=apart.__contains__)) for maker in made)
    return frozenset[int]().union(*(way for way in ways if projections_in(flow, way)))


def tell_led_in(flow: Flow, found: Branching, chart: Chart, led: Collection[int]) -> Chart:
    """The chart in which boxes of steps that are `led` in are not fed by the stream; those of former rows say so."""
    apart = {node.key for node in chart.nodes if node.steps and flow.places[node.steps[0].id] in led}
    begun = apart.difference(edge.target for edge in chart.edges) if reads_former_rows(flow, found, led) else set[str]()
    nodes = (replace(node, told=(*node.told, LED_IN)) if node.key in begun else node for node in chart.nodes)
    return replace(chart, nodes=tuple(nodes), feet=tuple(key for key in chart.feet if key not in apart))


def reads_former_rows(flow: Flow, found: Branching, led: Collection[int]) -> bool:
    """Whether steps that are `led` in read what the stream came of.

    No other tower's end, which it met in products, or which scales or shifts it (MotionDiffuse).
    """
    reading, start = list_reading_data(flow), found.region.start
    stream = reading.intersection(
        flow.behind(start, ends=lambda node: is_product(flow, node), reads=lambda node: list_as_long(flow, node))
    )
    read = (maker for node in led for maker in flow.makers[node] if maker in reading and maker not in led)
    ways = (flow.behind(one, ends=lambda node: flow.op(node) in SUMS or is_linear(flow, node)) for one in read)
    return all(not stream.isdisjoint(way) for way in ways)


def list_as_long(flow: Flow, node: int) -> list[int | None]:
    """The makers of what a step reads, without those of what it adds to, or multiplies with, each of several rows."""
    if flow.op(node) not in SUMS | SCALINGS:
        return [*flow.makers[node]]
    return [maker for record, maker in flow.given(node) if prod(record.shape) == prod(flow.output(node).shape)]


def tell_added_again(flow: Flow, towering: Towering, chart: Chart | None) -> Chart | None:
    """The chart of an entrance whose sum says so where what it adds is added to the stream before each later layer."""
    layers = [(layer[0].joints[0].stream, layer[-1].joints[-1].add) for layer in towering.layers]
    begun = [flow.carried_from(stream) for stream, _ in layers[1:]]
    pairs = [*zip(begun, (end for _, end in layers), strict=False)]
    if chart is None or not pairs:
        return chart

    def is_again(node: Node) -> bool:
        places = (flow.places[step.id] for step in node.steps if step.op in SUMS and step.id in flow.places)
        made = (maker for place in places for maker in flow.makers[place] if maker is not None)
        return any(all(adds(flow, place, end, maker) for place, end in pairs) for maker in made)

    nodes = (replace(node, told=(*node.told, ADDED_AGAIN)) if is_again(node) else node for node in chart.nodes)
    return replace(chart, nodes=tuple(nodes))


def adds(flow: Flow, place: int | None, end: int, maker: int) -> bool:
    """Whether a step adds what another one makes to what a layer ends with."""
    return place is not None and flow.op(place) in SUMS and {*flow.makers[place]} == {end, maker}
