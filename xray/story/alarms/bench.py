"""Masks worked out again from the steps that made them, with the values that were given or with others."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from xray.ir.flow.attention_sites import Site, count_pairs
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import mix_known, read_mixing
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.softmax_axis import read_axis
from xray.ir.records import TensorRecord
from xray.story.recognition.values.known_values import DEEPEST, apply, unknown
from xray.story.recognition.values.mask_cells import MOST, read_cells
from xray.story.recognition.values.value_rules import LOW, LOWEST, RULES, SCORE_RULES
from xray.story.recognition.values.value_shapes import Values, number

ADDING = ("add", "sub", "mul", "multiply", "div", "scale", "masked_fill", "where", "mask_scores", "tanh", "clamp")
KEEPING = ("to", "float", "half", "bfloat16", "double", "type_as", "contiguous", "clone", "dropout", "nan_to_num")
EVEN = frozenset((*ADDING, *KEEPING))
"""What does the same to the scores of every head, so that one head is enough to be worked out."""


@dataclass
class Bench:
    """The numbers of a pass under an assumption.

    `given` has values for arguments of the model, `put` for what steps make; `changed` are the steps that depend on
    either, whose recorded cells say nothing here. What is not known is NaN.
    """

    flow: Flow
    given: Mapping[str, Values] = field(default_factory=dict)
    put: Mapping[int, Values] = field(default_factory=dict)
    changed: Collection[int] = ()
    known: dict[int, Values | None] = field(default_factory=dict)

    def read(self, record: TensorRecord, maker: int | None, left: int = DEEPEST) -> Values | None:
        """The numbers of what a step reads."""
        if maker is not None:
            return self.add_recorded(maker, record, self.work_out(maker, left))
        if record.given is not None and record.given in self.given:
            return fit(self.given[record.given], record.shape)
        cells = read_cells(record)
        return unknown(record.shape) if cells is None else cells

    def work_out(self, place: int, left: int) -> Values | None:
        """The numbers that a step makes, those before it worked out first."""
        if place in self.put:
            return self.put[place]
        if place in self.known:
            return self.known[place]
        step = self.flow.steps[place]
        if left == 0 or not step.outputs or prod(step.outputs[0].shape) > MOST or not self.flow.is_leaf(place):
            return None
        compute = None if step.params else RULES.get(step.op.rstrip("_"))
        found = None
        if compute is not None:
            found = apply(compute, step, [self.read(*one, left - 1) for one in self.flow.given(place)])
        self.known[place] = self.add_recorded(place, step.outputs[0], found)
        return self.known[place]

    def add_recorded(self, place: int, record: TensorRecord, found: Values | None) -> Values | None:
        """What a step makes, and where that does not follow from the steps, what was recorded of it as of a mask."""
        if (found is not None and not np.isnan(found).any()) or place in self.changed:
            return found
        cells = read_cells(record)
        if cells is None:
            return found
        cells = np.where(np.isneginf(cells), find_lowest(self.flow, place, found), cells)
        return cells if found is None or found.shape != cells.shape else np.where(np.isnan(found), cells, found)

    def add_to_scores(self, site: Site, score: float = 0.0) -> Values | None:
        """What becomes of scores that are all the same, usually 0, on their way to the softmax.

        One head stands for all where that is enough. Queries lie along the last axis but one, and keys along the last,
        be the scores themselves turned.
        """
        flow, first = self.flow, site.scored[0]
        step = flow.steps[first]
        if not step.outputs:
            return None
        shape = step.outputs[0].shape
        even = len(shape) == 4 and all(flow.op(place).rstrip("_") in EVEN for place in site.scored[1:-1])
        shape = (shape[0], 1, *shape[2:]) if even else shape
        if prod(shape) > MOST:
            return None
        start: Values | None = np.full(shape, score)
        if step.op == "baddbmm":
            start = self.read(*next(flow.given(first)))
            start = None if start is None else np.broadcast_to(start, shape)
        made: dict[int, Values | None] = {first: start}
        for place in site.scored[1:-1]:
            step = flow.steps[place]
            compute = SCORE_RULES.get(step.op.rstrip("_")) or RULES.get(step.op.rstrip("_"))
            given = [made[maker] if maker in made else self.read(record, maker) for record, maker in flow.given(place)]
            if step.settings.get("asked") is True and len(given) == 1:  # what score_mod hides stands in the mask
                made[place] = given[0]
                continue
            if read_mixing(flow, place) is not None:
                before = next((made[maker] for maker in flow.makers[place] if maker in made), None)
                made[place] = None if before is None else mix_known(flow, place, before)
                continue
            if compute is None or any(one is None for one in given):
                return None
            try:
                with np.errstate(all="ignore"):
                    made[place] = (
                        compute(step, [one for one in given if one is not None])
                        if even
                        else apply(compute, step, given)
                    )
            except (ValueError, IndexError, TypeError, KeyError):
                return None
        last = flow.makers[site.scored[-1]][0]
        found = None if last is None else made.get(last)
        axis = read_axis(flow.steps[site.softmax])
        if found is None or found.ndim < 2 or axis not in (-1, -2):
            return None
        found = found if axis == -1 else found.swapaxes(-1, -2)
        return found[..., : count_pairs(flow, site)[1]]  # without sinks beside the keys


def find_lowest(flow: Flow, place: int, found: Values | None) -> float:
    """The number by which a mask hides: the lowest that is known of it, or that a step on the way writes; else -inf."""
    known = [] if found is None else [float(one) for one in np.unique(found) if one <= LOWEST]
    here: int | None = place
    while not known and here is not None:
        step = flow.steps[here]
        written = [number(step, name) for name in ("value", "other", "input")]
        known = [one for one in written if one is not None and one <= LOWEST]
        here = flow.makers[here][0] if flow.op(here) in CARRYING and flow.makers[here] else None
    return min(known, default=-np.inf)


def mark_hidden(added: Values) -> Values:
    """1 where scores are hidden, 0 where they are not, NaN where that is not known."""
    numbers = np.unique(added[~np.isnan(added)])
    bound = numbers[0] if len(numbers) == 2 and numbers[0] <= LOWEST and numbers[1] > LOWEST else LOW
    return np.where(np.isnan(added), np.nan, (added <= bound).astype(float))


def read_preview(record: TensorRecord) -> Values | None:
    """All values of a tensor; None if they were not kept."""
    preview = record.preview
    if preview is None or preview.shape != record.shape or any(preview.start):
        return None
    return np.asarray([float(value) for value in preview.values]).reshape(record.shape)


def fit(values: Values, shape: tuple[int, ...]) -> Values | None:
    """The numbers in the form of what a step reads; unknown if they are of another one."""
    if values.shape == shape:
        return values
    return values.reshape(shape) if values.size == prod(shape) else unknown(shape)
