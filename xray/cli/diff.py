"""`xray diff`: what changed from one recorded trace to another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from xray.ir.records import TensorRecord
    from xray.story.difference import Change


def diff(
    before: Annotated[Path, typer.Argument(help="The trace to compare with.")],
    after: Annotated[Path, typer.Argument(help="The trace that may have changed.")],
    limit: Annotated[int, typer.Option(min=1, help="The most changes to list.")] = 40,
) -> None:
    """Compare two traces: steps, their order, shapes, axis words and masks.

    The exit code is 0 without a difference and 1 with one, as diff does.
    """
    from xray.cli.output import write_stdout
    from xray.ir.files import read_trace_file
    from xray.story.difference import diff as compare

    found = compare(read_trace_file(before), read_trace_file(after))
    if not found:
        write_stdout("no difference\n")
        return
    lines = [describe_change(change) for change in found.changes[:limit]]
    total = len(found.changes)
    lines.insert(0, f"{total:,} {'difference' if total == 1 else 'differences'}, the first one first:")
    if total > limit:
        lines.append(f"... and {total - limit:,} more: xray diff --limit {total}")
    write_stdout("\n".join(lines) + "\n")
    raise typer.Exit(1)


def describe_change(change: "Change") -> str:
    from xray.text import show_controls

    where = change.kind if change.number == 0 else f"{change.kind} {change.number}"
    line = f"  {where}: {change.aspect}"
    if change.step is not None:
        line += f" at {change.step}"
    if change.before is not None and change.after is not None:
        line += f", {change.tensor}: {describe(change.before, change)} -> {describe(change.after, change)}"
    return show_controls(line)


def describe(record: "TensorRecord", change: "Change") -> str:
    if change.aspect == "axes":
        return " x ".join(axis or "?" for axis in record.axes)
    if change.aspect == "mask":
        return "no mask" if record.mask is None else f"{record.mask.kind}, {record.mask.hidden_share:.1%} hidden"
    return "x".join(str(size) for size in record.shape) or "one number"
