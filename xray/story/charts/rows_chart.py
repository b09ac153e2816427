"""Rows that a branch works on and that are not the stream as it comes: of several streams, of before, put beside."""

from collections.abc import Iterator

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
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
from xray.story.recognition.mixed_streams import Mixing
from xray.story.recognition.norms import spell_norm
from xray.story.sentences.of_parts import BY_ATTENTION, MADE_OF, describe_box
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
