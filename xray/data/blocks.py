"""Blocks of rows on disk, written one by one: behind what a killed process wrote, the next one goes on."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow

from xray.scratch import write_aside

BLOCK = 25_000
"""Rows that are in memory at a time."""

WHOLE = "whole.json"
Write = Callable[..., None]
Thing = TypeVar("Thing")


class Blocks:
    """Arrow streams in a folder, one for every process that wrote on; the rows are those of all, behind one another."""

    def __init__(self, folder: Path, schema: Any) -> None:  # noqa: ANN401  # pyarrow has no types
        self.folder = folder
        self.schema = schema

    @property
    def is_whole(self) -> bool:
        """Whether the last block was written."""
        return (self.folder / WHOLE).is_file()

    @property
    def facts(self) -> dict[str, Any]:
        """What was left behind the last block."""
        return json.loads((self.folder / WHOLE).read_text(encoding="utf-8"))  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        for block, _ in self.with_notes():
            yield block

    def with_notes(self) -> Iterator[tuple[Any, str]]:
        """Every whole block, and the note that was written with it."""
        for path in sorted(self.folder.glob("*.arrows"), key=lambda path: int(path.stem)):
            if not path.stat().st_size:
                continue
            with pyarrow.memory_map(str(path)) as file:
                try:
                    reader = pyarrow.ipc.open_stream(file)
                    while True:
                        block, notes = reader.read_next_batch_with_custom_metadata()
                        yield block, (notes or {}).get(b"note", b"").decode()
                except (StopIteration, OSError, pyarrow.ArrowException):
                    continue  # the end, or where its writer was killed

    @contextmanager
    def go_on(self) -> Iterator[Write]:
        """Inside the block rows can be written behind those that are there: `write(block, note)`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in self.folder.glob("*.arrows"))
        with pyarrow.ipc.new_stream(str(self.folder / f"{number}.arrows"), self.schema) as stream:

            def write(block: Any, note: str = "") -> None:  # noqa: ANN401
                stream.write_batch(block, custom_metadata={"note": note})

            yield write

    def close(self, **facts: Any) -> None:  # noqa: ANN401  # whatever JSON can hold
        """No block follows any more."""
        with write_aside(self.folder / WHOLE) as file:
            file.write(json.dumps(facts).encode())


def one_ahead(things: Iterable[Thing]) -> Iterator[Thing]:
    """The same things, the next one made in a thread while the one at hand is used: so two cores are busy."""
    following = iter(things)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, following, None)
        while (thing := coming.result()) is not None:
            coming = thread.submit(next, following, None)
            yield thing
