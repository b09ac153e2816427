"""Somebody's own model, named on the command line: built from a file or a module, with inputs given or made."""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.recorder import Recorder
from xray.capture.tensors import positional_names
from xray.capture.values import PreviewRule
from xray.capture.variation import Inputs, name_axes_by_variation
from xray.errors import TraceError, UsageError
from xray.ir.trace import Trace
from xray.text import show_controls

INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:<(?P<below>\d+))?")
INPUT_EXAMPLE = '--input "src=int64[2,10]<1000" --input "x=float32[1,3,224,224]"'

MANY_STEPS = 3_000
"""From how many steps on a model is run again at other sizes only if the first run leaves axes of inputs unnamed."""
DIGITS = 18
MOST_NUMBERS = 1 << 30
"""A made input has no more numbers than this, 4 GiB of float32."""


@dataclass(frozen=True)
class Target:
    """A model and what to call it with; `rebuild` makes another one like it, where a function made this one."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    rebuild: Callable[[], nn.Module] | None = None


@dataclass(frozen=True)
class Outcome:
    """What was recorded of a call, with values if they were asked for, and the exception that ended it, if one did."""

    trace: Trace
    error: Exception | None


def load_target(name: str, inputs: Sequence[str] = (), *, meta: bool = False) -> Target:
    """The model that `file.py:build` or `package.module:build` gives, with its inputs.

    `build` is a function that returns a model, or a model and its inputs (a tensor, a tuple of arguments, or a dict of
    keywords); or it is a model itself. This runs the code in the file. With `meta` the model is built without storage.

    Raises:
        UsageError: the name or an input is not of the right form, or inputs are missing.
        TraceError: there is no such file, module or function, or it gives no model.
    """
    given = [parse_input(text, meta=meta) for text in inputs]
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise UsageError(f"the model {show_controls(name)!r} names no function. Write it as my_model.py:build.")
    module = import_place(place)
    build = getattr(module, attribute, None)
    if build is None:
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise TraceError(
            f"{show_controls(place)} has no {show_controls(attribute)}. It has: {known or 'no functions'}."
        )
    with torch.device("meta") if meta else nullcontext():
        built = build if isinstance(build, nn.Module) else call_build(build, name)
    target = make_target(built, name)
    if given:
        target = replace(
            target,
            args=tuple(value for key, value in given if key is None),
            kwargs={key: value for key, value in given if key is not None},
        )
    check_inputs(target, name)
    if isinstance(build, nn.Module):
        return target
    return replace(target, rebuild=lambda: make_target(build(), name).model)


def run_target(target: Target, preview: PreviewRule | None = None) -> Outcome:
    """Call the model once, without gradients and in the mode it is in, and record it, also when it raises.

    Axes get their words from models built anew and run without storage at other sizes. `preview` says which values to
    keep.
    """
    recorder = Recorder(target.model, operations=True, preview=preview)
    error = None
    try:
        with torch.no_grad(), recorder:
            target.model(*target.args, **target.kwargs)
    except Exception as raised:
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


def call_build(build: object, name: str) -> object:
    """What somebody's function gives.

    Raises:
        TraceError: it is no function, wants arguments, or raises.
    """
    if not callable(build):
        raise TraceError(f"{show_controls(name)} is a {type(build).__name__}. It has to be a function or a model.")
    try:
        return build()
    except (Exception, SystemExit) as error:
        raise TraceError(f"{show_controls(name)} gave no model: {describe_raised(error)}") from error


def name_inputs(target: Target) -> tuple[str, ...]:
    """The names of the tensors among the inputs, as the forward has them."""
    names = positional_names(type(target.model))
    positional = [
        names[place] if place < len(names) else f"arg{place}"
        for place, value in enumerate(target.args)
        if isinstance(value, Tensor)
    ]
    return (*positional, *(name for name, value in target.kwargs.items() if isinstance(value, Tensor)))


def import_place(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            if not all(part.isidentifier() for part in place.split(".")):
                raise TraceError(
                    f"{show_controls(place)} is neither a Python file nor a module. Write it as my_model.py:build."
                )
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise TraceError(f"cannot read {show_controls(place)}: no such file. Write it as my_model.py:build.")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise TraceError(f"cannot read {show_controls(place)} as Python.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # so that the file's own classes can be found by name, as when it is imported
        sys.path.insert(0, str(path.resolve().parent))
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise TraceError(f"cannot import {show_controls(place)}: {show_controls(str(error))}.") from error
    except SyntaxError as error:
        raise TraceError(
            f"{show_controls(place)} line {error.lineno}: {show_controls(str(error.msg))}. Mend it, and trace again."
        ) from error
    except TraceError:
        raise
    except (Exception, SystemExit) as error:
        raise TraceError(f"{show_controls(place)} cannot be run: {describe_raised(error)}") from error
    return module


def describe_raised(error: BaseException) -> str:
    """What somebody's own code raised, in one line."""
    text = show_controls(" ".join(str(error).split()))
    return f"it raised {type(error).__name__}{': ' if text else ''}{text}. See all of it with --debug."


def make_target(built: object, name: str) -> Target:
    model, inputs = built if isinstance(built, tuple) and len(built) == 2 else (built, ())
    if not isinstance(model, nn.Module):
        raise TraceError(
            f"{show_controls(name)} gives a {type(model).__name__}. It has to return a torch.nn.Module, or one and its "
            "inputs."
        )
    if isinstance(inputs, Mapping):
        return Target(model, (), dict(inputs))
    return Target(model, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,))


def parse_input(text: str, *, meta: bool = False) -> tuple[str | None, Tensor]:
    """A made input, with its name if it has one: "src=int64[2,10]<1000" is (2, 10) ids below 1000.

    Raises:
        UsageError: the text is not of that form, or the type is none of torch's.
    """
    match = INPUT.fullmatch(text.strip())
    dtype = getattr(torch, match["dtype"], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise UsageError(f"cannot read the input {show_controls(text)!r}. Write it as in {INPUT_EXAMPLE}.")
    sizes = [size for size in match["shape"].replace(" ", "").split(",") if size]
    below = match["below"] or "2"
    if max(map(len, [*sizes, below])) > DIGITS or (prod(map(int, sizes)) > MOST_NUMBERS and not meta):
        raise UsageError(
            f"the input {show_controls(text[:80])!r} is too large: it may have {MOST_NUMBERS:,} numbers. "
            "Choose smaller sizes, or trace shapes alone with --meta."
        )
    try:
        return match["name"], make_input([int(size) for size in sizes], dtype, int(below), meta=meta)
    except (RuntimeError, TypeError, ValueError) as error:  # torch has types that it cannot fill, and sizes it refuses
        reason = show_controls(str(error).splitlines()[0])
        raise UsageError(
            f"cannot make the input {show_controls(text)!r}: {reason}. Write it as in {INPUT_EXAMPLE}."
        ) from error


def make_input(shape: Sequence[int], dtype: torch.dtype, below: int, *, meta: bool) -> Tensor:
    """A tensor of chance values, drawn from a generator of its own."""
    if meta:
        return torch.empty(*shape, dtype=dtype, device="meta")
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(*shape, generator=generator).to(dtype)
    return torch.randint(0, max(1, below), tuple(shape), generator=generator).to(dtype)


def check_inputs(target: Target, name: str) -> None:
    """Make sure that the forward gets what it cannot do without.

    Raises:
        UsageError: an argument is missing or unknown; the message names those that the forward wants.
    """
    try:
        signature = inspect.signature(target.model.forward)
        signature.bind(*target.args, **target.kwargs)
    except TypeError as error:
        wanted = ", ".join(str(parameter) for parameter in signature.parameters.values())
        raise UsageError(
            f"{type(target.model).__name__}.forward wants ({wanted}): {error}. Return inputs from "
            f"{show_controls(name)}, or give them, as in {INPUT_EXAMPLE}."
        ) from error
    except (AttributeError, ValueError):
        return
