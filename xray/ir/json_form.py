"""A trace as JSON and back, unchanged; what comes in is held to the form before anyone reads it."""

import math
from typing import Any

import msgspec

from xray.errors import TraceError
from xray.ir.records import MaskFacts, Preview, Statistics, TensorRecord
from xray.ir.trace import SCHEMA, Pass, Step, Trace
from xray.text import show_controls

UNSAID = (*(f',"{name}":null' for name in ("given", "trained", "output", "argument", "weight")), ',"weights":{}')
"""What nearly every tensor or step would say, and none does.

No text in JSON holds a quotation mark that is not spelt out."""
DRAFT = "https://json-schema.org/draft/2020-12/schema"


class SchemaOnly(msgspec.Struct):
    """Just enough of a trace to see whether this version can read the rest."""

    schema: int


def trace_to_json(trace: Trace) -> str:
    """The trace as JSON text; the same trace gives the same text. Half characters, which no text has, are spelt out."""
    try:
        text = msgspec.json.encode(trace).decode()
    except UnicodeEncodeError:
        text = msgspec.json.encode(mend_texts(msgspec.to_builtins(trace))).decode()
    for unsaid in UNSAID:
        text = text.replace(unsaid, "")
    return text


def mend_texts(tree: Any) -> Any:  # noqa: ANN401  # any JSON
    """The same tree, every half character in its texts spelt out."""
    if isinstance(tree, str):
        return tree.encode(errors="backslashreplace").decode()
    if isinstance(tree, dict):
        return {mend_texts(key): mend_texts(value) for key, value in tree.items()}
    return [mend_texts(one) for one in tree] if isinstance(tree, list | tuple) else tree


def trace_from_json(text: str | bytes) -> Trace:
    """The trace that `trace_to_json` wrote.

    Raises:
        TraceError: the text is no JSON, no trace, of a newer version, or contradicts itself.
    """
    try:
        schema = msgspec.json.decode(text, type=SchemaOnly).schema
        if schema > SCHEMA:
            raise TraceError(
                f"this trace has schema {schema}, and this X-Ray reads up to {SCHEMA}. Update transformer-xray."
            )
        trace = msgspec.json.decode(text, type=Trace)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = show_controls(str(error))
        raise TraceError(f"this is not a trace: {why}. Make one with: xray trace -o trace.json") from error
    for one_pass in trace.passes:
        check_pass(one_pass)
    return trace


def trace_schema() -> str:
    """The form of a trace's JSON as a JSON Schema, made from the records themselves, descriptions included."""
    (root,), parts = msgspec.json.schema_components([Trace], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = " ".join(part["description"].split())
    parts["Trace"]["required"].append("schema")  # which has a default where traces are made, none where they are read
    parts["Trace"]["properties"]["schema"] = {"type": "integer", "minimum": 1, "maximum": SCHEMA}
    whole = {"$schema": DRAFT, "title": "A trace, as X-Ray records it", **root, "$defs": parts}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


def check_pass(one_pass: Pass) -> None:
    """Hold a pass from outside to what its parts promise each other.

    Raises:
        TraceError: ids are used twice, a parent is missing or comes later, or a tensor contradicts itself.
    """
    seen: set[str] = set()
    for step in one_pass.steps:
        if step.id in seen:
            raise TraceError(f"step {show_controls(step.id)} stands twice in one pass. The trace file was changed.")
        if step.parent is not None and step.parent not in seen:
            raise TraceError(
                f"step {show_controls(step.id)} names the block {show_controls(step.parent)}, which does not stand "
                "before it. The trace file was changed."
            )
        seen.add(step.id)
        for record in (*step.inputs, *step.outputs):
            check_record(step, record)


def check_record(step: Step, record: TensorRecord) -> None:
    def refuse(what: str) -> TraceError:
        name = show_controls(f"{record.name} of {step.id}")
        return TraceError(f"{name} has shape {list(record.shape)}, but {what}. The trace file was changed.")

    if any(size < 0 for size in record.shape):
        raise refuse("a size is never below 0")
    if len(record.axes) != len(record.shape):
        raise refuse(f"{len(record.axes)} axis words")
    if record.output is not None and record.output < 0:
        raise refuse("which tensor of several it is counts from 0")
    if record.local is not None and len(record.local) != len(record.shape):
        raise refuse(f"this rank's part has {len(record.local)} axes")
    if record.preview is not None and not preview_fits(record.preview, record.local or record.shape):
        raise refuse(f"a preview of shape {list(record.preview.shape)} with {len(record.preview.values)} values")
    if record.preview is not None and not statistics_fit(record.preview.statistics, record.shape):
        raise refuse("statistics that cannot be of it")
    if record.mask is not None and not mask_fits(record.mask, record.shape):
        raise refuse("mask cells of another shape")


def preview_fits(preview: Preview, shape: tuple[int, ...]) -> bool:
    return (
        len(preview.start) == len(preview.shape) == len(shape)
        and math.prod(preview.shape) == len(preview.values)
        and all(
            0 <= start <= start + length <= size
            for start, length, size in zip(preview.start, preview.shape, shape, strict=True)
        )
    )


def statistics_fit(statistics: Statistics | None, shape: tuple[int, ...]) -> bool:
    if statistics is None:
        return True
    low, high, mean = statistics.minimum, statistics.maximum, statistics.mean
    counted = statistics.nans + statistics.infinities
    ordered = None not in (low, high, mean) and low <= high if low is not None and high is not None else low is high
    return ordered and min(statistics.nans, statistics.infinities) >= 0 and counted <= math.prod(shape)


def mask_fits(mask: MaskFacts, shape: tuple[int, ...]) -> bool:
    if mask.cells is None:
        return True
    height, width = (1, *shape)[-2:]
    return len(mask.cells) == math.prod(shape[:-2]) and all(
        len(matrix) == height and all(len(row) == width for row in matrix) for matrix in mask.cells
    )
