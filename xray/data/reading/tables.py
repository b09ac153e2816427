"""Rows of Parquet files and of data sets on the hub, whose columns may stand inside one another."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from xray.data.blocks import BLOCK
from xray.data.reading.hub import HubSource, load_hub
from xray.data.reading.source import Source, check_columns, show
from xray.errors import DataError


def read_parquet(source: Source, place: Path) -> tuple[int, Iterator[Any]]:
    """How many rows there are, and the rows in blocks.

    Raises:
        DataError: the file is damaged, has no rows, or misses a column of text.
    """
    try:
        with pyarrow.parquet.ParquetFile(place) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except pyarrow.ArrowException as error:
        raise DataError(f"{source.name} is damaged, or not a Parquet file.") from error
    leaves = {name: kind for field in schema for name, kind in leaf_types(field.name, field.type)}
    check_columns(source, list(leaves))
    for name in (source.question, source.answer):
        if not is_text(leaves[name]):
            raise DataError(f'{source.name} holds {leaves[name]} in its column "{name}". It should hold text.')
    if rows == 0:
        raise DataError(f"{source.name} has columns but no rows. Add pairs.")
    return rows, parquet_blocks(source, place)


def parquet_blocks(source: Source, place: Path) -> Iterator[Any]:
    """The two columns of a Parquet file, in blocks."""
    names = [source.question, source.answer]
    try:
        with pyarrow.parquet.ParquetFile(place) as file:
            for block in file.iter_batches(BLOCK, columns=list(dict.fromkeys(names))):
                yield [inner_column(block, name) for name in names]
    except pyarrow.ArrowException as error:
        raise DataError(f"{source.name} is damaged: {str(error).splitlines()[0]}") from error


def read_hub(source: HubSource) -> tuple[int, Iterator[Any]]:
    """How many rows a data set on the hub has, and the rows in blocks.

    Raises:
        DataError: it cannot be loaded, or has not the two columns of text.
    """
    with quiet_datasets():
        table = load_hub(source)
        names = [source.question, source.answer]
        if not set(names) <= set(table.column_names):
            outer = {name.split(".")[0] for name in names} & set(table.column_names)
            table = table.select_columns(sorted(outer)).flatten() if outer else table.flatten()
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise DataError(
                f"{source.name} has no column {show(missing)}; its columns are {show(table.column_names)}. "
                "Name the right ones with --source and --target, inner ones with a dot."
            )
        for name in names:
            if getattr(table.features[name], "dtype", "") not in ("string", "large_string", "null"):
                raise DataError(
                    f'{source.name} holds {table.features[name]} in its column "{name}". It should hold text.'
                )
        table = table.select_columns(list(dict.fromkeys(names))).with_format("arrow")
    return len(table), ([block.column(name) for name in names] for block in table.iter(BLOCK))


def is_text(kind: Any) -> bool:  # noqa: ANN401  # pyarrow has no types
    """Whether a column holds text."""
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def leaf_types(name: str, kind: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  # pyarrow has no types
    """A column with its type, or those within it, named with a dot."""
    if not pyarrow.types.is_struct(kind):
        yield name, kind
        return
    for inner in kind:
        yield from leaf_types(f"{name}.{inner.name}", inner.type)


def inner_column(block: Any, name: str) -> Any:  # noqa: ANN401  # pyarrow has no types
    """A column by its name, or inside others by names with a dot between them."""
    if name in block.schema.names:
        return block.column(name)
    outer, inner = name.split(".", 1)
    column = block.column(outer)
    while inner:
        names = [field.name for field in column.type]
        first, inner = (inner, "") if inner in names else inner.split(".", 1)
        column = pyarrow.compute.struct_field(column, first)
    return column


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
