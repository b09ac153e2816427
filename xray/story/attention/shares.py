"""What is said in boxes that hold more than their way, or a share of it: the gate made with the queries, one piece."""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.projections import is_projection
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention
from xray.story.charts.chart import Node


def tell_shares(flow: Flow, site: Site, nodes: Sequence[Node], branch: Attention) -> list[Node]:
    """The boxes of an attention, with words in those that cut a packed row, and in one that makes the gate too."""
    gates = {step.id for node in nodes if node.key == "gate" for step in node.steps if makes_rows(flow, step)}
    asking = list_queries_elsewhere(flow, site)
    found = []
    for node in nodes:
        told: tuple[str, ...] = ()
        if node.key.startswith("linear") and any(step.id in gates for step in node.steps):
            told = ("and the gate",)
        if node.key.startswith("linear") and any(step.id in asking for step in node.steps):
            told = (*told, "the other Q")
        if branch.pieces and any(cuts_pieces(flow, site, step, branch.pieces) for step in node.steps):
            told = (f"1 of {branch.pieces:,} pieces",)
        found.append(replace(node, told=(*node.told, *told)) if told else node)
    return found


def list_queries_elsewhere(flow: Flow, site: Site) -> set[str]:
    """The steps that make the keys of an attention, and the queries of one the other way round (Grounding DINO)."""
    asks, offers = set(site.query.nodes), set(site.key.nodes)
    turned = (one for one in list_sites(flow) if one != site and asks.intersection(one.key.nodes))
    return {flow.steps[node].id for one in turned for node in offers.intersection(one.query.nodes) - asks}


def makes_rows(flow: Flow, step: Step) -> bool:
    """Whether a step is a linear layer."""
    return is_projection(flow, flow.places[step.id])


def cuts_pieces(flow: Flow, site: Site, step: Step, pieces: int) -> bool:
    """Whether a step cuts places into so many pieces, of which the first are those that ask."""
    if flow.op(flow.places[step.id]) not in CARRYING or len(step.outputs) != pieces or len(step.inputs) != 1:
        return False
    before, after = step.inputs[0].shape, step.outputs[0].shape
    cut = [size for size, whole in zip(after, before, strict=False) if size != whole]
    return len(before) == len(after) and before[-1:] == after[-1:] and cut == [flow.output(site.scores).shape[-2]]
