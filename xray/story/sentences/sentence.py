"""A sentence, and the fact without which it is not said."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Sentence(Generic[Fact]):
    """Something that may be said of a thing: its name, and what tells it, empty where its fact is not proven."""

    name: str
    tell: Callable[[Fact], str]


def fixed(name: str, text: str, needs: Callable[[Fact], object]) -> Sentence[Fact]:
    """A sentence that is the same wherever it is said."""
    return Sentence(name, lambda fact: text if needs(fact) else "")


def say_first(sentences: Iterable[Sentence[Fact]], fact: Fact) -> str:
    """The first of some sentences whose fact is proven; empty where none is."""
    return next((text for one in sentences if (text := one.tell(fact))), "")
