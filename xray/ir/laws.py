"""How a count grows with the batch and the length: the exact polynomial through a few measured sizes, and its test."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Size = tuple[int, int]
"""A batch and a length."""
Power = tuple[int, int]
"""The power of the batch and that of the length in a term."""
BY_LENGTH: tuple[Power, ...] = ((0, 0), (0, 1), (0, 2))
BY_BOTH: tuple[Power, ...] = (*BY_LENGTH, (1, 0), (1, 1), (1, 2))
"""The terms that may occur: nothing in a network grows faster than the square of the length, or than the batch."""


@dataclass(frozen=True)
class Law:
    """A count as a polynomial of batch and length, with exact coefficients by their powers.

    It is claimed between the sizes at which it was tested, which are others than those that it was made from.
    """

    terms: Mapping[Power, Fraction]
    made_from: tuple[Size, ...]
    tested_at: tuple[Size, ...]

    def at(self, size: Size) -> int:
        """The count at a size."""
        batch, length = size
        return int(sum(one * batch**by * length**power for (by, power), one in self.terms.items()))

    def covers(self, size: Size) -> bool:
        """Whether the law is claimed there: no further out than it was tested or made from."""
        known = (*self.made_from, *self.tested_at)
        return all(min(one) <= value <= max(one) for one, value in zip(zip(*known, strict=True), size, strict=True))

    def write(self) -> str:
        """The law as a formula: "2 + 3/2·n + 4·b·n²", b the batch and n the length."""
        parts = []
        for (by, power), one in self.terms.items():
            letters = ["b"] * by + [("n", "n²")[power - 1]] * bool(power)
            if one:
                parts.append(
                    "·".join([f"{one.numerator:,}" + (f"/{one.denominator}" if one.denominator > 1 else ""), *letters])
                )
        return " + ".join(parts).replace("+ -", "- ") or "0"


def find_law(values: Mapping[Size, int]) -> Law | None:
    """The law that counts at some sizes follow; None where there is none that also meets the sizes left for its test.

    It is made from three lengths below the longest, and from those at another batch where there are several; all other
    sizes test it. One that misses a test from the first of these lengths on is none; the shorter lengths from which on
    downwards it fails are left out of what it claims.
    """
    batches = sorted({batch for batch, _ in values})[:2]
    lengths = sorted({length for _, length in values})
    if not lengths:
        return None
    top = lengths.pop()
    made_from = [one for one in lengths if all((batch, one) in values for batch in batches)][-3:]
    chosen = [(batch, length) for batch in batches for length in made_from]
    terms = BY_BOTH if len(batches) > 1 else BY_LENGTH
    solved = solve(chosen, [values[size] for size in chosen], terms)
    if solved is None:
        return None
    law = Law(dict(zip(terms, solved, strict=True)), tuple(chosen), ())
    tested: list[Size] = []
    for length in (top, *reversed(lengths)):
        here = [size for size in values if size[1] == length and size not in chosen]
        if any(law.at(size) != values[size] for size in here):
            if length >= made_from[0]:
                return None
            break
        tested += here
    return Law(law.terms, law.made_from, tuple(sorted(tested)))


def solve(sizes: Sequence[Size], values: Iterable[int], terms: Sequence[Power]) -> list[Fraction] | None:
    """The coefficients of the terms that give these values; None where the sizes do not settle them."""
    if len(sizes) != len(terms):
        return None
    rows = [
        [Fraction(batch**by * length**power) for by, power in terms] + [Fraction(value)]
        for (batch, length), value in zip(sizes, values, strict=True)
    ]
    for place in range(len(rows)):  # Gauss and Jordan
        pivot = next((row for row in range(place, len(rows)) if rows[row][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        rows[place] = [one / rows[place][place] for one in rows[place]]
        for row in range(len(rows)):
            if row != place and rows[row][place]:
                factor = rows[row][place]
                rows[row] = [one - factor * other for one, other in zip(rows[row], rows[place], strict=True)]
    return [row[-1] for row in rows]
