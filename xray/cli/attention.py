"""`xray attention`: who looks at whom while a question is answered, in the terminal or as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from xray.ir.trace import Trace
    from xray.story.weights import Kind, Picture


def attention(
    context: typer.Context,
    question: Annotated[str | None, typer.Argument(help="What to ask.", show_default=False)] = None,
    kind: Annotated[
        Literal["encoder", "decoder", "cross"], typer.Option(help="Which of the three attentions.")
    ] = "cross",
    layer: Annotated[int | None, typer.Option(min=1, help="Which layer, from 1.", show_default="all, the last")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="Which head, from 1.", show_default="all, the first")] = None,
    turn: Annotated[int | None, typer.Option(min=1, help="Which turn.", show_default="the last")] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="A picture: .svg .png .pdf .dot; may be given several times."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of a trained chatbot.", show_default="runs/movie_qa")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="A trace.json, or a model by its name, instead of a chatbot.", show_default=False),
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light, or a theme file of your own (.toml).")] = "dark",
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.")] = 150,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.")] = "auto",
) -> None:
    """Show attention weights: a row for each word that asks, a column for each word that is asked.

    The terminal shows one head with its numbers, and how widely each head looks; a picture shows all layers and heads,
    or those that were asked for.
    """
    from xray.cli.given import refuse
    from xray.cli.output import say, write_file, write_stdout
    from xray.cli.painting import pick_theme, warn_of_letters
    from xray.cli.requests import read_or_record
    from xray.cli.shown import check_picture, choose_pictures
    from xray.cli.terminal import stdout_screen
    from xray.renderers.attention import draw_attention, print_attention
    from xray.text import show_controls

    files = choose_pictures(output or [], "attention")
    if kind == "encoder":
        refuse(context, ("turn",), "the encoder reads the question once, before the first turn. Leave it out.")
    check_picture([*files], None, dpi)
    paint = pick_theme(theme)
    recorded = read_or_record(context, trace, run, question, "inference", 20, device)
    pictures = choose(recorded, kind, layer, head, turn)
    said = f"“{recorded.config.get('question', '')}” → “{recorded.config.get('answer', '')}”"
    warn_of_letters(recorded, files)
    for path, form in files:
        write_file(path, draw_attention(pictures, form, show_controls(said), paint, dpi))
        say(f"wrote {show_controls(str(path))}")
    if not files:
        shown = pictures[0] if layer is not None else next(one for one in pictures if one.layer == pictures[-1].layer)
        write_stdout(print_attention(pictures, shown, stdout_screen(context, paint)) + "\n")


def choose(trace: "Trace", kind: "Kind", layer: int | None, head: int | None, turn: int | None) -> "list[Picture]":
    """The pictures that were asked for, of the first sequence.

    Raises:
        UsageError: there is no such layer, head or turn, or the trace has no weights of this kind.
    """
    from xray.errors import UsageError
    from xray.story.weights import read_pictures

    passes = trace.passes_of("encode", "training") if kind == "encoder" else trace.passes_of("decode", "training")
    if kind != "encoder" and turn is not None:
        turns = trace.passes_of("decode")
        passes = tuple(one for one in turns if one.number == turn)
        if not passes:
            raise UsageError(f"there is no turn {turn}. The answer took {len(turns)} turns.")
    found = [one for one in read_pictures(trace, passes[-1], kind) if one.sequence == 0] if passes else []
    if not found:
        raise UsageError(f"there are no {kind} attention weights in this trace. Leave out --trace to record a chatbot.")
    for name, asked, known in (
        ("layer", layer, {one.layer for one in found}),
        ("head", head, {one.head for one in found}),
    ):
        if asked is not None and asked - 1 not in known:
            raise UsageError(f"there is no {name} {asked}. The model has {len(known)}.")
    return [one for one in found if layer in (None, one.layer + 1) and head in (None, one.head + 1)]
