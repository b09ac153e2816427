"""`xray attention`: who looks at whom, in the chatbot or in any model, in the terminal or as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from xray.ir.trace import Pass, Trace
    from xray.story.weights.picture import Kind, Picture


def attention(
    context: typer.Context,
    about: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION|SOURCE]",
            help="What to ask the chatbot; or another model by its name, as in my_gpt.py:build, or a trace.json.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Which attention: a tower's, as encoder, decoder or text, or cross.",
            show_default="cross, else the last tower's",
        ),
    ] = None,
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
    theme: Annotated[str, typer.Option(help="dark, light, or a theme file of your own (.toml).")] = "dark",
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.")] = 150,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.")] = "auto",
) -> None:
    """Show attention weights: a row for each word that asks, a column for each word that is asked.

    The terminal shows one head with its numbers, and how widely each head looks; a picture shows all layers and heads,
    or those that were asked for.
    """
    from xray.cli.options.given import refuse
    from xray.cli.options.requests import names_source, read_or_record
    from xray.cli.output import say, write_file, write_stdout
    from xray.cli.screen.painting import pick_theme, warn_of_letters
    from xray.cli.screen.terminal import stdout_screen
    from xray.cli.shown import check_picture, choose_pictures
    from xray.renderers.attention import draw_attention, print_attention
    from xray.text import show_controls

    files = choose_pictures(output or [], "attention")
    check_picture([*files], None, dpi)
    paint = pick_theme(theme)
    source = Path(about) if about is not None and names_source(about) else None
    asked = about if source is None else None
    if source is None and kind == "encoder":
        refuse(context, ("turn",), "the encoder reads the question once, before the first turn. Leave it out.")
    recorded = read_or_record(context, source, run, asked, "inference", 20, device, values="attention")
    chosen = choose_kind(recorded, kind)
    pictures = choose(recorded, chosen, layer, head, turn)
    said = describe_run(recorded)
    warn_of_letters(recorded, files)
    for path, form in files:
        write_file(path, draw_attention(pictures, form, show_controls(said), paint, dpi))
        say(f"wrote {show_controls(str(path))}")
    if not files:
        shown = pictures[0] if layer is not None else next(one for one in pictures if one.layer == pictures[-1].layer)
        write_stdout(print_attention(pictures, shown, stdout_screen(context, paint)) + "\n")


def describe_run(trace: "Trace") -> str:
    """What the weights are of: a question with its answer, or the model."""
    if "question" not in trace.config:
        return trace.title
    return f"“{trace.config['question']}” → “{trace.config.get('answer', '')}”"


def choose_kind(trace: "Trace", name: str | None) -> "Kind":
    """The attention that was asked for; without a name cross-attention, else that of the last tower.

    Raises:
        UsageError: there is none of this name, or no attention at all.
    """
    from xray.errors import UsageError
    from xray.story.weights.found import list_kinds

    kinds = {kind.name: kind for kind in list_kinds(trace)}
    if not kinds:
        raise UsageError(
            "nothing in this trace shares out a row of weights, a column for each key, so it has no attention to show."
        )
    found = kinds.get("cross", list(kinds.values())[-1]) if name is None else kinds.get(name)
    if found is None:
        raise UsageError(f"there is no {name} attention in this trace. Choose --kind {' or '.join(kinds)}.")
    return found


def choose(trace: "Trace", kind: "Kind", layer: int | None, head: int | None, turn: int | None) -> "list[Picture]":
    """The pictures that were asked for, of the first sequence.

    Raises:
        UsageError: there is no such layer, head or turn, or no weights were kept.
    """
    from xray.errors import UsageError
    from xray.story.weights.found import list_attentions
    from xray.story.weights.reading import read_pictures

    passes = [one for one in trace.passes if any(it.kind == kind for it in list_attentions(trace, one))]
    if turn is not None:
        turns = [one for one in passes if one.kind == "decode"]
        if not turns:
            raise UsageError(
                f"--turn: {kind.name} attention runs before the first turn, or without turns. Leave it out."
            )
        passes = [one for one in turns if one.number == turn]
        if not passes:
            raise UsageError(f"there is no turn {turn}. The answer took {len(turns)} turns.")
    by_pass = ([one for one in read_pictures(trace, it, kind.name) if one.sequence == 0] for it in reversed(passes))
    found = next((pictures for pictures in by_pass if pictures), [])
    if not found:
        raise UsageError(describe_lack(passes))
    for name, asked, known in (
        ("layer", layer, {one.layer for one in found}),
        ("head", head, {one.head for one in found}),
    ):
        if asked is not None and asked - 1 not in known:
            raise UsageError(f"there is no {name} {asked}. The model has {len(known)}.")
    return [one for one in found if layer in (None, one.layer + 1) and head in (None, one.head + 1)]


def describe_lack(passes: "list[Pass]") -> str:
    """Why there are no weights to show, and what to do."""
    devices = {record.device for one in passes for step in one.steps for record in step.outputs}
    if "meta" in devices:
        return (
            "the model was built without its weights, so there is no attention to look at. Write a function that loads "
            "them and returns the model with its inputs, and name it: xray attention my_model.py:build"
        )
    if any(record.preview is not None for one in passes for step in one.steps for record in step.outputs):
        return (
            "one kernel computes this attention and gives no weights. Let build return the model in training mode: "
            "model.train() takes another way."
        )
    return (
        "the trace holds shapes and no attention weights. Name the model itself: xray attention my_model.py:build, "
        "or leave the source out for the chatbot."
    )
