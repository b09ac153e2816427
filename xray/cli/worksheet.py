"""`xray worksheet`: the poster with shapes left out, to be handed out, and its answers as a second file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from xray.renderers.sheet.drawing import DrawnForm

DEFAULT_SHEET = Path("worksheet.pdf")
FORMS: "dict[str, DrawnForm]" = {".pdf": "pdf", ".svg": "svg", ".png": "png"}
CHATBOT, PICTURE = "The chatbot", "The picture"


def worksheet(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A model by its name, as in my_gpt.py:build, or a trace.json, instead of the chatbot.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The sheet to write: .pdf, .svg or .png.")
    ] = DEFAULT_SHEET,
    answers: Annotated[
        Path | None,
        typer.Option(help="The file for the answers.", show_default="beside the sheet, sheet-answers.pdf"),
    ] = None,
    stations: Annotated[
        str | None, typer.Option(help="Which stations to ask about, as in 2,5 or 5-7.", show_default="all of 1 to 9")
    ] = None,
    share: Annotated[float, typer.Option(help="What share of their shapes is left out, up to 1.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Which ones: the same number leaves out the same shapes.")] = 0,
    hints: Annotated[
        bool, typer.Option("--hints", help="Keep the axis words, such as batch×heads, in the blanks.")
    ] = False,
    ask: Annotated[
        str | None,
        typer.Option(help="The question to answer at inference.", show_default=False, rich_help_panel=CHATBOT),
    ] = None,
    phase: Annotated[
        Literal["training", "inference", "both"],
        typer.Option(help="Which journey to ask about.", rich_help_panel=CHATBOT),
    ] = "both",
    run: Annotated[
        Path | None,
        typer.Option(help="The folder of a trained chatbot.", show_default="runs/movie_qa", rich_help_panel=CHATBOT),
    ] = None,
    max_turns: Annotated[
        int, typer.Option(min=1, max=512, help="The most words an answer may have.", rich_help_panel=CHATBOT)
    ] = 20,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.", rich_help_panel=CHATBOT)
    ] = "auto",
    theme: Annotated[
        str, typer.Option(help="light (for print), dark, or a theme file of your own.", rich_help_panel=PICTURE)
    ] = "light",
    paper: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"], typer.Option(help="The paper.", rich_help_panel=PICTURE)
    ] = "a2",
    tile: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(
            help="Cut a PDF into sheets of this paper, to be glued together.",
            show_default=False,
            rich_help_panel=PICTURE,
        ),
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.", rich_help_panel=PICTURE)] = 150,
) -> None:
    """Make a worksheet: the poster with some of its shapes blank and numbered, and the answers in a second file.

    Ledgers, formulas and tooltips do not give the blanks away. The same seed makes the same sheet.
    """
    from xray.cli.options.given import NO_PDF, refuse
    from xray.cli.options.requests import read_or_record
    from xray.cli.output import check_writable, say, write_file
    from xray.cli.screen.painting import pick_theme, warn_of_letters
    from xray.cli.shown import cut_to_print
    from xray.errors import UsageError
    from xray.renderers.sheet.paper import check_dots
    from xray.renderers.sheet.worksheet import draw_worksheet, make_worksheet
    from xray.story.walk.worksheet import Choice
    from xray.text import show_controls

    form = choose_form(output)
    key = answers or output.with_name(f"{output.stem}-answers{output.suffix}")
    if choose_form(key) != form:
        raise UsageError(f"sheet and answers have one format. End {show_controls(str(key))} in {output.suffix}.")
    for path in (output, key):
        check_writable(path)
    if key.resolve() == output.resolve():
        raise UsageError(
            f"sheet and answers would both be {show_controls(str(key))}. Name another file with --answers."
        )
    if form == "png":
        check_dots(paper, dpi)
    if form != "pdf":
        refuse(context, ("tile",), NO_PDF)
    choice = Choice(read_stations(stations) if stations is not None else (), share, seed)
    paint = pick_theme(theme)
    if source is not None:
        refuse(context, ("phase",), "a trace file holds what it holds. Leave this out, or the file.")
    recorded = read_or_record(context, source, run, ask, phase, max_turns, device)
    warn_of_letters(recorded, [(output, form)])
    made = make_worksheet(recorded, choice, hints=hints)
    drawn = draw_worksheet(made, form, theme=paint, dpi=dpi, paper=paper)
    for path, content, what in ((output, drawn[0], f"{made.count} shapes to fill in"), (key, drawn[1], "the answers")):
        sheets = ""
        if tile is not None and isinstance(content, bytes):
            content, sheets = cut_to_print(content, tile)
        write_file(path, content)
        say(f"wrote {show_controls(str(path))}{sheets}, {what}")


def choose_form(path: Path) -> "DrawnForm":
    """The format that a file's suffix asks for.

    Raises:
        UsageError: the suffix is unknown.
    """
    from xray.errors import UsageError
    from xray.text import show_controls

    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"cannot tell the format of {show_controls(str(path))}. End it in {', '.join(FORMS)}.")
    return form


def read_stations(text: str) -> tuple[int, ...]:
    """The numbers in "2,5" or "1-3,6".

    Raises:
        UsageError: it is no such list.
    """
    from xray.errors import UsageError
    from xray.text import show_controls

    found: list[int] = []
    for piece in text.replace(" ", "").split(","):
        first, dash, last = piece.partition("-")
        is_range = first.isdecimal() and (last.isdecimal() or not dash) and len(piece) < 6
        if not is_range or int(last or first) < int(first):
            raise UsageError(
                f"--stations {show_controls(text)} is no list of stations. Write numbers, as in 2,5 or 5-7."
            )
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
