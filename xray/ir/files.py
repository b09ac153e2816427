"""Reading a trace from a file."""

import os
from pathlib import Path

from xray.errors import TraceError
from xray.ir.json_form import trace_from_json
from xray.ir.trace import Trace
from xray.text import reason_of, show_controls

MAX_BYTES = 1 << 30
"""A trace file larger than this (1 GiB) is refused."""

BLOCK = 1 << 20


def read_trace_file(path: str | Path) -> Trace:
    """The trace that a file holds.

    Raises:
        TraceError: the file is missing, not to be read, too large, or no trace.
    """
    if not isinstance(path, str | Path):
        raise TraceError(f"a trace cannot be read from a {type(path).__name__}. Name its file, as in trace.json.")
    name = show_controls(str(path))
    try:
        text = read_at_most(Path(path), MAX_BYTES)
    except (OSError, ValueError) as error:
        raise TraceError(
            f"cannot read {name}: {reason_of(error)}. Make a trace with: xray trace -o trace.json"
        ) from error
    if text is None:
        raise TraceError(f"{name} has more than {MAX_BYTES:,} bytes, and no trace has. Is it another file?")
    try:
        return trace_from_json(text)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from error


def read_at_most(path: Path, most: int) -> bytes | None:
    """The bytes of a file or a pipe; None if there are more than `most`, which a device without end always has.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > most:
            return None
        found = bytearray()
        while block := file.read(BLOCK):
            found += block
            if len(found) > most:
                return None
    return bytes(found)
