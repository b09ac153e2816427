"""One line from the user at a time: a prompt on the terminal, none where answers are piped in."""

import sys

from xray.cli.output import say

LONGEST = 10_000
"""No answer has more characters; the rest of such a line is taken for another."""


def ask_line(prompt: str) -> str | None:
    """The next line without blanks around it; None at the end of what there is."""
    if sys.stdin is None:
        return None
    if sys.stdin.isatty():
        try:
            return input(prompt).strip()
        except UnicodeDecodeError:
            return ""
        except EOFError:
            say("")
            return None
    try:
        line = sys.stdin.readline(LONGEST)
    except UnicodeDecodeError:
        say("xray: stdin is no text. Send UTF-8.")
        return None
    return line.strip() if line else None
