"""What a key-value cache saves, in multiplications."""

from dataclasses import dataclass

from xray.ir.trace import Trace


@dataclass(frozen=True)
class Savings:
    """The multiplications of an answer with a cache, and of the same answer computed anew in every turn."""

    cached: int
    recomputed: int

    @property
    def share(self) -> float:
        """What part of the work is saved."""
        return 1 - self.cached / self.recomputed


def count_savings(trace: Trace) -> Savings | None:
    """The saving that a trace was recorded with; None for one without a cache."""
    cached, recomputed = (trace.config.get(name) for name in ("multiplications", "multiplications_without_cache"))
    if not isinstance(cached, int) or not isinstance(recomputed, int) or recomputed <= 0:
        return None
    return Savings(cached, recomputed)
