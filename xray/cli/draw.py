"""`xray draw`: show a trace that was recorded before, without torch."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def draw(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A trace, as written by xray trace -o trace.json.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="A file to write: .svg .png .pdf .html .json, tables as .txt .md .csv, graphs as .dot .mmd; may be "
            "given several times.",
        ),
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark",
    paper: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(help="The paper of a picture.", show_default="a2 for the poster"),
    ] = None,
    tile: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(help="Cut a PDF into sheets of this paper, to be glued together.", show_default=False),
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.")] = 150,
    layers: Annotated[
        Literal["folded", "all"], typer.Option(help="Show equal layers once, or each of them.")
    ] = "folded",
    depth: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Draw by blocks, so many levels of them opened; a transformer too, instead of its poster. "
            "Without it what holds most weights is opened first, as far as stays readable.",
            show_default=False,
        ),
    ] = None,
    opened: Annotated[
        list[str] | None,
        typer.Option(
            "--open",
            help="Draw by blocks and open what has this path, a block or a step, with all around it, as in "
            '"decoder.layers.*"; norms, rotary turns and masks are one box until named. May be given several times.',
            show_default=False,
        ),
    ] = None,
    closed: Annotated[
        list[str] | None,
        typer.Option(
            "--close",
            help='Draw by blocks and keep those of these paths closed, as in "encoder"; may be given several times.',
            show_default=False,
        ),
    ] = None,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Draw a transformer by blocks too, instead of its poster.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help='Only the steps at these paths in the tables, as in "decoder.*"; may be given several times.'
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help='Only the steps with a tensor of this shape, as in "*x4x*x8", where * is one axis of any size.'
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No tables, only the files.")] = False,
) -> None:
    """Draw a recorded trace: the poster and the tables, on any machine, no torch needed."""
    from xray.cli.screen.painting import pick_theme
    from xray.cli.shown import check_picture, choose_forms, choose_steps, refuse_unshown, show_trace
    from xray.ir.files import read_trace_file
    from xray.renderers.render import BlockOptions

    files = choose_forms(output or [])
    refuse_unshown(context, files, quiet=quiet)
    check_picture(files, paper, dpi)
    paint, pick = pick_theme(theme), choose_steps(only, shape)
    recorded = read_trace_file(file)
    asked = BlockOptions(depth=depth, open=opened or (), close=closed or (), blocks=blocks)
    unfolded = layers == "all"
    show_trace(
        context,
        recorded,
        files,
        theme=paint,
        paper=paper,
        dpi=dpi,
        all_layers=unfolded,
        quiet=quiet,
        blocks=asked,
        pick=pick,
        tile=tile,
    )
