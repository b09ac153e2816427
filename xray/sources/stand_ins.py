"""What stands in, for a model without storage, for parts of torch that want a device with numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

NONE = "meta"
MOST_TRUTHS, BLOCK = 1 << 22, 128
"""A mask with more of them is not worked out; and so many places are a block of it."""


@contextmanager
def stand_ins() -> Iterator[None]:
    """A block in which automatic casts may be asked for without a device, and a mask by blocks is a plain one."""
    from torch.nn.attention import flex_attention  # it loads torch's compiler

    plain = torch.autocast.__init__

    @wraps(plain)
    def ask(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        plain(self, "cpu" if device_type == NONE else device_type, *args, **kwargs)

    with (
        patch.object(torch.autocast, "__init__", ask),
        patch.object(flex_attention, "flex_attention", attend(flex_attention.flex_attention)),
        patch.object(flex_attention, "create_block_mask", choose_blocks(flex_attention)),
    ):
        yield


def choose_blocks(flex_attention: Any) -> Callable[..., Any]:
    """What makes a mask by blocks, of which it is not known what they hold where there are many."""

    plain = flex_attention.create_block_mask

    @wraps(plain)
    def choose(mask_mod: Any, *args: Any, **options: Any) -> Any:
        queries, keys = options.get("Q_LEN", 0), options.get("KV_LEN", 0)
        if torch.device(options.get("device", "cpu")).type != NONE or queries * keys <= MOST_TRUTHS:
            return plain(mask_mod, *args, **options)
        rows, columns = -(-queries // BLOCK), -(-keys // BLOCK)
        counts = torch.empty((1, 1, rows), dtype=torch.int32, device=NONE)
        places = torch.empty((1, 1, rows, columns), dtype=torch.int32, device=NONE)
        return flex_attention.BlockMask(
            (queries, keys), counts, places, None, None, None, None, None, None, (BLOCK, BLOCK), mask_mod
        )

    return choose


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


def unfold(blocks: Any, queries: int, keys: int) -> Tensor:
    """A mask by blocks with a truth for each query and key; unknown where numbers chose the blocks, or many."""
    if blocks.kv_num_blocks.is_meta or queries * keys > MOST_TRUTHS:
        return torch.empty((1, 1, queries, keys), dtype=torch.bool, device=NONE)
    first = torch.zeros((1, 1, 1, 1), dtype=torch.long)
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)
    mask: Tensor = blocks.mask_mod(first, first, rows[None, None], columns[None, None])
    return mask.expand(1, 1, queries, keys)
