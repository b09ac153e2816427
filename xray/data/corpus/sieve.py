"""Which pairs can be learnt, and what there is to say of the others."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xray.data.corpus.cutting import Ids, seals_of, take_rows
from xray.errors import DataError


@dataclass
class Sieve:
    """Pairs let through in blocks, those that cannot be learnt counted.

    A question may have `max_len` tokens; an answer one less, since the decoder reads it behind `<sos>`. Of texts that
    were seen only a number each is kept, so that a corpus larger than memory can go through.
    """

    max_len: int
    seen: int = 0
    blank: int = 0
    long: int = 0
    asked: list[Any] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)

    def sift(self, src: Ids, tgt: Ids) -> Any:  # noqa: ANN401  # an array of truths
        """Which pairs of a block can be learnt."""
        kept = learnable(src, tgt, self.max_len)
        blank = int(((np.diff(src[1]) == 0) | (np.diff(tgt[1]) == 0)).sum())
        rows = np.flatnonzero(kept)
        self.seen += len(kept)
        self.blank += blank
        self.long += len(kept) - len(rows) - blank
        self.asked.append(seals_of(*take_rows(*src, rows)))
        self.said.append(seals_of(*take_rows(*tgt, rows)))
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
        torn = count_torn(np.concatenate(self.asked), np.concatenate(self.said))
        if torn:
            notes.append(f"{torn:,} {'question has' if torn == 1 else 'questions have'} more than one answer: all kept")
        return tuple(notes)


def learnable(src: Ids, tgt: Ids, max_len: int) -> Any:  # noqa: ANN401  # an array of truths
    """Which pairs are neither blank nor too long; an answer may have one token less, as it is read behind `<sos>`."""
    asked, said = np.diff(src[1]), np.diff(tgt[1])
    return (asked > 0) & (said > 0) & (asked <= max_len) & (said <= max_len - 1)


def count_torn(asked: Any, said: Any) -> int:  # noqa: ANN401  # arrays of seals
    """How many questions have more than one answer."""
    order = np.argsort(asked, kind="stable")
    asked, said = asked[order], said[order]
    begins = np.ones(len(asked), dtype=bool)
    begins[1:] = asked[1:] != asked[:-1]
    question = np.cumsum(begins) - 1
    differs = said != said[begins][question]
    return len(np.unique(question[differs]))
