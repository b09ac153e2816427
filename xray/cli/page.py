"""`xray page`: the interactive page of a chatbot, of any model, or of a trace that was recorded before."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from xray.ir.trace import Trace

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
    ask: Annotated[
        str | None,
        typer.Option(
            help="The question to answer at inference, or the prompt of a model of the transformers library.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of a trained chatbot.", show_default="runs/movie_qa")
    ] = None,
    phase: Annotated[Literal["training", "inference", "both"], typer.Option(help="Which journey to record.")] = "both",
    max_turns: Annotated[
        int,
        typer.Option(
            min=1, max=512, help="The most words an answer may have.", show_default="20, or 4 of a model by its name"
        ),
    ] = 20,
    kv_cache: Annotated[bool, typer.Option("--kv-cache", help="Decode with a key-value cache.")] = False,
    twin: Annotated[
        list[str] | None,
        typer.Option(
            help="Record it once more with one thing changed, and hold both beside each other: kv-cache, "
            "no-cross-mask, no-causal-mask, no-scale, no-embedding-scale, no-positions, no-kv-cache, or the "
            "trace.json of another recording of the same model; may be given several times.",
            show_default=False,
        ),
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light, or a theme file of your own (.toml).")] = "dark",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.")] = "auto",
) -> None:
    """Make one HTML file to walk through and to touch: every step, tensor, mask and attention weight of a run.

    It needs nothing from the network. With a trace file it is made from that, without torch; a trace carries fewer
    values than a chatbot that is recorded for the page.
    """
    import sys
    import webbrowser

    from xray.cli.options.twins import read_twins, sort_twins
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.cli.screen.painting import pick_theme
    from xray.renderers.render import render
    from xray.text import show_controls

    paint = pick_theme(theme)
    to_stdout = output is None and not show and sys.stdout is not None and not sys.stdout.isatty()
    target = output or DEFAULT_PAGE
    if not to_stdout:
        check_writable(target)
    names, files = sort_twins(twin or [], file)
    if file is None:
        trace, twins = record_chatbot(names, run, ask, phase, max_turns, device, kv_cache=kv_cache)
    else:
        trace, twins = read_source(context, file, names, ask, max_turns)
    html = render(trace, "html", theme=paint, twins={**twins, **read_twins(files)})
    if to_stdout:
        write_stdout(html)
        return
    write_file(target, html)
    say(f"wrote {show_controls(str(target))}")
    if show and not webbrowser.open(target.resolve().as_uri()):
        say("xray: no browser could be opened; open the file yourself.")


def record_chatbot(
    names: "Sequence[str]",
    run: Path | None,
    ask: str | None,
    phase: Literal["training", "inference", "both"],
    max_turns: int,
    device: str,
    *,
    kv_cache: bool,
) -> "tuple[Trace, dict[str, Trace]]":
    """The chatbot's trace with the values of a page, and its twins by their names."""
    from xray.cli.output import say
    from xray.cli.recording import load_or_make
    from xray.text import show_controls

    chatbot = load_or_make(run, device)
    for note in (*chatbot.chatbot.notes, *chatbot.notes(ask)):
        say(f"xray: {show_controls(note)}")
    trace, *twins = (
        chatbot.trace(phase, ask, max_turns, kv_cache=kv_cache, values="page", twin=one) for one in (None, *names)
    )
    return trace, dict(zip(names, twins, strict=True))


def read_source(
    context: typer.Context, source: Path, names: "Sequence[str]", ask: str | None, max_turns: int
) -> "tuple[Trace, dict[str, Trace]]":
    """The trace in a file, or of the model of this name with its twins.

    Raises:
        UsageError: an option was given that a file, or this model, has no use for.
    """
    from xray.cli.options.given import is_given, refuse
    from xray.cli.options.requests import CHATBOT_ONLY, read_or_run
    from xray.cli.options.twins import is_trace
    from xray.cli.recording import record_twinned
    from xray.sources.request import TURNS, Asked, Request
    from xray.sources.spelling import names_settings

    refuse(context, ("phase",), "a trace file holds what it holds. Leave this out, or the file.")
    answers = ("ask", "max_turns")
    if not names_settings(str(source)):
        given = [name for name in CHATBOT_ONLY if name in context.params]
        refuse(context, given, "a trace file is already answered. Leave this out, or the file.")
    else:
        given = [name for name in CHATBOT_ONLY if name in context.params and name not in answers]
        refuse(context, given, "it is for the chatbot, and this is another model. Leave it out.")
    asked = None
    if any(is_given(context, name) for name in answers):
        asked = Asked(ask, max_turns if is_given(context, "max_turns") else TURNS)
    if (not names and asked is None) or is_trace(source):
        return read_or_run(source, values="page"), {}
    return record_twinned(str(source), Request(answer=asked), names)
