"""Activations that are written out: rows times what bends those very rows, as GELU by tanh, or x times sigmoid(x)."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, CURVES, SCALINGS, SUMS

BENDING = CURVES | SCALINGS | SUMS | CASTING | frozenset({"pow", "sub", "rsub", "neg"})
MOST_STEPS = 14


def list_written_bend(flow: Flow, end: int) -> tuple[int, ...]:
    """The steps of the activation that a product of two tensors ends, both worked out of one; none if it ends none.

    Nothing but single numbers takes part in it besides.
    """
    shape, makers = flow.output(end).shape, flow.makers[end]
    if flow.op(end) not in SCALINGS or len(makers) != 2 or None in makers:
        return ()
    nodes, todo = {end}, {maker for maker in makers if maker is not None}
    while len(todo) > 1 and len(nodes) < MOST_STEPS:
        here = max(todo)
        todo.remove(here)
        given = list(flow.given(here))
        if flow.op(here) not in BENDING or any(maker is None or record.shape != shape for record, maker in given):
            return ()
        nodes.add(here)
        todo |= {maker for _, maker in given if maker is not None}
    is_one = len(todo) == 1 and len(flow.steps[min(todo)].outputs) == 1  # of a cut in two, a half may bend the other
    is_bent = is_one and any(flow.op(node) in CURVES for node in nodes)
    return tuple(sorted(nodes)) if is_bent else ()
