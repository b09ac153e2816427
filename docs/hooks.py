"""What the site is built from besides its pages: the command reference, the gallery, and files of the project's root.

mkdocs calls `on_files`. Nothing that is made here is stored, so none of it can go stale.
"""

import sys
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from xray.cli.app import app

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
from gallery import PICTURES  # noqa: E402  # a neighbour, found once its folder is on the path

ROOT_FILES = {
    "reference/releasing.md": "RELEASING.md",
    "reference/third_party.md": "THIRD_PARTY.md",
    "reference/changelog.md": "CHANGELOG.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {"reference/commands.md": write_commands(), "gallery.md": write_gallery()}
    made |= {place: (ROOT / name).read_text(encoding="utf-8") for place, name in ROOT_FILES.items()}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def write_commands() -> str:
    """Every command with its arguments and options, as the program itself has them."""
    group: Any = typer.main.get_command(app)
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


def write_gallery() -> str:
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
        parts.append(
            f'<figure markdown="span">\n[![{picture.title}](pictures/{picture.file}){{ loading=lazy }}]'
            f"(pictures/{picture.file})\n</figure>\n"
        )
    return "\n".join(parts)
