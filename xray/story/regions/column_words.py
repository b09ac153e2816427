"""Where the words under narrow columns go: on steps, shifted sideways, so that no word and no leader touch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xray.story.layout import Measure
from xray.story.type_sizes import NOTE

MOST_STEPS, MOST_TRIES = 7, 600
SHIFTS = (0.5, 0.3, 0.7, 0.1, 0.9)
"""Where under a word its column may stand, as a share of the word's width; the middle is tried first."""

AIR = 4.0

Placed = tuple[str, float, int]
"""A word, where it starts from the grid's left edge, and on which step down it stands."""


@dataclass(frozen=True)
class Span:
    """A word on its step: where its column's leader comes down, and from where to where the word reaches."""

    leader: float
    start: float
    end: float
    step: int

    def touches(self, other: "Span") -> bool:
        """Whether the words overlap, or the leader of the lower one runs through the upper one."""
        if self.step == other.step:
            return self.start < other.end + AIR and other.start < self.end + AIR
        upper, lower = (self, other) if self.step < other.step else (other, self)
        return upper.start - 2 < lower.leader < upper.end + 2


def place_words(measure: Measure, words: Sequence[str], cell: float) -> list[Placed]:
    """Each word's place, on as few steps as will do."""
    spans = place_widths(tuple(measure(word, NOTE, "regular") for word in words), cell)
    return [(word, span.start, span.step) for word, span in zip(words, spans, strict=True)]


@lru_cache(maxsize=256)
def place_widths(widths: tuple[float, ...], cell: float) -> tuple[Span, ...]:
    """Where words of these widths go."""
    for steps in range(1, MOST_STEPS + 1):
        spans = search(widths, cell, steps)
        if spans is not None:
            return tuple(spans)
    return tuple(staircase(widths, cell))


def search(widths: Sequence[float], cell: float, steps: int) -> list[Span] | None:
    """Places for all words on so many steps, found by trying; None where there are none, or not within reason."""
    placed: list[Span] = []
    options = [iter(choices(widths[0], 0, cell, steps))] if widths else []
    tries = 0
    while options and tries < MOST_TRIES:
        tries += 1
        span = next(options[-1], None)
        if span is None:
            options.pop()
            if placed:
                placed.pop()
        elif not any(span.touches(other) for other in placed):
            placed.append(span)
            if len(placed) == len(widths):
                return placed
            options.append(iter(choices(widths[len(placed)], len(placed), cell, steps)))
    return None if widths else []


def choices(width: float, place: int, cell: float, steps: int) -> list[Span]:
    """Everywhere that a word could stand: high up first."""
    leader = cell * (place + 0.5)
    return [
        Span(leader, leader - width * share, leader + width * (1 - share), step)
        for step in range(steps)
        for share in SHIFTS
    ]


def staircase(widths: Sequence[float], cell: float) -> list[Span]:
    """A step for every word, the last one highest: always possible."""
    last = len(widths) - 1
    return [
        Span(cell * (place + 0.5), cell * (place + 0.5) - 3, cell * (place + 0.5) - 3 + width, last - place)
        for place, width in enumerate(widths)
    ]
