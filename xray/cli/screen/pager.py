"""A text longer than the screen is shown page by page, as git does."""

import os
import shutil
import signal
import subprocess
import sys

from xray.cli.output import write_stdout
from xray.cli.screen.stopping import handling
from xray.cli.screen.terminal import at_terminal, terminal_height

NOT_FOUND = 127
"""What a shell says of a command that it does not know."""


def show_long(text: str) -> None:
    """The text on stdout; at a terminal in which it does not fit, through the reader's pager.

    The pager is that of PAGER, else less; an empty PAGER, or cat, is none.
    """
    command = choose_pager() if at_terminal() and text.count("\n") >= terminal_height() else None
    if command is None or not run_pager(command, text):
        write_stdout(text)


def choose_pager() -> str | None:
    """The command that shows long texts; None where there is none."""
    command = os.environ.get("PAGER", "less" if shutil.which("less") else "").strip()
    return None if command in ("", "cat") or os.environ.get("TERM", "dumb") == "dumb" else command


def run_pager(command: str, text: str) -> bool:
    """Whether a pager was there to show the text; what its reader does not want to see is not written."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.flush()
    # as git does: leave at once what fits, keep colours, leave the text on the screen
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment)  # noqa: S602  # the user's own
    except OSError:
        return False
    with handling((signal.SIGINT,), lambda number, frame: None):  # Ctrl-C is for the pager
        pager.communicate(text.encode(encoding, "backslashreplace"))
    return pager.returncode != NOT_FOUND
