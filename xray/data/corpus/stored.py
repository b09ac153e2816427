"""A corpus as one Arrow file: every pair as text and as ids, tokenised once, memory-mapped ever after."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow
import torch
from torch import Tensor

from xray.config import PAD
from xray.data.corpus.cutting import Ids, as_column, as_rows
from xray.data.pairs import Pair
from xray.data.rows_on_disk import make_rows, take_lengths
from xray.errors import DataError

SCHEMA = pyarrow.schema(
    [
        ("question", pyarrow.string()),
        ("answer", pyarrow.string()),
        ("src", pyarrow.list_(pyarrow.int32())),
        ("tgt", pyarrow.list_(pyarrow.int32())),
    ]
)

BEGIN_ANOTHER = "Begin another run with --out."


class StoredCorpus(Sequence[Pair]):
    """The pairs of an Arrow file. Only what is looked at is read, so the file may be larger than memory."""

    def __init__(self, path: Path) -> None:
        try:
            self.file = pyarrow.ipc.open_file(pyarrow.memory_map(str(path)))
            if self.file.schema != SCHEMA:
                raise DataError(f"{path.name} is damaged: its columns are not those of a corpus. {BEGIN_ANOTHER}")
            blocks = [self.file.get_batch(number) for number in range(self.file.num_record_batches)]
            for block in blocks:
                block.validate(full=True)  # else a wrong offset is followed out of the file
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{path.name} is damaged, or no corpus. {BEGIN_ANOTHER}") from error
        self.path = path
        self.folder = path.parent
        self.blocks = blocks
        self.starts = [0]
        for block in blocks:
            self.starts.append(self.starts[-1] + block.num_rows)
        self.src = [as_rows(block["src"]) for block in blocks]
        self.tgt = [as_rows(block["tgt"]) for block in blocks]
        longest = max((np.diff(starts).max(initial=0) for _, starts in (*self.src, *self.tgt)), default=0)
        kind = torch.int16 if longest < 1 << 15 else torch.int32
        self.lengths = make_rows((len(self), 2), kind, self.folder)
        """(pairs, 2): how many ids each question has, and each answer."""
        for first, *sides in zip(self.starts, self.src, self.tgt, strict=False):
            for side, (_, starts) in enumerate(sides):
                self.lengths[first : first + len(starts) - 1, side] = torch.from_numpy(np.diff(starts))

    def check_ids(self, src_vocab: int, tgt_vocab: int, max_len: int) -> None:
        """Make sure that a model of these sizes can look up every id, at every place.

        Raises:
            DataError: there is one that it cannot.
        """
        for name, columns, vocab in (("question", self.src, src_vocab), ("answer", self.tgt, tgt_vocab)):
            for ids, starts in columns:
                used = ids[starts[0] : starts[-1]]
                if len(used) and not 0 <= used.min() <= used.max() < vocab:
                    raise DataError(f"the corpus is damaged: a {name} has an id beyond {vocab:,}. {BEGIN_ANOTHER}")
        if len(self) and (self.lengths[:, 0].min() < 1 or self.lengths[:, 1].min() < 2):
            raise DataError(f"the corpus is damaged: it has a pair without words. {BEGIN_ANOTHER}")
        if len(self) and self.lengths.max() > max_len + 1:
            raise DataError(f"the corpus is damaged: a pair is longer than {max_len:,} tokens. {BEGIN_ANOTHER}")

    def __len__(self) -> int:
        return self.starts[-1]

    @overload
    def __getitem__(self, number: int) -> Pair: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Pair, ...]: ...
    def __getitem__(self, number: int | slice) -> Pair | tuple[Pair, ...]:
        if isinstance(number, slice):
            return tuple(self[one] for one in range(*number.indices(len(self))))
        if not 0 <= number < len(self):
            raise IndexError(number)
        place, row = self.find(number)
        block = self.blocks[place]
        return Pair(block["question"][row].as_py(), block["answer"][row].as_py())

    def __iter__(self) -> Iterator[Pair]:
        for block in self.blocks:
            for question, answer in zip(block["question"], block["answer"], strict=True):
                yield Pair(question.as_py(), answer.as_py())

    def find(self, number: int) -> tuple[int, int]:
        """The block of a pair, and its row there."""
        place = bisect_right(self.starts, number) - 1
        return place, number - self.starts[place]

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The ids of these pairs, padded.

        Shapes:
            out: (batch, src_len) and (batch, tgt_len + 1)
        """
        places = [self.find(number) for number in numbers]
        return pad_rows(self.src, places), pad_rows(self.tgt, places)


class Part(Sequence[Pair]):
    """Some pairs of a corpus, by their numbers."""

    def __init__(self, corpus: StoredCorpus, numbers: Tensor) -> None:
        self.corpus = corpus
        self.numbers = numbers
        self.folder = corpus.folder
        self.lengths = take_lengths(corpus.lengths, numbers, self.folder)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, number: int) -> Pair: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Pair, ...]: ...
    def __getitem__(self, number: int | slice) -> Pair | tuple[Pair, ...]:
        if isinstance(number, slice):
            return tuple(self.corpus[one] for one in self.numbers[number].tolist())
        return self.corpus[int(self.numbers[number])]

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The ids of these pairs of the part, padded; see `StoredCorpus.batch`."""
        return self.corpus.batch(self.numbers[list(numbers)].tolist())


class CorpusWriter:
    """An Arrow file of pairs and ids being written, block by block."""

    def __init__(self, path: Path) -> None:
        self.writer: Any = pyarrow.ipc.new_file(str(path), SCHEMA)

    def write(self, questions: Any, answers: Any, src: Ids, tgt: Ids) -> None:  # noqa: ANN401  # Arrow columns
        """Put a block of pairs behind those that are there."""
        columns = [questions, answers, as_column(*src), as_column(*tgt)]
        self.writer.write_batch(pyarrow.record_batch(columns, schema=SCHEMA))

    def close(self) -> None:
        """Write the end, without which the file cannot be read."""
        self.writer.close()


def pad_rows(blocks: Sequence[tuple[Any, Any]], places: Sequence[tuple[int, int]]) -> Tensor:
    """The ids of rows as one tensor (batch, longest), filled up with padding."""
    rows = []
    for place, row in places:
        ids, starts = blocks[place]
        rows.append(ids[starts[row] : starts[row + 1]])
    padded = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for number, ids in enumerate(rows):
        padded[number, : len(ids)] = ids
    return torch.from_numpy(padded)
