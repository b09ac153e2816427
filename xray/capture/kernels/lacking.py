"""Fused attention that lacks its scale or its causal mask: what reaches the kernel is changed before anyone sees it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
LOW = -1e4
"""A number added to a score that is below this hides it."""


class Lacking(TorchFunctionMode):
    """While it is on, every call of scaled_dot_product_attention lacks what is to be left out.

    `lack` is the name of the twin, no-scale or no-causal-mask. It has to be put on inside a recording, so that the
    recorder sees what the kernel sees. `changed` counts the calls in which there was something to leave out; `kept`
    says why one was left as it was.
    """

    def __init__(self, lack: str) -> None:
        super().__init__()
        self.lack = lack
        self.changed = 0
        self.kept = ""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            with torch._C.DisableTorchFunction():
                change = self.find_change({**dict(zip(NAMES, args, strict=False)), **given})
            if change is not None:
                self.changed += 1
                return func(*args[:3], **{**dict(zip(NAMES[3:], args[3:], strict=False)), **given, **change})
        return func(*args, **given)

    def find_change(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """What is to be given to the kernel instead; None where there is nothing to leave out."""
        if self.lack == "no-scale":
            return None if given.get("scale") == 1.0 else {"scale": 1.0}
        if given.get("is_causal"):
            return {"is_causal": False}
        mask = given.get("attn_mask")
        if mask is None or given["query"].shape[-2] == 1:  # one new word: all that it may look at came before it
            return None
        if mask.is_meta:
            self.kept = "without storage nobody knows what its masks hide"
            return None
        visible = mask if mask.dtype == torch.bool else mask > LOW
        rest = visible[..., -1:, :]
        if bool((visible == rest).all()):  # every row hides the same: padding, and no future
            return None
        if not is_triangle(visible, rest):
            self.kept = "one of its masks hides more than the future and padding"
        elif mask.dtype != torch.bool and bool((mask[visible] != 0).any()):
            self.kept = "one of its masks also adds something to the scores"
        else:
            return {"attn_mask": None if bool(rest.all()) else mask[..., -1:, :].expand(mask.shape)}
        return None


def is_triangle(visible: Tensor, rest: Tensor) -> bool:
    """Whether a mask hides the future, and beside it only what its last row hides as well."""
    queries, keys = visible.shape[-2:]
    past = torch.ones(queries, keys, dtype=torch.bool, device=visible.device).tril(keys - queries)
    return bool((visible == (past & rest)).all())
