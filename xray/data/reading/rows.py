"""Pairs read in blocks from a CSV, JSON lines or Parquet file, or from the hub, and checked on the way."""

import shutil
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute

from xray.data.blocks import BLOCK, Blocks
from xray.data.reading.csv_rows import read_csv
from xray.data.reading.encoding import open_text
from xray.data.reading.hub import HubSource
from xray.data.reading.json_rows import read_json_lines
from xray.data.reading.origin import AnySource
from xray.data.reading.source import Source
from xray.data.reading.tables import read_hub, read_parquet
from xray.data.stages import Stage, Tell, report_nobody
from xray.errors import DataError
from xray.text import reason_of, show_controls

ROWS = pyarrow.schema([("question", pyarrow.string()), ("answer", pyarrow.string())])


class Rows:
    """The rows of a source, in blocks: those kept in a folder first, then those that are read now, and kept there.

    A file is read once, and never held in memory; whoever goes through the rows again gets those on disk.
    """

    def __init__(self, source: AnySource, folder: Path, tell: Tell = report_nobody) -> None:
        self.source = source
        self.folder = folder
        self.tell = tell
        self.kept = Blocks(folder, ROWS)

    def __iter__(self) -> Iterator[Any]:
        """Every block.

        Raises:
            DataError: the source cannot be read, or is not what its suffix and the column names say.
        """
        known = 0
        for block in self.kept:
            known += block.num_rows
            yield block
        if not self.kept.is_whole:
            bad: list[int] = []
            with self.kept.go_on() as write:
                for block in go_through(self.source, self.folder, known, bad, self.tell):
                    write(block)
                    known += block.num_rows
                    yield block
            self.kept.close(bad=len(bad), rows=known)

    def make_ready(self) -> None:
        """Make sure that there is something to read, before anything is read; a pipe is kept as a file now.

        Raises:
            DataError: there is nothing.
        """
        if isinstance(self.source, Source) and not self.kept.is_whole:
            check_readable(self.source)
            if not self.source.path.is_file():
                keep_pipe(self.source, self.folder)

    @property
    def total(self) -> int | None:
        """How many rows there are; None while they have not all been read."""
        return int(self.kept.facts["rows"]) if self.kept.is_whole else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about rows that have all been read."""
        bad = self.kept.facts["bad"]
        note = f"{bad:,} {'row' if bad == 1 else 'rows'} of {self.source.name} cannot be read: left out"
        return (note,) if bad else ()


def go_through(source: AnySource, folder: Path, skip: int, bad: list[int], tell: Tell) -> Iterator[Any]:
    """The rows behind the first `skip` ones, in blocks."""
    if isinstance(source, HubSource):
        yield from go_through_table(source, *read_hub(source), skip, tell)
        return
    try:
        place = source.path if source.path.is_file() else pipe_place(source, folder)
        if source.kind == "parquet":
            yield from go_through_table(source, *read_parquet(source, place), skip, tell)
        else:
            yield from go_through_text(source, place, skip, bad, tell)
    except OSError as error:
        raise DataError(f"cannot read {source.name}: {reason_of(error)}.") from error


def go_through_text(source: Source, place: Path, skip: int, bad: list[int], tell: Tell) -> Iterator[Any]:
    """The rows of a text file behind the first `skip` ones."""
    stage, total = f"reading {source.name}", place.stat().st_size
    read = read_csv if source.kind == "csv" else read_json_lines
    with open_text(source, place, lambda done: tell(Stage(stage, done, total))) as file:
        pairs = read(source, file, bad)
        for _ in islice(pairs, skip):
            pass
        while pairs_of_block := list(islice(pairs, BLOCK)):
            columns = [pyarrow.array(texts, pyarrow.string()) for texts in zip(*pairs_of_block, strict=True)]
            yield pyarrow.record_batch(columns, schema=ROWS)


def go_through_table(
    source: AnySource, total: int, blocks: Iterator[list[Any]], skip: int, tell: Tell
) -> Iterator[Any]:
    """The rows of a table behind the first `skip` ones; null is a blank text."""
    done = 0
    for columns in blocks:
        start, done = done, done + len(columns[0])
        tell(Stage(f"reading {source.name}", done, total))
        if done <= skip:
            continue
        texts = [pyarrow.compute.fill_null(column.cast(pyarrow.string()), "") for column in columns]
        block = pyarrow.table(texts, schema=ROWS).combine_chunks().to_batches()[0]
        yield block.slice(max(0, skip - start))


def keep_pipe(source: Source, folder: Path) -> None:
    """Put what comes out of a pipe into a file: it comes only once, and is looked at again where something is wrong.

    Raises:
        DataError: nothing came.
    """
    place = pipe_place(source, folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    with source.path.open("rb") as pipe, place.open("wb") as file:
        shutil.copyfileobj(pipe, file)
    if place.stat().st_size == 0:
        raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")


def pipe_place(source: Source, folder: Path) -> Path:
    """Where the contents of a pipe are kept."""
    return folder / f"pipe.{source.kind}"


def check_readable(source: Source) -> None:
    """Make sure that there is a file with something in it, before anything is created.

    Raises:
        DataError: there is none.
    """
    shown = show_controls(str(source.path))
    try:
        facts = source.path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise DataError(f"cannot read {shown}: it is a folder. Give a file of pairs.")
        if stat.S_ISBLK(facts.st_mode) or stat.S_ISCHR(facts.st_mode):
            raise DataError(
                f"cannot read {shown}: it is a device, and may have no end. Give a file of pairs, or a pipe."
            )
        if stat.S_ISREG(facts.st_mode):
            source.path.open("rb").close()
            if facts.st_size == 0:
                raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")
    except FileNotFoundError as error:
        raise DataError(f"cannot read {shown}: no such file. Give a file of pairs.") from error
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {shown}: {reason_of(error)}. Give a file of pairs.") from error
    _ = source.kind
