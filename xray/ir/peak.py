"""The moment of a pass at which the most of what it made is still needed, told by where each tensor is last read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.storage import measure_storage
from xray.ir.trace import Pass, Step


@dataclass(frozen=True)
class Peak:
    """So many bytes that a pass had made by this step were still to be read, or are its result."""

    bytes: int
    step: Step


def find_peak(one_pass: Pass, kept: Iterable[TensorRecord] = ()) -> Peak | None:
    """The fullest moment of a pass, tensors that are `kept` for the next one included; None where nothing was stored.

    No run can do with less than this, its weights and inputs apart: a program may hold on to a tensor for longer than
    it is needed, and an operation may need room of its own.
    """
    stored = measure_storage(one_pass)
    steps = [step for step in one_pass.steps if step.id in stored or step.id not in one_pass.blocks]
    homes: dict[str, frozenset[str]] = {}
    last: dict[str, int] = {}
    for place, step in enumerate(steps):
        read = look_up(step.inputs, homes)
        homes[step.id] = frozenset((step.id,)) if step.id in stored else look_up(step.inputs[:1], homes)
        last.update(dict.fromkeys((*read, *homes[step.id]), place))
    outermost = [step for step in one_pass.steps if step.parent is None]
    for home in look_up((*kept, *(record for step in outermost[-1:] for record in step.outputs)), homes):
        last[home] = len(steps)
    ends: dict[int, list[str]] = {}
    for home, place in last.items():
        ends.setdefault(place, []).append(home)
    found, held = None, 0
    for place, step in enumerate(steps):
        held += stored.get(step.id, 0)
        if held > (found.bytes if found is not None else 0):
            found = Peak(held, step)
        held -= sum(stored[home] for home in ends.get(place, ()))
    return found


def look_up(records: Iterable[TensorRecord], homes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The steps whose storage these tensors lie in."""
    return frozenset[str]().union(*(homes.get(record.source or "", frozenset()) for record in records))
