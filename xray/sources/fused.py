"""Attention by the fused kernel also where there are no numbers, so that what it never stores is not counted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextmanager
def fused_attention() -> Iterator[None]:
    """A block in which scaled_dot_product_attention runs as one kernel, as it does on a processor with numbers."""
    with FusedAttention():
        yield


class FusedAttention(TorchFunctionMode):
    """While it is on, attention goes to the kernel that keeps no scores."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What scaled_dot_product_attention gives, by the fused kernel where it takes such shapes."""
    learns_bias = attn_mask is not None and attn_mask.requires_grad and torch.is_grad_enabled()
    if query.dim() != 4 or query.shape[-1] != value.shape[-1] or not query.is_meta or learns_bias:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    mask = attn_mask.to("meta", query.dtype) if attn_mask is not None and attn_mask.dtype == torch.bool else attn_mask
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out: Tensor = kernel(query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale)[0]
    return out
