"""Columns of texts cut into ids a block at a time.

Between spaces stand the same few runs of letters again and again. Each different one is cut by the tokeniser once; the
texts are put together from them by pyarrow and numpy. That is exact, since no rule of a tokeniser looks past a space.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from xray.data.tokens.tokeniser import split_text

Ids = tuple[Any, Any]
"""The ids of many texts behind one another, and where each text begins; the last number is where all end."""

REMEMBERED = 500_000
"""How many runs are remembered at a time."""


class Cutter:
    """Cuts texts by `cut`, which gives the ids of each of several runs without a space in them."""

    def __init__(self, cut: Callable[[list[str]], Sequence[Sequence[int]]]) -> None:
        self.cut = cut
        self.forget()

    def forget(self) -> None:
        """Begin with nothing remembered, so that no more memory is taken however many texts come."""
        self.number_of: dict[str, int] = {}
        self.ids = np.zeros(0, dtype=np.int32)
        self.starts = np.zeros(1, dtype=np.int64)

    def __call__(self, texts: Any) -> Ids:  # noqa: ANN401  # an Arrow column of strings
        """The ids of each text."""
        runs = pyarrow.compute.ascii_split_whitespace(texts)
        found = pyarrow.compute.dictionary_encode(runs.flatten())
        numbers = self.number(found.dictionary.to_pylist())[found.indices.to_numpy()]
        ids, starts = take_rows(self.ids, self.starts, numbers)
        offsets = runs.offsets.to_numpy()
        return ids, starts[offsets - offsets[0]]

    def number(self, runs: list[str]) -> Any:  # noqa: ANN401  # an array
        """The number of each run among those remembered; new ones are cut."""
        if len(self.number_of) > REMEMBERED:
            self.forget()
        known = self.number_of
        numbers = list(map(known.get, runs))
        new = [run for run, number in zip(runs, numbers, strict=True) if number is None]
        if new:
            numbers_of_new = iter(range(len(known), len(known) + len(new)))
            numbers = [next(numbers_of_new) if number is None else number for number in numbers]
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            cut = self.cut(new)
            sizes = np.fromiter(map(len, cut), np.int64, len(new))
            self.ids = np.concatenate([self.ids, np.fromiter(chain.from_iterable(cut), np.int32, int(sizes.sum()))])
            self.starts = np.concatenate([self.starts, self.starts[-1] + np.cumsum(sizes)])
        return np.array(numbers, dtype=np.int64)


class WordNumbers:
    """A number for each different word, in the order in which they come; a vocabulary is made of them afterwards."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}

    def cut(self, runs: list[str]) -> list[list[int]]:
        """The numbers of the words in each run."""
        known = self.number_of
        return [[known.setdefault(word, len(known)) for word in split_text(run)] for run in runs]


def take_rows(ids: Any, starts: Any, rows: Any) -> Ids:  # noqa: ANN401  # arrays
    """Some rows of many, by their numbers, one behind the other; a row may be taken several times."""
    sizes = (starts[1:] - starts[:-1])[rows]
    ends = np.cumsum(sizes)
    shift = np.repeat(starts[:-1][rows] - (ends - sizes), sizes)
    return ids[shift + np.arange(len(shift))], np.concatenate([np.zeros(1, dtype=np.int64), ends])


def as_column(ids: Any, starts: Any) -> Any:  # noqa: ANN401  # arrays in, an Arrow column out
    """Rows of ids as a column of lists."""
    return pyarrow.ListArray.from_arrays(pyarrow.array(starts, pyarrow.int32()), pyarrow.array(ids, pyarrow.int32()))


def as_rows(column: Any) -> Ids:  # noqa: ANN401  # an Arrow column
    """A column of lists as rows of ids: views, not copies."""
    return column.values.to_numpy(), column.offsets.to_numpy()


def frame_rows(ids: Any, starts: Any, first: int, last: int) -> Ids:  # noqa: ANN401  # arrays
    """Every row between two more ids."""
    rows = len(starts) - 1
    wider = starts - starts[0] + 2 * np.arange(rows + 1)
    framed = np.empty(int(wider[-1]), dtype=np.int32)
    inside = np.ones(len(framed), dtype=bool)
    inside[wider[:-1]] = inside[wider[1:] - 1] = False
    framed[wider[:-1]], framed[wider[1:] - 1], framed[inside] = first, last, ids[starts[0] : starts[-1]]
    return framed, wider
