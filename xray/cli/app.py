"""The `xray` command: its commands by name, and the one place where an error becomes a line and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from xray.cli.anatomy import anatomy
from xray.cli.answer import answer
from xray.cli.attention import attention
from xray.cli.chat import chat
from xray.cli.demo import demo
from xray.cli.diff import diff
from xray.cli.draw import draw
from xray.cli.output import say
from xray.cli.page import page
from xray.cli.schema import schema
from xray.cli.stopping import StoppedAtOnce, end_on_sigterm
from xray.cli.theme import theme
from xray.cli.trace import trace
from xray.cli.train import train
from xray.cli.walk import walk
from xray.cli.worksheet import worksheet
from xray.errors import XRayError
from xray.text import reason_of, show_controls

TELLING_BY_CODE, TROUBLE = ("diff",), 2
"""Commands whose exit code 1 is an answer, and what their errors end with instead, as those of diff(1) do."""

EPILOG = "Example: xray demo"

app = typer.Typer(
    name="xray",
    help="See what really happens inside a transformer: every tensor shape and every mask, recorded and drawn.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog="Example: xray demo --out xray-demo")(demo)
app.command(epilog="Example: xray train examples/movie_qa.csv --epochs 60")(train)
app.command(epilog='Example: xray trace --ask "Who is Ripley?" -o poster.pdf')(trace)
app.command(epilog="Example: xray draw trace.json -o poster.svg")(draw)
app.command(epilog="Example: xray anatomy examples/tiny_gpt.py:build -o anatomy.json")(anatomy)
app.command(epilog="Example: xray page --run runs/movie_qa --open")(page)
app.command(epilog="Example: xray walk --quiz")(walk)
app.command(epilog='Example: xray attention "Who is Ripley?" --kind cross -o attention.svg')(attention)
app.command(epilog="Example: xray worksheet -o sheet.pdf --stations 2,5 --share 0.5 --seed 7")(worksheet)
app.command(epilog="Example: xray diff before.json after.json -o diff.svg")(diff)
app.command(epilog="Example: xray chat --run runs/movie_qa")(chat)
app.command(epilog="Example: xray theme dark -o my.toml")(theme)
app.command(epilog="Example: xray schema -o trace.schema.json")(schema)
app.command(epilog="Example: xray answer questions.txt -o answers.txt --beam 4")(answer)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"xray {version('transformer-xray')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; stands anywhere.")] = False,
) -> None:
    """See what really happens inside a transformer: every tensor shape and every mask, recorded and drawn."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 done, 1 an error, 2 wrong usage, 130 Ctrl-C, 143 SIGTERM."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """The exit code of a command line; every error is one line on stderr, or a traceback with --debug."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with end_on_sigterm():
            code = app(arguments, prog_name="xray", standalone_mode=False, obj=arguments)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        say("")
        return 130
    except StoppedAtOnce as stopped:
        say("")
        return stopped.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        if debug:
            raise
        code = explain(error)
        return TROUBLE if code == 1 and command_of(arguments) in TELLING_BY_CODE else code


def command_of(arguments: list[str]) -> str | None:
    """The name of the command in a command line."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def explain(error: Exception) -> int:
    """Say what went wrong in one line; the exit code that goes with it."""
    if isinstance(error, XRayError):
        say(f"xray: {show_controls(' '.join(str(error).split()))}")
        return error.exit_code
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "xray"
        text = " ".join(error.format_message().split())
        if text:
            say(f"xray: {show_controls(text)} See: {command} --help")
        return 2
    if isinstance(error, OSError):
        place = f" {show_controls(str(error.filename))}" if error.filename is not None else ""
        say(f"xray: cannot read or write{place}: {reason_of(error)}. Make room or permission for it, and run it again.")
        return 1
    if is_out_of_memory(error):
        say("xray: there is not enough memory for this. Choose a smaller --batch, smaller sizes, or fewer dots.")
        return 1
    text = show_controls(" ".join(str(error).split()))
    hint = "" if os.environ.get("XRAY_DEBUG") else " Run it again with --debug for the whole story."
    say(f"xray: unexpected {type(error).__name__}: {text}.{hint}")
    return 1


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; torch says so in a RuntimeError of its own."""
    told = str(error)
    return isinstance(error, MemoryError) or "DefaultCPUAllocator" in told or type(error).__name__ == "OutOfMemoryError"
