"""How many cores a model is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from xray.config import ModelConfig

SMALL_MODEL = 256
"""Up to this width one thread is as fast as several, and far faster where the other cores are busy."""


@contextmanager
def fitting_threads(config: ModelConfig) -> Iterator[None]:
    """Inside the block a small model computes on one thread; afterwards PyTorch has as many as before.

    One thread also makes the sums, and so the weights, the same however many cores there are.
    """
    before = torch.get_num_threads()
    if config.d_model <= SMALL_MODEL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
