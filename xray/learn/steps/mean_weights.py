"""The mean of the weights at the ends of the last epochs, which often knows a little more than the last of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from xray.model.fast.sharded_weights import Weights


class MeanWeights:
    """The mean of the weights as often as they were taken (the paper, section 6.1, averages its last checkpoints)."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.parts = [torch.zeros_like(part.data) for part in weights.parts]
        self.taken = 0

    def take(self) -> None:
        """Count the weights in as they are now."""
        self.taken += 1
        for mean, part in zip(self.parts, self.weights.parts, strict=True):
            mean.lerp_(part.data, 1 / self.taken)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Inside the block the model has the mean for its weights."""
        own = [part.data.clone() for part in self.weights.parts]
        self.put(self.parts)
        try:
            yield
        finally:
            self.put(own)

    def put(self, tensors: list[Tensor]) -> None:
        """Give the model these weights."""
        for part, tensor in zip(self.weights.parts, tensors, strict=True):
            part.data.copy_(tensor)

    def to_tensors(self) -> dict[str, Tensor]:
        """The mean by the names of the weights, if there is one yet."""
        return {f"mean.{name}": one for name, one in self.weights.list_whole(self.parts)} if self.taken else {}

    def restore(self, tensors: Mapping[str, Tensor], taken: int) -> None:
        """Take up the mean of a checkpoint, in which so many were taken."""
        self.taken = taken
        if taken:
            self.weights.fill(self.parts, {name: tensors[f"mean.{name}"] for name in self.weights.shapes})
