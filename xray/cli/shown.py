"""Showing a trace: files by suffix, the poster on stdout when it is no terminal, tables for the reader."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from xray.cli.output import check_writable, say, write_file, write_stdout
from xray.errors import UsageError
from xray.text import show_controls

if TYPE_CHECKING:
    from xray.ir.trace import Trace
    from xray.renderers.render import Form

SUFFIXES: "dict[str, Form]" = {
    ".svg": "svg",
    ".png": "png",
    ".pdf": "pdf",
    ".dot": "dot",
    ".gv": "dot",
    ".json": "json",
    ".txt": "table",
}
PICTURE_HINT = (
    "For the poster: xray trace -o poster.svg (or .png, .pdf), or send stdout to a file: xray trace > out.svg"
)


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


def show_trace(
    trace: "Trace",
    files: "list[tuple[Path, Form]]",
    *,
    theme: str = "dark",
    dpi: int = 150,
    all_layers: bool = False,
    quiet: bool = False,
) -> None:
    """Write the files that were asked for; without any, the poster goes to stdout unless that is a terminal.

    The tables go to the terminal: to stdout if it is one, else to stderr.
    """
    from xray.renderers.render import render
    from xray.renderers.table import draw_tables
    from xray.renderers.themes import load_theme

    paint = load_theme(theme)
    at_terminal = sys.stdout is not None and sys.stdout.isatty()
    for path, form in files:
        write_file(path, render(trace, form, theme=paint, dpi=dpi, all_layers=all_layers))
        say(f"wrote {show_controls(str(path))}")
    if not files and not at_terminal:
        write_stdout(render(trace, "svg", theme=paint, all_layers=all_layers))
    if quiet:
        return
    stream = sys.stdout if at_terminal and not files else sys.stderr
    table = draw_tables(
        trace,
        width=terminal_width(),
        colour=colour_depth(stream),
        all_layers=all_layers,
        theme=paint,
        ascii_only=is_ascii_only(stream),
    )
    if stream is sys.stderr:
        say(table)
    else:
        write_stdout(table + "\n")
        say(PICTURE_HINT)


def terminal_width() -> int:
    """The columns of the terminal, 100 where there is none."""
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            continue
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) > 0 else 100


def colour_depth(stream: object) -> 'Literal["standard", "256", "truecolor"] | Literal[False]':
    """How many colours a stream shows: none unless it is a terminal that has not asked for none (see no-color.org)."""
    term = os.environ.get("TERM", "")
    is_terminal = bool(getattr(stream, "isatty", lambda: False)())
    if not is_terminal or os.environ.get("NO_COLOR") or term == "dumb":
        return False
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256color" in term else "standard"


def is_ascii_only(stream: object) -> bool:
    """Whether box characters and arrows would fail on this stream."""
    try:
        "×─█".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
