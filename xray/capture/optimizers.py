"""Training steps: an optimiser's step is one step of the record, with the parameters that it changed."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from xray.capture.journal import Journal, Lane


class Notes(Protocol):
    """Whoever writes steps down."""

    def add_step(self, path: str, op: str, *, outputs: Mapping[str, Tensor]) -> None:
        """Note something that no module does."""


@contextmanager
def watch_optimizers(notes: Notes, model: nn.Module, journal: Journal, lane: Lane) -> Iterator[None]:
    """Inside the block, each optimiser's step in this thread that changes parameters of the model is noted as one."""
    thread = threading.get_ident()

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == thread:
            lane.blindness.append(True)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != thread:
            return
        lane.blindness.pop()
        if not journal.passes:
            return
        with torch._C.DisableTorchFunction():
            names = {id(parameter): name for name, parameter in model.named_parameters()}
            updated = [one for group in optimizer.param_groups for one in group["params"] if id(one) in names]
            if updated:
                outputs = {names[id(one)]: one for one in updated}
                notes.add_step("optimizer.step", type(optimizer).__name__.lower(), outputs=outputs)

    handles = (register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
