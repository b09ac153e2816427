"""`xray draw`: show a trace that was recorded before, without torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def draw(
    file: Annotated[Path, typer.Argument(help="A trace, as written by xray trace -o trace.json.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", "--output", help="A file to write: .svg .png .pdf .dot .json .txt; may be given several times."
        ),
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark",
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG, on A2 paper.")] = 150,
    layers: Annotated[
        Literal["folded", "all"], typer.Option(help="Show equal layers once, or each of them.")
    ] = "folded",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No tables, only the files.")] = False,
) -> None:
    """Draw a recorded trace: the poster and the tables, on any machine, no torch needed."""
    from xray.cli.shown import choose_forms, show_trace
    from xray.ir.files import read_trace_file

    files = choose_forms(output or [])
    show_trace(read_trace_file(file), files, theme=theme, dpi=dpi, all_layers=layers == "all", quiet=quiet)
