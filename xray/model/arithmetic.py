"""The smallest operations of the transformer, each a module so that a forward hook can see it."""

import math

import torch
from torch import Tensor, nn


class Add(nn.Module):
    """The sum of two tensors: a residual connection, or words plus positions.

    Shapes:
        x:     (batch, len, d_model)
        other: (batch, len, d_model), or (1, len, d_model) for positions
        out:   (batch, len, d_model)
    """

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        return x + other


class MatMul(nn.Module):
    """A matrix product over the last two axes; all axes before them are only carried along.

    Shapes:
        left:  (batch, heads, rows, inner)
        right: (batch, heads, inner, columns)
        out:   (batch, heads, rows, columns)
    """

    operation = "matmul"

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left @ right


class Scale(nn.Module):
    """Every value times one fixed factor; the shape stays.

    Dividing scores by sqrt(d_k) keeps their variance near 1, so that softmax does not saturate (the paper, section
    3.2.1). Embeddings are multiplied by sqrt(d_model) (section 3.4).

    Shapes:
        x:   (...)
        out: (...)
    """

    def __init__(self, formula: str, factor: float) -> None:
        super().__init__()
        self.formula = formula
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class TransposeKey(nn.Module):
    """Keys laid on their side, so that every query can be multiplied with every key.

    Shapes:
        key: (batch, heads, len, d_k)
        out: (batch, heads, d_k, len)
    """

    operation = "transpose"

    def forward(self, key: Tensor) -> Tensor:
        return key.transpose(-2, -1)


class Softmax(nn.Module):
    """Each row turned into weights that are positive and sum to 1; a row of nothing but -inf becomes zeros, not NaN.

    The last axis runs over the keys, so every query shares out one whole unit of attention among them.

    Shapes:
        scores: (..., keys)
        out:    (..., keys)
    """

    def __init__(self) -> None:
        super().__init__()
        self.dim = -1

    def forward(self, scores: Tensor) -> Tensor:
        visible = (scores != -math.inf).any(dim=self.dim, keepdim=True)
        return torch.softmax(scores.masked_fill(~visible, 0.0), dim=self.dim) * visible
