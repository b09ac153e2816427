"""What can be wrong with a file of JSON lines, found by reading it once."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xray.data.source import Source, check_columns
from xray.errors import DataError


def check_json_lines(source: Source, place: Path) -> tuple[list[str], list[int]]:
    """The names in a file of JSON lines, inner ones with a dot, and the lines that hold no pair of texts.

    There are such lines only with `skip_bad`.

    Raises:
        DataError: a line is something else than an object with text under the two names that are wanted.
    """
    columns: list[str] = []
    bad: list[int] = []
    with place.open(encoding=source.decoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = read_line(source, number, line)
                    if not columns:
                        found = leaf_names(row)
                        check_columns(source, found)
                        columns = found
                    check_row(source, number, row)
                except DataError:
                    if not source.skip_bad:
                        raise
                    bad.append(number)
    if not columns:
        raise DataError(f"{source.name} has no rows. Write one object with its pair in each line.")
    return columns, bad


def leaf_names(row: dict[str, Any], above: str = "") -> list[str]:
    """The names of an object's values, those of an object within it behind its name and a dot."""
    names = []
    for name, value in row.items():
        names += leaf_names(value, f"{above}{name}.") if isinstance(value, dict) else [above + name]
    return names


def copy_good_lines(source: Source, place: Path, bad: Iterable[int], target: Path) -> None:
    """The two values of every line but those that are `bad`, each under its whole name."""
    passed_over = set(bad)
    with place.open(encoding=source.decoding) as file, target.open("w", encoding="utf-8") as good:
        for number, line in enumerate(file, 1):
            if line.strip() and number not in passed_over:
                row = json.loads(line)
                pair = {name: value_at(row, name) for name in (source.question, source.answer)}
                good.write(json.dumps(pair) + "\n")


def value_at(row: dict[str, Any], name: str) -> Any:  # noqa: ANN401  # whatever the file holds
    """The value under a name, or under a name with dots in the objects within.

    Raises:
        KeyError: there is none.
    """
    if name in row or "." not in name:
        return row[name]
    outer, inner = name.split(".", 1)
    if not isinstance(row[outer], dict):
        raise KeyError(name)
    return value_at(row[outer], inner)


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
        try:
            value = value_at(row, name)
        except KeyError as error:
            raise DataError(f'{source.name}: line {number:,} has no "{name}". Every line needs both.') from error
        if not (value is None or isinstance(value, str)):
            raise DataError(f'{source.name}: line {number:,} holds {json.dumps(value)[:40]} as "{name}". Write text.')
