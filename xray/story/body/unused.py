"""Parameters that a model has and that no recorded step works with: another tower that got no input."""

from math import prod

from xray.ir.flow.remembering import once
from xray.ir.trace import SAME_WEIGHTS, SAME_WEIGHTS_AS, Trace


@once
def count_unused(trace: Trace) -> int:
    """How many parameters the outermost blocks hold that no step of the trace uses.

    Those that are used belong to innermost blocks, or are read by the own steps of an outer one. What a block shares
    with one that ran before is used once.
    """
    held: dict[str, int] = {}
    shared: dict[str, tuple[str, int]] = {}
    outer: set[str] = set()
    own: dict[str, int] = {}
    roots: dict[str, int] = {}
    for one_pass in trace.passes:
        steps = {step.id: step for step in one_pass.steps}
        for step in one_pass.steps:
            parent = steps.get(step.parent or "")
            while parent is not None and not parent.params:
                parent = steps.get(parent.parent or "")
            if step.params:
                held[step.path] = max(step.params, held.get(step.path, 0))
                holder, count = step.settings.get(SAME_WEIGHTS_AS), step.settings.get(SAME_WEIGHTS)
                if isinstance(holder, str) and isinstance(count, int):
                    shared[step.path] = holder, count
                if parent is None:
                    roots[step.path] = held[step.path]
                elif parent.path != step.path:
                    outer.add(parent.path)
            elif parent is not None and SAME_WEIGHTS_AS not in step.settings:
                read = sum(prod(record.shape) for record in step.inputs if record.role == "parameter")
                own[parent.path] = own.get(parent.path, 0) + read
    used = sum(count for path, count in held.items() if path not in outer)
    used -= sum(count for path, (holder, count) in shared.items() if {path, holder} <= held.keys() - outer)
    used += sum(count for path, count in own.items() if path in outer)
    return max(sum(roots.values()) - used, 0) if len(roots) == 1 else 0
