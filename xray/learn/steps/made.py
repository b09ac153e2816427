"""What a training tells of itself: steps that were made, and epochs that are over."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step was made. `loss` is None where fetching it would have made the device wait."""

    epoch: int
    number: int
    loss: float | None
    tokens: int


@dataclass(frozen=True)
class Epoch:
    """One epoch is over. `valid_loss` is None without held-out pairs; `is_best` says that it was never better.

    `right` is the share of held-out answers that are right word for word, where that makes the best; `mean_loss` is the
    held-out loss of the mean of the last epochs' weights, after the last.
    """

    number: int
    loss: float
    valid_loss: float | None
    is_best: bool
    elapsed_s: float
    right: float | None = None
    mean_loss: float | None = None

    @property
    def badness(self) -> tuple[float, float]:
        """What is lower for better epochs."""
        loss = math.inf if self.valid_loss is None else self.valid_loss
        return (0.0 if self.right is None else -self.right, loss)
