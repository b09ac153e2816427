"""The theme that a command paints with: one that comes with X-Ray, or a file of the user's own."""

from pathlib import Path
from typing import TYPE_CHECKING

from xray.text import reason_of, show_controls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xray.ir.trace import Trace
    from xray.renderers.themes import Theme

PAINTED, MOST_LETTERS = ("png", "pdf"), 5
"""The formats that show letters by the fonts of this machine, and how many that no font has are named."""

LARGEST = 1_000_000
"""More bytes than any theme has; whoever names a poster or a trace by mistake is told so at once."""


def pick_theme(name: str) -> "Theme":
    """The theme of that name, or of that file (.toml); one that is hard to read gets a line of warning.

    Raises:
        ThemeError: there is no such theme, or the file is not one.
    """
    from xray.renderers.themes import load_theme

    if not is_file_name(name):
        return load_theme(name)
    theme = read_theme(Path(name))
    warn_of_weaknesses(theme, name)
    return theme


def is_file_name(name: str) -> bool:
    """Whether a theme is named by its file."""
    return name.lower().endswith(".toml") or "/" in name or "\\" in name


def read_theme(path: Path) -> "Theme":
    """The theme in a file.

    Raises:
        ThemeError: the file cannot be read, or is no theme.
    """
    return parse_own_theme(read_theme_text(path), path)


def read_theme_text(path: Path) -> str:
    """The text of a theme file.

    Raises:
        ThemeError: the file cannot be read, or is no text.
    """
    from xray.errors import ThemeError
    from xray.ir.files import read_at_most

    where = show_controls(str(path))
    try:
        data = read_at_most(path, LARGEST)
    except (OSError, ValueError) as error:
        raise ThemeError(f"cannot read {where}: {reason_of(error)}. To make it: xray theme dark -o {where}") from None
    if data is None:
        raise ThemeError(f"{where} is too large for a theme, more than {LARGEST:,} bytes. Name a theme file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ThemeError(f"{where} is not text in UTF-8. Start from a copy: xray theme dark -o {where}") from None


def parse_own_theme(text: str, path: Path) -> "Theme":
    """The theme in the text of a file, set in fonts that X-Ray can measure.

    Raises:
        ThemeError: the text is no theme, or names another font.
    """
    from xray.errors import ThemeError
    from xray.renderers.fonts import FAMILIES
    from xray.renderers.themes import parse_theme

    where = show_controls(str(path))
    theme = parse_theme(text, where)
    for key, font in (("font", theme.font), ("title_font", theme.title_font)):
        if font not in FAMILIES.values():
            known = ", ".join(dict.fromkeys(FAMILIES.values()))
            raise ThemeError(
                f"{where}: {key}={font!r} is no font that X-Ray brings along and can measure. Choose among {known}."
            )
    return theme


def warn_of_weaknesses(theme: "Theme", name: str) -> None:
    """One line on stderr if a theme is hard to read, with its worst pair of colours."""
    from xray.cli.output import say
    from xray.renderers.contrasts import find_weaknesses

    found = find_weaknesses(theme)
    if found:
        more = f" ({len(found) - 1} more: xray theme --check {show_controls(name)})" if len(found) > 1 else ""
        say(f"xray: warning: the theme {show_controls(name)} is hard to read: {found[0].told}.{more}")


def warn_of_letters(trace: "Trace", files: "Iterable[tuple[Path, str]]") -> None:
    """One line on stderr if words of the trace cannot be painted here, with the first picture that they are in."""
    from xray.cli.output import say

    picture = next((path for path, form in files if form in PAINTED), None)
    if picture is None:
        return
    from xray.renderers.fonts import find_missing

    words = (word for one in trace.passes for rows in one.tokens.values() for row in rows for word in row)
    asked = (str(trace.config.get(name, "")) for name in ("question", "answer", "prompt"))
    missing = find_missing((trace.title, *words, *asked, *(step.path for step in trace.steps)))
    if missing:
        shown = ", ".join(map(show_controls, missing[:MOST_LETTERS]))
        more = f" and {len(missing) - MOST_LETTERS:,} more" if len(missing) > MOST_LETTERS else ""
        say(
            f"xray: warning: no font on this machine has {shown}{more}: boxes stand for them in "
            f"{show_controls(str(picture))}. Install one that has, as Noto Sans CJK or Noto Emoji, or write an .svg."
        )
