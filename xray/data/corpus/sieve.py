"""Which pairs can be learnt, and what there is to say of the others."""

from pathlib import Path
from typing import Any

import numpy as np

from xray.data.corpus.cutting import Ids, take_rows
from xray.data.corpus.seals import Numbers, count_torn, seals_of
from xray.errors import DataError


class Sieve:
    """Pairs let through in blocks, those that cannot be learnt counted.

    A question may have `max_len` tokens; an answer one less, since the decoder reads it behind `<sos>`. Of texts that
    were seen only a number each is kept, in a file in `folder`, so that a corpus larger than memory can go through.
    """

    def __init__(self, max_len: int, folder: Path) -> None:
        self.max_len = max_len
        self.seen = self.blank = self.long = 0
        self.asked, self.said = Numbers(folder, np.uint64), Numbers(folder, np.uint64)

    def sift(self, src: Ids, tgt: Ids) -> Any:  # noqa: ANN401  # an array of truths
        """Which pairs of a block can be learnt."""
        kept = learnable(src, tgt, self.max_len)
        blank = int(((np.diff(src[1]) == 0) | (np.diff(tgt[1]) == 0)).sum())
        rows = np.flatnonzero(kept)
        self.seen += len(kept)
        self.blank += blank
        self.long += len(kept) - len(rows) - blank
        self.asked.add(seals_of(*take_rows(*src, rows)))
        self.said.add(seals_of(*take_rows(*tgt, rows)))
        return kept

    def notes(self, name: str) -> tuple[str, ...]:
        """A note for every kind of pair that was left out, or that contradicts another.

        Raises:
            DataError: no pair is left.
        """
        if self.blank + self.long == self.seen:
            raise DataError(
                f"{name} has no pair to train on: of its {self.seen:,} rows, {self.blank:,} have a blank question or "
                f"answer and {self.long:,} are longer than {self.max_len} tokens. Add pairs, or raise --max-len."
            )
        notes = []
        if self.blank:
            notes.append(f"{self.blank:,} of {self.seen:,} rows have a blank question or answer: left out")
        if self.long:
            notes.append(
                f"{self.long:,} of {self.seen:,} pairs are longer than {self.max_len} tokens "
                f"(answers: {self.max_len - 1} and <sos>): left out"
            )
        torn = count_torn(self.asked.read(), self.said.read())
        if torn:
            notes.append(f"{torn:,} {'question has' if torn == 1 else 'questions have'} more than one answer: all kept")
        return tuple(notes)


def learnable(src: Ids, tgt: Ids, max_len: int) -> Any:  # noqa: ANN401  # an array of truths
    """Which pairs are neither blank nor too long; an answer may have one token less, as it is read behind `<sos>`."""
    asked, said = np.diff(src[1]), np.diff(tgt[1])
    return (asked > 0) & (said > 0) & (asked <= max_len) & (said <= max_len - 1)
