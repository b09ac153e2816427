"""`xray diff`: what changed from one recorded trace to another."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xray.ir.trace import Setting


def diff(
    context: typer.Context,
    before: Annotated[Path, typer.Argument(help="The trace to compare with, or a model, as hf:owner/model.")],
    after: Annotated[Path, typer.Argument(help="The trace that may have changed, or a model by its name.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="A picture of the second trace to write, what changed outlined: .svg .png .pdf .dot; may be given "
            "several times.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most changes to list.")] = 40,
    theme: Annotated[str, typer.Option(help="dark, light (for print), or a theme file of your own (.toml).")] = "dark",
    paper: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(help="The paper of a picture.", show_default="a2 for the poster"),
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.")] = 150,
    layers: Annotated[
        Literal["folded", "all"], typer.Option(help="Show equal layers once, or each of them.")
    ] = "folded",
) -> None:
    """Compare two traces: settings, then steps, their order and names, shapes, axis words, masks, parameter counts.

    Steps are matched by what they do and where they stand, so a renamed module or one layer more is one difference.
    The exit code is 0 without a difference, 1 with one, and 2 where that cannot be told, as diff does; a picture does
    not change it.
    """
    from xray.cli.options.given import NO_PICTURE, refuse
    from xray.cli.options.requests import read_or_run
    from xray.cli.output import say, write_file
    from xray.cli.screen.pager import show_long
    from xray.cli.screen.painting import pick_theme, warn_of_letters
    from xray.cli.shown import check_picture, choose_pictures
    from xray.renderers.sheet.poster import draw_poster
    from xray.story.compare.changes import list_difference
    from xray.story.compare.difference import diff as compare
    from xray.story.compare.marks import mark_changes
    from xray.story.compare.setting_changes import compare_settings, list_settings
    from xray.text import show_controls

    pictures = choose_pictures(output or [], "a difference")
    if not pictures:
        refuse(context, ("theme", "paper", "dpi", "layers"), NO_PICTURE)
    check_picture([*pictures], paper, dpi)
    paint = pick_theme(theme)
    built = [read_settings(one) for one in (before, after)]  # at once, whether there are such models
    old, new = read_or_run(before), read_or_run(after)
    found, settings = compare(old, new), compare_settings(old, new, *built)
    show_long("\n".join((*list_settings(settings), *list_difference(found, limit))) + "\n")
    marks = mark_changes(found, new)
    warn_of_letters(new, pictures)
    for path, form in pictures:
        whole = layers == "all"
        write_file(path, draw_poster(new, form, theme=paint, dpi=dpi, paper=paper, all_layers=whole, marks=marks))
        say(f"wrote {show_controls(str(path))}")
    if found or settings:
        raise typer.Exit(1)


def read_settings(source: Path) -> "Mapping[str, Setting] | None":
    """The settings of a model by its name; None for a trace."""
    from xray.cli.keeping_stdout import keep_stdout
    from xray.sources.spelling import names_model

    if not names_model(str(source)):
        return None
    from xray.sources.loading import read_source_settings

    with keep_stdout():
        return read_source_settings(str(source))
