"""Where the templates are: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

from xray.errors import OutputError

PACKAGE = Path(__file__).resolve().parent
PLACES = (PACKAGE / "templates", PACKAGE.parent / "templates")


def templates_folder() -> Path:
    """The folder that holds themes and other files that are not code.

    Raises:
        OutputError: the installation is incomplete.
    """
    for place in PLACES:
        if (place / "themes").is_dir():
            return place
    raise OutputError(f"no templates at {PLACES[0]}: the installation is incomplete. Install X-Ray again.")


def read_template(name: str) -> str:
    """The text of one template, by its path within the templates folder, as in `themes/dark.toml`.

    Raises:
        OutputError: there is no such template.
    """
    path = templates_folder() / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot read {path}: {error.strerror}. Install X-Ray again.") from error


def template_names(folder: str, suffix: str) -> tuple[str, ...]:
    """The names, without suffix, of the templates in one folder: the themes there are, for instance."""
    return tuple(sorted(path.stem for path in (templates_folder() / folder).glob(f"*{suffix}")))
