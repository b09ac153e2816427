"""Running a model once more at other sizes: anew and with numbers where it is small, else without storage.

Without storage torch takes more than a second to load what it needs, and many operations go through Python; with
numbers a small model takes a hundredth of that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.recorder import record
from xray.capture.tensors import PLAIN
from xray.ir.trace import Pass

Place = tuple[int, int]
"""An axis of an input: which input, and which axis of it."""

MOST_PARAMETERS, MOST_NUMBERS = 4_000_000, 4_000_000
"""A model with more parameters, or whose steps make more numbers, is run again without storage."""

SIZED_BY_VALUES = frozenset(
    {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "_pack_padded_sequence"}
)
"""Operations whose results have a size that numbers decide, so that it tells nothing of the inputs' sizes."""


@dataclass(frozen=True)
class Inputs:
    """What a model is called with; all but its tensors is passed on as it is."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, in the order of `names`."""
        values = (*self.args, *self.kwargs.values())
        return tuple(value for value in values if isinstance(value, Tensor))

    def stretched(self, places: Sequence[Place], by: int, *, with_numbers: bool) -> "Inputs":
        """The same inputs, the axes at `places` longer: with their numbers said again from the first, or no storage."""
        count = iter(range(len(self.tensors)))

        def remake(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            number = next(count)
            longer = [axis for axis in range(value.dim()) if (number, axis) in places]
            if with_numbers:
                return repeat(value, longer, by)
            shape = [size + by * (axis in longer) for axis, size in enumerate(value.shape)]
            return torch.empty(shape, dtype=value.dtype, device="meta")

        return Inputs(
            tuple(remake(value) for value in self.args),
            {name: remake(value) for name, value in self.kwargs.items()},
            self.names,
        )


def repeat(value: Tensor, axes: Sequence[int], by: int) -> Tensor:
    """A copy of a tensor, longer along some axes, with no number in it that was not there."""
    copy = value.detach().clone()
    for axis in axes:
        size = value.shape[axis]
        copy = copy.index_select(axis, torch.arange(size + by, device=copy.device) % size)
    return copy


def can_compute(before: Pass, inputs: Inputs) -> bool:
    """Whether a model may be run again with numbers: it is small, and sizes follow from sizes alone."""
    values = (*inputs.args, *inputs.kwargs.values())
    if not all(isinstance(value, (Tensor, *PLAIN)) for value in values):  # a cache has grown by now
        return False
    if any(tensor.is_meta or tensor.numel() == 0 for tensor in inputs.tensors):
        return False
    numbers = sum(prod(record.shape) for step in before.steps for record in step.outputs)
    parameters = max((step.params for step in before.steps), default=0)
    return parameters <= MOST_PARAMETERS and numbers <= MOST_NUMBERS and not is_sized_by_values(before)


def is_sized_by_values(before: Pass) -> bool:
    """Whether some tensor of a pass is as large as the numbers of another one say."""
    for step in before.leaves:
        chosen = step.op.startswith("index") and any(record.dtype == "bool" for record in step.inputs[1:])
        counted = (step.op == "where" and len(step.inputs) == 1) or (
            step.op == "repeat_interleave" and len(step.inputs) > 1
        )
        if chosen or counted or step.op in SIZED_BY_VALUES:
            return True
    return False


def run_stretched(
    build: Callable[[], nn.Module],
    inputs: Inputs,
    places: Sequence[Place],
    by: int,
    before: Pass,
    *,
    with_numbers: bool,
) -> Pass | None:
    """The pass with some axes longer, if it runs the same steps; None if it cannot run so."""
    try:
        with torch.no_grad(), set_aside() if with_numbers else torch.device("meta"):
            given = inputs.stretched(places, by, with_numbers=with_numbers)
            model = build()
            with record(model) as recorder:
                model(*given.args, **given.kwargs)
    except (Exception, SystemExit):  # whatever a model does at a size that it does not take
        return None
    passes = recorder.trace.passes
    if len(passes) != 1 or [step.id for step in passes[0].steps] != [step.id for step in before.steps]:
        return None
    return passes[0]


@contextmanager
def set_aside() -> Iterator[None]:
    """Inside the block chance may be drawn, and one thread computes; afterwards torch's chance is where it was."""
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for a small model, threads that wait for each other cost more than they compute
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count()) if in_use else ()):
            yield
    finally:
        torch.set_num_threads(threads)
