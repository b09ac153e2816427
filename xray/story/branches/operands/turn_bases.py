"""The bases of turns, and how high their waves are, as far as the steps that work cosines and sines out tell them."""

from collections.abc import Collection, Iterator
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, REPEATS, SCALINGS, WAVES
from xray.ir.powers import are_powers, read_base_of
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_shapes import number

LONGEST_ROW = 4096
"""A longer row is not looked through for powers."""


def read_height(flow: Flow, node: int | None) -> float | None:
    """By what number cosines or sines are multiplied on their way to a step; None if not known."""
    height = 1.0
    while node is not None and flow.op(node) not in WAVES:
        step, factor = flow.steps[node], number(flow.steps[node])
        if flow.op(node) in SCALINGS and len(step.inputs) == 1 and factor:
            height = height / factor if flow.op(node) in DIVISIONS else height * factor
        elif flow.op(node) not in CARRYING | REPEATS:
            return None
        node = next(iter(flow.makers[node]), None)
    return None if node is None else height


def list_worked_out(flow: Flow, made: Collection[int]) -> Iterator[float | None]:
    """The bases of rows of powers that some steps make; None for one that a number multiplies on its way.

    And for falling powers of which no base can be told: one axis may turn with such a one alone (Cosmos's frames).
    """
    for place in sorted(made):
        record = flow.output(place)
        is_row = record.is_float and 1 < prod(record.shape) == record.shape[-1] <= LONGEST_ROW
        values = values_of(flow, place) if is_row else None
        row = [] if values is None else sorted(values.ravel().tolist(), reverse=True)
        base = read_base_of(row) if row and row[-1] >= 0 else None
        if base is None and are_powers(row) and row[-1] < 1:
            yield None
        if base is not None:
            later = (one for one in made if one != place and is_multiplied(flow, one))
            yield None if any(place in flow.behind(one) for one in later) else base


def is_multiplied(flow: Flow, node: int) -> bool:
    """Whether a step multiplies by one number, or divides by it, that is not known to be 1."""
    wide = [record for record in flow.steps[node].inputs if record.shape]
    return flow.op(node) in SCALINGS and len(wide) == 1 and number(flow.steps[node]) != 1
