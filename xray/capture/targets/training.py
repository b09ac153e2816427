"""A training step of any model: what it is given to learn from, and the number from which it goes back."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from xray.capture.targets.inputs import Target
from xray.capture.tensors import positional_names
from xray.errors import TraceError


def give_labels(target: Target) -> Target:
    """The target with its words as labels, if it takes any, and without a cache; all inputs by their names."""
    names = positional_names(type(target.model))
    given = {**{names[place]: value for place, value in enumerate(target.args)}, **target.kwargs}
    axes: dict[str | int, Sequence[str]] = {
        names[name] if isinstance(name, int) else name: words for name, words in target.axes.items()
    }
    wanted = list(inspect.signature(target.model.forward).parameters)
    words = next((name for name in ("decoder_input_ids", "input_ids") if name in given), None)
    if "labels" in wanted and words is not None and "labels" not in given:
        given["labels"] = given[words]
        axes |= {"labels": axes[words]} if words in axes else {}
    if "use_cache" in wanted:
        given["use_cache"] = False
    return replace(target, args=(), kwargs=given, axes=axes)


def find_loss(answer: Any) -> Tensor:
    """The loss that a model gives back, or else the sum of the first of its results that has a gradient.

    Raises:
        TraceError: it gives back nothing that has one.
    """
    loss = getattr(answer, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    made = [one for one in tree_leaves(answer) if isinstance(one, Tensor) and one.requires_grad]
    if not made:
        raise TraceError("nothing that the model gives back has a gradient, so there is no way back to record.")
    return made[0].sum()


@contextmanager
def in_training(model: nn.Module) -> Iterator[None]:
    """A block in which the model trains; afterwards it is in its mode again, and without the gradients of the block."""
    modes = [(module, module.training) for module in model.modules()]
    kept = [(one, one.grad) for one in model.parameters()]
    model.train()
    try:
        with torch.enable_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for one, gradient in kept:
            one.grad = gradient
