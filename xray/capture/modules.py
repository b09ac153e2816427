"""What is to be known of a model before it runs: its modules by path, their parameters, what compiles it."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from xray.capture.fast_path import FAST_PATHS
from xray.capture.naming import name_op
from xray.capture.tensors import positional_names

COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")


@dataclass(frozen=True)
class ModuleClass:
    """What all modules of one class have in common."""

    name: str
    op: str
    arguments: tuple[str, ...]
    is_torch: bool
    has_fast_path: bool

    @classmethod
    def of(cls, module: nn.Module) -> "ModuleClass":
        """The class of a module."""
        kind = type(module)
        return cls(
            name=kind.__name__,
            op=name_op(module),
            arguments=positional_names(kind),
            is_torch=kind.__module__.startswith("torch."),
            has_fast_path=isinstance(module, FAST_PATHS),
        )


def named_modules(model: nn.Module, others: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, with its path; the modules in `others` stand under their own names beside the model."""
    seen: set[int] = set()
    for prefix, root in (("", model), *others.items()):
        for path, module in root.named_modules(prefix=prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield path or type(model).__name__, module


def count_parameters(*roots: nn.Module) -> dict[int, int]:
    """The number of parameters in each module and all inside it, shared ones once, by the module's id."""
    counts: dict[int, int] = {}

    def gather(module: nn.Module) -> dict[int, int]:
        sizes = {id(one): one.numel() for one in module._parameters.values() if one is not None}
        for child in module._modules.values():
            if child is not None:
                sizes |= gather(child)
        counts[id(module)] = sum(sizes.values())
        return sizes

    for root in roots:
        gather(root)
    return counts


@contextmanager
def run_eagerly(model: nn.Module) -> Iterator[None]:
    """Inside the block compiled code runs as it was written; what was compiled before is there again afterwards."""
    compiled = any(
        module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"
        for module in model.modules()
    )
    if not compiled and not any(name in sys.modules for name in COMPILERS):
        yield  # nothing here compiles, and asking torch not to would load its compiler
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        if compiled:  # torch warns that hooks see the compiled shell too, which is what is wanted here
            warnings.filterwarnings("ignore", r"Using `torch.compile\(module\)` when there are global hooks")
        yield


def in_backward() -> bool:
    """Whether this thread is inside back-propagation, where checkpointed blocks run a second time."""
    return torch._C._current_graph_task_id() != -1
