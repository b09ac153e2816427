"""`xray page`: the interactive page of a chatbot, or of a trace that was recorded before."""

from pathlib import Path
from typing import Annotated, Literal

import typer

DEFAULT_PAGE = Path("page.html")


def page(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="A trace.json as xray trace writes it, or a model by its name.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write.", show_default=str(DEFAULT_PAGE))
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    ask: Annotated[str | None, typer.Option(help="The question to answer at inference.", show_default=False)] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of a trained chatbot.", show_default="runs/movie_qa")
    ] = None,
    phase: Annotated[Literal["training", "inference", "both"], typer.Option(help="Which journey to record.")] = "both",
    max_turns: Annotated[int, typer.Option(min=1, max=512, help="The most words an answer may have.")] = 20,
    kv_cache: Annotated[bool, typer.Option("--kv-cache", help="Decode with a key-value cache.")] = False,
    theme: Annotated[str, typer.Option(help="dark, light, or a theme file of your own (.toml).")] = "dark",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.")] = "auto",
) -> None:
    """Make one HTML file to walk through and to touch: every step, tensor, mask and attention weight of a run.

    It needs nothing from the network. With a trace file it is made from that, without torch; a trace carries fewer
    values than a chatbot that is recorded for the page.
    """
    import sys
    import webbrowser

    from xray.cli.options.given import refuse
    from xray.cli.options.requests import read_or_record
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.cli.screen.painting import pick_theme
    from xray.renderers.render import render
    from xray.text import show_controls

    paint = pick_theme(theme)
    to_stdout = output is None and not show and sys.stdout is not None and not sys.stdout.isatty()
    target = output or DEFAULT_PAGE
    if not to_stdout:
        check_writable(target)
    if file is not None:
        refuse(context, ("phase",), "a trace file holds what it holds. Leave this out, or the file.")
    trace = read_or_record(context, file, run, ask, phase, max_turns, device, kv_cache=kv_cache, values="page")
    html = render(trace, "html", theme=paint)
    if to_stdout:
        write_stdout(html)
        return
    write_file(target, html)
    say(f"wrote {show_controls(str(target))}")
    if show and not webbrowser.open(target.resolve().as_uri()):
        say("xray: no browser could be opened; open the file yourself.")
