"""Axis words for a model that X-Ray has never seen: run it again at other sizes and see which axes move.

The second runs happen on a model built anew without storage, so nothing of the first is touched. What no input size
moves keeps no word: it belongs to the model, and its size alone would not tell what it is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.recorder import record
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

STEP_SIZES = (3, 5, 7, 11, 13, 17)
"""How much longer an axis is made; a size of its own for each input axis keeps two that move together apart."""

Moves = dict[tuple[str, str, int], list[list[str]]]
"""For each tensor of a step, "in" or "out" and which of them, the words that each of its axes follows."""
Place = tuple[int, int]
"""An axis of an input: which input, and which axis of it."""


@dataclass(frozen=True)
class Inputs:
    """What a model is called with, as the shapes of its tensors; everything else is passed on as it is."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, in the order of `names`."""
        values = (*self.args, *self.kwargs.values())
        return tuple(value for value in values if isinstance(value, Tensor))

    def stretched(self, places: Sequence[Place], by: int) -> "Inputs":
        """The same inputs without storage, the axes at `places` longer."""
        count = iter(range(len(self.tensors)))

        def remake(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            number = next(count)
            shape = [size + by * ((number, axis) in places) for axis, size in enumerate(value.shape)]
            return torch.empty(shape, dtype=value.dtype, device="meta")

        return Inputs(
            tuple(remake(value) for value in self.args),
            {name: remake(value) for name, value in self.kwargs.items()},
            self.names,
        )


def name_axes_by_variation(trace: Trace, build: Callable[[], nn.Module], inputs: Inputs) -> Trace:
    """The same trace, with a word for every axis that follows the size of an input: batch, src_len, tgt_len, ...

    An axis that follows two of them is their product, "batch*src_len". A model that cannot run without storage, or that
    runs other steps at other sizes, keeps its trace as it is.
    """
    if not inputs.tensors or len(trace.passes) != 1:
        return trace
    before = trace.passes[0]
    moves: Moves = {}
    for number, (word, candidates) in enumerate(name_candidates(inputs)):
        for places in candidates:
            after = run_stretched(build, inputs.stretched(places, STEP_SIZES[number % len(STEP_SIZES)]), before)
            if after is not None:
                note_moves(word, before, after, moves)
                break
    return replace(trace, passes=(name_moved(before, moves),))


def name_candidates(inputs: Inputs) -> Iterator[tuple[str, tuple[tuple[Place, ...], ...]]]:
    """Each word, and the groups of input axes that may carry it: alone first, then with all that have the same size."""
    tensors = inputs.tensors
    firsts = tuple((number, 0) for number, tensor in enumerate(tensors) if tensor.dim() > 1)
    if firsts:
        yield "batch", (firsts,)
    taken: set[Place] = set(firsts)
    used: set[str] = set()
    for number, tensor in enumerate(tensors):
        for axis in range(1 if tensor.dim() > 1 else 0, tensor.dim()):
            if (number, axis) in taken:
                continue
            word = name_axis(inputs.names[number], tensor, axis)
            if word in used:
                word = f"{inputs.names[number]}_{axis}"
            used.add(word)
            twins = tuple(
                (other, place)
                for other, one in enumerate(tensors)
                for place in range(1 if one.dim() > 1 else 0, one.dim())
                if one.shape[place] == tensor.shape[axis] and (other, place) not in taken
            )
            alone = ((number, axis),)
            yield word, (alone,) if twins == alone else (alone, twins)


def name_axis(name: str, tensor: Tensor, axis: int) -> str:
    """The field's word for an axis of an input, from the input's name and form."""
    if tensor.dim() == 4:
        return ("batch", "channels", "height", "width")[axis]
    side = "tgt" if name.startswith(("tgt", "decoder", "trg", "target")) else "src" if name.startswith("src") else "seq"
    return f"{side}_len" if axis < 2 else f"{name}_{axis}"


def run_stretched(build: Callable[[], nn.Module], inputs: Inputs, before: Pass) -> Pass | None:
    """The pass at another size, if it runs the same steps; None if it cannot run so."""
    try:
        with torch.device("meta"), torch.no_grad():
            model = build()
            with record(model) as recorder:
                model(*inputs.args, **inputs.kwargs)
    except (Exception, SystemExit):  # whatever a model does at a size that it does not take
        return None
    passes = recorder.trace.passes
    if len(passes) != 1 or [step.id for step in passes[0].steps] != [step.id for step in before.steps]:
        return None
    return passes[0]


def note_moves(word: str, before: Pass, after: Pass, moves: Moves) -> None:
    for old, new in zip(before.steps, after.steps, strict=True):
        for side, olds, news in (("in", old.inputs, new.inputs), ("out", old.outputs, new.outputs)):
            for number, (one, other) in enumerate(zip(olds, news, strict=False)):
                if one.name == other.name and len(one.shape) == len(other.shape):
                    words = moves.setdefault((old.id, side, number), [[] for _ in one.shape])
                    for axis, (size, moved) in enumerate(zip(one.shape, other.shape, strict=True)):
                        if size != moved:
                            words[axis].append(word)


def name_moved(one_pass: Pass, moves: Moves) -> Pass:
    def name(step: Step, side: str, number: int, record: TensorRecord) -> TensorRecord:
        words = moves.get((step.id, side, number))
        return record if words is None else replace(record, axes=tuple("*".join(one) for one in words))

    steps = tuple(
        replace(
            step,
            inputs=tuple(name(step, "in", number, record) for number, record in enumerate(step.inputs)),
            outputs=tuple(name(step, "out", number, record) for number, record in enumerate(step.outputs)),
        )
        for step in one_pass.steps
    )
    return replace(one_pass, steps=steps)
