"""The pairs of a file of JSON lines, with everything that can be wrong with them said with its line."""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from xray.data.reading.source import Source, check_columns
from xray.data.tokens.tokeniser import mend
from xray.errors import DataError


def read_json_lines(source: Source, file: TextIO, bad: list[int]) -> Iterator[tuple[str, str]]:
    """The question and the answer of each line, null as a blank one; blank lines are passed over.

    With `skip_bad` the lines that hold no pair of texts are put into `bad`.

    Raises:
        DataError: a line is something else than an object with text under the two names that are wanted.
    """
    is_first = True
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = read_line(source, number, line)
            if is_first:
                check_columns(source, leaf_names(row))
                is_first = False
            pair = read_pair(source, number, row)
        except DataError:
            if not source.skip_bad:
                raise
            bad.append(number)
        else:
            yield pair
    if is_first:
        raise DataError(f"{source.name} has no rows. Write one object with its pair in each line.")


def leaf_names(row: dict[str, Any], above: str = "") -> list[str]:
    """The names of an object's values, those of an object within it behind its name and a dot."""
    names = []
    for name, value in row.items():
        names += leaf_names(value, f"{above}{name}.") if isinstance(value, dict) else [above + name]
    return names


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


def read_pair(source: Source, number: int, row: dict[str, Any]) -> tuple[str, str]:
    """Both values of a line.

    Raises:
        DataError: one is missing or no text.
    """
    texts = []
    for name in (source.question, source.answer):
        try:
            value = value_at(row, name)
        except KeyError as error:
            raise DataError(f'{source.name}: line {number:,} has no "{name}". Every line needs both.') from error
        if not (value is None or isinstance(value, str)):
            raise DataError(f'{source.name}: line {number:,} holds {json.dumps(value)[:40]} as "{name}". Write text.')
        if value and not value.isascii() and mend(value) != value:
            raise DataError(
                f'{source.name}: line {number:,} holds half a character as "{name}". '
                "Write both halves of a surrogate pair, or the character itself."
            )
        texts.append(value or "")
    return texts[0], texts[1]
