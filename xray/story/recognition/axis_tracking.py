"""Axes followed through the steps that only move numbers: back from what reads them, on from what made them."""

from itertools import count

from xray.ir.trace import Step
from xray.story.recognition.operation_kinds import CASTING

Atom = tuple[str, int]
"""A piece of an axis: a label, and how many places it has."""
Axes = tuple[tuple[Atom, ...], ...]
"""For each axis of a tensor the pieces that it is made of, outermost first; empty where unknown."""

VIEWS = frozenset(
    {"view", "reshape", "unsafe_view", "reshape_alias", "flatten", "unflatten", "unsqueeze", "squeeze", "view_as"}
)
SAME = (
    frozenset({"nested_tensor_from_mask", "to_padded_tensor", "contiguous", "clone", "detach", "alias", "dropout"})
    | CASTING
)
_numbers = count()


def whole(label: str, size: int) -> tuple[Atom, ...]:
    """An axis that is one piece."""
    return ((label, size),)


def back(step: Step, axes: Axes) -> Axes | None:
    """The axes of what a step reads, from those of what it made; None where the step does not tell."""
    if not step.inputs or not step.outputs:
        return None
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if len(axes) != len(after):
        return None
    if step.op in SAME:
        return axes if before == after else None
    order = turned(step)
    if order is not None:
        found: list[tuple[Atom, ...]] = [()] * len(before)
        for place, origin in enumerate(order):
            found[origin] = axes[place]
        return tuple(found)
    if step.op in VIEWS or (step.op == "index" and size_of(before) == size_of(after)):
        return regroup(axes, before)
    if step.op == "expand" and len(before) == len(after):
        return tuple(axis if before[place] == after[place] else whole("one", 1) for place, axis in enumerate(axes))
    return uncut(step, axes)


def forth(step: Step, axes: Axes) -> Axes | None:
    """The axes of what a step made, from those of what it reads; None where the step does not tell."""
    if not step.inputs or not step.outputs:
        return None
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if len(axes) != len(before):
        return None
    if step.op in SAME:
        return axes if before == after else None
    order = turned(step)
    if order is not None:
        return tuple(axes[origin] for origin in order)
    return regroup(axes, after) if step.op in VIEWS else None


def turned(step: Step) -> tuple[int, ...] | None:
    """For each axis of the output the axis of the input that it was; None if the step is no turn, or does not say."""
    rank = len(step.inputs[0].shape)
    numbers = [
        value for name, value in step.settings.items() if name in ("dim0", "dim1", "arg1", "arg2") and is_axis(value)
    ]
    if step.op in ("transpose", "swapaxes", "swapdims"):
        if not numbers and step.settings.get("derived"):
            numbers = [-2, -1]
        if len(numbers) != 2 or rank < 2:
            return None
        order = list(range(rank))
        first, second = (int(number) % rank for number in numbers)  # type: ignore[arg-type]  # is_axis saw them
        order[first], order[second] = order[second], order[first]
        return tuple(order)
    if step.op in ("t", "T", "mT", "adjoint") and rank >= 2:
        return (*range(rank - 2), rank - 1, rank - 2)
    if step.op == "permute":
        dims = [value for value in step.settings.values() if isinstance(value, str) and "x" in value]
        text = dims[0] if dims else "x".join(str(value) for value in step.settings.values())
        parts = [part for part in text.split("x") if part.lstrip("-").isdecimal()]
        order = [int(part) % rank for part in parts] if rank else []
        return tuple(order) if sorted(order) == list(range(rank)) else None
    return None


def is_axis(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def uncut(step: Step, axes: Axes) -> Axes | None:
    """The axes before one part was taken out of a tensor."""
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if len(before) == len(after):
        differing = [place for place in range(len(before)) if before[place] != after[place]]
        if len(differing) != 1 or step.op not in (
            "split",
            "split_with_sizes",
            "chunk",
            "tensor_split",
            "index",
            "narrow",
            "slice",
        ):
            return None
        return tuple(
            whole(f"cut{next(_numbers)}", before[place]) if place in differing else axis
            for place, axis in enumerate(axes)
        )
    if len(before) != len(after) + 1 or step.op not in ("select", "unbind"):
        return None
    dim = step.settings.get("dim", step.settings.get("arg1", 0))
    if not isinstance(dim, int):
        return None
    place = dim % len(before)
    if (*before[:place], *before[place + 1 :]) != after:
        return None
    return (*axes[:place], whole(f"part{next(_numbers)}", before[place]), *axes[place:])


def regroup(axes: Axes, shape: tuple[int, ...]) -> Axes | None:
    """The same numbers in row-major order under another shape: pieces are joined, and cut where they must be.

    Axes of size 1 keep their pieces only if there are as many of them before and after.
    """
    if not all(axes):
        return None
    atoms = [atom for axis in axes for atom in axis if atom[1] != 1]
    ones = [atom for axis in axes for atom in axis if atom[1] == 1]
    free = sum(size == 1 for size in shape)
    singles = iter(ones if len(ones) == free else [("one", 1)] * free)
    found: list[tuple[Atom, ...]] = []
    for size in shape:
        if size == 1:
            found.append((next(singles),))
            continue
        taken: list[Atom] = []
        rest = size
        while rest > 1:
            if not atoms:
                return None
            label, places = atoms.pop(0)
            if rest % places == 0:
                taken.append((label, places))
                rest //= places
            elif places % rest == 0:
                taken.append((f"{label}.0", rest))
                atoms.insert(0, (f"{label}.1", places // rest))
                rest = 1
            else:
                return None
        found.append(tuple(taken))
    return None if atoms else tuple(found)


def size_of(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
