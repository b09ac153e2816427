"""Keeping stdout to ourselves while somebody's code runs."""

import atexit
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

from xray.cli.output import silence


@contextmanager
def keep_stdout() -> Iterator[None]:
    """Inside the block what somebody's code prints, from Python, from C or from a child, goes to stderr.

    So stdout holds results alone. What that code prints when the program ends goes there too.
    """
    with redirect_stdout(sys.stderr if sys.stderr is not None else io.StringIO()), redirect_descriptor():
        yield
    atexit.unregister(lead_away)
    atexit.register(lead_away)  # what is registered last is called first


@contextmanager
def redirect_descriptor() -> Iterator[None]:
    """Inside the block whoever writes to descriptor 1 writes to stderr, or nowhere where that is closed."""
    try:
        kept = os.dup(1)
    except OSError:  # stdout is closed
        yield
        return
    lead_away()
    try:
        yield
    finally:
        flush_buffers()
        os.dup2(kept, 1)
        os.close(kept)


def lead_away() -> None:
    flush_buffers()
    try:
        os.dup2(2, 1)
    except OSError:
        silence(1)


def flush_buffers() -> None:
    """Write out what Python and the C library still hold back for stdout."""
    with suppress(OSError, ValueError, AttributeError):
        sys.__stdout__.flush()  # type: ignore[union-attr]  # there may be none
    with suppress(OSError, TypeError, ValueError, AttributeError):
        import ctypes

        library = ctypes.CDLL(None)
        # not all streams at once: one on which a thread waits for input would never let go
        library.fflush(ctypes.c_void_p.in_dll(library, "__stdoutp" if sys.platform == "darwin" else "stdout"))
