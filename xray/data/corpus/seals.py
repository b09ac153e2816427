"""Which texts are alike: a number for each, kept on disk, so that as many as there are take up no memory."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

PART = 1 << 18
"""About how many seals are looked at at a time."""

MOST_PARTS = 1 << 16


class Numbers:
    """Numbers of one kind behind one another in a file without a name, to be read once they are all there."""

    def __init__(self, folder: Path, kind: Any) -> None:  # noqa: ANN401  # what numpy takes for a type
        self.kind = np.dtype(kind)
        self.count = 0
        self.file = cast(BinaryIO, tempfile.TemporaryFile(dir=folder))  # noqa: SIM115  # open until it is read

    def __del__(self) -> None:
        self.file.close()

    def __len__(self) -> int:
        return self.count

    def add(self, numbers: Any) -> None:  # noqa: ANN401  # an array
        """Put numbers behind those that are there."""
        self.file.write(numbers.astype(self.kind).tobytes())
        self.count += len(numbers)

    def read(self) -> Any:  # noqa: ANN401  # an array
        """All of them, as an array that lies in the file."""
        self.file.flush()
        if not self.count:
            return np.zeros(0, self.kind)
        return np.asarray(np.memmap(self.file, self.kind, "r", shape=(self.count,)))


def part_of(seal: Any, parts: int) -> Any:  # noqa: ANN401  # a seal or an array of them
    """The part that a seal belongs to; equal ones belong to the same."""
    return seal & np.uint64(parts - 1)


def cut_in_parts(seals: Any) -> tuple[int, Iterator[Any]]:  # noqa: ANN401  # an array
    """How many parts there are, a power of two, and the places of the seals of each: seals are spread evenly."""
    parts = 1
    while parts < MOST_PARTS and parts * PART < len(seals):
        parts *= 2

    def places(part: int) -> Any:  # noqa: ANN401
        blocks = range(0, len(seals), PART)
        found = [np.flatnonzero(part_of(seals[first : first + PART], parts) == part) + first for first in blocks]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    return parts, map(places, range(parts))


class Alike:
    """Rows by their seals: which have the same as another. All of it lies on disk."""

    def __init__(self, seals: Numbers, folder: Path) -> None:
        self.seals = seals.read()
        order, inner, self.edges = Numbers(folder, np.int64), Numbers(folder, np.uint64), [0]
        self.parts, cut = cut_in_parts(self.seals)
        for places in cut:
            own = self.seals[places]
            sorted_places = np.argsort(own, kind="stable")
            order.add(places[sorted_places])
            inner.add(own[sorted_places])
            self.edges.append(len(order))
        self.order, self.sorted = order.read(), inner.read()

    def rows(self, number: int) -> list[int]:
        """The rows with the same seal as this one, itself among them, in order."""
        seal = self.seals[number]
        first, last = self.edges[part := int(part_of(seal, self.parts))], self.edges[part + 1]
        low, high = (first + int(np.searchsorted(self.sorted[first:last], seal, side)) for side in ("left", "right"))
        return self.order[low:high].tolist()  # type: ignore[no-any-return]


def count_torn(asked: Any, said: Any) -> int:  # noqa: ANN401  # arrays of seals
    """How many questions have more than one answer."""
    return sum(count_torn_part(asked[places], said[places]) for places in cut_in_parts(asked)[1])


def count_torn_part(asked: Any, said: Any) -> int:  # noqa: ANN401  # arrays of seals
    """How many of these questions have more than one answer; all that are equal are among them."""
    order = np.argsort(asked, kind="stable")
    asked, said = asked[order], said[order]
    begins = np.ones(len(asked), dtype=bool)
    begins[1:] = asked[1:] != asked[:-1]
    question = np.cumsum(begins) - 1
    differs = said != said[begins][question]
    return len(np.unique(question[differs]))


def seals_of(ids: Any, starts: Any) -> Any:  # noqa: ANN401  # arrays
    """A number for each row that is the same for equal rows, and for others never, as far as 64 bits can tell."""
    sizes = np.diff(starts)
    place = np.arange(int(starts[-1] - starts[0])) - np.repeat(starts[:-1] - starts[0], sizes)
    weights = scramble(np.arange(int(sizes.max(initial=0)) + 1).astype(np.uint64)) | np.uint64(1)
    terms = scramble(ids[starts[0] : starts[-1]].astype(np.uint64)) * weights[place]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    ends = starts - starts[0]
    return scramble(sums[ends[1:]] - sums[ends[:-1]] + sizes.astype(np.uint64))


def scramble(numbers: Any) -> Any:  # noqa: ANN401  # an array of 64-bit numbers
    """Numbers without any order, each from one (the finisher of splitmix64)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
