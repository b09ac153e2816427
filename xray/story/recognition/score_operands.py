"""A part between scores and softmax, and the tensors that it brings in."""

from dataclasses import dataclass
from typing import Literal

from xray.ir.records import TensorRecord

Kind = Literal["scale", "bias", "mask", "changed", "kept", "mix", "mixed_mask", "softmax"]
"""What a part does; "kept" hides some scores by what they are themselves.

What is "changed" where a mask says so becomes a number that is not low enough to hide (1e-9 in place of -1e9).

A "mix" is one of heads: what was hidden before it, by a "mixed_mask", is not known to be hidden behind it.
"""


@dataclass(frozen=True)
class Operand:
    """A tensor that a scored step brings in, and the step that made it."""

    record: TensorRecord
    maker: int | None


@dataclass(frozen=True)
class Scored:
    """One part between scores and softmax: its steps, and what it brings in beside the scores."""

    kind: Kind
    nodes: tuple[int, ...]
    operand: Operand | None = None
