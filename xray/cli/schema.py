"""`xray schema`: the form of `trace.json`, for programs that read or write it."""

from pathlib import Path
from typing import Annotated

import typer


def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file to write the schema to.", show_default=False)
    ] = None,
) -> None:
    """Show the form of trace.json, as a JSON Schema (draft 2020-12)."""
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.ir.json_form import trace_schema
    from xray.text import show_controls

    if output is None:
        write_stdout(trace_schema())
        return
    check_writable(output)
    write_file(output, trace_schema())
    say(f"wrote {show_controls(str(output))}")
