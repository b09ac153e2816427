"""The rows of a CSV file, read strictly, with everything that can be wrong with them said with its line."""

import csv
from collections.abc import Iterator
from typing import TextIO

from xray.data.reading.source import Source, check_columns
from xray.errors import DataError


def read_csv(source: Source, file: TextIO, bad: list[int]) -> Iterator[tuple[str, str]]:
    """The question and the answer of each row; empty lines are passed over.

    The lines of rows that have more or fewer cells than the header are put into `bad`. With `skip_bad` that is all.

    Raises:
        DataError: a column is missing, there are no rows, rows are ragged or a quote is not closed.
    """
    if len(source.cell_separator) != 1:
        raise DataError(f"the separator {source.cell_separator!r} is not one character. Choose one, such as ';'.")
    rows = csv.reader(file, delimiter=source.cell_separator, strict=True)
    line, count, columns = 1, 0, list[str]()
    try:
        for columns in rows:
            if columns:
                break
            line = rows.line_num + 1
        if not columns:
            raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")
        check_columns(source, columns)
        width, question, answer = len(columns), columns.index(source.question), columns.index(source.answer)
        line = rows.line_num + 1
        for cells in rows:
            if len(cells) == width:
                count += 1
                yield cells[question], cells[answer]
            elif cells:
                count += 1
                bad.append(line)
            line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(describe_error(source, error, line, rows.line_num)) from error
    if bad and not source.skip_bad:
        raise DataError(describe_ragged(source, bad, width))
    if not count:
        raise DataError(f"{source.name} has a header but no rows. Add pairs below it.")


def describe_ragged(source: Source, ragged: list[int], columns: int) -> str:
    """Which rows do not fit the header, and what to do about it."""
    first = ", ".join(f"{line:,}" for line in ragged[:3])
    what = "1 row has" if len(ragged) == 1 else f"{len(ragged):,} rows have"
    return (
        f"{source.name}: {what} more or fewer cells than the {columns} columns, "
        f"{'in' if len(ragged) == 1 else 'the first in'} line{'s' * (len(ragged) > 1)} {first}. "
        "Put quotes around a cell that holds the separator, or leave such rows out with --skip-bad."
    )


def describe_error(source: Source, error: csv.Error, begun: int, noticed: int) -> str:
    """What is wrong with the row that begins in the line `begun`."""
    if "field limit" in str(error):
        return (
            f"{source.name} has a cell of more than {csv.field_size_limit():,} characters in line {begun:,}. "
            "Is a quote not closed there?"
        )
    where = f"in line {begun:,}" + (f", noticed in line {noticed:,}" if noticed > begun else "")
    return (
        f'{source.name} has a quote that is not closed, opened {where}. Close it; a quote within a cell is written "".'
    )
