"""Ways from one stream to another: straight ones, on which nothing is worked out."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SUMS
from xray.story.recognition.norms import find_norm


def find_straight_ends(flow: Flow, start: int | None, ends: Collection[int]) -> list[int]:
    """Those of some steps from which one comes to a later one through nothing but sums, norms and moves."""
    found: list[int] = []
    todo = [start]
    for here in todo:
        if here is None:
            continue
        norm = find_norm(flow, here)
        if here in ends:
            found.append(here)
        elif norm is not None:
            todo.append(norm.origin)
        elif flow.op(here) in CARRYING | DROPOUTS | SUMS:
            todo += [maker for maker in flow.makers[here] if maker not in todo]
    return found
