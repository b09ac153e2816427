"""Asking the terminal whether its background is light, so that nobody reads white on white.

The question is an escape sequence that most terminals answer on their input (xterm's OSC 11). A second one follows that
practically all answer (device attributes), so that nobody waits for a terminal that has no answer to the first.
"""

import os
import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
COLOUR = re.compile(rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
LAST = re.compile(rb"\x1b\[\?[\d;]*c")
PATIENCE_S = 0.5
"""How long an answer may take; over the slowest lines it takes a third of a second."""

SILENT = ("dumb", "linux", "unknown", "")
"""Terminals that have no answer, by TERM."""

LIGHT_PALETTE = (7, 15)
"""The colours of the palette that are light, as COLORFGBG names backgrounds."""


@cache
def has_light_background() -> bool | None:
    """Whether the terminal that this process is controlled from has a light background; None where that is not known.

    It is asked once. Nobody is asked from a background job, or when somebody has typed ahead, whose keys would be lost.
    """
    with suppress(OSError, ValueError, ImportError):
        answer = ask_terminal()
        if answer is not None:
            return is_light(answer)
    return read_environment(os.environ.get("COLORFGBG", ""))


def ask_terminal() -> bytes | None:
    """What the terminal says of its background; None where it may not be asked or says nothing.

    Raises:
        OSError: there is no terminal, or it is gone.
        ImportError: this system has other terminals.
    """
    if os.environ.get("TERM", "") in SILENT:
        return None
    terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp() or can_read(terminal, 0):
            return None
        with unechoed(terminal):
            os.write(terminal, QUESTION)
            return read_answer(terminal)
    finally:
        os.close(terminal)


@contextmanager
def unechoed(terminal: int) -> Iterator[None]:
    """Inside the block what comes in is neither shown nor held back until Enter; what comes too late is thrown away."""
    import termios
    import tty

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def read_answer(terminal: int) -> bytes | None:
    told, until = b"", time.monotonic() + PATIENCE_S
    while not LAST.search(told):
        left = until - time.monotonic()
        if left <= 0 or not can_read(terminal, left):
            break
        told += os.read(terminal, 256)
    return told if COLOUR.search(told) else None


def can_read(terminal: int, wait_s: float) -> bool:
    return bool(select.select([terminal], [], [], wait_s)[0])


def is_light(answer: bytes) -> bool:
    """Whether the colour in an answer, as rgb:ffff/ffff/ffff, is light to the eye."""
    found = COLOUR.search(answer)
    if found is None:
        return False
    red, green, blue = (int(part, 16) / float(16 ** len(part) - 1) for part in found.groups())
    return 0.3 * red + 0.59 * green + 0.11 * blue > 0.5


def read_environment(told: str) -> bool | None:
    """What COLORFGBG says, as "0;15" does of black on white."""
    last = told.rpartition(";")[2]
    return int(last) in LIGHT_PALETTE if last.isdecimal() and len(last) < 3 else None
