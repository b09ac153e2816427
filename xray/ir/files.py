"""Reading a trace from a file."""

from pathlib import Path

from xray.errors import TraceError
from xray.ir.json_form import trace_from_json
from xray.ir.trace import Trace
from xray.text import show_controls

MAX_BYTES = 1 << 30
"""A trace file larger than this (1 GiB) is refused before it is read."""


def read_trace_file(path: str | Path) -> Trace:
    """The trace that a file holds.

    Raises:
        TraceError: the file is missing, not to be read, too large, or no trace.
    """
    name = show_controls(str(path))
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise TraceError(f"{name} has {size:,} bytes, and a trace has at most {MAX_BYTES:,}. Is it another file?")
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise TraceError(f"cannot read {name}: {reason}. Make a trace with: xray trace -o trace.json") from error
    try:
        return trace_from_json(text)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from error
