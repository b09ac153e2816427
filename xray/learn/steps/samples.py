"""What a trainer learns from: pairs as ids, asked for by the batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import Tensor


class Samples(Protocol):
    """Numbered pairs; `lengths` (pairs, 2) are those of questions and of answers with `<sos>` and `<eos>`.

    What is worked out for each of very many pairs lies in `folder`.
    """

    lengths: Tensor
    folder: Path

    def __len__(self) -> int: ...

    def batch(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The ids of these questions (batch, src_len) and answers (batch, tgt_len + 1), padded."""
