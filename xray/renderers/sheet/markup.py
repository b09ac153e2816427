"""Text on its way into DOT: shown as it is, never read as markup, in the face, size and colour of its run."""

import unicodedata
from collections.abc import Sequence

from graphviz import nohtml
from graphviz.quoting import escape as protect

from xray.renderers.fonts import FAMILIES
from xray.renderers.themes import Theme
from xray.story.layout import SHIFTED, Line, Run
from xray.text import show_controls

LONGEST_RUN, LONGEST_TOOLTIP = 400, 3000
"""More characters of a text than this are not drawn: DOT's reader takes no label of more than 16,384 bytes."""

LEFT_TO_RIGHT = "&#8206;"
"""Set before text with right-to-left words in it: they are read in their own direction, but the line begins at the
left whatever its first word is, as the ids, arrows and masks beside it do."""


def write_run(run: Run, on: str, theme: Theme, zoom: int) -> str:
    """A run as an HTML-like label shows it: escaped, in its face, size and colour."""
    text = escape_html(run.text)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in run.text):
        text = LEFT_TO_RIGHT + text
    if run.weight == "bold":
        text = f"<B>{text}</B>"
    face = f' FACE="{FAMILIES[run.weight]}"' if run.weight in ("semibold", "black") else ""
    return f'<FONT POINT-SIZE="{point_size(run, zoom)}" COLOR="{ink(run.ink, on, theme)}"{face}>{text}</FONT>'


def ink(role: str, on: str, theme: Theme) -> str:
    """The colour of a run on a surface."""
    surface = theme.surfaces[on]
    kind, _, name_ = role.partition(":")
    if kind == "axis":
        return theme.axis_colour(name_, on)
    if kind == "accent":
        light = theme.surfaces[on].digits == "on_light" and on not in ("page", "card")
        return theme.accents_on_light[name_] if light else theme.accents[name_]
    return surface.quiet if role == "quiet" else surface.text


def point_size(run: Run, zoom: int) -> int:
    """The size of a run on the enlarged page."""
    return round(run.size * zoom * (SHIFTED if run.shift else 1))


def clean(text: str) -> str:
    """A tooltip as DOT text: controls spelt out, line breaks kept, backslashes and entities taken literally."""
    lines = [
        show_controls(line).replace("\\", "\\\\").replace("&", "&amp;")
        for line in cut(text, LONGEST_TOOLTIP).split("\n")
    ]
    shown: str = nohtml("\\n".join(lines))
    return shown


def identity(text: str) -> str:
    """The id of a node, an entity in it taken literally: it goes into the SVG as it is."""
    protected: str = protect(show_controls(text).replace("&", "&amp;"))
    return protected


def escape_html(text: str) -> str:
    """A text for an HTML-like label: shown as it is, never read as markup, an entity, or one of DOT's own escapes."""
    text = cut(show_controls(text), LONGEST_RUN)
    for character, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("\\", "&#92;&#92;"),
        ("[", "&#91;"),
        ("]", "&#93;"),
    ):
        text = text.replace(character, entity)
    return text


def cut(text: str, most: int) -> str:
    """The text, or as much of it as can be drawn, and an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def table(lines: Sequence[Line], on: str, theme: Theme, align: str = "CENTER", free: float = 0) -> str:
    """Lines of text as an HTML-like label, with so many free points to their right; nothing for none."""
    beside = f'<TD WIDTH="{round(free)}"></TD>' if free else ""
    rows = "".join(
        f'<TR><TD ALIGN="{align}">{"".join(write_run(run, on, theme, 1) for run in line)}</TD>{beside}</TR>'
        for line in lines
    )
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">{rows}</TABLE>>' if rows else ""
