"""What is worked out once for a thing and kept with it, as long as the thing lives."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

Thing = TypeVar("Thing")
Asked = TypeVar("Asked", bound=Hashable)
Other = TypeVar("Other")
Made = TypeVar("Made")


def once(make: Callable[[Thing], Made]) -> Callable[[Thing], Made]:
    """A function of one thing that never changes, worked out at the first call for each."""
    name = f"_{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def made(thing: Thing) -> Made:
        kept = vars(thing)
        if name not in kept:
            kept[name] = make(thing)
        found: Made = kept[name]
        return found

    return made


def once_each(make: Callable[[Thing, Asked], Made]) -> Callable[[Thing, Asked], Made]:
    """The same of a thing and something else: worked out at the first call for each two of them."""
    name = f"_{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def made(thing: Thing, asked: Asked) -> Made:
        kept: dict[Asked, Made] = vars(thing).setdefault(name, {})
        if asked not in kept:
            kept[asked] = make(thing, asked)
        return kept[asked]

    return made


def once_for(make: Callable[[Thing, Other], Made]) -> Callable[[Thing, Other], Made]:
    """The same of two things that never change, the second known by being the very same one."""
    name = f"_{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def made(thing: Thing, other: Other) -> Made:
        kept: dict[int, tuple[Other, Made]] = vars(thing).setdefault(name, {})
        if id(other) not in kept:
            kept[id(other)] = (other, make(thing, other))
        return kept[id(other)][1]

    return made
