"""One line from the user at a time: a prompt on the terminal, none where answers are piped in."""

import sys

from xray.cli.output import say


def ask_line(prompt: str) -> str | None:
    """The next line without blanks around it; None at the end of what there is."""
    if sys.stdin is None:
        return None
    if sys.stdin.isatty():
        try:
            return input(prompt).strip()
        except EOFError:
            say("")
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None
