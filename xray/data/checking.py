"""A file of pairs looked through before anything is done with it, so that what is wrong is said with its line."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xray.data.csv_checking import check_csv
from xray.data.json_checking import check_json_lines
from xray.data.source import Source, check_columns, is_wide
from xray.errors import DataError

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16"),
)


def check_contents(source: Source, place: Path) -> tuple[list[str], list[int]]:
    """The columns of the file, which is now known to hold text under the two that are wanted, and its bad lines.

    There are bad lines only with `skip_bad`.

    Raises:
        DataError: it does not, and says in which line.
    """
    if source.kind == "parquet":
        return check_parquet(source, place), []
    check_encoding(source, place)
    try:
        return check_csv(source, place) if source.kind == "csv" else check_json_lines(source, place)
    except UnicodeError as error:
        raise DataError(
            f"{source.name} cannot be read as {source.encoding}. Pass its right encoding with --encoding."
        ) from error


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


def check_parquet(source: Source, place: Path) -> list[str]:
    """The columns of a Parquet file that has rows, and text in the two that are wanted.

    Raises:
        DataError: it is damaged, has no rows, or misses a column of text.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(place) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except pyarrow.ArrowException as error:
        raise DataError(f"{source.name} is damaged, or not a Parquet file.") from error
    leaves = {name: kind for field in schema for name, kind in leaf_types(field.name, field.type)}
    check_columns(source, list(leaves))
    for name in (source.question, source.answer):
        kind = leaves[name]
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise DataError(f'{source.name} holds {kind} in its column "{name}". It should hold text.')
    if rows == 0:
        raise DataError(f"{source.name} has columns but no rows. Add pairs.")
    return list(leaves)


def leaf_types(name: str, kind: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # pyarrow has no types
    """A column with its type, or those within it, named with a dot."""
    import pyarrow

    if not pyarrow.types.is_struct(kind):
        yield name, kind
        return
    for inner in kind:
        yield from leaf_types(f"{name}.{inner.name}", inner.type)
