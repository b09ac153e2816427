"""What a model keeps from one call to the next: tensors in caches and other objects, named by where they stand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

MAX_DEPTH = 6
NO_STATE = (nn.Module, type, FunctionType, MethodType, BuiltinFunctionType, ModuleType, torch.Generator, torch.device)
SHORT = {"keys": "key", "values": "value", "self_attention_cache": "self", "cross_attention_cache": "cross"}
"""What stands for longer names in those of cached tensors."""
LAYERS = ("layers",)
"""Names that say nothing beside the number that follows."""


def find_kept(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
    """The tensors inside plain objects among the given values, as "past_key_values.0.key"; containers are opened.

    Tensors that stand in containers alone are left out: they are ordinary arguments.
    """
    for name, value in values:
        yield from open_value(value, name, set(), MAX_DEPTH, is_kept=False)


def open_value(value: Any, name: str, seen: set[int], depth: int, *, is_kept: bool) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        if is_kept:
            yield name, value
        return
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float, NO_STATE)) or id(value) in seen:
        return
    seen.add(id(value))
    parts, is_plain = list_parts(value)
    for part, inner in parts:
        short = name if part in LAYERS else f"{name}.{SHORT.get(part, part)}"
        yield from open_value(inner, short, seen, depth - (part not in LAYERS), is_kept=is_kept or is_plain)


def list_parts(value: Any) -> tuple[list[tuple[str, Any]], bool]:
    """What a value holds, by name, and whether it is a plain object rather than a container."""
    if isinstance(value, Mapping):
        return [(str(key), inner) for key, inner in value.items()], False
    if isinstance(value, (list, tuple)):
        return [(str(number), inner) for number, inner in enumerate(value)], False
    if is_dataclass(value) or type(value).__module__ == "builtins":
        return [], False
    attributes = getattr(value, "__dict__", None)
    held = dict(attributes) if isinstance(attributes, dict) else {}
    for kind in type(value).__mro__:
        for slot in getattr(kind, "__slots__", ()):
            if isinstance(slot, str) and not slot.startswith("__") and hasattr(value, slot):
                held.setdefault(slot, getattr(value, slot))
    return [(part.lstrip("_"), inner) for part, inner in held.items()], True
