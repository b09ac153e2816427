"""What can be wrong with a file of JSON lines, found by reading it once."""

import json
from pathlib import Path
from typing import Any

from xray.data.source import Source, check_columns
from xray.errors import DataError


def check_json_lines(source: Source, place: Path) -> list[str]:
    """The names in a file of JSON lines, each line an object with text under the two names that are wanted.

    Raises:
        DataError: a line is something else.
    """
    columns: list[str] = []
    with place.open(encoding=source.decoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = read_line(source, number, line)
                if not columns:
                    columns = list(row)
                    check_columns(source, columns)
                check_row(source, number, row)
    if not columns:
        raise DataError(f"{source.name} has no rows. Write one object with its pair in each line.")
    return columns


def read_line(source: Source, number: int, line: str) -> dict[str, Any]:
    """One line as an object.

    Raises:
        DataError: it is something else.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        if number == 1 and line.lstrip().startswith("["):
            row = []
        else:
            raise DataError(
                f"{source.name}: line {number:,} is not JSON ({error}). Write one object in each line."
            ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{source.name}: line {number:,} is not an object. "
            f'Write one in each line, as in {{"{source.question}": "Hi!", "{source.answer}": "Hello!"}}.'
        )
    return row


def check_row(source: Source, number: int, row: dict[str, Any]) -> None:
    """Hold both values of a line to be text, or null for a blank one.

    Raises:
        DataError: one is missing or something else.
    """
    for name in (source.question, source.answer):
        if name not in row:
            raise DataError(f'{source.name}: line {number:,} has no "{name}". Every line needs both.')
        if not (row[name] is None or isinstance(row[name], str)):
            raise DataError(
                f'{source.name}: line {number:,} holds {json.dumps(row[name])[:40]} as "{name}". Write text.'
            )
