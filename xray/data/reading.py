"""Pairs read with `datasets` from a CSV, JSON lines or Parquet file that has been looked through, or from the hub."""

import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xray.data.checking import check_contents
from xray.data.csv_checking import copy_good_csv
from xray.data.hub import HubSource, load_hub
from xray.data.json_checking import copy_good_lines
from xray.data.origin import AnySource
from xray.data.pairs import Pair
from xray.data.source import Source, show
from xray.errors import DataError
from xray.scratch import scratch_folder
from xray.text import reason_of, show_controls

BLOCK = 1000
"""Pairs that are in memory at a time."""


@contextmanager
def open_rows(source: AnySource) -> Iterator["tuple[Rows, tuple[str, ...]]"]:
    """The pairs of a source and what there is to say about them; inside the block only, and never all in memory.

    Raises:
        DataError: the source cannot be read, or is not what its suffix and the column names say.
    """
    if isinstance(source, HubSource):
        with quiet_datasets():
            yield Rows(choose_columns(source, load_hub(source)), source), ()
        return
    check_readable(source)
    with scratch_folder() as folder:
        try:
            place = reachable_place(source, folder)
            columns, bad = check_contents(source, place)
            if bad:
                place, columns = leave_out(source, place, columns, bad, folder)
            rows = load_rows(source, place, columns, folder)
        except OSError as error:
            raise DataError(f"cannot read {source.name}: {reason_of(error)}.") from error
        notes = (f"{len(bad):,} {'row' if len(bad) == 1 else 'rows'} of {source.name} cannot be read: left out",)
        yield Rows(rows, source), notes if bad else ()


class Rows:
    """Pairs on disk, read in blocks as they are asked for, any number of times."""

    def __init__(self, table: Any, source: AnySource) -> None:  # noqa: ANN401  # datasets has no types
        self.table = table
        self.source = source

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Pair]:
        for block in self.table.iter(BLOCK):
            for question, answer in zip(block[self.source.question], block[self.source.answer], strict=True):
                yield Pair(question or "", answer or "")


def leave_out(source: Source, place: Path, columns: list[str], bad: list[int], folder: Path) -> tuple[Path, list[str]]:
    """A copy of a text file without its bad lines, and the columns of the copy."""
    target = folder / f"good.{source.kind}"
    if source.kind == "csv":
        copy_good_csv(source, place, bad, target)
        return target, columns
    copy_good_lines(source, place, bad, target)
    return target, [source.question, source.answer]


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


def reachable_place(source: Source, folder: Path) -> Path:
    """The file under a plain name: `datasets` takes [ and * in a path for a pattern, and a pipe is read only once."""
    place = folder / f"pairs.{source.kind}"
    if source.path.is_file():
        try:
            place.symlink_to(source.path.resolve())
        except OSError:
            shutil.copyfile(source.path, place)
    else:
        with source.path.open("rb") as pipe, place.open("wb") as file:
            shutil.copyfileobj(pipe, file)
        if place.stat().st_size == 0:
            raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")
    return place


def load_rows(source: Source, place: Path, columns: list[str], folder: Path) -> Any:  # noqa: ANN401  # a data set
    """The two columns of a file that has passed the checks, memory-mapped; all caches stay inside `folder`."""
    import datasets

    wanted = list(dict.fromkeys([source.question, source.answer]))
    options: dict[str, Any] = {"cache_dir": str(folder / "cache")}
    if source.kind == "csv":
        options |= {
            "sep": source.cell_separator,
            "encoding": source.decoding if place.stem == "pairs" else "utf-8",
            "header": 0,
            "names": columns,
            "usecols": wanted,
            "index_col": False,
            "keep_default_na": False,
            "na_filter": False,
            "features": datasets.Features({name: datasets.Value("string") for name in wanted}),
        }
    read = {
        "csv": datasets.Dataset.from_csv,
        "json": datasets.Dataset.from_json,
        "parquet": datasets.Dataset.from_parquet,
    }[source.kind]
    with quiet_datasets():
        try:
            return choose_columns(source, read(str(place), **options))
        except DataError:
            raise
        except (
            Exception
        ) as error:  # whatever stands below: the errors of datasets, pandas and pyarrow have no common kind
            cause = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
            raise DataError(f"cannot read {source.name}: {show_controls(cause[0])}") from error


def choose_columns(source: AnySource, table: Any) -> Any:  # noqa: ANN401  # a data set
    """The two columns of a data set, looked for inside others where their names have a dot.

    Raises:
        DataError: a column is missing, or is no text.
    """
    wanted = list(dict.fromkeys([source.question, source.answer]))
    if not set(wanted) <= set(table.column_names):
        outer = {name.split(".")[0] for name in wanted} & set(table.column_names)
        table = table.select_columns(sorted(outer)).flatten() if outer else table.flatten()
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        raise DataError(
            f"{source.name} has no column {show(missing)}; its columns are {show(table.column_names)}. "
            "Name the right ones with --source and --target, inner ones with a dot."
        )
    for name in wanted:
        if getattr(table.features[name], "dtype", "") not in ("string", "large_string", "null"):
            raise DataError(f'{source.name} holds {table.features[name]} in its column "{name}". It should hold text.')
    return table.select_columns(wanted)


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Inside the block `datasets` draws no progress bars."""
    import datasets

    were_off = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not were_off:
            datasets.enable_progress_bars()
