"""What stands in, for a model without storage, for parts of torch that want a device with numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

NONE = "meta"


@contextmanager
def stand_ins() -> Iterator[None]:
    """A block in which automatic casts may be asked for without a device, and a mask by blocks is a plain one."""
    plain = torch.autocast.__init__

    @wraps(plain)
    def ask(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        plain(self, "cpu" if device_type == NONE else device_type, *args, **kwargs)

    with (
        patch.object(torch.autocast, "__init__", ask),
        patch.object(flex_attention, "flex_attention", attend(flex_attention.flex_attention)),
    ):
        yield


def attend(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Attention with a mask by blocks as attention with the mask of which it was made, where there are no numbers."""

    @wraps(plain)
    def flexible(query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
        plainly = options.get("score_mod") is None and not options.get("return_lse") and not args
        if not query.is_meta or not plainly or options.get("return_aux") is not None:
            return plain(query, key, value, *args, **options)
        blocks = options.get("block_mask")
        mask = None if blocks is None else unfold(blocks, query.shape[-2], key.shape[-2])
        scale, shares = options.get("scale"), bool(options.get("enable_gqa"))
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=shares)

    return flexible


def unfold(blocks: flex_attention.BlockMask, queries: int, keys: int) -> Tensor:
    """A mask by blocks with a truth for each query and key; an unknown one where the blocks were chosen by numbers."""
    if blocks.kv_num_blocks.is_meta:
        return torch.empty((1, 1, queries, keys), dtype=torch.bool, device=NONE)
    first = torch.zeros((1, 1, 1, 1), dtype=torch.long)
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)
    mask: Tensor = blocks.mask_mod(first, first, rows[None, None], columns[None, None])
    return mask.expand(1, 1, queries, keys)
