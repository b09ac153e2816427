"""A change between two traces in one line of words."""

from xray.ir.records import TensorRecord
from xray.story.difference import Change, Difference
from xray.text import show_controls


def tell_difference(difference: Difference, limit: int) -> tuple[str, ...]:
    """How many changes there are, and a line for each, the first one first; beyond `limit` they are only counted."""
    total = len(difference.changes)
    if total == 0:
        return ("no difference",)
    head = f"{total:,} {'difference' if total == 1 else 'differences'}, the first one first:"
    lines = [f"  {tell_change(change)}" for change in difference.changes[:limit]]
    if total > limit:
        lines.append(f"  ... and {total - limit:,} more")
    return (head, *lines)


def tell_change(change: Change) -> str:
    """Where it is, what changed, and from what to what."""
    where = change.kind if change.number == 0 else f"{change.kind} {change.number}"
    line = f"{where}: {change.aspect}"
    if change.step is not None:
        line += f" at {change.step}"
    if change.before is not None and change.after is not None:
        line += f", {change.tensor}: {tell_record(change.before, change)} -> {tell_record(change.after, change)}"
    return show_controls(line)


def tell_record(record: TensorRecord, change: Change) -> str:
    """The side of a record that changed."""
    if change.aspect == "axes":
        return " x ".join(axis or "?" for axis in record.axes)
    if change.aspect == "mask":
        return "no mask" if record.mask is None else f"{record.mask.kind}, {record.mask.hidden_share:.1%} hidden"
    return "x".join(str(size) for size in record.shape) or "one number"
