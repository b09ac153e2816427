"""The theme that a command paints with: one that comes with X-Ray, or a file of the user's own."""

from pathlib import Path
from typing import TYPE_CHECKING

from xray.text import reason_of, show_controls

if TYPE_CHECKING:
    from xray.renderers.themes import Theme

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
