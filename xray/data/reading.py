"""Pairs read from a CSV, JSON lines or Parquet file with `datasets`, once the file has been looked through."""

import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xray.data.checking import check_contents
from xray.data.pairs import Pair
from xray.data.source import Source
from xray.errors import DataError
from xray.text import show_controls


def read_pairs(source: Source) -> tuple[Pair, ...]:
    """All pairs of a file in their order, blank cells as empty text.

    Raises:
        DataError: the file cannot be read, or is not what its suffix and the column names say.
    """
    check_readable(source)
    with tempfile.TemporaryDirectory(prefix="xray-") as folder:
        try:
            place = reachable_place(source, Path(folder))
            columns = check_contents(source, place)
            rows = load_rows(source, place, columns, Path(folder))
        except OSError as error:
            raise DataError(f"cannot read {source.name}: {(error.strerror or str(error)).lower()}.") from error
    return tuple(Pair(row[source.question] or "", row[source.answer] or "") for row in rows)


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
        if stat.S_ISREG(facts.st_mode):
            source.path.open("rb").close()
            if facts.st_size == 0:
                raise DataError(f"{source.name} is empty. It should hold pairs under a header of column names.")
    except FileNotFoundError as error:
        raise DataError(f"cannot read {shown}: no such file. Give a file of pairs.") from error
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise DataError(f"cannot read {shown}: {reason}. Give a file of pairs.") from error
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


def load_rows(source: Source, place: Path, columns: list[str], folder: Path) -> list[dict[str, str | None]]:
    """The two columns of a file that has passed the checks; the cache of `datasets` stays inside `folder`."""
    import datasets

    wanted = list(dict.fromkeys([source.question, source.answer]))
    options: dict[str, Any] = {"cache_dir": str(folder / "cache"), "keep_in_memory": True}
    if source.kind == "csv":
        options |= {
            "sep": source.cell_separator,
            "encoding": source.decoding,
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
            return read(str(place), **options).select_columns(wanted).to_list()  # type: ignore[no-any-return]
        except (
            Exception
        ) as error:  # whatever stands below: the errors of datasets, pandas and pyarrow have no common kind
            cause = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
            raise DataError(f"cannot read {source.name}: {show_controls(cause[0])}") from error


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
