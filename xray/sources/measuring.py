"""One run of a model without storage: the most memory, the arithmetic, and what is kept; then a step of training."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from xray.capture.caches import find_kept
from xray.capture.lifetimes import Lifetimes, enter_all
from xray.capture.targets.inputs import Target
from xray.capture.targets.training import find_loss, give_labels
from xray.errors import TraceError
from xray.ir.cost import RunCost
from xray.ir.laws import Size
from xray.sources.fused import fused_attention
from xray.text import show_controls

Rows = Mapping[int, tuple[int, int, int]]
"""For each stack of experts: how many rows met it, how many experts it has, and their numbers; for each table that is
only looked up: how many times, how many rows it has, and their numbers."""


@dataclass(frozen=True)
class Met:
    """What the words of a run met of those weights that no word meets as a whole."""

    experts: Rows = field(default_factory=dict)
    tables: Rows = field(default_factory=dict)


def measure_run(target: Target, size: Size, *, trains: bool = True) -> tuple[RunCost, Mapping[str, list[Tensor]], Met]:
    """One run at one size, with what each layer keeps for the next word, and a step of training where it `trains`.

    Raises:
        TraceError: the model cannot run so.
    """
    model, (batch, length) = target.model, size
    ledger = start(model, target)
    try:
        with target.around(), fused_attention(), torch.no_grad(), ledger.watching(model):
            answer = model(**target.kwargs)
    except Exception as error:  # whatever a model raises
        reason = show_controls(" ".join(str(error).split())[:200]).rstrip(".")
        raise TraceError(
            f"{type(model).__name__} cannot run without storage at length {length:,}: {reason}. Check its settings, "
            "or choose another --as."
        ) from error
    kept = dict(group_layers(answer))
    stored = [one for tensors in kept.values() for one in tensors]
    enter_all(ledger, stored, "cache")
    trained = measure_training(target) if trains else None
    run = RunCost(
        batch=batch,
        length=length,
        inference=ledger.peak(),
        inference_flops=ledger.flops,
        training=trained.peak() if trained is not None else None,
        training_flops=trained.flops if trained is not None else None,
        cache_bytes=sum(map(count_bytes, stored)),
    )
    tables = {key: one for key, one in ledger.lookups.items() if key not in ledger.multiplied}
    return run, kept, Met(ledger.rows, tables)


def start(model: nn.Module, target: Target) -> Lifetimes:
    """A ledger with all that is there before a run."""
    ledger = Lifetimes()
    enter_all(ledger, (*model.parameters(), *model.buffers()), "parameters")
    enter_all(ledger, (one for one in tree_leaves(dict(target.kwargs)) if isinstance(one, Tensor)), "inputs")
    return ledger


def measure_training(target: Target) -> Lifetimes | None:
    """A step of AdamW, forward, back and update, in the type of the weights; None for a model that cannot take one."""
    model = target.model
    given = dict(give_labels(target).kwargs)
    ledger = start(model, target)
    trainable = [one for one in model.parameters() if one.requires_grad]
    moments = [(torch.empty_like(one), torch.empty_like(one)) for one in trainable]
    enter_all(ledger, (one for pair in moments for one in pair), "optimiser")
    was_training = model.training
    model.train()
    try:
        with target.around(), fused_attention(), ledger.watching(model):
            answer = model(**given)
            loss = find_loss(answer)
            del answer
            with ledger.within("backward"):
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it so
            with ledger.within("the update of the weights"), torch.no_grad():
                for one, (mean, square) in zip(trainable, moments, strict=True):
                    update(one, mean, square)
    except Exception:  # whatever a model raises where it is not made to be trained so
        return None
    finally:
        model.train(was_training)
        for one in trainable:
            one.grad = None
    return ledger


def update(weight: Tensor, mean: Tensor, square: Tensor) -> None:
    """What AdamW does to one weight, one after the other; the numbers play no part where there is no storage."""
    if weight.grad is None:
        return
    weight.mul_(0.99)
    mean.lerp_(weight.grad, 0.1)
    square.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
    spread = (square.sqrt() / 0.9).add_(1e-8)
    weight.addcdiv_(mean, spread, value=-0.001)


def group_layers(answer: Any) -> Mapping[str, list[Tensor]]:
    """The tensors that an answer keeps for the next word, by the layer that keeps them: "self.3", "cross.3"."""
    layers = defaultdict(list)
    for name, value in answer.items() if hasattr(answer, "items") else ():
        if "past" in name or "cache" in name or "state" in name:
            for path, tensor in find_kept([(name, value)]):
                parts = path.split(".")
                number = next((part for part in parts if part.isdigit()), "")
                side = next((part for part in parts if part in ("self", "cross")), parts[0])
                if tensor.is_floating_point() and tensor.numel():
                    layers[f"{side}.{number}"].append(tensor)
    return layers


def count_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
