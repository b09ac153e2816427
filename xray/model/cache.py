"""The key-value cache: what attention keeps of earlier words, so that each new word costs one row and not a square."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class AttentionCache:
    """The keys and values that one attention has computed so far, (batch, heads, len, d_k) each; None before the first.

    In self-attention they grow by every new word. In cross-attention they come from the memory, which stays, so they
    are computed once.
    """

    grows: bool
    key: Tensor | None = None
    value: Tensor | None = None


@dataclass
class LayerCache:
    """What one decoder layer keeps."""

    self_attention: AttentionCache = field(default_factory=lambda: AttentionCache(grows=True))
    cross_attention: AttentionCache = field(default_factory=lambda: AttentionCache(grows=False))


class Extend(nn.Module):
    """What was kept, and the new behind it.

    Shapes:
        past: (batch, heads, tgt_len-1, d_k)
        new:  (batch, heads, 1, d_k)
        out:  (batch, heads, tgt_len, d_k)
    """

    def forward(self, past: Tensor, new: Tensor) -> Tensor:
        return torch.cat([past, new], dim=2)


class NewestWord(nn.Module):
    """The last id of the answer so far: the only one that a decoder with a cache has not read yet.

    Shapes:
        answer: (batch, tgt_len)
        out:    (batch, 1)
    """

    def forward(self, answer: Tensor) -> Tensor:
        return answer[:, -1:]


class NewestRow(nn.Module):
    """The last row of a mask: what the newest word may look at.

    Shapes:
        mask: (batch, 1, tgt_len, tgt_len)
        out:  (batch, 1, 1, tgt_len)
    """

    mask_kind = "padding+causal"

    def forward(self, mask: Tensor) -> Tensor:
        return mask[:, :, -1:]
