"""The mean of the weights at the ends of the last epochs, which often knows a little more than the last of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from xray.model.fast.packed_weights import PackedWeights


class MeanWeights:
    """The mean of as many blocks of weights as were taken (the paper, section 6.1, averages its last checkpoints)."""

    def __init__(self, weights: PackedWeights) -> None:
        self.weights = weights
        self.block = torch.zeros_like(weights.block.data)
        self.taken = 0

    def take(self) -> None:
        """Count the weights in as they are now."""
        self.taken += 1
        self.block.lerp_(self.weights.block.data, 1 / self.taken)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Inside the block the model has the mean for its weights."""
        own = self.weights.block.data.clone()
        self.weights.block.data.copy_(self.block)
        try:
            yield
        finally:
            self.weights.block.data.copy_(own)

    def to_tensors(self) -> dict[str, Tensor]:
        """The mean by the names of the weights, if there is one yet."""
        return {f"mean.{name}": part for name, part in self.weights.cut(self.block)} if self.taken else {}

    def restore(self, tensors: Mapping[str, Tensor], taken: int) -> None:
        """Take up the mean of a checkpoint, in which so many were taken."""
        self.taken = taken
        if taken:
            for name, part in self.weights.cut(self.block):
                part.copy_(tensors[f"mean.{name}"])
