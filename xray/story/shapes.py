"""A tensor's shape as it is printed: the numbers coloured by axis, the words for each axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.story.layout import Line, Run

TIMES = "×"
HUES = ("batch", "heads", "src_len", "tgt_len", "d_model", "d_k", "d_ff", "src_vocab", "tgt_vocab")
"""The axis words with a hue of their own; others take the hue of the first of these that is in them."""


@dataclass(frozen=True)
class ShapeText:
    """The sizes of a tensor as text, "t" where it grows by one with every decode turn, and a word for each axis."""

    sizes: tuple[str, ...]
    axes: tuple[str, ...]

    @property
    def plain(self) -> str:
        """As one word, "8×4×10×8"; "one number" for a tensor without axes."""
        return TIMES.join(self.sizes) if self.sizes else "one number"

    @property
    def symbols(self) -> str:
        """The axis words, "batch×heads×src_len×d_k"; an axis without a word keeps its size."""
        return TIMES.join(self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The word of each axis, its size where it has none."""
        return tuple(axis or size for axis, size in zip(self.axes, self.sizes, strict=False)) or self.axes

    @property
    def is_named(self) -> bool:
        """Whether any axis has a word."""
        return any(axis not in ("", "1") for axis in self.axes)


def read_shape(records: Sequence[tuple[int, TensorRecord]]) -> ShapeText:
    """The shape that several passes agree on; each record comes with its pass's number.

    Axes keep the word that they have in the first pass, if no other pass has another, and if they stay as long as each
    other: keys that a cache adds to are not as many as queries.
    """
    first = records[0][1]
    if any(len(record.shape) != len(first.shape) for _, record in records):
        return ShapeText(("…",), ("",))
    sizes = tuple(
        common_size([(number, record.shape[place]) for number, record in records]) for place in range(len(first.shape))
    )
    seen = zip(*(record.axes for _, record in records), strict=True)
    words = [word if {*others} <= {word, ""} else "" for word, others in zip(first.axes, seen, strict=True)]
    lengths = {word: {size for own, size in zip(words, sizes, strict=True) if own == word} for word in words}
    return ShapeText(sizes, tuple(word if len(lengths[word]) == 1 else "" for word in words))


def common_size(seen: list[tuple[int, int]]) -> str:
    """A size that all turns share, "t" or "t+1" where it is the turn's number, else the range."""
    values = [size for _, size in seen]
    if len(set(values)) == 1:
        return str(values[0])
    if all(size == number for number, size in seen):
        return "t"
    if all(size == number + 1 for number, size in seen):
        return "t+1"
    return f"{min(values)}–{max(values)}"


def hue(axis: str) -> str:
    """The role of an axis word's digits."""
    return next((f"axis:{name}" for name in HUES if name == axis), None) or next(
        (f"axis:{name}" for name in HUES[1:] if name in axis), "axis:other"
    )


def digits(shape: ShapeText, size: int) -> Line:
    """The sizes, bold and coloured by axis, with quiet times signs between them."""
    if not shape.sizes:
        return (Run(shape.plain, size, "text", "bold"),)
    runs: list[Run] = []
    for place, (number, axis) in enumerate(zip(shape.sizes, shape.axes, strict=True)):
        if place:
            runs.append(Run(TIMES, size, "quiet"))
        runs.append(Run(number, size, hue(axis), "bold", axis=axis))
    return tuple(runs)


def symbols(shape: ShapeText, size: int) -> Line:
    """The axis words with times signs, in one quiet run."""
    return (Run(shape.symbols, size, "quiet"),)


def symbols_in_two(shape: ShapeText, size: int) -> tuple[Line, Line]:
    """The axis words of a tensor on two lines, as equally long as can be."""
    cuts = range(1, len(shape.words))
    pairs = [(TIMES.join(shape.words[:cut]) + TIMES, TIMES.join(shape.words[cut:])) for cut in cuts]
    upper, lower = min(reversed(pairs), key=lambda pair: max(map(len, pair)))
    return (Run(upper, size, "quiet"),), (Run(lower, size, "quiet"),)
