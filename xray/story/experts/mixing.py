"""How what experts give is put together: by which weights, times what, and what widens it again."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, SCALINGS, SUMS
from xray.story.body.scale import find_scale
from xray.story.body.stages import opening_norms
from xray.story.branches.scored.caps import read_factor
from xray.story.recognition.between import Region, is_linear, is_scale, strip_plain
from xray.story.recognition.norms import Norm, spell_norm
from xray.story.streams.shortcuts import find_any_norm

ADDING = frozenset({"sum", "index_add", "index_add_", "scatter_add", "scatter_add_"})


def find_last_of_experts(flow: Flow, region: Region) -> int:
    """The step with which experts end: before a number by which all is multiplied at last, and before a last norm."""
    scale, end = find_scale(flow, region.end, region.inner), region.end
    before = end if scale is None else strip_once(flow, scale)
    norm = None if before is None else find_any_norm(flow, before)
    mixed = flow.carried_from(before if norm is None else norm.origin)
    return mixed if mixed is not None and mixed in region.inner else end


def strip_once(flow: Flow, scale: int) -> int | None:
    """The step whose numbers a step scales, moves left out."""
    wanted = flow.output(scale).shape
    return flow.carried_from(next((maker for record, maker in flow.given(scale) if record.shape == wanted), None))


def list_factors(flow: Flow, heavy: Sequence[int], nodes: Collection[int], end: int) -> list[int]:
    """The steps that multiply what all experts give by one number, before they end."""
    behind = (node for node in sorted(nodes) if heavy and heavy[-1] < node <= end and flow.op(node) in SCALINGS)
    return [node for node in behind if read_factor(flow, node) not in (None, 1)]


def find_norm_of_sum(flow: Flow, end: int, last: int, nodes: Collection[int]) -> Norm | None:
    """The norm that what chosen experts give goes through before more is added to it (Gemma 4); None without one."""
    norms = (find_any_norm(flow, here) for maker in flow.makers[end] if (here := flow.carried_from(maker)) is not None)
    own = [norm for norm in norms if norm is not None and norm.origin is not None]
    return next((norm for norm in own if last in flow.behind(norm.origin, within=nodes.__contains__)), None)


def seek_down(flow: Flow, first: int, nodes: Collection[int]) -> int | None:
    """The linear layer by which rows are made narrower, or wider, for all experts alike (latent experts)."""
    here = flow.makers[first][0]
    while here is not None and here in nodes:
        if is_linear(flow, here):
            return here
        norm = find_any_norm(flow, here)
        if norm is None and flow.op(here) not in CARRYING:
            return None
        here = flow.makers[here][0] if norm is None else norm.origin
    return None


def find_norm_of(flow: Flow, node: int, nodes: Collection[int]) -> Norm | None:
    """The norm of what a step made, be it scaled first."""
    norms = (find_any_norm(flow, place) for place in sorted(nodes, reverse=True) if place > node)
    return next((norm for norm in norms if norm is not None and strip_plain(flow, norm.origin) == node), None)


def name_norm_of(flow: Flow, node: int, nodes: Collection[int]) -> str:
    """That norm, as it stands in a label; empty where there is none."""
    norm = find_norm_of(flow, node, nodes)
    return "" if norm is None else f" + {spell_norm(flow, norm)}"


def list_norm_of(flow: Flow, node: int, nodes: Collection[int]) -> tuple[int, ...]:
    """The steps of that norm, those included that scale what it reads."""
    norm = find_norm_of(flow, node, nodes)
    if norm is None:
        return ()
    scaled = flow.behind(norm.origin, within=lambda place: place > node and (place in nodes or not flow.makers[place]))
    return (*norm.nodes, *(place for place in scaled if place not in norm.nodes))


def seek_up(flow: Flow, end: int, last: int, nodes: Collection[int]) -> int | None:
    """The linear layer that brings what experts found back to the width of the stream."""
    here: int | None = end
    while here is not None and here in nodes and here > last:
        if is_linear(flow, here):
            return here
        norm = find_any_norm(flow, here)
        if norm is None and flow.op(here) not in CARRYING | SUMS and not is_scale(flow, here):
            return None
        ways = flow.makers[here] if norm is None else (norm.origin,)
        behind = (one for one in ways if one is not None and last in flow.behind(one, within=nodes.__contains__))
        here = next(behind, None)
    return None


def list_mixing(flow: Flow, heavy: Sequence[int], nodes: Collection[int], routing: Collection[int]) -> list[int]:
    """The steps that multiply what experts give by what the router says, and add it up."""
    behind = [node for node in sorted(nodes) if (not heavy or node > heavy[-1]) and node not in routing]
    return [
        node
        for node in behind
        if flow.is_leaf(node)
        and (
            flow.op(node) in ADDING
            or (flow.op(node) in SUMS and len(flow.steps[node].inputs) > 1)
            or weighs(flow, node, routing)
        )
    ]


def list_entering(flow: Flow, heavy: Sequence[int], nodes: Collection[int], routing: Collection[int]) -> list[int]:
    """The steps that multiply what goes into experts by what the router says, in place of what they give (Llama 4)."""
    before = [node for node in sorted(nodes) if heavy and node < heavy[0] and node not in routing]
    return [node for node in before if flow.is_leaf(node) and weighs(flow, node, routing)]


def weighs(flow: Flow, node: int, routing: Collection[int]) -> bool:
    """Whether a step multiplies by what the router says, and not alone by whether an expert was chosen."""
    makers = [flow.carried_from(maker, CARRYING | CASTING) for maker in flow.makers[node]]
    own = [maker for maker in makers if maker in routing and maker is not None]
    return flow.op(node) in SCALINGS and any(flow.output(maker).is_float for maker in own)


def reads_rows(flow: Flow, region: Region, first: Collection[int], nodes: Collection[int], router: int) -> bool:
    """Whether what experts do first is done with rows that the branch or its opening norm gives them, or the router.

    Those of a set of experts are given the rows of its own places alone, and so is its router (ERNIE 4.5 VL).
    """
    moving = CARRYING | {"index"}
    scored = flow.carried_from(next(iter(flow.makers[router]), None), moving)
    rows = {region.start, scored, *(norm.end for norm in opening_norms(flow, region, region.start))}
    way = flow.behind(*first, within=lambda node: node in nodes or flow.op(node) in moving)
    return any(flow.carried_from(maker) in rows or maker in rows for node in way for maker in flow.makers[node])
