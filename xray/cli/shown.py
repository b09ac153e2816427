"""Showing a trace: files by suffix, the poster on stdout when it is no terminal, tables for the reader."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from xray.cli.options.given import NO_PDF, NO_PICTURE, PICTURE_OPTIONS, refuse
from xray.cli.output import check_writable, say, write_file, write_stdout
from xray.cli.screen.pager import show_long
from xray.cli.screen.terminal import at_terminal, choose_theme, colour_depth, is_ascii_only, terminal_width
from xray.errors import UsageError
from xray.text import show_controls

if TYPE_CHECKING:
    from xray.ir.trace import Trace
    from xray.renderers.render import BlockOptions, Form
    from xray.renderers.sheet.drawing import DrawnForm
    from xray.renderers.sheet.paper import Paper
    from xray.renderers.themes import Theme
    from xray.story.facts.selection import Pick

SUFFIXES: "dict[str, Form]" = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".dot": "dot",
    ".gv": "dot",
    ".json": "json",
    ".txt": "table",
    ".md": "markdown",
    ".csv": "csv",
    ".mmd": "mermaid",
}
TABLES = ("table", "markdown", "csv")
MOST_ALARMS = 5

PICTURES = ("svg", "png", "pdf", "dot", "html", "mermaid")


def choose_forms(files: list[Path]) -> "list[tuple[Path, Form]]":
    """Each file with the form that its suffix asks for, all checked before anything runs.

    Raises:
        UsageError: a suffix is unknown.
        OutputError: a file cannot be written.
    """
    chosen = []
    for path in files:
        form = SUFFIXES.get(path.suffix.lower())
        if form is None:
            raise UsageError(f"cannot tell the format of {show_controls(str(path))}. End it in {', '.join(SUFFIXES)}.")
        check_writable(path)
        chosen.append((path, form))
    return chosen


def choose_pictures(files: list[Path], what: str) -> "list[tuple[Path, DrawnForm]]":
    """Each file with the kind of picture that its suffix asks for, all checked before anything runs.

    Raises:
        UsageError: a suffix is that of no picture of what is to be drawn.
        OutputError: a file cannot be written.
    """
    pictures: list[tuple[Path, DrawnForm]] = []
    for path, form in choose_forms(files):
        if form not in ("svg", "png", "pdf", "dot"):
            raise UsageError(
                f"{what} is drawn as a picture, not as {show_controls(path.suffix)}. End "
                f"{show_controls(str(path))} in .svg, .png, .pdf or .dot."
            )
        pictures.append((path, form))
    return pictures


def refuse_unshown(context: typer.Context, files: "list[tuple[Path, Form]]", *, quiet: bool) -> None:
    """Make sure that no option was given for a picture or a table that nobody will see.

    Raises:
        UsageError: one was.
    """
    forms = {form for _, form in files} if files or at_terminal() else {"svg"}
    if not forms & {*PICTURES}:
        refuse(context, PICTURE_OPTIONS, NO_PICTURE)
    if "pdf" not in forms:
        refuse(context, ("tile",), NO_PDF)
    if quiet and not forms & {*TABLES}:
        refuse(
            context, ("only", "shape"), "it chooses what the tables show, and -q leaves them out. Choose one of them."
        )


def check_picture(files: "list[tuple[Path, Form]]", paper: "Paper | None", dpi: int) -> None:
    """Make sure, before anything runs, that the pictures asked for can be painted.

    Raises:
        UsageError: a PNG would have too many dots.
        DrawError: Graphviz cannot be loaded.
    """
    from xray.renderers.engine import load_graphviz
    from xray.renderers.sheet.image import ImageForm
    from xray.renderers.sheet.paper import check_dots

    if any(form in get_args(ImageForm) for _, form in files):
        load_graphviz()
    if any(form == "png" for _, form in files):
        check_dots(paper, dpi)


def choose_steps(only: list[str] | None, shape: list[str] | None) -> "Pick":
    """The steps that the tables are to show, the shapes read before anything runs.

    Raises:
        UsageError: a shape is not understood.
    """
    from xray.story.facts.selection import Pick, read_shape

    for text in shape or ():
        read_shape(text)
    return Pick(tuple(only or ()), tuple(shape or ()))


def show_trace(
    context: typer.Context,
    trace: "Trace",
    files: "list[tuple[Path, Form]]",
    *,
    theme: "Theme",
    paper: "Paper | None" = None,
    dpi: int = 150,
    all_layers: bool = False,
    quiet: bool = False,
    page: "Trace | None" = None,
    blocks: "BlockOptions | None" = None,
    pick: "Pick | None" = None,
    tile: "Paper | None" = None,
) -> None:
    """Write the files that were asked for; without any, the poster goes to stdout unless that is a terminal.

    The tables go to the terminal: to stdout if it is one, else to stderr. A page is made from the trace `page`, which
    has more values, where there is one. `blocks` chooses the drawing by blocks. What is wrong with the recorded numbers
    and masks is said on stderr. The tables hold what `pick` chooses; they come last, after every picture. A PDF is cut
    into sheets of the paper `tile`.

    Raises:
        TraceError: there are tables to show, and `pick` chooses nothing for them.
    """
    from xray.cli.screen.painting import warn_of_letters
    from xray.renderers.render import BlockOptions, render
    from xray.story.facts.selection import check_pick

    options = blocks or BlockOptions()
    warn_of_alarms(page or trace)
    warn_of_letters(trace, files)
    failure = None
    for path, form in sorted(files, key=lambda file: file[1] in TABLES):
        shown = page if form == "html" and page is not None else trace
        drawn: str | bytes
        try:
            if form in TABLES and pick:
                check_pick(trace, pick)
                drawn = write_picked(trace, form, pick, all_layers=all_layers)
            else:
                drawn = render(shown, form, theme=theme, dpi=dpi, paper=paper, all_layers=all_layers, **options)
            sheets = ""
            if form == "pdf" and tile is not None and isinstance(drawn, bytes):
                drawn, sheets = cut_to_print(drawn, tile)
            write_file(path, drawn)
        except Exception as error:  # the other files are made all the same
            failure = failure or error
            if len(files) > 1:
                say(f"could not write {show_controls(str(path))}")
        else:
            say(f"wrote {show_controls(str(path))}{sheets}")
    if failure is not None:
        raise failure
    if not files and not at_terminal():
        write_stdout(render(trace, "svg", theme=theme, paper=paper, all_layers=all_layers, **options))
    if quiet:
        return
    from xray.renderers.table.table import draw_tables

    if pick:
        check_pick(trace, pick)
    stream = sys.stdout if at_terminal() and not files else sys.stderr
    table = draw_tables(
        trace,
        width=terminal_width(),
        colour=colour_depth(stream),
        all_layers=all_layers,
        theme=choose_theme(context, theme, stream),
        ascii_only=is_ascii_only(stream),
        pick=pick,
    )
    if stream is sys.stderr:
        say(table)
    else:
        show_long(table + "\n")
        command = show_controls(shlex.join(["xray", *context.obj]))
        say(f"For the picture: {command} -o poster.svg (or .png, .pdf), or send stdout to a file: {command} > out.svg")


def cut_to_print(pdf: bytes, tile: "Paper") -> tuple[bytes, str]:
    """A PDF on sheets of that paper, and how many they are, in words to stand behind its name."""
    from xray.renderers.sheet.several_papers import cut_in_sheets

    cut, count = cut_in_sheets(pdf, tile)
    return cut, f", {count} {'sheet' if count == 1 else 'sheets'} of {tile.upper()}"


def write_picked(trace: "Trace", form: "Form", pick: "Pick", *, all_layers: bool) -> str:
    """The tables of the steps that a pick chooses, as a text of one of their forms."""
    if form == "csv":
        from xray.renderers.table.spreadsheet import write_csv

        return write_csv(trace, pick)
    if form == "markdown":
        from xray.renderers.table.markdown import write_markdown

        return write_markdown(trace, all_layers=all_layers, pick=pick)
    from xray.renderers.table.table import draw_tables

    return draw_tables(trace, all_layers=all_layers, pick=pick)


def warn_of_alarms(trace: "Trace") -> None:
    """A line on stderr for each alarm of a trace, the first few."""
    from xray.story.alarms.whole import find_alarms

    alarms = find_alarms(trace)
    for alarm in alarms[:MOST_ALARMS]:
        where = f" ({show_controls(alarm.location)})" if alarm.location else ""
        say(f"xray: warning: {show_controls(alarm.text)}{where}")
    if len(alarms) > MOST_ALARMS:
        say(f"xray: warning: and {len(alarms) - MOST_ALARMS:,} more of this kind")
