"""How the learning rate rises and falls."""

from math import cos, pi, sqrt

from xray.config import Schedule, TrainConfig

FALL = 0.3
"""The share of all steps in which the rate of a plateau falls at the end."""


def rate_at(step: int, steps: int, config: TrainConfig) -> float:
    """The learning rate of step 0, 1, .. `steps` - 1 of a training."""
    climb = config.warmup_steps or round(config.warmup * steps)
    return learning_rate(step, steps, config.learning_rate, max(1, climb), config.schedule)


def learning_rate(step: int, steps: int, highest: float, climb: int, schedule: Schedule = "plateau") -> float:
    """A straight climb of `climb` steps to `highest`, and then what the schedule says.

    "plateau" stays, and falls straight to 0 over the last steps; "cosine" falls along half a cosine to 0 at the last
    step, "inverse-sqrt" with the root of the step (the paper, section 5.3), "constant" stays. Adam's first averages are
    poor, and normalisation after the residual sum cannot bear large steps at the beginning: hence the climb.
    """
    if step < climb:
        return highest * (step + 1) / climb
    if schedule == "constant":
        return highest
    if schedule == "plateau":
        return highest * min(1.0, (steps - step) / max(1.0, FALL * steps))
    if schedule == "inverse-sqrt":
        return highest * sqrt(climb / (step + 1))
    return highest * 0.5 * (1 + cos(pi * (step - climb) / max(1, steps - climb)))
