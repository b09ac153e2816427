"""Norms inside a branch, behind what it works out and before the linear layer that leads back (BitNet)."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS
from xray.ir.flow.projections import data_input
from xray.story.anatomy.branches import NormKind
from xray.story.recognition.norms import Norm, find_norm


def find_inner_norm(flow: Flow, projection: int, worked_out: Collection[int], *, is_gated: bool = False) -> Norm | None:
    """The norm whose rows a linear layer reads, if it normalises what some steps worked out; None if there is none.

    Where that `is_gated`, the norm may stand before the product with the gate (Muse Spark).
    """
    number = data_input(flow, projection)
    here = None if number is None else flow.makers[projection][number]
    while here is not None:
        norm = find_norm(flow, here)
        if norm is not None:
            return norm if flow.carried_from(norm.origin) in worked_out else None
        if is_gated and flow.op(here) in SCALINGS and len(flow.makers[here]) == 2:
            here = next((maker for maker in flow.makers[here] if maker in worked_out), None)
            continue
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            return None
        here = flow.makers[here][0]
    return None


def name_inner_norm(
    flow: Flow, projection: int | None, worked_out: Collection[int], *, is_gated: bool = False
) -> NormKind | None:
    """Which norm that is."""
    norm = None if projection is None else find_inner_norm(flow, projection, worked_out, is_gated=is_gated)
    return None if norm is None else "layer" if norm.centred else "rms"
