"""What is known of one tensor at one moment: facts only, never the tensor itself."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["ids", "activation", "mask", "logits", "loss", "parameter", "state"]
MaskKind = Literal["none", "padding", "causal", "padding+causal", "custom"]
Polarity = Literal["true_is_visible", "true_is_hidden", "additive"]
NonFinite = Literal["nan", "inf", "-inf"]
Number = int | float | NonFinite
"""A value of a preview; what JSON cannot write as a number is spelt out."""


def spell_number(value: float) -> Number:
    """The number itself, or its word where JSON cannot write it."""
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


NON_FINITE: tuple[NonFinite, ...] = get_args(NonFinite)

VISIBLE, PADDING, FUTURE, BOTH, HIDDEN = ".", "p", "f", "b", "x"
"""The letters of a mask cell: may be read, padding, future, padding and future, hidden for another reason."""
PARTIAL = "/"
"""The letter of a block of which some cells may be read; one that is full or skipped has the letter of a cell."""


Span = tuple[int, int, int, int, int]
"""Rows of a mask one below the other: how many, the first key that the first of them shows and by how much that moves
on from row to row, and the same of the key behind the last."""


@dataclass(frozen=True)
class MaskBlocks:
    """The blocks by which flex attention runs through a mask: how many queries and keys one has, and what each is.

    `cells` holds one matrix for each combination of the leading axes, or one where they are all alike; a row is a
    string with one letter for each block: `.` full, all of it may be read; `/` partial; `x` skipped, none of it.
    """

    queries: int
    keys: int
    cells: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class MaskFacts:
    """Which query may not see which key, and why.

    `cells` holds one matrix for each combination of the leading axes, in row-major order; a matrix is a tuple of
    rows (queries), a row is a string with one letter for each key: `.` visible, `p` padding, `f` future, `b` both,
    `x` hidden for another reason. It is None where the mask is too large to keep; then `blind_rows` counts the rows in
    which nothing is visible, if that was looked at, and `spans` holds the stretch of keys that each row shows, a matrix
    for each combination of the leading axes, or one where they are all alike; None where a row shows several stretches.
    `blocks` are those of flex attention. `weighs` says that what is added to scores is not alike at all cells that may
    be read, so that it does more than hide.
    """

    kind: MaskKind
    hidden_share: float
    polarity: Polarity = "true_is_visible"
    cells: tuple[tuple[str, ...], ...] | None = None
    blind_rows: int | None = None
    spans: tuple[tuple[Span, ...], ...] | None = None
    blocks: MaskBlocks | None = None
    weighs: bool = False


@dataclass(frozen=True)
class Statistics:
    """What all values of a tensor come to; the first three are of the finite ones, None where there is none."""

    minimum: float | None
    maximum: float | None
    mean: float | None
    nans: int
    infinities: int


@dataclass(frozen=True)
class Preview:
    """A block of a tensor's values: `values` in row-major order, `shape` long on each axis, from `start` on.

    `statistics` are those of the whole tensor, where they were asked for.
    """

    start: tuple[int, ...]
    shape: tuple[int, ...]
    values: tuple[Number, ...]
    statistics: Statistics | None = None

    def rows(self, *leading: int) -> tuple[tuple[Number, ...], ...]:
        """The two-axis slice at the given leading indices of the block, as a tuple of rows.

        A block with one axis is one row; leading indices count from the block's own start.
        """
        if len(self.shape) < 2:
            return (self.values,)
        height, width = self.shape[-2:]
        offset = 0
        for index, size in zip(leading, self.shape[:-2], strict=True):
            offset = offset * size + index
        begin = offset * height * width
        return tuple(self.values[begin + row * width : begin + (row + 1) * width] for row in range(height))


@dataclass(frozen=True)
class TensorRecord:
    """One tensor as it stood when a step read or made it.

    `axes` has a word for each axis: its name where known, "1" where the axis is there only to be broadcast, "" where
    unknown. `source` is the id of the step that made the tensor, None for an input of the whole pass. `given` is the
    argument of the whole model that the tensor is, where its name says who may see whom: a mask, position ids.

    Of a tensor that several ranks hold, `local` is the shape of this rank's part and `shape` that of the whole;
    `placement` says in torch's notation how the mesh divides it, a word for each of its axes: "[S(0), R]". A `local`
    without a `placement` is of a tensor of which only this rank's part is known; `shape` is that of the part then.
    `trained` says of a parameter whether it requires a gradient, and is None where that was not noted. `output` says of
    what a step reads which of the tensors it is that its maker gave, counted from 0, where that gave several: the part
    of a split; it is None where it gave one, or that was not noted. `argument` says of what a step reads, and no step
    made, which argument of the outermost module it is, as `forward` names it ("batch.input_ids" of one that holds
    several); it is None where it is none, was given under several names, or that was not noted.
    `weight` is the name of the parameter that it is, as torch has it, of a shared one the first.
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    dtype: str
    device: str
    role: Role
    source: str | None = None
    mask: MaskFacts | None = None
    preview: Preview | None = None
    given: str | None = None
    placement: str | None = None
    local: tuple[int, ...] | None = None
    trained: bool | None = None
    output: int | None = None
    argument: str | None = None
    weight: str | None = None

    @property
    def is_float(self) -> bool:
        """Whether it holds numbers with a fraction."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    def __repr__(self) -> str:
        return f"TensorRecord({self.name!r}, {self.shape}, {self.axes}, {self.dtype!r}, {self.role!r})"

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each named axis, for instance {"batch": 8, "src_len": 10}."""
        return {axis: size for axis, size in zip(self.axes, self.shape, strict=True) if axis not in ("", "1")}
