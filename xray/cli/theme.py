"""`xray theme`: list the themes, take a copy of one to start from, or check one of your own."""

from pathlib import Path
from typing import Annotated

import typer


def theme(
    name: Annotated[
        str | None, typer.Argument(help="dark, light, or a theme file of your own (.toml).", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file to write the theme to.", show_default=False)
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what cannot be read or told apart; exit code 1 if there is anything.")
    ] = False,
) -> None:
    """Show a theme, to be changed and used with --theme my.toml; without a name, list the themes there are.

    A check looks at every text, line and cell with full colour vision, in greyscale, and with protanopia,
    deuteranopia and tritanopia.
    """
    from xray.assets import read_template, template_names
    from xray.cli.output import check_writable, say, write_file, write_stdout
    from xray.cli.screen.painting import is_file_name, parse_own_theme, read_theme_text
    from xray.errors import UsageError
    from xray.renderers.contrasts import find_weaknesses
    from xray.renderers.themes import load_theme
    from xray.text import show_controls

    if name is None:
        if check or output is not None:
            raise UsageError("which theme? Name one, as in: xray theme dark -o my.toml")
        write_stdout("".join(f"{known}\n" for known in template_names("themes", ".toml")))
        return
    own = is_file_name(name)
    text = read_theme_text(Path(name)) if own else ""
    paint = parse_own_theme(text, Path(name)) if own else load_theme(name)
    if check:
        found = find_weaknesses(paint)
        lines = [f"{one.told}\n" for one in found]
        write_stdout("".join(lines) or "Every text, line and cell can be read and told apart.\n")
        if found:
            raise typer.Exit(1)
        return
    text = text if own else read_template(f"themes/{name}.toml")
    if output is None:
        write_stdout(text)
        return
    check_writable(output)
    write_file(output, text)
    written = show_controls(str(output))
    say(f"wrote {written}; change it, then: xray trace --theme {written} -o poster.svg")
