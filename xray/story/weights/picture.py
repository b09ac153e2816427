"""One head's weights over one sequence, and how widely they look."""

from dataclasses import dataclass
from math import log2

from xray.config import PAD, SPECIAL_TOKENS

PADDING = SPECIAL_TOKENS[PAD]


@dataclass(frozen=True)
class Kind:
    """The attentions of a tower that look at the same: its name for the command line, and what they look at."""

    name: str
    tower: str
    source: str

    @property
    def crosses(self) -> bool:
        """Whether another tower is looked at."""
        return self.source != "self"

    @property
    def title(self) -> str:
        """What a picture of it is called."""
        if self.crosses:
            return "Cross-attention"
        if self.tower in ("encoder", "decoder"):
            return f"{self.tower.capitalize()} self-attention"
        return "Attention" if self.tower == "attention" else f"Self-attention of the {self.tower} tower"


@dataclass(frozen=True)
class Picture:
    """One head's weights over one sequence, before dropout: a row for each query, a column for each key.

    `nth` tells several attentions of one layer apart. `hidden` marks the cells that the mask hides; `entropy` is the
    mean over the rows of real words, in bits: 0 where every query looks at one key only, log2 of the keys where it
    looks at all alike.
    """

    kind: Kind
    layer: int
    head: int
    sequence: int
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    hidden: tuple[tuple[bool, ...], ...]
    entropy: float
    nth: int = 0

    @property
    def place(self) -> str:
        """Where it stands, as it is written over it."""
        again = f" ({self.nth + 1})" if self.nth else ""
        return f"layer {self.layer + 1}{again}, head {self.head + 1}"


def mean_entropy(weights: tuple[tuple[float, ...], ...], queries: tuple[str, ...]) -> float:
    """How widely the queries look, in bits, meant over the rows whose word is no padding."""
    words = queries if len(queries) == len(weights) else ("",) * len(weights)
    rows = [row for row, word in zip(weights, words, strict=True) if word != PADDING] or list(weights)
    return sum(row_entropy(row) for row in rows) / max(1, len(rows))


def row_entropy(row: tuple[float, ...]) -> float:
    """The entropy of one query's weights, in bits."""
    return -sum(weight * log2(weight) for weight in row if weight > 0) + 0.0
