"""torch's own fast paths: seen from below, since they are not taken while a function mode is on."""

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from xray.capture.operations import Watcher

FAST_PATHS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
"""Modules that torch may run by one native operation, which it never does under a function mode."""
HOUSEKEEPING = frozenset({"detach", "lift_fresh", "is_same_size", "_local_scalar_dense"})
SAID_OTHERWISE = {"_safe_softmax": "softmax", "_to_copy": "to"}


class InnerMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook for subclasses untyped
    """While it is on, what torch's own code does is recorded at the level below the user's: linear, view, bmm."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watcher = watcher

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: compiled code runs as written here anyway, and to keep the compiler out torch would load it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name.split("::")[-1]
        if self.watcher.is_blind or name in HOUSEKEEPING:
            return func(*args, **(kwargs or {}))
        return self.watcher.run(clean_name(name), func, args, kwargs or {})


def clean_name(name: str) -> str:
    """A native operation's name as people say it: "softmax" for `_softmax` and `_safe_softmax`."""
    if name in SAID_OTHERWISE:
        return SAID_OTHERWISE[name]
    return name if name.startswith(("_native", "_transformer")) else name.lstrip("_")


def may_take_fast_path(module: nn.Module) -> bool:
    """Whether torch may take the fast path through one of those modules now: in evaluation, with nothing to learn."""
    if module.training:
        return False
    learns = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters())
    return not learns


def step_aside(watcher: Watcher) -> ExitStack:
    """Take the function mode out of the way, since torch's fast paths are not taken under one; watch from below."""
    aside = ExitStack()
    aside.enter_context(torch._C.DisableTorchFunction())
    aside.enter_context(InnerMode(watcher))
    return aside
