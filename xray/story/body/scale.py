"""By what a branch is multiplied before it is added to the stream."""

from collections.abc import Collection
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS
from xray.story.recognition.norms import find_norm
from xray.story.recognition.value_shapes import number

MOST_MOVES = 12


def name_scale(flow: Flow, end: int, nodes: Collection[int]) -> Literal["learned", "number"] | None:
    """By what a branch is multiplied at its end: a learned number for each channel, or the same number for all."""
    here: int | None = end
    for _ in range(MOST_MOVES):
        if here is None or here not in nodes:
            return None
        step = flow.steps[here]
        if step.op in SCALINGS:
            if any(record.role == "parameter" for record in step.inputs):
                return "learned" if find_norm(flow, here) is None else None
            return "number" if len(step.inputs) == 1 and number(step) not in (None, 1) else None
        if step.op not in CARRYING | DROPOUTS or not flow.makers[here]:
            return None
        here = flow.makers[here][0]
    return None
