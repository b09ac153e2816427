"""`xray draw`: show a trace that was recorded before, without torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def draw(
    file: Annotated[Path, typer.Argument(help="A trace, as written by xray trace -o trace.json.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", "--output", help="A file to write: .svg .png .pdf .html .dot .json .txt; may be given several times."
        ),
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark",
    paper: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(help="The paper of a picture.", show_default="a2 for the poster"),
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.")] = 150,
    layers: Annotated[
        Literal["folded", "all"], typer.Option(help="Show equal layers once, or each of them.")
    ] = "folded",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No tables, only the files.")] = False,
) -> None:
    """Draw a recorded trace: the poster and the tables, on any machine, no torch needed."""
    from xray.cli.painting import pick_theme
    from xray.cli.shown import check_picture, choose_forms, show_trace
    from xray.ir.files import read_trace_file

    files = choose_forms(output or [])
    check_picture(files, paper, dpi)
    paint = pick_theme(theme)
    recorded = read_trace_file(file)
    show_trace(recorded, files, theme=paint, paper=paper, dpi=dpi, all_layers=layers == "all", quiet=quiet)
