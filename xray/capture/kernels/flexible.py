"""Flex attention: the mask that its functions stand for, asked cell by cell while they are there."""

from typing import Any

import torch
from torch import Tensor

from xray.capture.calls import NOWHERE, Known, Seen
from xray.capture.masks.facts import MAX_CELLS, look_at_mask
from xray.capture.values import is_readable

FLEX = "flex_attention"


def see_flex_mask(args: tuple[Any, ...]) -> Seen | None:
    """What mask_mod and score_mod hide; None if they hide nothing, cannot be asked, or there are too many cells.

    Shapes:
        out: (batch, heads, queries, keys)    1 where all are alike
    """
    visible = ask_functions(args)
    if visible is None or bool(visible.all()):
        return None
    for axis in (0, 1):
        first = visible.narrow(axis, 0, 1)
        visible = first if bool((visible == first).all()) else visible
    mask = look_at_mask(visible, None)
    return "block_mask", Known(NOWHERE, 0, visible.shape, "bool", visible.device, "mask", None, mask), None


def ask_functions(args: tuple[Any, ...]) -> Tensor | None:
    """For each query and key, whether mask_mod shows the key, and score_mod leaves its score above -inf."""
    if len(args) < 5 or not isinstance(args[0], Tensor) or not isinstance(args[4], tuple) or not is_readable(args[0]):
        return None
    query, key, score_mod, mask_mod = args[0], args[1], args[3], args[4][-1]
    batch, heads, queries = query.shape[:3]
    if batch * heads * queries * key.shape[-2] > MAX_CELLS:
        return None
    try:
        from torch.nn.attention.flex_attention import create_mask

        device = str(query.device)
        shown, left = (
            create_mask(one, batch, heads, queries, key.shape[-2], device=device) for one in (mask_mod, score_mod)
        )
        return torch.as_tensor(shown & left)
    except Exception:  # whatever a user's function raises when it is asked out of its turn
        return None


def changes_scores(args: tuple[Any, ...]) -> bool:
    """Whether score_mod does more than to hand scores on."""
    return len(args) > 3 and getattr(args[3], "__name__", "") != "_identity"
