"""Exchanges in their order, with what comes again and again told once: a few exchanges, and how often they follow."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.trace import Step, Trace
from xray.story.facts.exchanges import Exchange, list_exchange_steps

LONGEST = 32
"""The most exchanges that are looked at as one round."""
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
One = tuple[Step, Exchange]


@dataclass(frozen=True)
class Round:
    """Exchanges that follow each other, as they are the first time, and how often they come."""

    exchanges: tuple[One, ...]
    times: int
    layers: tuple[int, int] | None
    """The first and the last layer that they are of, in the order of their coming."""


def fold_exchanges(trace: Trace) -> tuple[Round, ...]:
    """All exchanges in order; those that repeat from layer to layer are one round."""
    all_of_them = list_exchange_steps(trace)
    keys = [(*one.kind, one.bytes, NUMBER.sub("*", step.path)) for step, one in all_of_them]
    rounds, place = list[Round](), 0
    while place < len(keys):
        length, times = find_round(keys, place)
        chosen = all_of_them[place : place + length * times]
        layers = [step.layer for step, _ in chosen if step.layer is not None]
        ends = (layers[0], layers[-1]) if layers else None
        rounds.append(Round(chosen[:length], times, ends))
        place += length * times
    return tuple(rounds)


def find_round(keys: Sequence[object], start: int) -> tuple[int, int]:
    """How many keys from here on come again and again, and how often; one and once where none do."""
    best = (1, 1)
    for length in range(1, min(LONGEST, (len(keys) - start) // 2) + 1):
        first, times = keys[start : start + length], 1
        while keys[start + times * length : start + (times + 1) * length] == first:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best
