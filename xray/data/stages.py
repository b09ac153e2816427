"""How far the preparation of a corpus is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A part of the preparation, and how much of it is done; both count bytes, or rows.

    A `total` of 0 is one that is not known."""

    name: str
    done: int
    total: int


Tell = Callable[[Stage], None]


def report_nobody(stage: Stage) -> None:
    """Keep it to oneself."""
