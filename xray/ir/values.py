"""A trace without the values that it carries: shapes, words and masks stay."""

from dataclasses import replace

from xray.ir.records import TensorRecord
from xray.ir.trace import Step, Trace


def drop_values(trace: Trace) -> Trace:
    """The same trace, no tensor with a preview."""
    passes = tuple(replace(one, steps=tuple(drop_from_step(step) for step in one.steps)) for one in trace.passes)
    return replace(trace, passes=passes)


def drop_from_step(step: Step) -> Step:
    def bare(records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
        return tuple(record if record.preview is None else replace(record, preview=None) for record in records)

    return replace(step, inputs=bare(step.inputs), outputs=bare(step.outputs))
