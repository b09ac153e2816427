"""What somebody's own model is called with: inputs given by its builder, or made as the command line asks."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.tensors import positional_names
from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.text import show_controls

INPUT = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\](?:<(?P<below>\d+))?")
INPUT_EXAMPLE = '--input "src=int64[2,10]<1000" --input "x=float32[1,3,224,224]"'
DIGITS = 18
MOST_NUMBERS = 1 << 30
"""A made input has no more numbers than this, 4 GiB of float32."""


@dataclass(frozen=True)
class Target:
    """A model and what to call it with; `rebuild` makes another one like it, where a function made this one.

    `axes` has words for the axes of inputs. It is called inside `around`; `told` says in a few words how it runs there.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    rebuild: Callable[[], nn.Module] | None = None
    axes: Mapping[str | int, Sequence[str]] = field(default_factory=dict)
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    told: str = ""
    otherwise: Callable[[BaseException], "Target | None"] | None = None
    """Another way to run it, told the error in which this one ended."""
    call: Callable[..., object] | None = None
    """What is done with the model and its inputs, where that is not one call of it: an answer of several words."""
    finish: Callable[[Trace], Trace] | None = None
    """What else is known of such a run, put into its trace."""


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


def name_inputs(target: Target) -> tuple[str, ...]:
    """The names of the tensors among the inputs, as the forward has them."""
    names = positional_names(type(target.model))
    positional = [
        names[place] if place < len(names) else f"arg{place}"
        for place, value in enumerate(target.args)
        if isinstance(value, Tensor)
    ]
    return (*positional, *(name for name, value in target.kwargs.items() if isinstance(value, Tensor)))
