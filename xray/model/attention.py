"""Multi-head scaled dot-product attention (the paper, section 3.2), fused for speed or step by step for the eye."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from xray.config import ModelConfig
from xray.model.arithmetic import MatMul, Scale, Softmax, TransposeKey
from xray.model.cache import AttentionCache, Extend
from xray.model.heads import ConcatHeads, SplitHeads
from xray.model.masks import MaskScores, hiding_value


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_k)) V in every head, the heads joined by one more linear layer.

    In self-attention all three inputs are the same tensor. In cross-attention the queries come from the decoder, keys
    and values from the encoder's memory.

    Shapes:
        query: (batch, queries, d_model)
        key:   (batch, keys, d_model)
        value: (batch, keys, d_model)
        mask:  (batch, 1, 1 or queries, keys) or None    True: may be read
        out:   (batch, queries, d_model)

    With a cache, `key` and `value` hold only what it does not have yet.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.explicit = False
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.split_query = SplitHeads(config.heads)
        self.split_key = SplitHeads(config.heads)
        self.split_value = SplitHeads(config.heads)
        self.extend_key = Extend()
        self.extend_value = Extend()
        self.transpose_key = TransposeKey()
        self.scores = MatMul()
        self.scale = Scale("1/sqrt(d_k)", 1 / sqrt(config.d_k))
        self.mask = MaskScores(config.mask_value)
        self.softmax = Softmax()
        self.dropout = nn.Dropout(config.dropout)
        self.weighted_sum = MatMul()
        self.concat = ConcatHeads()
        self.output = nn.Linear(config.d_model, config.d_model)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, cache: AttentionCache | None = None
    ) -> Tensor:
        query, key, value = self.project(query, key, value, cache)  # (batch, heads, len, d_k)
        attend = self.attend_step_by_step if self.explicit else self.attend_fused
        heads = attend(query, key, value, mask)  # (batch, heads, queries, d_k)
        return self.output(self.concat(heads))  # type: ignore[no-any-return]  # (batch, queries, d_model)

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, cache: AttentionCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of all heads, (batch, heads, len, d_k) each.

        With a cache, keys and values that are in it are not computed again, and new ones are put into it.
        """
        if cache is not None and not cache.grows and cache.key is not None and cache.value is not None:
            return self.split_query(self.query(query)), cache.key, cache.value
        query, key, value = self.query(query), self.key(key), self.value(value)  # (batch, len, d_model)
        query, key, value = self.split_query(query), self.split_key(key), self.split_value(value)
        if cache is not None:
            if cache.key is not None and cache.value is not None:
                key, value = self.extend_key(cache.key, key), self.extend_value(cache.value, value)
            cache.key, cache.value = key, value
        return query, key, value

    def attend_step_by_step(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """The same sum as `attend_fused`, every stage of it a module that a hook can see."""
        scores = self.scores(query, self.transpose_key(key))  # (batch, heads, queries, keys)
        scores = self.scale(scores)
        if mask is not None:
            scores = self.mask(scores, mask)
        weights = self.dropout(self.softmax(scores))
        return self.weighted_sum(weights, value)  # type: ignore[no-any-return]  # (batch, heads, queries, d_k)

    def attend_fused(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """The same sum by PyTorch's one-kernel attention.

        A finite hiding value goes in as numbers to be added, since to PyTorch a mask of True and False means -inf.
        """
        if mask is not None and self.mask.value == "finite":
            hidden = torch.zeros(mask.shape, dtype=query.dtype, device=query.device)
            mask = hidden.masked_fill(~mask, hiding_value("finite", query.dtype))
        dropout = self.dropout.p if self.training else 0.0
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


@contextmanager
def explicit_attention(model: nn.Module) -> Iterator[None]:
    """Inside the block every attention of `model` goes step by step, so that hooks see scores, mask and weights."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    before = [attention.explicit for attention in attentions]
    try:
        for attention in attentions:
            attention.explicit = True
        yield
    finally:
        for attention, explicit in zip(attentions, before, strict=True):
            attention.explicit = explicit
