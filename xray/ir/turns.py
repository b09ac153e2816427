"""Transposes: for each axis of what comes out, which axis of what went in it was."""

import re
from collections.abc import Sequence

from xray.ir.trace import Step

SWAPS = frozenset({"transpose", "swapaxes", "swapdims"})
LAST_TWO = frozenset({"t", "mt", "T", "mT", "adjoint"})
"""Operations that swap two axes that are named, and those that swap the last two."""
TURNED = SWAPS | LAST_TWO | {"permute"}
SEEN = frozenset({"derived", "sines", "still", "apart"})
"""Settings that tell what was seen of a step's numbers, and not what it was asked."""


def read_turn(step: Step) -> tuple[int, ...] | None:
    """The axes as the settings of a step say, the last two where it has none; None where they do not say."""
    rank = len(step.inputs[0].shape) if step.inputs else 0
    order = list(range(rank))
    if rank < 2:
        return tuple(order)
    numbers = list_numbers(step)
    if step.op == "permute":
        turned = [number % rank for number in numbers]
        return tuple(turned) if sorted(turned) == order else None
    if step.op in LAST_TWO or (not step.module and not step.settings.keys() - SEEN):
        numbers = [-2, -1]
    return swap(order, numbers[0] % rank, numbers[1] % rank) if len(numbers) == 2 else None


def swaps_last_two(step: Step) -> bool:
    """Whether a turn swaps the last two axes and no others; by its shapes where its settings do not say."""
    before, after = step.inputs[0].shape, step.outputs[0].shape
    turned, rank = read_turn(step), len(before)
    if rank >= 2 and turned is not None:
        return turned == (*range(rank - 2), rank - 1, rank - 2)
    return rank >= 2 and after == (*before[:-2], before[-1], before[-2])


def list_numbers(step: Step) -> list[int]:
    """The axes among the settings of a step, one by one or all in one text as "0x2x1x3"."""
    said = next((value for value in step.settings.values() if isinstance(value, str) and re.search(r"\d", value)), None)
    if said is not None:
        return [int(part) for part in re.findall(r"-?\d+", said)]
    return [value for value in step.settings.values() if type(value) is int]


def guess_turn(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """The swap that makes one shape of another: of unequal axes first, else of the first two that fit."""
    rank = len(before)
    order = list(range(rank))
    pairs = [(one, two) for two in range(rank) for one in range(two) if swap(before, one, two) == tuple(after)]
    unequal = [pair for pair in pairs if before[pair[0]] != before[pair[1]]]
    chosen = unequal[:1] or (pairs[-1:] if rank < 3 else pairs[:1])
    return swap(order, *chosen[0]) if chosen else tuple(order)


def swap(values: Sequence[int], one: int, other: int) -> tuple[int, ...]:
    """The values, two of them in each other's place."""
    swapped = list(values)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return tuple(swapped)
