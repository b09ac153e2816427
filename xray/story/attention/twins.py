"""Two attentions of the same queries and keys that each weigh a part of the values, drawn as one (DiffLlama)."""

from dataclasses import replace
from math import prod

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operand_ways import carrying_tail
from xray.ir.flow.operation_kinds import (
    CARRYING,
    REPEATS,
)
from xray.story.attention.ways.lanes import Part
from xray.story.branches.before_last import WHOLE
from xray.story.branches.feed_forward import SPLITTERS
from xray.story.charts.chart import Node, steps_at


def find_twin(flow: Flow, site: Site, part: Part) -> Site | None:
    """The attention of the same queries, keys and mask, but of other values, that a part puts beside the heads."""
    read = {flow.carried_from(maker) for node in part.nodes for maker in flow.makers[node]}
    own = list_behind_weights(flow, site)
    others = (one for one in list_sites(flow) if one.weighted_sum != site.weighted_sum and one.weighted_sum in read)
    return next((one for one in others if own is not None and list_behind_weights(flow, one) == own), None)


def list_behind_weights(flow: Flow, site: Site) -> tuple[list[str], set[int | None]] | None:
    """What a site does from the product of queries and keys to the softmax, and all that is made of outside of it.

    None where this is one of several parts that a step gives: which of them is not known (Qwen's eye).
    """
    makers = {flow.carried_from(maker, WHOLE) for node in site.scored for maker in flow.makers[node]}
    if any(maker is not None and flow.op(maker) in SPLITTERS for maker in makers):
        return None
    return [flow.op(node) for node in site.scored], makers - set(site.scored)


def add_weights(flow: Flow, twin: Site, node: Node) -> Node:
    """A box of an attention's chart; that of its weights stands for those of its twin too."""
    return replace(node, steps=(*node.steps, *steps_at(flow, twin.softmax))) if node.key == "softmax" else node


def list_values(flow: Flow, twin: Site) -> list[int]:
    """The steps that move values, cut and repeat them, before such an attention weighs them; the last one first."""
    return carrying_tail(flow, flow.makers[twin.weighted_sum][-1], CARRYING | REPEATS)[::-1]


def name_half(flow: Flow, twin: Site) -> str:
    """What such an attention weighs: other values, or another half of them, where they alone are cut (DiffLlama)."""
    cuts = [node for node in list_values(flow, twin) if flow.op(node) in SPLITTERS]
    is_half = len(cuts) == 1 and len(flow.steps[cuts[0]].outputs) == 2 and cuts[0] not in twin.key.nodes
    return "HALF OF V" if is_half else "V"


def tell_repeated(flow: Flow, twin: Site) -> tuple[str, ...]:
    """How often what such an attention weighs is repeated before, if it is."""
    repeats = [node for node in list_values(flow, twin) if flow.op(node) in REPEATS]
    before = prod(flow.steps[repeats[-1]].inputs[0].shape) if repeats else 0
    times = prod(flow.output(repeats[0]).shape) // before if before else 1
    return (f"the other {name_half(flow, twin).lower().replace('v', 'V')} is repeated ×{times} before",) * (times > 1)
