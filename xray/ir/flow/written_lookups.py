"""Lookups that are written out: a learned table of which the rows are picked that the ids name, `weight[ids]`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xray.ir.flow.operation_kinds import CARRYING, CASTING
from xray.ir.flow.put_together import Makers
from xray.ir.trace import Step

LOOKUP = "embedding"


def list_written_lookups(steps: Sequence[Step], makers: Makers) -> Iterator[tuple[int, Step]]:
    """The places of indexes that are such a lookup, by ids that the model was given, each with the step that does the
    same and reads the ids first."""
    for place, step in enumerate(steps):
        if step.op == "index" and len(step.inputs) == 2:
            table, ids = step.inputs
            is_table = table.role == "parameter" and len(table.shape) == 2 and ids.role == "ids"
            if is_table and are_given(steps, makers, place):
                yield place, replace(step, op=LOOKUP, inputs=(ids, table))


def are_given(steps: Sequence[Step], makers: Makers, place: int) -> bool:
    """Whether the ids of an index are an argument of the model, moved or cast at most."""
    ids, maker = steps[place].inputs[1], makers[place][1]
    while maker is not None and steps[maker].op in CARRYING | CASTING and len(steps[maker].inputs) == 1:
        ids, maker = steps[maker].inputs[0], makers[maker][0]
    return maker is None and ids.argument is not None
