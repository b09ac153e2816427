"""What it costs to run a model, as facts: parameters, bytes, memory, FLOPs, what is kept from word to word."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Literal

MemoryKind = Literal["parameters", "gradients", "optimiser", "cache", "inputs", "activations"]
CacheKind = Literal["full", "sliding", "fixed"]


@dataclass(frozen=True)
class Memory:
    """The most bytes that lived at one moment, by what they were, and where in the model that moment was."""

    bytes: int
    kinds: Mapping[MemoryKind, int]
    place: str


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps: the shapes of its tensors, their bytes, and how they grow from word to word."""

    layer: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    bytes_per_word: int
    kind: CacheKind


@dataclass(frozen=True)
class RunCost:
    """One run at one size: inference, and a training step where the model can take one."""

    batch: int
    length: int
    inference: Memory
    inference_flops: int
    training: Memory | None
    training_flops: int | None
    cache_bytes: int


@dataclass(frozen=True)
class Polynomial:
    """A quantity as a polynomial of the length, its exact coefficients from the constant up; checked beyond its fit."""

    coefficients: tuple[Fraction, ...]
    checked_at: int

    def at(self, length: int) -> int:
        """The quantity at a length."""
        return int(sum(one * length**power for power, one in enumerate(self.coefficients)))


@dataclass(frozen=True)
class Cost:
    """What a model costs; `active_params` are those that one word meets, None where nothing tells."""

    title: str
    params: int
    active_params: int | None
    param_bytes: Mapping[str, int]
    runs: tuple[RunCost, ...]
    cache: tuple[LayerCache, ...]
    laws: Mapping[str, Polynomial] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The same as plain lists and words, for JSON; coefficients stand as fractions, "3/2"."""
        plain = asdict(replace(self, laws={}))
        plain["laws"] = {
            name: {"coefficients": [str(one) for one in law.coefficients], "checked_at": law.checked_at}
            for name, law in self.laws.items()
        }
        return plain


def fit_polynomial(points: Sequence[tuple[int, int]]) -> Polynomial | None:
    """The polynomial through all points but the last, which is what it is checked at; None where it misses that one.

    Sizes and counts are whole numbers, so the fit is exact and a miss is a miss.
    """
    *fitted, (length, value) = points
    if len(fitted) < 2:
        return None
    rows = [[Fraction(x) ** power for power in range(len(fitted))] + [Fraction(y)] for x, y in fitted]
    for place in range(len(rows)):  # Gauss and Jordan; lengths differ, so no pivot is 0 for good
        pivot = next((row for row in range(place, len(rows)) if rows[row][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        rows[place] = [one / rows[place][place] for one in rows[place]]
        for row in range(len(rows)):
            if row != place:
                factor = rows[row][place]
                rows[row] = [one - factor * other for one, other in zip(rows[row], rows[place], strict=True)]
    found = Polynomial(tuple(row[-1] for row in rows), length)
    return found if found.at(length) == value else None
