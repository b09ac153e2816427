"""The pages that are made when the site is built, so that they are never stale: the commands, and the gallery."""

import ast
import re
from pathlib import Path
from typing import Any

import typer
from gallery import PICTURES

import xray
from xray.cli.app import make_app

PACKAGE = Path(xray.__file__).parent
ROOT = Path(__file__).parent.parent
FROM_ROOT = {
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "releasing": "RELEASING.md",
    "third_party": "THIRD_PARTY.md",
    "changelog": "CHANGELOG.md",
}
"""The pages under reference/ that are files of the project's root."""


def write_commands(_: str) -> str:
    """Every command with its arguments and options, as the program itself has them."""
    group: Any = typer.main.get_command(make_app())
    parts = ["# Commands\n", f"{group.help}\n"]
    parts.append(
        "Results go to stdout, talk goes to stderr. The exit code is 0 when all went well, 1 after an error, which is "
        "one line, 2 when the command line itself is wrong, and 130 after Ctrl-C. `xray COMMAND --help` shows the same "
        "as this page. `xray --install-completion` teaches bash, zsh or fish, whichever it is called from, to complete "
        "commands, options and their values with the Tab key.\n"
    )
    parts += write_parameters(group)
    for name, command in group.commands.items():
        parts += [f"## xray {name}\n", f"{command.help}\n"]
        pieces = command.collect_usage_pieces(command.make_context(name, [], resilient_parsing=True))
        parts.append(f"```text\nxray {name} {' '.join(pieces)}\n```\n")
        parts += write_parameters(command)
        if command.epilog:
            parts.append(f"{command.epilog.replace('Example: ', 'Example: `', 1)}`\n")
    return "\n".join(parts)


def write_parameters(command: Any) -> list[str]:  # noqa: ANN401  # typer's own classes have no public home
    """A table for each group of options."""
    context = command.make_context(command.name, [], resilient_parsing=True)
    tables: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        names, text = (" ".join(one.split()) for one in record)
        panel = getattr(parameter, "rich_help_panel", None) or ""
        names = names.replace("|", "\\|")
        tables.setdefault(panel, []).append(f"| `{names}` | {escape_cell(text)} |")
    return [
        "\n".join([*([f"**{panel}**\n"] if panel else []), "| | |\n|---|---|", *rows]) + "\n"
        for panel, rows in tables.items()
    ]


def escape_cell(text: str) -> str:
    """Text that a cell of a Markdown table shows as it is."""
    for sign in "\\|<>*_`":
        text = text.replace(sign, f"&#{ord(sign)};")
    return text


def write_gallery(_: str) -> str:
    """A figure for every picture."""
    parts = [
        "# Gallery\n",
        "Every picture was recorded and drawn by X-Ray; nothing on it was typed in. Click one to see it whole. What "
        "stands above each draws it; write `.svg` to zoom. All are made anew by `python docs/make_gallery.py`.\n",
    ]
    for picture in PICTURES:
        parts.append(f"## {picture.title}\n")
        parts.append(f"{picture.text}\n")
        parts.append(f"```{picture.language}\n{picture.source}\n```\n")
        parts.append(f"![{picture.title}](pictures/{picture.file})\n")
    return "\n".join(parts)


def list_files(page: str) -> str:
    """The page on the architecture, and behind it every file of the package with its first sentence."""
    parts = [page, "## Every file"]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        parts.append(f"### {folder.relative_to(PACKAGE.parent)}")
        parts.append("\n".join(f"- `{path.name}`: {first_sentence(path)}" for path in files))
    return "\n\n".join(parts)


def take_from_root(name: str) -> str:
    """A file of the project's root, whose links lead where the same things are on the site."""
    text = (ROOT / FROM_ROOT[name]).read_text(encoding="utf-8").replace("](docs/", "](../")
    for page, file in FROM_ROOT.items():
        text = text.replace(f"]({file})", f"]({page}.md)")
    return text


def first_sentence(path: Path) -> str:
    """What a file says of itself."""
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(told.split()))[0]
