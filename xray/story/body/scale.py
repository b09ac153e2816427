"""By what a branch is multiplied before it is added to the stream."""

from collections.abc import Collection
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS
from xray.story.recognition.norms import find_norm
from xray.story.recognition.value_shapes import number

MOST_MOVES = 12
Scale = Literal["learned", "number", "tanh"]


def name_scale(flow: Flow, end: int, nodes: Collection[int]) -> Scale | None:
    """By what a branch is multiplied at its end: a learned number for each channel, the same for all, tanh of one."""
    if find_tanh_gate(flow, end, nodes) is not None:
        return "tanh"
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


def find_tanh_gate(flow: Flow, end: int, nodes: Collection[int]) -> int | None:
    """The step that ends a branch by multiplying it by tanh of learned numbers, which are 0 at first (Idefics)."""
    here: int | None = end
    for _ in range(MOST_MOVES):
        if here is None or here not in nodes:
            return None
        if flow.op(here) in SCALINGS:
            return here if any(is_tanh_of_learned(flow, maker) for maker in flow.makers[here]) else None
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            return None
        here = flow.makers[here][0]
    return None


def is_tanh_of_learned(flow: Flow, maker: int | None) -> bool:
    """Whether a step bends a parameter by tanh, and reads nothing else."""
    while maker is not None and flow.op(maker) in CARRYING and flow.makers[maker]:
        maker = flow.makers[maker][0]
    return (
        maker is not None
        and flow.op(maker) == "tanh"
        and {one.role for one in flow.steps[maker].inputs} == {"parameter"}
    )
