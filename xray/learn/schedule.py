"""How the learning rate rises and falls."""

from math import cos, pi


def learning_rate(step: int, steps: int, highest: float, warmup: float) -> float:
    """The rate of step 0, 1, .. `steps` - 1: a straight climb over the share `warmup`, then half a cosine down to 0.

    Adam's first averages are poor, and normalisation after the residual sum cannot bear large steps at the beginning
    (the paper, section 5.3, climbs for the same reason).
    """
    climb = max(1, round(warmup * steps))
    if step < climb:
        return highest * (step + 1) / climb
    return highest * 0.5 * (1 + cos(pi * (step - climb) / max(1, steps - climb)))
