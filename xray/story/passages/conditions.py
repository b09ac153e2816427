"""Conditions: what is worked out beside a stream, and scales, shifts and gates its sublayers: time, class (DiT)."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.ir.flow.weights import read_weights
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.body.stages import Staging
from xray.story.branches.feed_forward import find_rows_beside
from xray.story.passages.bridges import Bridging
from xray.story.passages.held_factors import list_brought
from xray.story.passages.joined_rows import multiplies_earlier
from xray.story.passages.modulation import find_beside_gate, list_modulation
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.norms import Norm
from xray.story.streams.shortcuts import find_any_norm

ANY_NUMBER = re.compile(r"\d+")
MOST_BEHIND = 2000
Way = Literal["scales", "shifts", "gates"]
"""What a condition does to what a sublayer reads or gives."""


@dataclass(frozen=True)
class Conditioning:
    """A tower's condition: the steps that work it out, those that scale, shift and gate by it, and what it is made of.

    `first` are the steps that work it out for the first layer, or for the first that reads it, where all do the same;
    none of these is one of the tower's own entrance, be it that it is worked out of that (Gemma's rows for each layer).
    `inputs` are the names of all arguments that it comes from, be it what scales and shifts norms where something does;
    none where one cannot be told from others of the same shape, or it comes from the entrance too. Rows that
    `are_looked_at` scale and gate nothing: they are what attention takes its keys and values of (Perceiver). `ways` are
    what it does to sublayers, by those arguments. Each of so many `layers`, those like the first one, works out by
    itself, and in the same shapes, what the steps in `alone` do for the first. No box stands for the `boxless`, which
    no layer reads: they are for the last norm.
    None of another layer stands for the `untold`: these, what serves all layers, and what leads to learned layers of
    other shapes, in layers unlike the first.
    """

    nodes: frozenset[int]
    first: frozenset[int]
    readers: frozenset[int]
    inputs: tuple[str, ...]
    are_looked_at: bool = False
    ways: tuple[Way, ...] = ()
    alone: frozenset[int] = frozenset()
    layers: int = 0
    boxless: frozenset[int] = frozenset()
    untold: frozenset[int] = frozenset()


def find_conditioning(
    flow: Flow,
    layers: Sequence[Sequence[Staging]],
    final: Norm | None,
    stops: Collection[int],
    entrance: Collection[int] = (),
    bridges: Sequence[Bridging] = (),
) -> Conditioning | None:
    """What scales, shifts and gates the sublayers of a tower from beside; None where nothing does.

    `stops` are steps of streams: what is worked out of one of them stands beside none. Those of the tower's own
    `entrance` are drawn there. `bridges` may gate by such rows too (Gemma 3n).
    """
    found: list[tuple[int, frozenset[int]]] = []
    by_layer = [dict(pair for staging in layer for pair in list_readers(flow, staging)) for layer in layers]
    read = {place for own in by_layer for place in own}
    read |= set(list_modulation(flow, final)) if final is not None else set()
    first = set(by_layer[0])
    gates = [node for one in bridges for node in sorted(one.nodes) if multiplies_earlier(flow, node, one.nodes)]
    read |= set(gates)
    inner = frozenset[int]().union(
        *(one.region.inner for layer in layers for staging in layer for one in staging.joints),
        *(one.nodes for one in bridges),
    )
    whole = set[int]()
    for place in sorted(read):
        nodes = work_out(flow, place, stops, inner, entrance)
        if nodes is not None:
            whole |= nodes
            beside = flow.behind(max(nodes), within=lambda node: node not in entrance)
            found.append((place, frozenset(beside)))  # what leads to the entrance stands before the stream itself
    if not any(True for _ in list_given(flow, whole)):
        return None
    own = frozenset[int]().union(*(nodes for _, nodes in found))
    ways = {place: way for one in by_layer for place, way in one.items()}
    moving = frozenset[int]().union(*(nodes for place, nodes in found if ways.get(place, "gates") != "gates"))
    inputs, every = name_sources(flow, moving or own), name_sources(flow, own)
    shares = [frozenset[int]().union(*(nodes for place, nodes in found if place in one)) for one in by_layer]
    told = {*filter(None, shares)}
    if not shares[0] and len(told) == 1:  # all others read the same: a U-Net's time
        first |= set(next(filter(None, by_layer)))
    done = {ways[place] for place, _ in found if place in ways} - ({"gates"} if inputs != every else set())
    first |= set(gates[:1])
    alike = list_alike(flow, layers, shares)
    alone = list_alone(flow, alike, shares)
    unlike = frozenset[int]().union(*shares).difference(*alike)
    learned = [node for node in unlike if flow.steps[node].params and flow.is_leaf(node)]
    unlike = unlike.intersection(flow.behind(*learned)) if alone or not shares[0] else frozenset[int]()
    worked = frozenset[int]().union(*shares, *(nodes for place, nodes in found if place in gates))
    boxless = own - worked if worked else frozenset[int]()
    return Conditioning(
        own,
        frozenset[int]().union(*(nodes for place, nodes in found if place in first)) & own,
        frozenset(place for place, _ in found),
        inputs,
        ways=tuple(way for way in get_args(Way) if way in done),
        alone=alone,
        layers=len(alike),
        boxless=boxless,
        untold=unlike | boxless | frozenset.intersection(*shares),
    )


def list_alike(
    flow: Flow, layers: Sequence[Sequence[Staging]], shares: Sequence[frozenset[int]]
) -> list[frozenset[int]]:
    """The shares in a condition that layers have as the first has: in its shapes, and by its names or of its parts.

    So layers across the pictures of a film have tables of their own (Latte).
    """
    shapes = [{(record.shape, params) for record, params in list_weighed(flow, share)} for share in shares]
    names = [{ANY_NUMBER.sub("*", name) for node in share for name in read_weights(flow, node)} for share in shares]
    parts = [[one.part for staging in layer for one in staging.stage.branches] for layer in layers]
    told = zip(shares, shapes, names, parts, strict=True)
    return [share for share, shape, name, part in told if shape == shapes[0] and (name == names[0] or part == parts[0])]


def list_weighed(flow: Flow, share: Collection[int]) -> Iterator[tuple[TensorRecord, int]]:
    """What the steps with weights among some make, with how many parameters each has."""
    return ((flow.output(node), params) for node in share if (params := flow.steps[node].params) and flow.is_leaf(node))


def name_sources(flow: Flow, nodes: frozenset[int]) -> tuple[str, ...]:
    """The names of all arguments that some steps work on; none where one cannot be told from others, or not all do."""
    names = [name_source(flow, node, record) for node, record in list_given(flow, nodes)]
    is_whole = "" not in names and all({*flow.makers[node]} <= {*nodes, None} for node in nodes if flow.is_leaf(node))
    return tuple(dict.fromkeys(filter(None, names))) if is_whole else ()


def list_alone(flow: Flow, alike: Sequence[frozenset[int]], shares: Sequence[frozenset[int]]) -> frozenset[int]:
    """The steps of the first layer's share in a condition that each other one `alike` does by itself, with own weights.

    None where a layer has not as many weights of its own, among all `shares`, as the first, each of the same size.
    """
    own = [share.difference(*(other for other in shares if other is not share)) for share in alike]
    held = [dict(weight for node in one for weight in read_weights(flow, node).items()) for one in own]
    are_alike = len({tuple(sorted(one.values())) for one in held}) == 1 < len(held)
    return own[0] if are_alike and all(held[0].keys().isdisjoint(other) for other in held[1:]) else frozenset()


def find_looked_at(flow: Flow, layers: Sequence[Sequence[Staging]], stops: Collection[int]) -> Conditioning | None:
    """Rows that attentions of a tower look at, and that no tower gives, worked out of what comes in (Perceiver).

    None where there are none, or where not all of these attentions look at the same.
    """
    readers, origins = set[int](), set[int]()
    for one in (one for layer in layers for staging in layer for one in staging.branches):
        if isinstance(one.branch, Attention) and one.branch.source is None and one.site is not None:
            found = list_entries(flow, one.site, list_norm_steps(flow, one.region.beside))
            readers |= {reader for reader, _ in found}
            origins |= {maker for _, maker in found}
    if len(origins) != 1 or not origins.isdisjoint(stops):
        return None
    nodes = frozenset(flow.behind(*origins, most=MOST_BEHIND))
    is_learned = any(flow.is_leaf(node) and flow.steps[node].params for node in nodes)
    if not nodes.isdisjoint(stops) or len(nodes) == MOST_BEHIND or not is_learned:
        return None
    return Conditioning(nodes, nodes, frozenset(readers), (), are_looked_at=True)


def list_entries(flow: Flow, site: Site, own: Collection[int]) -> list[tuple[int, int]]:
    """The steps on the way to keys and values that read what is made outside of the attention's block, with that.

    A norm of these by a branch's `own` steps stands in it, be it outside of that block.
    """
    ways, data = (site.query, site.key, site.value), list_reading_data(flow)
    blocks = [set(flow.parents(way.projection)) for way in ways if way.projection is not None]
    block = max(set.intersection(*blocks), default=0) if len(blocks) == len(ways) else 0
    inner, found = {*range(block, flow.ends[block]), *own}, list[tuple[int, int]]()
    for node in sorted(flow.behind(*site.key.nodes, *site.value.nodes, within=inner.__contains__)):
        outer = (maker for maker in flow.makers[node] if maker is not None and maker not in inner and maker in data)
        found += [(node, maker) for maker in outer]
    return found


def list_norm_steps(flow: Flow, nodes: Collection[int]) -> set[int]:
    """The steps of norms that end among some steps."""
    norms = (find_any_norm(flow, node) for node in nodes)
    return {node for norm in norms if norm is not None for node in norm.nodes}


def list_readers(flow: Flow, staging: Staging) -> Iterator[tuple[int, Way]]:
    """The steps of a stage that scale, shift or gate by what stands beside the stream, each with which of these.

    For what is added to each channel, the first that works out of it what is added there.
    """
    for norm in staging.norms:
        for node in list_modulation(flow, norm):
            yield node, "shifts" if flow.op(node) in SUMS else "scales"
    for joint in staging.joints:
        gate = find_beside_gate(flow, joint.region.end, joint.region.start)
        if gate is not None:
            yield gate, "gates"
        for node in sorted(joint.region.inner):
            if brought := list_brought(flow, node, joint.region.inner):
                yield brought[-1], "shifts"
    for one in staging.branches:
        if isinstance(one.branch, FeedForward) and one.branch.gates_beside:
            gate = find_rows_beside(flow, one.region, one.region.inner)
            if gate is not None:
                yield gate, "gates"


def work_out(
    flow: Flow, place: int, stops: Collection[int], inner: Collection[int], entrance: Collection[int]
) -> frozenset[int] | None:
    """The steps behind the smaller of two tensors that a step brings together; None if a stream is among them.

    Where both are of one size, it is the one that is not among the `inner` steps of branches. Where too many are
    behind, as where images are put among words, they are followed as far as the `entrance`.
    """
    shapes = [(record.shape, maker) for record, maker in flow.given(place) if maker is not None]
    whole = flow.output(place).shape
    beside = [maker for shape, maker in shapes if shape != whole]
    beside = beside or [maker for _, maker in shapes if maker not in inner]
    if len(beside) != 1:
        return None
    nodes = frozenset(flow.behind(beside[0], most=MOST_BEHIND))
    if len(nodes) == MOST_BEHIND:
        nodes = frozenset(flow.behind(beside[0], most=MOST_BEHIND, within=lambda node: node not in entrance))
    return None if not nodes.isdisjoint(stops) or len(nodes) == MOST_BEHIND else nodes


def list_given(flow: Flow, nodes: Collection[int]) -> Iterator[tuple[int, TensorRecord]]:
    """What comes from outside into some steps and is no parameter, each with the step that reads it."""
    for node in sorted(nodes):
        for record, maker in flow.taken(node):
            if maker is None and record.role != "parameter" and record.shape and flow.is_leaf(node):
                yield node, record


def name_source(flow: Flow, place: int, record: TensorRecord) -> str | None:
    """What a tensor from outside is called, by the arguments of the blocks around it; "" where it may be several.

    None where it is no argument of any: numbers that a block has of its own, as the frequencies of waves are.
    """
    if record.argument is not None:
        return record.argument
    name, is_given = record.name, False
    for here in flow.parents(place):
        given = flow.steps[here].inputs
        names = {one.name for one in given if one.source is None and one.shape == record.shape}
        is_given = is_given or bool(names)
        if name not in names:
            close = {one for one in names if name in one or one in name}
            if len(names) == 1 or len(close) == 1:
                name = next(iter(names if len(names) == 1 else close))
            elif names:
                return ""
    return name if is_given else None
