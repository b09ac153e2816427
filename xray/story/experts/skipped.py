"""Places that go through no expert: one score more than there are experts is for none of them (ZAYA)."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, MASKINGS
from xray.story.recognition.values.value_shapes import number

EQUAL = frozenset({"eq", "equal"})


def may_choose_none(flow: Flow, choice: int, experts: int) -> bool:
    """Whether there is one more to choose from than there are experts."""
    return flow.steps[choice].inputs[0].shape[-1:] == (experts + 1,)


def list_emptied(flow: Flow, routing: Collection[int], choice: int, experts: int) -> set[int]:
    """The steps that make a weight 0 where the last score was chosen, which is for none of so many experts."""
    if not may_choose_none(flow, choice, experts):
        return set()
    return {
        node
        for node in routing
        if flow.op(node) in MASKINGS
        and flow.output(node).is_float
        and number(flow.steps[node], "value") == 0
        and is_none(flow, flow.makers[node][-1], choice, experts)
    }


def is_none(flow: Flow, mask: int | None, choice: int, experts: int) -> bool:
    """Whether a mask shows where what a step chose is behind the last expert."""
    asked = flow.carried_from(mask)
    if asked is None or flow.op(asked) not in EQUAL or number(flow.steps[asked]) != experts:
        return False
    return flow.carried_from(flow.makers[asked][0], CARRYING) == choice
