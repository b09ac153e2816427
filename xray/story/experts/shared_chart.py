"""The box of the experts that every place goes through, beside those that a router chooses."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS
from xray.story.charts.chart import Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.experts.choice import list_stacks
from xray.story.experts.experts import count_shared

BESIDE_ROUTER: Place = (0.815, 0.36)
BESIDE_BOTH: Place = (0.845, 0.3)
"""Where a linear layer stands on the other side of the router, too."""


def shared_node(flow: Flow, parts: Sequence[Collection[int]], row: int, place: Place) -> Node:
    """What every place goes through too: its shape, its parameters, and the gate that it may have for each place."""
    steps = sorted({node for part in parts for node in part})
    is_weighed = any(list_stacks(flow, part) for part in parts)
    gate = "× a sigmoid gate" if all(is_gated(flow, part) for part in parts) else "× their scores" * is_weighed
    told = tuple(filter(None, (describe_params(flow, *steps), gate)))  # the box is narrow
    made = flow.output(max(parts[-1]))
    return Node("shared", name_shared(flow, parts), row, place, steps_at(flow, *steps), made, told=told)


def name_shared(flow: Flow, parts: Sequence[Collection[int]]) -> str:
    """What those are called that every place goes through, with how many stand in one stack of weights."""
    many = max((count_shared(flow, [part]) for part in parts), default=1)
    return "SHARED EXPERT" if many == 1 else f"{many} SHARED EXPERTS"


def is_gated(flow: Flow, part: Collection[int]) -> bool:
    """Whether all that an expert makes is multiplied by one number for each place, a sigmoid of what is worked out."""
    end = flow.carried_from(max(part))
    if end is None or flow.op(end) not in SCALINGS or len(flow.steps[end].inputs) != 2:
        return False
    lone = [flow.carried_from(maker) for record, maker in flow.given(end) if record.shape[-1:] == (1,)]
    gate = lone[0] if len(lone) == 1 else None
    return gate is not None and gate in part and flow.op(gate).rstrip("_") == "sigmoid"
