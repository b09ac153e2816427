"""Numbers that follow from the steps alone, such as a mask made by counting places: worked out again without a model.

A number that depends on weights or on data is unknown, and stands as NaN. What hides a score is so low that nothing
added to it matters: it stays as it is, whatever unknown is added.
"""

from dataclasses import dataclass, field
from math import prod

import numpy as np

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import mix_known, read_mixing
from xray.ir.flow.operation_kinds import LOOKUPS
from xray.ir.flow.projections import is_product, is_projection
from xray.ir.flow.remembering import once
from xray.ir.flow.softmax_axis import read_axis
from xray.ir.records import PADDING, TensorRecord
from xray.ir.trace import Step
from xray.story.recognition.values.mask_cells import MOST, read_cells
from xray.story.recognition.values.value_rules import RULES, SCORE_RULES, Rule, shift_along
from xray.story.recognition.values.value_shapes import Values, number

DEEPEST = 64


@dataclass(frozen=True)
class Known:
    """What was worked out before; with `learned` numbers unknown, or taken as 0 where only what hides is asked for."""

    learned: float
    values: dict[int, Values | None] = field(default_factory=dict)


def values_of(flow: Flow, place: int | None) -> Values | None:
    """What a step makes, as far as it follows from the steps; None where nothing of it does."""
    return None if place is None else work_out(flow, place, keep_values(flow), DEEPEST)


@once
def keep_values(flow: Flow) -> Known:
    """Numbers of a pass, those that are learned unknown."""
    del flow
    return Known(np.nan)


@once
def keep_hiding(flow: Flow) -> Known:
    """Numbers of a pass as if all that is learned were 0, which hides nothing."""
    del flow
    return Known(0.0)


def work_out(flow: Flow, place: int, kept: Known, left: int) -> Values | None:
    """The numbers of a step, those before it worked out first."""
    known = kept.values
    if place in known:
        return known[place]
    step = flow.steps[place]
    if left == 0 or not step.outputs or prod(step.outputs[0].shape) > MOST or not flow.is_leaf(place):
        return None
    compute = RULES.get(step.op.rstrip("_"))
    if compute is None or step.params:
        known[place] = None
        if kept.learned == 0 and (
            step.params or step.op in LOOKUPS or is_projection(flow, place) or is_product(flow, place)
        ):
            known[place] = np.zeros(step.outputs[0].shape)
        return known[place]
    given = [
        read_outside(step, record, kept.learned) if maker is None else work_out(flow, maker, kept, left - 1)
        for record, maker in flow.given(place)
    ]
    known[place] = add_recorded(flow, place, apply(compute, step, given))
    return known[place]


def add_recorded(flow: Flow, place: int, made: Values | None) -> Values | None:
    """What a step makes, and where that does not follow from the steps, what was recorded of it as of a mask.

    Of numbers that are added to scores that is what hides: what they come to elsewhere was not recorded.
    """
    if made is not None and not np.isnan(made).any():
        return made
    readers = (record for one in flow.readers.get(place, ()) for record, maker in flow.given(one) if maker == place)
    seen = next((record for record in readers if record.mask is not None), None)
    cells = None if seen is None else read_cells(seen)
    if seen is None or cells is None or cells.shape != flow.output(place).shape:
        return made
    cells = np.where(cells == 0, np.nan, cells) if seen.is_float else cells
    return cells if made is None else np.where(np.isnan(made), cells, made)


def read_outside(step: Step, record: TensorRecord, learned: float) -> Values | None:
    """What is known of a tensor that a step reads and none made: of a mask its cells; padding counts as unknown.

    Of a triangle that a model holds, its two numbers.
    """
    if record.role == "parameter" and prod(record.shape) <= MOST:
        return np.full(record.shape, learned)
    triangle, behind = number(step, "triangle"), number(step, "behind") or 0.0
    if triangle is not None and is_square(step, record):
        lower = np.tri(record.shape[-1]) > 0
        return np.broadcast_to(np.where(lower, triangle, behind), record.shape)
    found = read_cells(record)
    if found is None or record.mask is None:
        return unknown(record.shape)
    found = np.where(np.isnan(found), learned, found)
    cells = "".join(row for square in record.mask.cells or () for row in square)
    return np.where(np.reshape([*cells], record.shape) == PADDING, np.nan, found) if PADDING in cells else found


def is_square(step: Step, record: TensorRecord) -> bool:
    """Whether a tensor is the one square that a step reads of those that none made."""
    squares = [one.shape for one in step.inputs if one.source is None and len(one.shape) > 1]
    squares = [shape for shape in squares if shape[-1] == shape[-2]]
    return squares == [record.shape] and prod(record.shape) <= MOST


def apply(compute: "Rule", step: Step, given: "list[Values | None]") -> Values | None:
    """A rule on operands of which some may be unknown; None where the result says nothing, or has another shape.

    A step that puts parts together as they stood is given the whole alone.
    """
    if len(given) < len(step.inputs):
        return given[0]
    filled = [
        unknown(record.shape) if values is None or values.shape != record.shape else values
        for record, values in zip(step.inputs, given, strict=True)
    ]
    if any(one is None for one in filled):
        return None
    try:
        with np.errstate(all="ignore"):
            found = compute(step, [one for one in filled if one is not None])
        if found is None:
            return None
        found = np.asarray(found, dtype=np.float64)
        shape = step.outputs[0].shape
        found = found if found.shape == shape else np.broadcast_to(found, shape)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError):
        return None
    return None if np.isnan(found).all() and found.size else found


def unknown(shape: tuple[int, ...]) -> Values | None:
    """A tensor of which nothing is known; None if it is too large to be held."""
    return np.full(shape, np.nan) if prod(shape) <= MOST else None


def read_scores_alone(flow: Flow, scored: tuple[int, ...], kept: Known) -> Values | None:
    """What is added to scores of 0 on their way to a softmax; what hides is very low, what is not known is NaN."""
    first = scored[0]
    step = flow.steps[first]
    if not step.outputs or prod(step.outputs[0].shape) > MOST:
        return None
    start: Values | None = np.zeros(step.outputs[0].shape)
    if step.op == "baddbmm":
        record, maker = next(flow.given(first))
        addend = read_outside(step, record, kept.learned) if maker is None else work_out(flow, maker, kept, DEEPEST)
        start = unknown(step.outputs[0].shape) if addend is None else np.broadcast_to(addend, step.outputs[0].shape)
    made: dict[int, Values | None] = {first: start}
    shift = shift_along(read_axis(flow.steps[scored[-1]]))
    for place in scored[1:-1]:
        step = flow.steps[place]
        name = step.op.rstrip("_")
        compute = shift if name == "sub" else SCORE_RULES.get(name) or RULES.get(name)
        if read_mixing(flow, place) is not None:
            before = next((made[maker] for maker in flow.makers[place] if maker in made), None)
            made[place] = None if before is None else mix_known(flow, place, before)
            continue
        if compute is None or not step.outputs:
            return None
        given = [
            made[maker]
            if maker in made
            else read_outside(step, record, kept.learned)
            if maker is None
            else work_out(flow, maker, kept, DEEPEST)
            for record, maker in flow.given(place)
        ]
        found = apply(compute, step, given)
        made[place] = unknown(step.outputs[0].shape) if found is None else found
    last = flow.makers[scored[-1]][0]
    return None if last is None else made.get(last)
