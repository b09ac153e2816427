"""Turns of some rows alone: of places, and not of the rows before them that have none."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.story.recognition.turning import is_rotary


def count_turned_rows(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """How many of how many rows are turned, where they are laid behind or before rows that are not (DINOv3).

    None where all are.
    """
    for node in sorted(nodes, reverse=True):
        given = [(record.shape, maker) for record, maker in flow.given(node) if 0 not in record.shape]
        made = flow.output(node).shape
        grown = [axis for axis, size in enumerate(made) if any(shape[axis : axis + 1] != (size,) for shape, _ in given)]
        if flow.op(node) not in SIDE_BY_SIDE or len(given) < 2 or len(grown) != 1 or grown[0] == len(made) - 1:
            continue
        own = [set(flow.behind(maker, within=nodes.__contains__)) for _, maker in given]
        turned = [shape[grown[0]] for (shape, _), within in zip(given, own, strict=True) if is_rotary(flow, within)]
        if 0 < len(turned) < len(given):
            return sum(turned), made[grown[0]]
    return None
