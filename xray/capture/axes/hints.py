"""What the caller says of the axes of inputs: words by the input's name or place, checked against what came in."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from xray.capture.tensors import input_names, name_arguments, reads_argument
from xray.errors import TraceError
from xray.ir.trace import Trace

Axes = Mapping[str | int, Sequence[str]]
Hints = Mapping[str, Sequence[str]]


def read_hints(model: nn.Module, axes: Axes) -> Hints:
    """The words by the names that the model gives to its inputs; a number stands for a positional input.

    Raises:
        TraceError: the words of an input are no sequence of texts, or there is no input at that place.
    """
    names = input_names(type(model))
    hints: dict[str, Sequence[str]] = {}
    for key, words in axes.items():
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TraceError(f'axes[{key!r}] is {words!r}. Give a word for each axis, as in ("batch", "time").')
        if isinstance(key, int):
            if not 0 <= key < max(len(names), 1):
                raise TraceError(f"axes has words for input {key}, but {type(model).__name__} takes {len(names)}.")
            key = names[key] if names else f"arg{key}"
        hints[key] = tuple(words)
    return hints


def take_hints(model: nn.Module, axes: object) -> bool:
    """Whether a keyword called `axes` is meant for X-Ray: it is, unless the model itself has one."""
    return isinstance(axes, Mapping) and not reads_argument(type(model), "axes")


def check_call(model: nn.Module, hints: Hints, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Hold the words to the inputs of a call that is to come.

    Raises:
        TraceError: there is no such input, or it has another number of axes.
    """
    shapes = {name: tensor.shape for name, tensor in name_arguments(input_names(type(model)), args, kwargs)}
    check_shapes(hints, shapes)


def check_trace(hints: Hints, trace: Trace) -> None:
    """Hold the words to the inputs of a trace; a call that failed is told of as it is.

    Raises:
        TraceError: there is no such input, or it has another number of axes.
    """
    tops = [step for step in trace.steps if step.parent is None]
    if tops and not any(step.error for step in tops):
        check_shapes(hints, {one.name: one.shape for step in tops for one in step.inputs if one.source is None})


def check_shapes(hints: Hints, shapes: Mapping[str, Sequence[int]]) -> None:
    for name, words in hints.items():
        if name not in shapes:
            raise TraceError(
                f"axes names an input {name!r} that is not there. There are: {', '.join(shapes) or 'none'}."
            )
        if len(words) != len(shapes[name]):
            raise TraceError(
                f"axes[{name!r}] has {len(words)} words ({', '.join(words)}), but {name} has {len(shapes[name])} axes: "
                f"{tuple(shapes[name])}. Give a word for each, or an empty one."
            )
