"""How many cases are tried: thousands in CI, the same ones every time, and others on demand.

The fast tier tries a fifth of them.

XRAY_FUZZ_CASES=10 tries ten times as many, drawn anew. A case that fails tells its seed; XRAY_FUZZ_SEED=<seed>
tries that one alone.
"""

import os
from collections.abc import Callable
from random import Random, SystemRandom

from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("XRAY_FUZZ_CASES", "1")) * float(os.environ.get("XRAY_FUZZ_SHARE", "1"))
ON_DEMAND = "XRAY_FUZZ_CASES" in os.environ
ONE_SEED = os.environ.get("XRAY_FUZZ_SEED")


def some(count: int) -> int:
    """So many in CI, fewer in the fast tier, more on demand."""
    return max(1, round(count * TIMES))


def try_many(count: int, case: Callable[[Random], object]) -> None:
    """Try a case with so many seeds, each of which makes the same chance every time."""
    first = SystemRandom().randrange(2**40) if ON_DEMAND else 0
    seeds = [int(ONE_SEED)] if ONE_SEED else range(first, first + some(count))
    for seed in seeds:
        try:
            case(Random(seed))
        except BaseException as error:
            error.add_note(f"to have this case again: XRAY_FUZZ_SEED={seed}")
            raise


def cases(count: int) -> settings:
    """A hypothesis setting for so many cases; it prints how to have a failing one again."""
    return settings(
        max_examples=some(count),
        deadline=None,
        derandomize=not ON_DEMAND,
        print_blob=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
