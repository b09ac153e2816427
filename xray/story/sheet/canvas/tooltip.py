"""What a step says when it is pointed at: path, shapes, axes, parameters, type and place in the code."""

from collections.abc import Iterable

from xray.ir.flow.dataflow import read_flow
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.charts.counted_weights import describe_params
from xray.story.sentences.of_runs import DERIVED
from xray.story.wording import plural

MOST_INPUTS = 8


def describe(steps: Iterable[tuple[Pass, Step]]) -> str:
    """A tooltip of a step in each of its passes: path, shapes in and out, axes, parameters, type and place in code."""
    listed = list(steps)
    if not listed:
        return ""
    one_pass, step = listed[0]
    inputs = ", ".join(name_shape(record) for record in step.inputs[:MOST_INPUTS])
    inputs += f" and {len(step.inputs) - MOST_INPUTS:,} more" * (len(step.inputs) > MOST_INPUTS)
    outputs = ", ".join(name_shape(record) for record in step.outputs[:3])
    lines = [step.path, f"{inputs} → {outputs}" if inputs else outputs]
    kinds = sorted({record.dtype for record in step.outputs})
    facts = (step.module, describe_held(one_pass, step), ", ".join(kinds))
    lines += [" · ".join(filter(None, facts))] if any(facts) else []
    lines += [told] if (told := DERIVED.tell(step)) else []
    if len(listed) > 1:
        lines.append(f"turn {one_pass.number} of {len(listed)}")
    if step.location:
        lines.append(step.location)
    if step.error:
        lines.append(f"failed: {step.error}")
    return "\n".join(lines)


def describe_held(one_pass: Pass, step: Step) -> str:
    """How many parameters a step has, or is given where it is a function, be it that others moved some of them."""
    flow = read_flow(one_pass)
    if step.params or step.id not in flow.places:
        return plural(step.params, "parameter") if step.params else ""
    return describe_params(flow, flow.places[step.id])


def name_shape(record: TensorRecord) -> str:
    size = "×".join(map(str, record.shape)) or "one number"
    axes = " × ".join(axis or "?" for axis in record.axes)
    return f"{record.name} {size} ({axes})" if axes else f"{record.name} {size}"
