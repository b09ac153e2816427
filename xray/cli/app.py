"""The `xray` command: its commands by name, and the one place where an error becomes a line and an exit code."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from xray.cli.output import say
from xray.cli.screen.stopping import StoppedAtOnce, end_on_sigterm
from xray.errors import XRayError
from xray.text import reason_of, show_controls

TELLING_BY_CODE, TROUBLE = ("diff", "audit"), 2
"""Commands whose exit code 1 is an answer, and what their errors end with instead, as those of diff(1) do."""

COMMANDS = {
    "demo": "xray demo --out xray-demo",
    "train": "xray train examples/movie_qa.csv --epochs 60",
    "trace": 'xray trace --ask "Who is Ripley?" -o poster.pdf',
    "draw": "xray draw trace.json -o poster.svg",
    "anatomy": "xray anatomy examples/tiny_gpt.py:build -o anatomy.json",
    "audit": "xray audit examples/tiny_gpt.py:build -o audit.json",
    "cost": "xray cost hf:Qwen/Qwen3-8B --seq-len 32768 --batch 1,8",
    "page": "xray page --twin kv-cache --twin no-cross-mask --twin no-scale --open",
    "walk": "xray walk --quiz",
    "attention": 'xray attention "Who is Ripley?" --kind cross -o attention.svg',
    "worksheet": "xray worksheet -o sheet.pdf --stations 2,5 --share 0.5 --seed 7",
    "diff": "xray diff before.json after.json -o diff.svg",
    "chat": "xray chat --run runs/movie_qa",
    "theme": "xray theme dark -o my.toml",
    "schema": "xray schema -o trace.schema.json",
    "answer": "xray answer questions.txt -o answers.txt --beam 4",
}
"""Every command, which is a function in a file of its own, with an example of its use."""

HELP = "See what really happens inside a transformer: every tensor shape and every mask, recorded and drawn."


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"xray {version('transformer-xray')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; stands anywhere.")] = False,
) -> None:
    """What stands before a command."""


def make_app(*names: str) -> typer.Typer:
    """The command line with these commands alone, or with all: no other is loaded."""
    app = typer.Typer(
        name="xray",
        help=HELP,
        epilog="Example: xray demo",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(options)
    for name in names or COMMANDS:
        command = getattr(import_module(f"xray.cli.{name}"), name)
        app.command(epilog=f"Example: {COMMANDS[name]}")(command)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 done, 1 an error, 2 wrong usage, 130 Ctrl-C, 143 SIGTERM."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """The exit code of a command line; every error is one line on stderr, or a traceback with --debug."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with end_on_sigterm():
            asked = command_of(arguments)
            app = make_app(asked) if asked in COMMANDS else make_app()
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
