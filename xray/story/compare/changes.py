"""The changes between two traces in lines of words."""

import re
from collections.abc import Iterator, Sequence

from xray.ir.records import TensorRecord
from xray.ir.trace import PassKind
from xray.story.compare.difference import Change, Difference
from xray.text import show_controls

SAME = (
    "no difference in steps, shapes, masks and parameters "
    "(values, numbers that operations are given, and from where they read are not compared)"
)


def list_difference(difference: Difference, limit: int) -> tuple[str, ...]:
    """How many changes there are, and a line for each, the first one first; beyond `limit` they are only counted.

    What a block holds that is itself missing or added is counted with it, what only hands on a changed tensor is left
    out, and a change that is the same in several layers has one line.
    """
    groups = group_changes(list(leave_echoes(difference.changes)))
    total = sum(len(group) for group, _ in groups)
    if total == 0:
        return (SAME,)
    head = f"{total:,} {'difference' if total == 1 else 'differences'}, the first one first:"
    lines = [f"  {describe_group(group, held)}" for group, held in groups[:limit]]
    left = sum(len(group) for group, _ in groups[limit:])
    if left:
        lines.append(f"  ... and {left:,} more")
    return (head, *lines)


LASTING = ("shape", "axes", "mask", "part")
"""What stays with a tensor from where it is made to where it is read."""


def leave_echoes(changes: Sequence[Change]) -> Iterator[Change]:
    """The changes without those of a tensor that has been told as it was made: where it is read, or handed on."""
    told: set[tuple[PassKind, int, str, str]] = set()
    for change in changes:
        if change.after is not None and change.after.source is not None and change.aspect in LASTING:
            key = (change.kind, change.number, change.after.source, change.aspect)
            if key in told:
                continue
            told.add(key)
        yield change


def group_changes(changes: Sequence[Change]) -> list[tuple[list[Change], int]]:
    """The changes that are to stand on one line, with how many steps the first of them holds."""
    groups: dict[object, tuple[list[Change], list[int]]] = {}
    held: list[int] = [0]
    for change in changes:
        if change.inside:
            held[0] += 1
            continue
        held = [0]
        group = groups.setdefault(portray(change), ([], held))
        group[0].append(change)
    return [(group, counted[0]) for group, counted in groups.values()]


def portray(change: Change) -> object:
    """What is the same in all layers: the change itself, the numbers of layers left out of the paths."""
    words = tuple(map(leave_numbers, change.words)) if change.words else None
    records = [None if one is None else (one.shape, one.axes, one.mask) for one in (change.before, change.after)]
    step = leave_numbers(change.step or "")
    return change.aspect, change.kind, change.number, step, change.tensor, words, str(records)


def leave_numbers(path: str) -> str:
    """A path without the numbers of layers and calls."""
    return re.sub(r"(?<=\.)\d+(?=\.|#|$)|(?<=#)\d+$", "*", path)


def describe_group(group: Sequence[Change], held: int) -> str:
    """One line for changes that are the same but for their layer."""
    line = describe_change(group[0])
    if held:
        line += f", with {held:,} {'step' if held == 1 else 'steps'} inside"
    more = len(group) - 1
    return line + (f" (and {more:,} more like it)" if more else "")


def describe_change(change: Change) -> str:
    """Where it is, what changed, and from what to what."""
    where = change.kind if change.number == 0 else f"{change.kind} {change.number}"
    return show_controls(f"{where}: {''.join(list_parts(change))}")


def list_parts(change: Change) -> Iterator[str]:
    """What stands in the line of a change, behind its pass."""
    if change.aspect == "renamed" and change.words is not None:
        yield f"renamed, {change.words[0]} -> {change.words[1]}"
        return
    yield change.aspect
    if change.step is not None:
        yield f" at {change.step}"
    if change.was is not None:
        yield f" (was {change.was})"
    if change.words is not None:
        yield f": {change.words[0]} -> {change.words[1]}"
    if change.before is not None and change.after is not None:
        yield f", {change.tensor}: {describe_record(change.before, change)} -> {describe_record(change.after, change)}"


def describe_record(record: TensorRecord, change: Change) -> str:
    """The side of a record that changed."""
    if change.aspect == "axes":
        return " x ".join(axis or "?" for axis in record.axes)
    if change.aspect == "mask":
        return "no mask" if record.mask is None else f"{record.mask.kind}, {record.mask.hidden_share:.1%} hidden"
    sizes = (record.local or record.shape) if change.aspect == "part" else record.shape
    told = "x".join(map(str, sizes)) or "one number"
    return f"{told} {record.placement}" if change.aspect == "part" and record.placement else told
