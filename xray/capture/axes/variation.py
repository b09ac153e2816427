"""Axis words for a model that X-Ray has never seen: run it again at other sizes and see which axes move.

The second runs happen on a model built anew, so nothing of the first is touched. What no input size moves keeps no
word: it belongs to the model, and its size alone would not tell what it is.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from torch import Tensor, nn

from xray.capture.axes.reruns import Inputs, Place, can_compute, run_stretched
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

STEP_SIZES = (3, 5, 7, 11, 13, 17)
"""How much longer an axis is made; a size of its own for each input axis keeps two that move together apart."""

Moves = dict[tuple[str, str, int], list[list[str]]]
"""For each tensor of a step, "in" or "out" and which of them, the words that each of its axes follows."""


def name_axes_by_variation(trace: Trace, build: Callable[[], nn.Module], inputs: Inputs) -> Trace:
    """The same trace, with a word for every axis that follows the size of an input: batch, src_len, tgt_len, ...

    An axis that follows two of them is their product, "batch*src_len". A model that cannot run again, or that runs
    other steps at other sizes, keeps its trace as it is.
    """
    if not inputs.tensors or len(trace.passes) != 1:
        return trace
    before = trace.passes[0]
    moves: Moves = {}
    with_numbers = can_compute(before, inputs)
    taken: set[Place] = set()
    for number, (word, candidates) in enumerate(name_candidates(inputs, taken)):
        for places in candidates:
            by = STEP_SIZES[number % len(STEP_SIZES)]
            after = run_stretched(build, inputs, places, by, before, with_numbers=with_numbers)
            if after is not None:
                note_moves(word, before, after, moves)
                taken.update(places)
                break
    return replace(trace, passes=(name_moved(before, moves),))


def name_candidates(inputs: Inputs, taken: Collection[Place]) -> Iterator[tuple[str, tuple[tuple[Place, ...], ...]]]:
    """Each word, and the groups of input axes that may carry it: alone first, then with all that have the same size.

    Axes that are `taken` by then have a word.
    """
    tensors = inputs.tensors
    firsts = tuple((number, 0) for number, tensor in enumerate(tensors) if tensor.dim() > 1)
    if firsts:
        yield "batch", (firsts,)
    used: set[str] = set()

    def is_free(place: Place) -> bool:
        return place not in firsts and place not in taken

    for number, tensor in enumerate(tensors):
        for axis in range(1 if tensor.dim() > 1 else 0, tensor.dim()):
            if not is_free((number, axis)):
                continue
            word = name_axis(inputs.names[number], tensor, axis)
            if word in used:
                word = f"{inputs.names[number]}_{axis}"
            used.add(word)
            twins = tuple(
                (other, place)
                for other, one in enumerate(tensors)
                for place in range(1 if one.dim() > 1 else 0, one.dim())
                if one.shape[place] == tensor.shape[axis] and is_free((other, place))
            )
            alone = ((number, axis),)
            yield word, (alone,) if twins == alone else (alone, twins)


def name_axis(name: str, tensor: Tensor, axis: int) -> str:
    """The field's word for an axis of an input, from the input's name and form."""
    if tensor.dim() == 4:
        return ("batch", "channels", "height", "width")[axis]
    side = "tgt" if name.startswith(("tgt", "decoder", "trg", "target")) else "src" if name.startswith("src") else "seq"
    return f"{side}_len" if axis < 2 else f"{name}_{axis}"


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
