"""What a whole trace adds up to: passes, steps, tensors, parameters once, and the work and memory of it all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xray.ir.flow.remembering import once
from xray.ir.storage import bytes_per_element
from xray.ir.trace import MADE_PARAMS, Step, Trace
from xray.ir.work import StepWork, count_flops, measure_work


@dataclass(frozen=True)
class Totals:
    """The sums under a trace; `tensors` counts what operations made, `masks` how many of those are masks."""

    passes: int
    steps: int
    tensors: int
    masks: int
    params: int


@dataclass(frozen=True)
class Work:
    """What a trace cost, told by shapes alone; every pass is counted, back-propagation and optimiser are not.

    `flops` are those of matrix products, convolutions, attention and recurrent layers, a multiplication and its
    addition as 2. `elements` is how many numbers everything element-wise went over (sums, activations, softmax, norms),
    which those who count FLOPs leave out. `not_counted` names the operations that nobody here can count, each with how
    many steps there were, the most frequent first. `params` counts each parameter once, however often it is used or
    shared, and `param_bytes` what they take, 0 where that is not known. `activation_bytes` is all that was newly
    stored on the way, views excepted: the sum, not the peak. `with_backward` says that back-propagation was recorded.
    """

    flops: int
    elements: int
    not_counted: tuple[tuple[str, int], ...]
    params: int
    param_bytes: int
    activation_bytes: int
    with_backward: bool = False


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


@once
def count_work(trace: Trace) -> Work:
    """The FLOPs, the parameters and the memory of a whole trace, and what of it could not be counted."""
    total, unknown, with_backward = StepWork(), Counter[str](), False
    for one_pass in trace.passes:
        work = measure_work(one_pass)
        for step in one_pass.steps:
            if step.parent is None:
                total += work[step.id]
        if any(work[step.id].uncounted for step in one_pass.steps if step.parent is None):
            leaves = [step for step in one_pass.leaves if step.error is None and count_flops(step) is None]
            unknown.update(step.op for step in leaves if not is_backward(step))
            with_backward = with_backward or any(map(is_backward, one_pass.steps))
    params = count_params(trace)
    return Work(
        flops=total.flops,
        elements=total.elements,
        not_counted=tuple(unknown.most_common()),
        params=params,
        param_bytes=measure_params(trace, params),
        activation_bytes=total.bytes,
        with_backward=with_backward,
    )


def is_backward(step: Step) -> bool:
    """Whether a step is back-propagation."""
    return step.op == "backward"


def count_params(trace: Trace) -> int:
    """The parameters of all modules seen, each counted once: not again for another pass, nor for sharing its weights.

    Those of modules that were made while the model ran count too, once for each path: they worked, and none holds them.
    A step counts what its module and all inside it hold, shared weights once, so only modules that never stand inside
    another are added up, and where the whole model ran, it alone. What one of them shares with another is taken off.
    """
    outermost = find_outermost(trace)
    if trace.title in outermost:
        return outermost[trace.title] + count_made(trace)
    users: dict[tuple[str, int], set[str]] = {}
    for step in trace.steps:
        holders = {one for one in (*paths_above(step.path), step.path) if one in outermost}
        for weight in step.weights.items():
            users.setdefault(weight, set()).update(holders)
    shared = sum(count * (len(holders) - 1) for (_, count), holders in users.items() if holders)
    return sum(outermost.values()) + count_made(trace) - shared


def count_made(trace: Trace) -> int:
    """The parameters of modules that a model does not hold, as it made them while it ran: once for each path."""
    made = {step.path: count for step in trace.steps if isinstance(count := step.settings.get(MADE_PARAMS), int)}
    return sum(made.values())


@once
def find_outermost(trace: Trace) -> dict[str, int]:
    """The parameters of each module that no other one holds, by its path."""
    inside = {step.path for step in trace.steps if step.parent is not None}
    apart = {step.path: step.params for step in trace.steps if step.path not in inside}
    return {path: params for path, params in apart.items() if not any(above in apart for above in paths_above(path))}


def paths_above(path: str) -> Iterator[str]:
    """The paths of all modules that hold the one at a path: "a" and "a.b" for "a.b.c"."""
    parts = path.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])


def measure_params(trace: Trace, params: int) -> int:
    """The bytes of so many parameters, each as wide as the record says; 0 where it does not say that of all.

    What no single step accounts for is as wide as all others are, be that 4 bytes.
    """
    widths, seen = Counter[int](), set[str]()
    for one_pass in trace.passes:
        inside: dict[str | None, list[Step]] = {}
        for step in one_pass.steps:
            inside.setdefault(step.parent, []).append(step)
        for step in one_pass.steps:
            if step.params and step.path not in seen:
                seen.add(step.path)
                widths.update(count_by_width(step, inside.get(step.id, [])))
    left = params - widths.total()  # below zero where weights are shared
    if left > 0 and len(widths) > 1:
        return 0
    usual = widths.most_common(1)[0][0] if widths else find_usual_width(trace)
    widths[usual] += left
    return sum(width * count for width, count in widths.items())


def count_by_width(step: Step, inside: Sequence[Step]) -> Counter[int]:
    """How many parameters that a module holds itself are how many bytes wide; `inside` are the steps right inside it.

    Of a block those that operations right inside it read, where these are all of one width or all that it holds.
    """
    if not inside:
        return Counter({bytes_per_element(str(step.settings.get("weight_dtype", "float32"))) or 4: step.params})
    own = step.params - sum({one.path: one.params for one in inside}.values())
    found = Counter[int]()
    for record in (record for one in inside if not one.params for record in one.inputs):
        if record.role == "parameter" or record.weight is not None:  # as of a mask that is one
            found[bytes_per_element(record.dtype) or 4] += prod(record.shape)
    if len(found) == 1:
        return Counter({width: min(count, own) for width, count in found.items() if own > 0})
    return found if found.total() == own else Counter()


def find_usual_width(trace: Trace) -> int:
    """The bytes of a parameter where no step holds one by itself: of those that operations were given, else 4."""
    given = (record.dtype for step in trace.steps for record in step.inputs if record.role == "parameter")
    return bytes_per_element(next(given, "float32")) or 4
