"""Attention and feed-forward that one linear layer leads back to the stream, their results side by side (Flux)."""

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, SCALINGS, SIDE_BY_SIDE
from xray.ir.flow.projections import data_input
from xray.story.anatomy.branches import FeedForward
from xray.story.branches.feed_forward import is_bend, is_gate, name_activation
from xray.story.recognition.between import Region, cut_region, is_linear, is_scale, projections_in, width_out


def split_merged(flow: Flow, region: Region, sites: tuple[Site, ...]) -> tuple[Region, Region] | None:
    """The parts of a region whose last linear layer reads an attention's rows beside wide, bent ones; else None."""
    last = find_last_linear(flow, region)
    number = None if last is None else data_input(flow, last)
    if last is None or number is None:
        return None
    joined = flow.carried_from(flow.makers[last][number])
    if joined is None or flow.op(joined) not in SIDE_BY_SIDE or len(flow.makers[joined]) != 2:
        return None
    parts = [part for maker in flow.makers[joined] if (part := cut_region(flow, region, maker)) is not None]
    attending = [part for part in parts if any(site.weighted_sum in part.inner for site in sites)]
    bent = [part for part in parts if part not in attending and describe_half(flow, part) is not None]
    return (attending[0], bent[0]) if len(attending) == len(bent) == 1 else None


def find_last_linear(flow: Flow, region: Region) -> int | None:
    """The linear layer that a region ends with, what scales or drops its rows left out."""
    here: int | None = region.end
    for _ in range(8):
        if here is None or here not in region.inner:
            return None
        if is_linear(flow, here):
            return here
        if not is_scale(flow, here) and flow.op(here) not in CARRYING | DROPOUTS | SCALINGS:
            return None
        here = next((maker for maker in flow.makers[here] if maker in region.inner), None)
    return None


def describe_half(flow: Flow, region: Region) -> FeedForward | None:
    """The facts of a feed-forward whose way back is shared; None if wide rows are not bent, or places mixed.

    What goes to a map of fewer places and back beside an attention is a way of its own (Wave-ViT's wavelets).
    """
    projections = projections_in(flow, region.inner)
    after = [node for node in sorted(region.inner) if projections and node > projections[0]]
    mixed = any(flow.op(node) in FINDINGS and not is_linear(flow, node) for node in region.inner)
    if mixed or len(projections) != 1 or not any(is_bend(flow, node) for node in after):
        return None
    d_ff = flow.output(region.end).shape[-1]
    gated = any(is_gate(flow, node, set(region.inner), projections) for node in after)
    return FeedForward(
        d_ff=d_ff,
        activation=name_activation(flow, after, projections),
        gated=gated,
        fused=width_out(flow, projections[0]) == 2 * d_ff if gated else None,
    )
