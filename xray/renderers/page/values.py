"""How many values a page carries: as many as fit, and when they do not, which go first."""

from dataclasses import dataclass
from itertools import chain
from math import prod

from xray.ir.records import Preview


@dataclass(frozen=True)
class Level:
    """One way to cut values: of attention so many sequences, of other tensors so many sequences and values.

    None is no limit, 0 none at all; ids and single numbers always stay. `says` is told on the page.
    """

    name: str
    attention: int | None
    sequences: int | None
    values: int | None
    says: str


LEVELS = (
    Level(
        "recorded", None, None, None, "ids and attention weights in full, of every other tensor as much as was recorded"
    ),
    Level("one", None, 1, None, "attention weights in full, of other tensors the first sequence of those in the trace"),
    Level("some", None, 1, 256, "attention weights in full, of other tensors at most 256 values"),
    Level("attention", None, 0, 0, "attention weights in full, of other tensors no values"),
    Level("first", 1, 0, 0, "the first sequence's attention weights, of other tensors no values"),
    Level("none", 0, 0, 0, "ids and single numbers, no other values"),
)
"""From everything to almost nothing; a page takes the first that fits into its size."""


def cut_values(preview: Preview, op: str, level: Level) -> Preview | None:
    """The part of a preview that a level leaves; None where it leaves nothing."""
    if prod(preview.shape) <= 1 or all(isinstance(value, int) for value in preview.values):
        return preview
    if op == "softmax":
        return cut_sequences(preview, level.attention)
    block = cut_sequences(preview, level.sequences)
    return cut_rows(block, level.values) if block is not None else None


def cut_sequences(preview: Preview, most: int | None) -> Preview | None:
    """The first entries of the first axis."""
    if most is None or len(preview.shape) < 2 or preview.shape[0] <= most:
        return preview if most != 0 else None
    return None if most == 0 else take_first(preview, 0, most)


def cut_rows(preview: Preview, most: int | None) -> Preview | None:
    """A block of at most so many values, cut on the first axes before the last."""
    if most is None or prod(preview.shape) <= most:
        return preview
    for axis in range(len(preview.shape)):
        others = prod(preview.shape) // preview.shape[axis]
        if preview.shape[axis] > 1:
            preview = take_first(preview, axis, max(1, min(preview.shape[axis], most // others)))
    return preview


def take_first(preview: Preview, axis: int, count: int) -> Preview:
    """The block with fewer entries on one axis."""
    inner = prod(preview.shape[axis + 1 :])
    step = preview.shape[axis] * inner
    starts = range(0, len(preview.values), step)
    kept = tuple(chain.from_iterable(preview.values[start : start + count * inner] for start in starts))
    shape = (*preview.shape[:axis], count, *preview.shape[axis + 1 :])
    return Preview(preview.start, shape, kept, preview.statistics)
