"""A model named on the command line: brought in with its inputs, run once, and recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from xray.capture.axes.reruns import Inputs
from xray.capture.axes.variation import name_axes_by_variation
from xray.capture.recorder import Recorder
from xray.capture.targets.inputs import Target, check_inputs, name_inputs, parse_input
from xray.capture.targets.own_code import build_target
from xray.capture.targets.training import find_loss, in_training
from xray.capture.values import PreviewRule
from xray.ir.trace import Trace

MANY_STEPS = 3_000
"""From how many steps on a model is run again at other sizes only if the first run leaves axes of inputs unnamed."""


@dataclass(frozen=True)
class Outcome:
    """What was recorded of a call, with values if they were asked for, and the exception that ended it, if one did.

    `told` says how the model ran, where that is not as usual.
    """

    trace: Trace
    error: Exception | SystemExit | None
    told: str = ""


def load_target(name: str, inputs: Sequence[str] = (), *, meta: bool = False) -> Target:
    """The model that somebody's own code builds, with its inputs: those that come with it, unless others are asked for.

    Raises:
        UsageError: the name or an input is not of the right form, or inputs are missing.
        TraceError: there is no such model.
    """
    target = give_inputs(build_target(name, meta=meta), inputs, meta=meta)
    check_inputs(target, name)
    return target


def give_inputs(target: Target, inputs: Sequence[str], *, meta: bool = False) -> Target:
    """The target with inputs as the command line asks for them; with its own where it asks for none."""
    given = [parse_input(text, meta=meta) for text in inputs]
    if not given:
        return target
    return replace(
        target,
        args=tuple(value for key, value in given if key is None),
        kwargs={key: value for key, value in given if key is not None},
    )


def run_target(target: Target, preview: PreviewRule | None = None) -> Outcome:
    """Call the model, without gradients and in the mode it is in, and record it, also when it raises or exits.

    Where it fails and there is another way to run it, that one is taken; where all fail, the first one counts.
    `preview` says which values to keep.
    """
    return find_way(target, preview)[1]


def find_way(
    target: Target, preview: PreviewRule | None = None, before: Callable[[Target], None] = lambda _: None
) -> tuple[Target, Outcome]:
    """The first way to run the model that works, and what was recorded; `before` is told of each that is tried."""
    before(target)
    first = found = target, run_once(target, preview)
    while found[1].error is not None and found[0].otherwise is not None:
        other = found[0].otherwise(found[1].error)
        if other is None:
            return first
        before(other)
        found = other, run_once(other, preview)
    return first if found[1].error is not None else found


def run_once(target: Target, preview: PreviewRule | None, *, trains: bool = False) -> Outcome:
    """One call, recorded, and where it `trains` the way back from its loss.

    Axes get their words from the target, or from models built anew and run at other sizes.
    """
    recorder = Recorder(
        target.model,
        operations=True,
        preview=preview,
        axes=target.axes,
        shows_ids=preview is not None or target.call is not None,
        weighs=preview is not None,
    )
    error = None
    mode = in_training(target.model) if trains else torch.no_grad()
    try:
        with target.around(), mode, recorder:
            if target.call is None:
                answer = target.model(*target.args, **target.kwargs)
            else:
                answer = target.call(target.model, *target.args, **target.kwargs)
            if trains:
                find_loss(answer).backward()  # type: ignore[no-untyped-call]  # torch leaves it so
    except (Exception, SystemExit) as raised:
        error = raised
    if error is not None or target.rebuild is None:
        trace = recorder.trace if target.finish is None else target.finish(recorder.trace)
        return Outcome(trace, error, target.told)
    if is_told(recorder.trace):
        return Outcome(recorder.trace, None, target.told)
    inputs = Inputs(target.args, target.kwargs, name_inputs(target))
    named = recorder.name_axes(name_axes_by_variation(recorder.trace, target.rebuild, inputs))
    return Outcome(named, None, target.told)


def is_told(trace: Trace) -> bool:
    """Whether a large trace can do without being run again: its operations already name every axis of its inputs."""
    steps = trace.steps
    given = [record for step in steps if step.parent is None for record in step.inputs if record.source is None]
    return len(steps) > MANY_STEPS and all(all(record.axes) for record in given)
