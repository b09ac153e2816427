"""Where packed sequences end, as varlen kernels are told: at the last word, in order, and none longer than is said."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.alarms.arguments import given_values
from xray.story.alarms.bench import Bench, read_preview
from xray.story.alarms.kinds import Alarm, alarm_at
from xray.story.recognition.values.value_shapes import Values


@dataclass(frozen=True)
class Ends:
    """Where the queries, or the keys, of a kernel end: the argument's name, its values, and how many there are."""

    name: str
    values: Values
    total: int
    longest: int | None
    """What the kernel is told of the longest sequence."""
    what: str


def check_ends(flow: Flow, sites: Sequence[Site]) -> Iterator[Alarm]:
    """The alarm of each varlen kernel that is told ends which do not fit its words."""
    for site in sites:
        softmax = flow.steps[site.softmax]
        kernel = flow.one_pass.by_id.get(softmax.parent or "") if softmax.settings.get("derived") else None
        if kernel is not None:
            sides = list_ends(flow, kernel)
            text = next((text for ends in sides if (text := describe_misfit(ends))), "") or describe_count(sides)
            if text:
                yield alarm_at(flow.one_pass, kernel, "ends", text)


def list_ends(flow: Flow, kernel: Step) -> tuple[Ends, ...]:
    """What a kernel is told of the ends of queries and of keys, as far as the values are known."""
    bench = Bench(flow, given_values(flow))
    place = flow.places[kernel.id]
    totals = {record.name[0]: record.shape[0] for record in kernel.inputs[:3] if record.shape}
    found = []
    for number, record in enumerate(kernel.inputs):
        if record.name.startswith(("cu_seq", "cum_seq")):
            values = read_ends(bench, record, flow.makers[place][number])
            side = "k" if record.name.endswith(("_k", "_kv")) else "q"
            if values is not None and side in totals:
                longest = kernel.settings.get(f"max_seqlen_{side}", kernel.settings.get(f"max_{side}"))
                what = "keys" if side == "k" else "queries"
                told = longest if isinstance(longest, int) else None
                found.append(Ends(record.name, values, totals[side], told, what))
    return tuple(found)


def read_ends(bench: Bench, record: TensorRecord, maker: int | None) -> Values | None:
    """The values of a tensor of ends: as they were, or as they follow from the steps."""
    values = read_preview(record)
    values = bench.read(record, maker) if values is None else values
    return None if values is None or values.ndim != 1 or not values.size or np.isnan(values).any() else values


def describe_misfit(ends: Ends) -> str:
    """What is wrong with where queries or keys end; nothing where all is well."""
    values, total = ends.values, ends.total
    label = f"{ends.name} {values.shape}"
    lengths = np.diff(values)
    if values[0] != 0:
        return f"{label} begins at {values[0]:g}, and the first of the {total:,} {ends.what} is at 0."
    if (lengths < 0).any():
        place = int(np.flatnonzero(lengths < 0)[0])
        return f"{label} goes back from {values[place]:g} to {values[place + 1]:g}: ends are added up, lengths are not."
    if values[-1] < total:
        left = total - int(values[-1])
        are = "is" if left == 1 else "are"
        return f"{label} ends at {values[-1]:g} of {total:,} {ends.what}: the last {left:,} {are} in no sequence."
    if values[-1] > total:
        return f"{label} ends at {values[-1]:g}, and there are {total:,} {ends.what}: the kernel reads behind the last."
    if ends.longest is not None and lengths.size and lengths.max() > ends.longest:
        return (
            f"The kernel is told that the longest sequence has {ends.longest:,} {ends.what}, and {label} has one of "
            f"{lengths.max():g}: what is behind is not worked out."
        )
    return ""


def describe_count(sides: Sequence[Ends]) -> str:
    """What is wrong where queries and keys have not as many sequences."""
    counts = [len(ends.values) - 1 for ends in sides]
    if len(set(counts)) < 2:
        return ""
    told = " and ".join(f"{ends.name} of {count:,}" for ends, count in zip(sides, counts, strict=True))
    return f"Queries and keys are not of as many sequences: {told}."
