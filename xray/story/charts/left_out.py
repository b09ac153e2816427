"""What is not drawn on the ways of an attention: norms that stand before it, moves of weights, rows laid out anew."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SHAPING
from xray.story.body.stages import Branching, find_any_norm, opening_norms
from xray.story.branches.operands import Side
from xray.story.branches.rows import SWAPS
from xray.story.passages.modulation import list_modulation
from xray.story.recognition.between import Region


def list_opening(flow: Flow, found: Branching) -> frozenset[int]:
    """The steps of a branch up to the end of the norm that it begins with: they are drawn apart."""
    norms = opening_norms(flow, found.region, found.region.start)
    ends = [node for norm in norms for node in (norm.end, *list_modulation(flow, norm))]
    return frozenset(node for node in found.region.inner if ends and node <= max(ends))


def list_laid_out(flow: Flow, sides: Sequence[Side]) -> frozenset[int]:
    """The steps before the linear layers that only swap, pick and lay out rows: the panel's name says what they do."""
    return frozenset(
        node
        for side in sides
        for node in side.nodes
        if side.projections and node < side.projections[0] and flow.op(node) in SWAPS | SHAPING
    )


def ends_norm(flow: Flow, node: int, region: Region) -> bool:
    """Whether a step multiplies by the weights of a norm that made the stream: that is drawn before (MiniMax)."""
    norm = find_any_norm(flow, node)
    return norm is not None and region.start in norm.nodes


def list_weights(flow: Flow, nodes: frozenset[int]) -> frozenset[int]:
    """The steps that only move parameters: weights cut in three, say."""
    found: set[int] = set()
    for node in sorted(nodes):
        given = list(flow.given(node))
        if given and all(record.role == "parameter" or maker in found for record, maker in given):
            found.add(node)
    return frozenset(found)
