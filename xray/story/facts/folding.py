"""Which layers of a pass are alike, so that one of them can stand for all: the "x 3" on a layer's frame.

How to use it:

    for fold in fold_layers(one_pass):
        fold.stack, fold.layers, fold.count        # "encoder.layers", (0, 1, 2), 3
        fold.first                                 # 0, the layer to show; its steps' paths begin "encoder.layers.0"

    shown = steps_shown(one_pass)                  # the pass's steps, with only the first layer of every fold

Layers that differ come out as folds of one, so nothing is called alike that is not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xray.ir.trace import Pass, Step

Place = tuple[str, int]
NO_DIFFERENCE = frozenset({"layer_idx", "layer_id", "layer_index", "layer_number"})
"""Settings that make no two layers different: a layer's own number."""


@dataclass(frozen=True)
class Fold:
    """The layers of a stack that are alike, be it that others stand between them; the first of `layers` is shown."""

    stack: str
    layers: tuple[int, ...]

    @property
    def first(self) -> int:
        """The number of the layer that stands for all."""
        return self.layers[0]

    @property
    def count(self) -> int:
        """How many layers the first one stands for, itself included."""
        return len(self.layers)


def fold_layers(one_pass: Pass) -> tuple[Fold, ...]:
    """The groups of alike layers in a pass, in the order in which the first of each ran.

    Two layers are alike when, step for step, they do the same operation with the same settings and parameter counts on
    the same shapes, under the same axis words, with the same masks. Layers of other kinds may stand between them, as
    where two kinds take turns; what ran between two neighbours and is no layer's own parts these. Values are not
    compared: weights always differ. A layer that ran more than once is never folded.
    """
    visits = [(place, tuple(steps)) for place, steps in groupby(one_pass.steps, key=layer_of)]
    often = {place for place, count in Counter(place for place, _ in visits).items() if count > 1}
    folds: list[Fold] = []
    known: dict[tuple[object, ...], int] = {}
    for place, steps in visits:
        if place is None:
            known = {}
            continue
        portrait = None if place in often else portray_layer(place, steps)
        number = None if portrait is None else known.get(portrait)
        if number is not None:
            folds[number] = Fold(place[0], (*folds[number].layers, place[1]))
            continue
        if portrait is not None:
            known[portrait] = len(folds)
        if not any(fold.stack == place[0] and place[1] in fold.layers for fold in folds):
            folds.append(Fold(place[0], (place[1],)))
    return tuple(folds)


def steps_shown(one_pass: Pass, folds: Sequence[Fold] | None = None) -> tuple[Step, ...]:
    """The steps of a pass in order, without the layers that another one stands for."""
    folds = fold_layers(one_pass) if folds is None else folds
    spared = {(fold.stack, number) for fold in folds for number in fold.layers[1:]}
    return tuple(step for step in one_pass.steps if layer_of(step) not in spared)


def layer_of(step: Step) -> Place | None:
    """The stack and the number of the layer a step belongs to, ("decoder.layers", 2); None outside of any layer.

    A layer is what stands under a number in a path; the outermost number counts.
    """
    parts = step.path.split(".")
    for place, part in enumerate(parts):
        if part.isascii() and part.isdigit() and len(part) < 10:
            return ".".join(parts[:place]), int(part)
    return None


def portray_layer(place: Place, steps: Sequence[Step]) -> tuple[object, ...]:
    """All that must be equal for two layers to be alike, the layer's own number left out."""
    root = ".".join((place[0], str(place[1]))).lstrip(".")
    return (place[0], *(portray_step(step, root) for step in steps))


def portray_step(step: Step, root: str) -> tuple[object, ...]:
    """What a step contributes to its layer's portrait; its path counts from the layer's root."""
    records = tuple(
        (end, record.name, record.shape, record.axes, record.dtype, record.role, record.mask)
        for end, side in (("in", step.inputs), ("out", step.outputs))
        for record in side
    )
    settings = tuple(sorted((name, repr(value)) for name, value in step.settings.items() if name not in NO_DIFFERENCE))
    return step.path.removeprefix(root), step.call, step.op, step.module, step.params, settings, step.error, records
