"""Experts that are chosen one after the other, each weighed by a softmax over the scores near its own (SparseMixer)."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CLAMPS, DIFFERENCES, DIVISIONS, SIDE_BY_SIDE, SOFTMAXES
from xray.story.recognition.values.value_shapes import number

FILLED = frozenset({"masked_fill", "masked_fill_"})
STRUCK = frozenset({"scatter", "scatter_"})
ABOVE = frozenset({"gt", "greater"})


def read_nearness(flow: Flow, weights: int, router: int) -> float | None:
    """How far scores may lie below the best of those left, as a part of the larger of the two; None without a choice.

    One expert is chosen after the other: each is the best of those left, and weighs what a softmax gives it over the
    scores that are left and lie that near (SparseMixer, Liu et al. 2023, as in Phi-3.5-MoE).
    """
    joined = flow.carried_from(weights)
    if joined is None or flow.op(joined) not in SIDE_BY_SIDE or len(flow.makers[joined]) < 2:
        return None
    struck: list[int] = []
    near: set[float | None] = set()
    for picked in flow.makers[joined]:
        best, how = read_turn(flow, picked, router, struck)
        near.add(how)
        if best is None:
            return None
        struck.append(best)
    return near.pop() if len(near) == 1 else None


def read_turn(flow: Flow, picked: int | None, router: int, struck: Sequence[int]) -> tuple[int | None, float | None]:
    """The step that finds the best score of those left when some are struck out, and how near others count too."""
    nothing = (None, None)
    softmax, best = pair(flow, picked, frozenset({"gather"}))
    filled = (
        None if softmax is None or flow.op(softmax) not in SOFTMAXES else flow.carried_from(flow.makers[softmax][0])
    )
    left, far = pair(flow, filled, FILLED)
    if best is None or left is None or far is None or flow.op(best) != "max":
        return nothing
    if not is_left(flow, left, router, struck) or flow.carried_from(flow.makers[best][0]) != left:
        return nothing
    value = number(flow.steps[filled], "value") if filled is not None else None
    distance = flow.carried_from(flow.makers[far][0]) if flow.op(far) in ABOVE else None
    below, larger = pair(flow, distance, DIVISIONS)
    if value != float("-inf") or pair(flow, below, DIFFERENCES) != (best, router):
        return nothing
    size, least = pair(flow, larger, CLAMPS)
    is_size = size is not None and flow.op(size) == "abs" and flow.carried_from(flow.makers[size][0]) == router
    return (best, number(flow.steps[far])) if is_size and least == best else nothing


def pair(flow: Flow, node: int | None, ops: frozenset[str]) -> tuple[int | None, int | None]:
    """The steps that made the two operands of a step of some kind; none where it is another one."""
    if node is None or flow.op(node) not in ops or len(flow.makers[node]) != 2:
        return None, None
    first, second = flow.makers[node]
    return flow.carried_from(first), flow.carried_from(second)


def is_left(flow: Flow, left: int, router: int, struck: Sequence[int]) -> bool:
    """Whether scores are those of a router without the ones that were chosen before."""
    if not struck:
        return left == router
    scores, chosen = pair(flow, left, STRUCK)
    out = scores is not None and (number(flow.steps[left], "arg3") or number(flow.steps[left], "value")) == float(
        "-inf"
    )
    before = list(struck[:-1])
    return out and chosen == struck[-1] and scores is not None and is_left(flow, scores, router, before)
