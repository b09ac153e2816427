"""A model named on the command line: brought in with its inputs, run once, and recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from xray.capture.inputs import Target, check_inputs, name_inputs, parse_input
from xray.capture.own_code import build_target
from xray.capture.recorder import Recorder
from xray.capture.values import PreviewRule
from xray.capture.variation import Inputs, name_axes_by_variation
from xray.ir.trace import Trace

MANY_STEPS = 3_000
"""From how many steps on a model is run again at other sizes only if the first run leaves axes of inputs unnamed."""


@dataclass(frozen=True)
class Outcome:
    """What was recorded of a call, with values if they were asked for, and the exception that ended it, if one did."""

    trace: Trace
    error: Exception | SystemExit | None


def load_target(name: str, inputs: Sequence[str] = (), *, meta: bool = False) -> Target:
    """The model of that name with its inputs: those that come with it, unless others are asked for.

    Raises:
        UsageError: the name or an input is not of the right form, or inputs are missing.
        TraceError: there is no such model.
    """
    given = [parse_input(text, meta=meta) for text in inputs]
    target = build_target(name, meta=meta)
    if given:
        target = replace(
            target,
            args=tuple(value for key, value in given if key is None),
            kwargs={key: value for key, value in given if key is not None},
        )
    check_inputs(target, name)
    return target


def run_target(target: Target, preview: PreviewRule | None = None) -> Outcome:
    """Call the model once, without gradients and in the mode it is in, and record it, also when it raises or exits.

    Axes get their words from models built anew and run without storage at other sizes. `preview` says which values to
    keep.
    """
    recorder = Recorder(target.model, operations=True, preview=preview)
    error = None
    try:
        with torch.no_grad(), recorder:
            target.model(*target.args, **target.kwargs)
    except (Exception, SystemExit) as raised:
        error = raised
    if error is not None or target.rebuild is None:
        return Outcome(recorder.trace, error)
    if is_told(recorder.trace):
        return Outcome(recorder.trace, None)
    inputs = Inputs(target.args, target.kwargs, name_inputs(target))
    return Outcome(recorder.name_axes(name_axes_by_variation(recorder.trace, target.rebuild, inputs)), None)


def is_told(trace: Trace) -> bool:
    """Whether a large trace can do without being run again: its operations already name every axis of its inputs."""
    steps = list(trace.steps)
    given = [record for step in steps if step.parent is None for record in step.inputs if record.source is None]
    return len(steps) > MANY_STEPS and all(all(record.axes) for record in given)
