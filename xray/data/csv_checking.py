"""What can be wrong with a CSV file, found by reading it strictly once."""

import csv
from _csv import Reader
from collections.abc import Iterable, Iterator
from pathlib import Path

from xray.data.source import Source, check_columns
from xray.errors import DataError


def check_csv(source: Source, place: Path) -> tuple[list[str], list[int]]:
    """The column names of a CSV file, and the lines of rows that have more or fewer cells than the header.

    There are such lines only with `skip_bad`.

    Raises:
        DataError: a column is missing, there are no rows, rows are ragged or a quote is not closed.
    """
    if len(source.cell_separator) != 1:
        raise DataError(f"the separator {source.cell_separator!r} is not one character. Choose one, such as ';'.")
    with place.open(encoding=source.decoding, newline="") as file:
        rows = read_strictly(source, csv.reader(file, delimiter=source.cell_separator, strict=True))
        _, columns = next(rows, (0, []))
        if not columns:
            raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")
        check_columns(source, columns)
        count, ragged = 0, []
        for line, cells in rows:
            count += 1
            if len(cells) != len(columns):
                ragged.append(line)
    if ragged and not source.skip_bad:
        raise DataError(describe_ragged(source, ragged, len(columns)))
    if not count:
        raise DataError(f"{source.name} has a header but no rows. Add pairs below it.")
    return columns, ragged


def describe_ragged(source: Source, ragged: list[int], columns: int) -> str:
    """Which rows do not fit the header, and what to do about it."""
    first = ", ".join(f"{line:,}" for line in ragged[:3])
    what = "1 row has" if len(ragged) == 1 else f"{len(ragged):,} rows have"
    return (
        f"{source.name}: {what} more or fewer cells than the {columns} columns, "
        f"{'in' if len(ragged) == 1 else 'the first in'} line{'s' * (len(ragged) > 1)} {first}. "
        "Put quotes around a cell that holds the separator, or leave such rows out with --skip-bad."
    )


def copy_good_csv(source: Source, place: Path, bad: Iterable[int], target: Path) -> None:
    """The file without the rows that begin in the lines `bad`, written as plain CSV."""
    passed_over = set(bad)
    with place.open(encoding=source.decoding, newline="") as file, target.open("w", encoding="utf-8", newline="") as to:
        good = csv.writer(to, delimiter=source.cell_separator)
        for line, cells in read_strictly(source, csv.reader(file, delimiter=source.cell_separator, strict=True)):
            if line not in passed_over:
                good.writerow(cells)


def read_strictly(source: Source, rows: Reader) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line on which it begins; empty lines are passed over.

    Raises:
        DataError: a quote is not closed, or a cell is too large to be one.
    """
    while True:
        line = rows.line_num + 1
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                raise DataError(
                    f"{source.name} has a cell of more than {csv.field_size_limit():,} characters in line {line:,}. "
                    "Is a quote not closed there?"
                ) from error
            where = f"in line {line:,}" + (f", noticed in line {rows.line_num:,}" if rows.line_num > line else "")
            raise DataError(
                f"{source.name} has a quote that is not closed, opened {where}. "
                'Close it; a quote within a cell is written "".'
            ) from error
        if cells:
            yield line, cells
