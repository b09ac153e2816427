"""Masks: True where a query may read a key. Padding hides filler, causality hides the future."""

import torch
from torch import Tensor, nn

from xray.config import PAD, MaskValue


class PaddingMask(nn.Module):
    """True where there is a word, False where there is padding; the axes of size 1 are there to be broadcast.

    Shapes:
        ids: (batch, len)
        out: (batch, 1, 1, len)
    """

    mask_kind = "padding"

    def forward(self, ids: Tensor) -> Tensor:
        return (ids != PAD)[:, None, None, :]


class CausalMask(nn.Module):
    """True on and below the diagonal: a word may look at itself and back, never ahead.

    Shapes:
        ids: (batch, len)
        out: (1, 1, len, len)
    """

    mask_kind = "causal"

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        return torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()[None, None]


class BothMasks(nn.Module):
    """True where both masks are.

    Shapes:
        padding: (batch, 1, 1, len)
        causal:  (1, 1, len, len)
        out:     (batch, 1, len, len)
    """

    operation = "and"
    mask_kind = "padding+causal"

    def forward(self, padding: Tensor, causal: Tensor) -> Tensor:
        return padding & causal


class TargetMask(nn.Module):
    """The decoder's mask: no padding, and no looking ahead.

    Shapes:
        ids: (batch, tgt_len)
        out: (batch, 1, tgt_len, tgt_len)
    """

    def __init__(self) -> None:
        super().__init__()
        self.padding = PaddingMask()
        self.causal = CausalMask()
        self.combine = BothMasks()

    def forward(self, ids: Tensor) -> Tensor:
        return self.combine(self.padding(ids), self.causal(ids))  # type: ignore[no-any-return]  # nn.Module calls are untyped


class MaskScores(nn.Module):
    """Hidden scores replaced by a value that softmax turns into weight 0.

    Shapes:
        scores: (batch, heads, queries, keys)
        mask:   (batch, 1, 1 or queries, keys)    True: may be read
        out:    (batch, heads, queries, keys)
    """

    def __init__(self, value: MaskValue) -> None:
        super().__init__()
        self.value = value

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, hiding_value(self.value, scores.dtype))


def hiding_value(value: MaskValue, dtype: torch.dtype) -> float:
    """The number that hides a score: the lowest of its type, or minus infinity."""
    return torch.finfo(dtype).min if value == "finite" else float("-inf")
