"""What a step says when it is pointed at: path, shapes, axes, parameters, type and place in the code."""

from collections.abc import Iterable

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.charts.chart import count_given
from xray.story.sentences.of_runs import DERIVED
from xray.story.wording import plural

MOST_INPUTS = 8


def describe(steps: Iterable[tuple[int, Step]]) -> str:
    """A tooltip: path, shapes in and out, axes, parameters, type and place in the code."""
    listed = list(steps)
    if not listed:
        return ""
    step = listed[0][1]
    inputs = ", ".join(name_shape(record) for record in step.inputs[:MOST_INPUTS])
    inputs += f" and {len(step.inputs) - MOST_INPUTS:,} more" * (len(step.inputs) > MOST_INPUTS)
    outputs = ", ".join(name_shape(record) for record in step.outputs[:3])
    lines = [step.path, f"{inputs} → {outputs}" if inputs else outputs]
    kinds = sorted({record.dtype for record in step.outputs})
    held = count_given(step)  # its own, or those that it is given where it is a function
    facts = (step.module, plural(held, "parameter") if held else "", ", ".join(kinds))
    lines += [" · ".join(filter(None, facts))] if any(facts) else []
    lines += [told] if (told := DERIVED.tell(step)) else []
    if len(listed) > 1:
        lines.append(f"turn {listed[0][0]} of {len(listed)}")
    if step.location:
        lines.append(step.location)
    if step.error:
        lines.append(f"failed: {step.error}")
    return "\n".join(lines)


def name_shape(record: TensorRecord) -> str:
    size = "×".join(map(str, record.shape)) or "one number"
    axes = " × ".join(axis or "?" for axis in record.axes)
    return f"{record.name} {size} ({axes})" if axes else f"{record.name} {size}"
