"""What is to be known of a model before it runs: its modules by path, their parameters, what compiles it."""

import sys
import warnings
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import count
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from xray.capture.calls import Counted, OpenCall, Sizes
from xray.capture.kernels.fast_path import FAST_PATHS
from xray.capture.naming import name_op
from xray.capture.parts import describe_weight, is_divided
from xray.capture.tensor_log import storage_of
from xray.capture.tensors import positional_names
from xray.ir.records import MaskKind
from xray.ir.trace import MADE_PARAMS, Setting

MANY = 1 << 30
NO_KEYWORDS: Mapping[str, Any] = {}
COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")


@dataclass(frozen=True)
class ModuleClass:
    """What all modules of one class have in common."""

    name: str
    op: str
    arguments: tuple[str, ...]
    most_arguments: int
    is_torch: bool
    has_fast_path: bool
    mask_kind: MaskKind | None

    @classmethod
    def of(cls, module: nn.Module) -> "ModuleClass":
        """The class of a module."""
        kind = class_of(module)
        return cls(
            name=kind.__name__,
            op=name_op(kind),
            arguments=positional_names(kind),
            most_arguments=count_arguments(kind),
            is_torch=kind.__module__.startswith("torch."),
            has_fast_path=isinstance(module, FAST_PATHS),
            mask_kind=getattr(kind, "mask_kind", None),
        )


def class_of(module: nn.Module) -> type[nn.Module]:
    """The class that somebody wrote: FSDP2 and DDP make another one of it, which has the same forward."""
    kind = type(module)
    for mark, base in (("FSDP", "FSDPModule"), ("DDP", "DDP")):
        names = [one.__name__ for one in kind.__bases__]
        if base in names and kind.__name__ == f"{mark}{kind.__bases__[-1].__name__}":
            return kind.__bases__[-1]
    return kind


class Survey:
    """Every module of a model once, with its path and its parameters, and whether any of them is compiled.

    Modules given by name stand under their own names beside the model. Shared parameters are counted once. `parts` are
    the model's own modules, `held` the identities of all parameters, `kept` those of the tensors that modules keep
    beside them. `names` are those that torch has for parameters, by their identity; of several that are the same
    numbers, the first one's.
    """

    def __init__(self, model: nn.Module, others: Mapping[str, nn.Module]) -> None:
        self.known: dict[int, tuple[nn.Module, Counted]] = {}
        self.made: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
        self.parts: tuple[Counted, ...] = ()
        self.kept = set[int]()
        self.names: dict[int, str] = {}
        self._firsts: dict[Hashable, int] = {}
        self.is_compiled = False
        self.is_lazy = False
        for prefix, root in (("", model), *others.items()):
            self._walk(root, prefix)
        self.held = {identity for _, entry in self.known.values() for identity, _ in entry.own}

    def close(self) -> None:
        """Hold no module any more; those that had no shape yet at the beginning are counted first."""
        if self.is_lazy:
            for module, entry in self.known.values():
                entry.params, entry.trained = count_parameters(module), count_trained(module)
                own = (one for one in module._parameters.values() if one is not None)
                entry.weights = {self.names[id(one)]: count_values(one) for one in own}
        self.known.clear()

    def name_replaced(self, module: nn.Module, above: OpenCall) -> str | None:
        """The class of the module that stood at the beginning where one stands that the model made since; else None."""
        own = {} if above.module is None else above.module._modules
        names = [name for name, one in own.items() if one is module]
        paths = {f"{above.path}.{name}" for name in names} | {name for name in names if above.parent is None}
        return next((class_of(one).__name__ for one, entry in self.known.values() if entry.path in paths), None)

    def name_made(self, module: nn.Module, above: OpenCall | None) -> str:
        """The path of a module that was not there at the beginning: of its class within the one that called it.

        With a number, where another one has that path that is held still, as in a list which torch does not know.
        """
        if module not in self.made:
            path = f"{above.path if above is not None else ''}.{class_of(module).__name__}"
            taken = {*self.made.values()}
            paths = (f"{path}_{number}" if number > 1 else path for number in count(1))
            self.made[module] = next(one for one in paths if one not in taken)
        return self.made[module]

    def tell_made(self, module: nn.Module, above: OpenCall | None) -> Mapping[str, Setting]:
        """How many parameters a module has that none has which was there at the beginning; nothing if it has none.

        Nor of one inside another that was not there: that one counts all.
        """
        if above is None or id(above.module) not in self.known:
            return {}
        made = sum(count_values(one) for one in module.parameters() if id(one) not in self.held)
        return {MADE_PARAMS: made} if made else {}

    def name_weights(self, module: nn.Module, path: str) -> Sizes:
        """The parameters that a module itself holds which was not there at the beginning, by their names."""
        own = ((name, one) for name, one in module._parameters.items() if one is not None)
        return {
            self.names[id(one)] if id(one) in self.held else f"{path}.{name}": count_values(one) for name, one in own
        }

    def _walk(self, root: nn.Module, prefix: str) -> None:
        """Depth first, in the order in which torch names modules, without one frame a level."""
        known, counted = self.known, set[int]()
        known_before = len(known)
        is_shared = False
        waiting: list[tuple[nn.Module, str, Counted | None]] = [(root, prefix, None)]
        while waiting:
            module, path, parent = waiting.pop()
            if id(module) in known:
                is_shared = True
                continue
            sizes = trained = 0
            own: list[tuple[int, int]] = []
            names: list[str] = []
            weights: dict[str, int] = {}
            dot = f"{path}." if path else ""
            holds_parts = False
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    before = sizes
                    first = self._firsts.setdefault(key_of(parameter), id(parameter))
                    weight = self.names[id(parameter)] = self.names.get(first, f"{dot}{name}")
                    is_shared = is_shared or first in counted
                    counted.add(first)
                    if type(parameter) is nn.Parameter:
                        sizes += parameter.numel()
                    else:
                        self.is_lazy = self.is_lazy or is_lazy(parameter)
                        holds_parts = holds_parts or is_divided(parameter)
                        sizes += count_values(parameter)
                    own.append((id(parameter), sizes - before))
                    names.append(name)
                    weights[weight] = sizes - before
                    if parameter.requires_grad:
                        trained += sizes - before
            title = path or class_of(module).__name__
            entry = Counted(title, sizes, tuple(own), trained, tuple(names), weights, parent)
            if holds_parts:
                entry.parts = describe_parts(module)
            known[id(module)] = (module, entry)
            self.kept.update(map(id, module._buffers.values()))
            if module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule":
                self.is_compiled = True
            if module._modules:
                waiting.extend(
                    [(child, dot + name, entry) for name, child in module._modules.items() if child is not None][::-1]
                )
        entries = list(known.values())[known_before:]
        self.parts = self.parts or tuple(entry for _, entry in entries)
        if is_shared:
            for module, entry in entries:
                entry.params, entry.trained = count_parameters(module), count_trained(module)
            return
        for _, entry in reversed(entries):
            if entry.above is not None:
                entry.above.params += entry.params
                entry.above.trained += entry.trained


def count_parameters(module: nn.Module) -> int:
    """The number of parameters in a module and all inside it, shared ones once."""
    return sum(map(count_values, list_weights(module)))


def count_trained(module: nn.Module) -> int:
    """How many of them require a gradient."""
    return sum(count_values(one) for one in list_weights(module) if one.requires_grad)


def list_weights(module: nn.Module) -> Collection[nn.Parameter]:
    """The parameters of a module and of all inside it, those that are the same numbers once."""
    return {key_of(one): one for one in reversed([*module.parameters()])}.values()


def key_of(parameter: nn.Parameter) -> Hashable:
    """What tells the numbers of a parameter: where they are stored, and how they are laid out there.

    So a parameter that was made of another one is that one. One of a kind of its own, or empty, is itself alone.
    """
    if type(parameter) is not nn.Parameter or parameter.layout != torch.strided or not parameter.numel():
        return id(parameter)
    return storage_of(parameter), parameter.storage_offset(), parameter.shape, parameter.stride(), parameter.dtype


def count_values(parameter: Tensor) -> int:
    """The size of a parameter; 0 for one that has no shape yet."""
    return 0 if is_lazy(parameter) else parameter.numel()


def describe_parts(module: nn.Module) -> Mapping[str, Setting]:
    """How the module's own parameters are divided among ranks, and which part this one holds."""
    told: dict[str, Setting] = {}
    for name, parameter in module._parameters.items():
        if parameter is not None:
            told |= describe_weight(name, parameter)
    return told


def count_arguments(kind: type[nn.Module]) -> int:
    """With how many positional arguments a call can have no keywords; more than any has, if that is not known."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if code is None or code.co_kwonlyargcount or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        return MANY
    return int(code.co_argcount) - 1


def read_keywords(frame: FrameType) -> Mapping[str, Any]:
    """The keyword arguments of a module call, found where torch keeps them: its global pre-hooks are not told."""
    kwargs = frame.f_locals.get("kwargs")
    return kwargs if isinstance(kwargs, dict) else NO_KEYWORDS


@contextmanager
def run_eagerly(*, compiled: bool) -> Iterator[None]:
    """Inside the block compiled code runs as it was written; what was compiled before is there again afterwards."""
    if not compiled and not any(name in sys.modules for name in COMPILERS):
        yield  # nothing here compiles, and asking torch not to would load its compiler
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        if compiled:  # torch warns that hooks see the compiled shell too, which is what is wanted here
            warnings.filterwarnings("ignore", r"Using `torch.compile\(module\)` when there are global hooks")
        yield
