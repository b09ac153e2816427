"""The moment of a pass at which the most of what it made is still needed, told by where each tensor is last read."""

from collections.abc import Iterable
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.storage import measure_outputs
from xray.ir.trace import Pass, Step

Store = tuple[str, int]
"""A step, and the number of the tensor that it stored."""
Homes = dict[str, tuple[tuple[TensorRecord, frozenset[Store]], ...]]
"""What each step gives, and in which stores that lies."""


@dataclass(frozen=True)
class Peak:
    """So many bytes that a pass had made by this step were still to be read, or are its result."""

    bytes: int
    step: Step


def find_peak(one_pass: Pass, kept: Iterable[TensorRecord] = ()) -> Peak | None:
    """The fullest moment of a pass, tensors that are `kept` for the next one included; None where nothing was stored.

    No run can do with less than this, its weights and inputs apart: a program may hold on to a tensor for longer than
    it is needed, and an operation may need room of its own. Each tensor that a step makes ends by itself: the places
    that a maximum has beside its values are mostly read by nobody (Hiera).
    """
    made = measure_outputs(one_pass)
    steps = [step for step in one_pass.steps if step.id in made or step.id not in one_pass.blocks]
    homes: Homes = {}
    last: dict[Store, int] = {}
    for place, step in enumerate(steps):
        shown = look_up(step.inputs[:1], homes)
        sizes = made.get(step.id, (0,) * len(step.outputs))
        lying = [frozenset(((step.id, number),)) if size else shown for number, size in enumerate(sizes)]
        homes[step.id] = tuple(zip(step.outputs, lying, strict=True))
        last.update(dict.fromkeys(look_up(step.inputs, homes).union(*lying), place))
    outermost = [step for step in one_pass.steps if step.parent is None]
    for store in look_up((*kept, *(record for step in outermost[-1:] for record in step.outputs)), homes):
        last[store] = len(steps)
    ends: dict[int, list[Store]] = {}
    for store, place in last.items():
        ends.setdefault(place, []).append(store)
    found, held = None, 0
    for place, step in enumerate(steps):
        held += sum(made.get(step.id, ()))
        if held > (found.bytes if found is not None else 0):
            found = Peak(held, step)
        held -= sum(made[home][number] for home, number in ends.get(place, ()))
    return found


def look_up(records: Iterable[TensorRecord], homes: Homes) -> frozenset[Store]:
    """Where these tensors are stored: of what several tensors a step made, those of the same kind and shape."""
    found: set[Store] = set()
    for record in records:
        several = homes.get(record.source or "", ())
        alike = [lying for one, lying in several if (one.dtype, one.shape) == (record.dtype, record.shape)]
        found.update(*(alike or (lying for _, lying in several)))
    return frozenset(found)
