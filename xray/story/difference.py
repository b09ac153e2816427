"""What differs between two traces, step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, PassKind, Step, Trace

Aspect = Literal[
    "pass missing", "pass added", "step missing", "step added", "order", "tensors", "shape", "axes", "mask"
]
PassKey = tuple[PassKind, int]


@dataclass(frozen=True)
class Change:
    """One thing that is not the same: in which pass, at which step, and the records before and after.

    `tensor` names the input or output; it and both records are None where the whole step or pass is meant.
    """

    aspect: Aspect
    kind: PassKind
    number: int
    step: str | None = None
    tensor: str | None = None
    before: TensorRecord | None = None
    after: TensorRecord | None = None


@dataclass(frozen=True)
class Difference:
    """All changes from one trace to another, in the order in which the steps ran; false where there are none."""

    changes: tuple[Change, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def first(self) -> Change | None:
        """The change that was reached first, the likely cause of those after it."""
        return self.changes[0] if self.changes else None

    @property
    def steps(self) -> frozenset[str]:
        """The ids of all steps that changed, in any pass."""
        return frozenset(change.step for change in self.changes if change.step is not None)


def diff(before: Trace, after: Trace) -> Difference:
    """Where two traces differ in steps, their order, shapes, axis words or masks; values and words are not compared.

    Passes are matched by kind and number, steps by id. What a block makes is compared after what is inside it.
    """
    return Difference(tuple(find_changes(before, after)))


def find_changes(before: Trace, after: Trace) -> Iterator[Change]:
    old: dict[PassKey, Pass] = {(one.kind, one.number): one for one in before.passes}
    new: dict[PassKey, Pass] = {(one.kind, one.number): one for one in after.passes}
    for key, one in old.items():
        if key in new:
            yield from compare_passes(one, new[key])
        else:
            yield Change("pass missing", *key)
    for key in new:
        if key not in old:
            yield Change("pass added", *key)


def compare_passes(before: Pass, after: Pass) -> Iterator[Change]:
    common_before = [step.id for step in before.steps if step.id in after.by_id]
    common_after = [step.id for step in after.steps if step.id in before.by_id]
    rank = {step_id: place for place, step_id in enumerate(common_after)}
    kind, number = before.kind, before.number
    added = {step.id for step in after.steps} - set(common_after)
    open_blocks: list[tuple[int, list[Change]]] = []
    for step in merge_orders(before.steps, after.steps, added):
        while open_blocks and open_blocks[-1][0] >= step.depth:
            yield from open_blocks.pop()[1]
        if step.id in added:
            yield Change("step added", kind, number, step.id)
        elif step.id not in after.by_id:
            yield Change("step missing", kind, number, step.id)
        else:
            other = after.by_id[step.id]
            yield from compare_records(kind, number, step, step.inputs, other.inputs)
            made = list(compare_records(kind, number, step, step.outputs, other.outputs))
            open_blocks.append((step.depth, made))
    while open_blocks:
        yield from open_blocks.pop()[1]
    for place, step_id in enumerate(common_before):
        if rank[step_id] != place:
            yield Change("order", kind, number, step_id)
            break


def merge_orders(before: tuple[Step, ...], after: tuple[Step, ...], added: set[str]) -> Iterator[Step]:
    """The steps of both sides in one order: those added stand behind the step that they follow."""
    followers: dict[str | None, list[Step]] = {}
    last: str | None = None
    for step in after:
        if step.id in added:
            followers.setdefault(last, []).append(step)
        else:
            last = step.id
    yield from followers.get(None, ())
    for step in before:
        yield step
        yield from followers.get(step.id, ())


def compare_records(
    kind: PassKind, number: int, step: Step, before: tuple[TensorRecord, ...], after: tuple[TensorRecord, ...]
) -> Iterator[Change]:
    """What differs in the inputs, or in the outputs, of one step."""
    if [record.name for record in before] != [record.name for record in after]:
        yield Change("tensors", kind, number, step.id)
        return
    for one, other in zip(before, after, strict=True):
        aspects: tuple[tuple[Aspect, object, object], ...] = (
            ("shape", one.shape, other.shape),
            ("axes", one.axes, other.axes),
            ("mask", one.mask, other.mask),
        )
        changed = next((aspect for aspect, left, right in aspects if left != right), None)
        if changed is not None:
            yield Change(changed, kind, number, step.id, one.name, one, other)
