"""What the terminal is like: its width, its colours, its characters, and what suits its background."""

import os
import sys
from typing import TYPE_CHECKING, Literal

import typer

from xray.cli.options.given import is_given
from xray.cli.screen.background import has_light_background

if TYPE_CHECKING:
    from xray.renderers.table.walk import Screen
    from xray.renderers.themes import Theme

WIDEST, DIGITS = 1000, 9
"""No table is wider, whatever a terminal or COLUMNS says."""


def at_terminal() -> bool:
    """Whether stdout is one."""
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int:
    """The columns of the terminal, 100 where there is none."""
    for stream in (sys.stdout, sys.stderr):
        try:
            columns = os.get_terminal_size(stream.fileno()).columns
            if columns > 0:  # a terminal that nobody has measured says 0
                return min(columns, WIDEST)
        except (OSError, ValueError, AttributeError):
            continue
    told = os.environ.get("COLUMNS", "")
    known = told.isdecimal() and len(told) < DIGITS and int(told) > 0
    return min(int(told), WIDEST) if known else 100


def terminal_height() -> int:
    """The lines of the terminal, 24 where it does not say."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or 24
    except (OSError, ValueError, AttributeError):
        return 24


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


def choose_theme(context: typer.Context, theme: "Theme", stream: object) -> "Theme":
    """The theme to write on a terminal with: the one that was asked for, else one that suits its background."""
    from xray.renderers.themes import load_theme

    light = colour_depth(stream) and not is_given(context, "theme") and has_light_background()
    return load_theme("light") if light else theme


def stdout_screen(context: typer.Context, theme: "Theme") -> "Screen":
    """What stdout is like; where its background is not known to suit the theme, texts bring their own."""
    from xray.renderers.table.walk import Screen

    depth = colour_depth(sys.stdout)
    chosen = choose_theme(context, theme, sys.stdout)
    painted = bool(depth) and has_light_background() is not chosen.is_light
    return Screen(terminal_width(), depth, chosen, is_ascii_only(sys.stdout), painted=painted)
