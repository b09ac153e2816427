"""Numbers that are powers of one base, as frequencies of rotary places are."""

import math
from collections.abc import Iterable, Sequence

FEWEST_POWERS = 3
"""Fewer numbers are not known as powers of one base."""
LEAST_BASE = 10_000
"""The base of Su et al. 2021, which models raise for longer texts."""
LARGEST_EXPONENT = 700
"""e to more than this is no number that a computer holds."""


def read_base_of(row: Sequence[float]) -> float | None:
    """The base of powers base^(-i/n), n numbers that fall from 1, perhaps to zeros; None if they are none.

    Single precision tells a base to seven digits: of the numbers that are as near as that, the one with the fewest
    digits is meant. Where an odd part of a head is turned, n is half of it (GLM 4.5); behind the powers may stand
    zeros, which n may count or not. Then that n is meant which gives a base of two digits at most, and where both do,
    as great a one as is in use. A base is a whole number.
    """
    powers = row[: sum(one != 0 for one in row)]
    if not are_powers(powers):
        return None
    last, least = len(powers) - 1, float(powers[-1])
    if -math.log(least) * len(row) / last > LARGEST_EXPONENT:
        return None
    ends = {count: least ** (-count / last) for count in (len(row), len(powers), len(powers) - 0.5)}
    if len(powers) == len(row):
        whole, odd = ends[len(row)], round_off(ends[len(row) - 0.5], (1, 2))
        told = round_off(whole, (1, 2)) or odd or round_off(whole, range(3, 18))
        return told if told is not None and told.is_integer() else None
    found = [round_off(ends[count], (1, 2)) for count in (len(row), len(powers))]
    known = [base for base in found if base is not None]
    known = [base for base in known if base >= LEAST_BASE] if len(known) > 1 else known
    return known[0] if len(known) == 1 else None


def are_powers(row: Sequence[float]) -> bool:
    """Whether numbers above 0 begin with 1 and go on as powers of one base, be it a whole number or not."""
    if len(row) < FEWEST_POWERS or row[0] != 1 or row[-1] <= 0:
        return False
    last, least = len(row) - 1, float(row[-1])
    evens = (least ** (place / last) for place in range(len(row)))
    return all(math.isclose(one, even, rel_tol=0, abs_tol=1e-5 * even) for one, even in zip(row, evens, strict=True))


def round_off(number: float, digits: Iterable[int], exact: float = 1e-6) -> float | None:
    """The nearest number of the first count of digits that tells it to the last of what single precision knows."""
    near = (float(f"{number:.{count}g}") for count in digits)
    return next((one for one in near if math.isclose(one, number, rel_tol=exact)), None)
