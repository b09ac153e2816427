"""Text files opened so that nothing in them is replaced silently, and what is wrong is said with its line."""

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from xray.data.reading.source import Source, is_wide
from xray.errors import DataError

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16"),
)


CHUNK = 1 << 20
"""How many bytes are read at a time."""


@contextmanager
def open_text(source: Source, place: Path, tell: Callable[[int], None]) -> Iterator[TextIO]:
    """The file as text; `tell` hears how many bytes were read.

    Raises:
        DataError: it is not in its encoding, or has NUL bytes; that comes before what is raised inside the block.
    """
    try:
        with place.open("rb", buffering=0) as raw:
            watched = io.BufferedReader(Watched(raw, is_wide(source.encoding), tell), CHUNK)
            with io.TextIOWrapper(watched, source.decoding, newline="" if source.kind == "csv" else None) as file:
                yield file
    except (UnicodeError, NulError, DataError) as error:
        check_encoding(source, place)
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{source.name} cannot be read as {source.encoding}. Pass its right encoding with --encoding."
        ) from error


class NulError(Exception):
    """There is a NUL byte."""


class Watched(io.RawIOBase):
    """A file that tells how far it was read, and stops at NUL bytes where there should be none."""

    def __init__(self, raw: io.FileIO, may_hold_nul: bool, tell: Callable[[int], None]) -> None:
        self.raw = raw
        self.may_hold_nul = may_hold_nul
        self.tell_far = tell
        self.done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  # any writable buffer
        count = self.raw.readinto(buffer)
        if not self.may_hold_nul and b"\0" in bytes(memoryview(buffer)[:count]):
            raise NulError
        self.done += count
        self.tell_far(self.done)
        return count


def check_encoding(source: Source, place: Path) -> None:
    """Find the first byte that is no text in the encoding, and NUL bytes; nothing is ever replaced silently.

    Raises:
        DataError: there is one, or there is no such encoding.
    """
    if is_wide(source.encoding):
        return
    with place.open("rb") as file:
        start = file.read(4)
        for mark, name, encoding in BYTE_ORDER_MARKS:
            if start.startswith(mark):
                shown = " ".join(f"{byte:02x}" for byte in mark)
                raise DataError(
                    f"{source.name} is {name}, not UTF-8 (it begins with the bytes {shown}). "
                    f"Save it as UTF-8, or pass --encoding {encoding}."
                )
        file.seek(0)
        for number, line in enumerate(file, 1):
            if b"\0" in line:
                raise DataError(
                    f"{source.name} has a NUL byte in line {number:,}: it looks binary or like UTF-16. "
                    "Save it as UTF-8 text, or pass --encoding."
                )
            try:
                line.decode(source.encoding)
            except UnicodeError as error:
                at = error.start if isinstance(error, UnicodeDecodeError) else 0
                raise DataError(
                    f"{source.name} is not {source.encoding.upper()}: line {number:,}, byte {at + 1:,} of the "
                    f"line is 0x{line[at]:02x}. Save it as UTF-8, or say what it is with --encoding."
                ) from error
