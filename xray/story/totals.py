"""What a whole trace adds up to: passes, steps, tensors, masks, and parameters counted once."""

from dataclasses import dataclass

from xray.ir.trace import Trace


@dataclass(frozen=True)
class Totals:
    """The sums under a trace; `tensors` counts what operations made, `masks` how many of those are masks."""

    passes: int
    steps: int
    tensors: int
    masks: int
    params: int


def add_up(trace: Trace) -> Totals:
    """The totals of a trace. A block hands on what its last operation made, so only operations count as makers."""
    made = [record for one_pass in trace.passes for step in one_pass.leaves for record in step.outputs]
    return Totals(
        passes=len(trace.passes),
        steps=sum(len(one_pass.steps) for one_pass in trace.passes),
        tensors=sum(record.role != "parameter" for record in made),
        masks=sum(record.role == "mask" for record in made),
        params=count_params(trace),
    )


def count_params(trace: Trace) -> int:
    """The parameters of all modules seen, each counted once: not again for another pass, nor for sharing its weights.

    A step counts what its module and all inside it hold, shared weights once, so only modules that never stand inside
    another are added up. Where those share weights, the config says so: a step alone cannot.
    """
    inside = {step.path for step in trace.steps if step.parent is not None}
    outermost = {step.path: step.params for step in trace.steps if step.path not in inside}
    shared = trace.sizes.get("tgt_vocab", 0) * trace.sizes.get("d_model", 0)
    sharing = trace.config.get("sharing", "none")
    users = {"decoder": ("decoder", "head"), "all": ("encoder", "decoder", "head")}.get(str(sharing), ())
    copies = sum(path in outermost for path in users)
    return sum(outermost.values()) - shared * max(0, copies - 1)
