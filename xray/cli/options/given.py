"""Options that were given on the command line and would be passed over: they are refused, with the reason."""

from collections.abc import Sequence

import typer

from xray.errors import UsageError


def refuse(context: typer.Context, names: Sequence[str], because: str) -> None:
    """Make sure that none of these parameters of the command was given.

    Raises:
        UsageError: one was; the message names them, says `because`, and what to do.
    """
    spelt = [spell(context, name) for name in names if is_given(context, name)]
    if spelt:
        raise UsageError(f"{', '.join(spelt)}: {because}")


def is_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter was given on the command line, be it with the value that is the default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def spell(context: typer.Context, name: str) -> str:
    """A parameter as it is written on the command line: "--max-turns", or "QUESTION"."""
    found = next(one for one in context.command.params if one.name == name)
    return max(found.opts, key=len) if found.param_type_name == "option" else name.upper()


PICTURE_OPTIONS = ("paper", "tile", "dpi", "depth", "opened", "closed", "blocks")
NO_PICTURE = "no picture is drawn. Name a file with -o, such as poster.svg, or leave it out."
NO_PDF = "only a PDF is cut into sheets. Name one with -o, such as poster.pdf, or leave it out."
