"""Activations that are written out: rows times what bends those very rows, as x times sigmoid(x), or added to it."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, CURVES, SCALINGS, SUMS

BENDING = CURVES | SCALINGS | SUMS | CASTING | frozenset({"pow", "sub", "rsub", "neg"})
SQUARES = frozenset({"pow", "square"})
MOST_STEPS = 14


def list_written_bend(flow: Flow, end: int) -> tuple[int, ...]:
    """The steps of the activation that a product of two tensors ends, both worked out of one; none if it ends none.

    Nothing but single numbers takes part in it besides. A snake ends in a sum.
    """
    shape, makers = flow.output(end).shape, flow.makers[end]
    if flow.op(end) in SUMS:
        return list_snake(flow, end)
    if flow.op(end) not in SCALINGS or len(makers) != 2 or None in makers:
        return ()
    nodes, todo = {end}, {(maker, record.output) for record, maker in flow.given(end) if maker is not None}
    while len(todo) > 1 and len(nodes) < MOST_STEPS:
        here, _ = max(todo, key=lambda one: one[0])
        todo = {one for one in todo if one[0] != here}
        given = list(flow.given(here))
        if flow.op(here) not in BENDING or any(maker is None or record.shape != shape for record, maker in given):
            return ()
        nodes.add(here)
        todo |= {(maker, record.output) for record, maker in given if maker is not None}
    # of a cut in two, a half may bend the other
    is_one = len(todo) == 1 and all(len(flow.steps[here].outputs) == 1 or part is not None for here, part in todo)
    is_bent = is_one and any(flow.op(node) in CURVES for node in nodes)
    return tuple(sorted(nodes)) if is_bent else ()


def list_snake(flow: Flow, end: int) -> tuple[int, ...]:
    """The steps of x + a · sin²(b · x), with numbers a and b for each channel; none if a sum is something else.

    (Ziyin et al. 2020; DAC, BigVGAN)
    """
    for number, maker in enumerate(flow.makers[end] if len(flow.makers[end]) == 2 else ()):
        other, nodes, here = flow.makers[end][1 - number], [end], maker
        for ops in (SCALINGS, SQUARES, {"sin"}, SCALINGS):
            while here is not None and flow.op(here) in CASTING:
                here = flow.makers[here][0]
            if here is None or flow.op(here) not in ops:
                break
            nodes.append(here)
            whole = [one for record, one in flow.given(here) if record.shape == flow.output(here).shape]
            here = whole[0] if len(whole) == 1 else None
        else:
            if here is not None and flow.carried_from(here) == flow.carried_from(other):
                return tuple(sorted(nodes))
    return ()
