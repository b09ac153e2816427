"""What differs between two traces, step by step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from xray.errors import UsageError
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, PassKind, Step, Trace, count
from xray.story.compare.alignment import Pair, align_passes

Aspect = Literal[
    "pass missing",
    "pass added",
    "step missing",
    "step added",
    "renamed",
    "operation",
    "parameters",
    "order",
    "tensors",
    "shape",
    "axes",
    "mask",
    "part",
]
MOST_NAMED = 3
PassKey = tuple[PassKind, int]


@dataclass(frozen=True)
class Change:
    """One thing that is not the same: in which pass, at which step, and the records before and after.

    `step` is the id afterwards, that of before for a step which is missing; `was` is the id of before where it was
    another. `tensor` names the input or output; it and both records are None where the whole step or pass is meant.
    `words` are what was said before and after of a step that is renamed, does something else, has more or fewer
    parameters, or has tensors that the other side lacks. `inside` is true for a step in a block that is itself missing
    or added.
    """

    aspect: Aspect
    kind: PassKind
    number: int
    step: str | None = None
    tensor: str | None = None
    before: TensorRecord | None = None
    after: TensorRecord | None = None
    was: str | None = None
    words: tuple[str, str] | None = None
    inside: bool = False


@dataclass(frozen=True)
class Difference:
    """All changes from one trace to another, in the order in which the steps ran; false where there are none.

    `after` is the trace that they lead to.
    """

    changes: tuple[Change, ...]
    after: Trace = field(repr=False, compare=False)

    def __repr__(self) -> str:
        first = f", first {self.first.aspect} at {self.first.step or self.first.kind!r}" if self.first else ""
        return f"Difference({count(self.changes, 'change', 'changes')}{first})"

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
    """Where two traces differ in steps, their order, shapes, axis words, masks or parameter counts; not in values.

    Passes are matched by kind and number, steps by what they do and where they stand (see `alignment`), so
    that a renamed module or one layer more is one change and not a change of all that follows. What a block makes is
    compared after what is inside it.

    Raises:
        UsageError: one of them is no trace.
    """
    for one in (before, after):
        if not isinstance(one, Trace):
            raise UsageError(f"a {type(one).__name__} cannot be compared. Give a Trace, as from xray.trace.")
    return Difference(tuple(find_changes(before, after)), after)


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
    kind, number = before.kind, before.number
    open_blocks: list[tuple[int, list[Change]]] = []
    moved: Step | None = None
    pairs = list(align_passes(before, after))
    weighed = hold_other_params(pairs)
    is_other = any(pair.before and pair.after and is_other_whole(pair.before, pair.after) for pair in pairs)
    for pair in pairs:
        step = pair.after or pair.before
        if step is None:
            continue
        while open_blocks and open_blocks[-1][0] >= step.depth:
            yield from open_blocks.pop()[1]
        if pair.before is None:
            yield Change("step added", kind, number, step.id, inside=pair.inside)
        elif pair.after is None:
            yield Change("step missing", kind, number, step.id, inside=pair.inside)
        else:
            moved = moved or (step if pair.moved else None)
            both_blocks = {pair.before.id} <= before.blocks and {pair.after.id} <= after.blocks
            yield from compare_names(
                kind, number, pair, pair.before, pair.after, says_op=not (is_other and both_blocks)
            )
            yield from compare_records(kind, number, pair.before, pair.after, "inputs")
            made = list(compare_records(kind, number, pair.before, pair.after, "outputs"))
            if differ_in_params(pair) and step.id not in weighed and not made:
                counts = f"{pair.before.params:,}", f"{pair.after.params:,}"
                made.append(Change("parameters", kind, number, step.id, was=other_id(pair.before, step), words=counts))
            open_blocks.append((step.depth, made))
    while open_blocks:
        yield from open_blocks.pop()[1]
    if moved is not None:
        yield Change("order", kind, number, moved.id)


def hold_other_params(pairs: Sequence[Pair]) -> set[str | None]:
    """The blocks, by their ids afterwards, inside which a step has other parameters, so that nobody asks the block."""
    now = {pair.before.id: pair.after.id for pair in pairs if pair.before and pair.after}
    differing = [pair for pair in pairs if differ_in_params(pair)]
    added = {pair.after.parent for pair in differing if pair.after}
    return added | {now.get(pair.before.parent or "") for pair in differing if pair.before}


def differ_in_params(pair: Pair) -> bool:
    """Whether a module has more or fewer parameters than before; one that only one side has, has them or not."""
    return (pair.before.params if pair.before else 0) != (pair.after.params if pair.after else 0)


def is_other_whole(before: Step, after: Step) -> bool:
    """Whether two whole models are of different classes; then the classes of their parts are others, too."""
    return before.parent is None and before.module != after.module


def compare_names(
    kind: PassKind, number: int, pair: Pair, before: Step, after: Step, *, says_op: bool
) -> Iterator[Change]:
    """Whether a step has another name, or does something else under the same one, where that is to be said."""
    if pair.renamed:
        yield Change("renamed", kind, number, after.id, was=before.id, words=(before.path, after.path))
    if says_op and before.op != after.op:
        yield Change("operation", kind, number, after.id, was=other_id(before, after), words=(before.op, after.op))


def compare_records(
    kind: PassKind, number: int, before: Step, after: Step, side: Literal["inputs", "outputs"]
) -> Iterator[Change]:
    """What differs in the inputs, or in the outputs, of one step."""
    was = other_id(before, after)
    old = {record.name: record for record in getattr(before, side)}
    new = {record.name: record for record in getattr(after, side)}
    if set(old) != set(new):
        words = list_names([name for name in old if name not in new]), list_names([n for n in new if n not in old])
        yield Change("tensors", kind, number, after.id, was=was, words=words)
    for one, other in ((record, new[name]) for name, record in old.items() if name in new):
        aspects: tuple[tuple[Aspect, object, object], ...] = (
            ("shape", one.shape, other.shape),
            ("axes", one.axes, other.axes),
            ("mask", one.mask, other.mask),
            ("part", one.local or one.shape, other.local or other.shape),  # of a tensor that several ranks hold
        )
        changed = next((aspect for aspect, left, right in aspects if left != right), None)
        if changed is not None:
            yield Change(changed, kind, number, after.id, one.name, one, other, was)


def list_names(names: Sequence[str]) -> str:
    """The first few names of tensors that only one side has; "none" where it has none that the other lacks."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more if names else "none"


def other_id(before: Step, after: Step) -> str | None:
    """The id that a step had before, where it was another."""
    return before.id if before.id != after.id else None
