"""`xray diff`: what changed from one recorded trace to another."""

from pathlib import Path
from typing import Annotated

import typer


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
    from xray.story.telling_changes import tell_difference

    found = compare(read_trace_file(before), read_trace_file(after))
    write_stdout("\n".join(tell_difference(found, limit)) + "\n")
    if found:
        raise typer.Exit(1)
