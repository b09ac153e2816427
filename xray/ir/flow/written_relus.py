"""ReLUs that are written out: of what a linear layer or a convolution makes, nothing below 0 is left."""

from collections.abc import Iterator, Sequence

from xray.ir.flow.operation_kinds import CARRYING, CASTING, FINDINGS, PRODUCTS, SUMS, TIMES, ZEROS
from xray.ir.flow.put_together import Makers
from xray.ir.flow.written_softmaxes import Written
from xray.ir.trace import Step

LAYERS = FINDINGS | PRODUCTS | frozenset({"linear", "addmm", "batch_norm"})
HOLDING = frozenset({"clamp", "clip", "clamp_min"})
HIGHER = frozenset({"maximum", "max"})
ABOVE = frozenset({"gt", "ge"})


def list_written_relus(steps: Sequence[Step], makers: Makers) -> Iterator[tuple[int, Written]]:
    """The places of steps that end a ReLU, each with what it is made of."""
    for place, step in enumerate(steps):
        op = step.op.removesuffix("_")
        if op in HOLDING and len(step.inputs) == 1 and is_from_0_on(step):
            found: tuple[int, tuple[int, ...]] | None = (0, ())
        elif op in HIGHER or op in TIMES:
            found = find_taken(steps, makers, place)
        else:
            continue
        if found is not None and is_of_layer(steps, makers, makers[place][found[0]]):
            name = "relu_" if step.op.endswith("_") else "relu"
            yield place, Written(name, step.inputs[found[0]], {}, found[1])


def is_from_0_on(step: Step) -> bool:
    """Whether a step lifts what is below 0 to it, and holds nothing down."""
    lower = step.settings.get("min", step.settings.get("other"))
    upper = step.settings.get("max", step.settings.get("arg2"))
    return type(lower) in (int, float) and lower == 0 and upper is None


def find_taken(steps: Sequence[Step], makers: Makers, place: int) -> tuple[int, tuple[int, ...]] | None:
    """Which input of a step is bent where the other one is 0, or says where that input is above it, and how it is made.

    None where that is not so.
    """
    step = steps[place]
    if len(makers[place]) != 2 or len(step.outputs) != 1:
        return None
    for number in (0, 1):
        other, way = makers[place][1 - number], []
        while other is not None and steps[other].op in CASTING and len(makers[other]) == 1:
            way.append(other)
            other = makers[other][0]
        if other is None or step.inputs[number].shape != step.outputs[0].shape:
            continue
        made = steps[other]
        is_0 = made.op in ZEROS or (made.op in ("tensor", "scalar_tensor") and made.settings.get("input") == 0)
        is_above = made.op in ABOVE and makers[other] == (makers[place][number],) and made.settings.get("other") == 0
        if is_0 if step.op in HIGHER else is_above and made.inputs[0].shape == step.inputs[number].shape:
            return number, (other, *reversed(way))
    return None


def is_of_layer(steps: Sequence[Step], makers: Makers, place: int | None) -> bool:
    """Whether a tensor is what a linear layer or a convolution makes, moved at most, or with a learned row added."""
    while place is not None and makers[place] and steps[place].op in CARRYING:
        place = makers[place][0]
    if place is None:
        return False
    step = steps[place]
    return step.is_learned and step.op in LAYERS | SUMS
