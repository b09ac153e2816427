"""Finding the tensors in whatever a module takes and gives, and naming them."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.own_calls import has_own_call

Named = list[tuple[str, Tensor]]
PLAIN = (int, float, str, type(None), torch.dtype, torch.device)
"""What is no tensor, and holds none."""
MAX_DEPTH = 16
"""How deep containers are searched; deeper ones, and those that hold themselves, end the search quietly."""


def find_tensors(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a value, with a name that says where it stood: "out", "cache.keys", "layers.0".

    Walks tuples, named tuples, lists, mappings and dataclasses; anything else that is no tensor is passed over.
    """
    if isinstance(value, Tensor):
        yield name, value
    elif depth < MAX_DEPTH:
        for part, inner in parts_of(value):
            yield from find_tensors(inner, f"{name}.{part}" if name else part, depth + 1)


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | range):
        yield from ((str(index), inner) for index, inner in enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((entry.name, getattr(value, entry.name)) for entry in fields(value))


def name_arguments(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Named:
    """The tensors among a call's arguments, under the names that `forward` gives them (see `positional_names`)."""
    found: Named = []
    for place, value in enumerate(args):
        if isinstance(value, Tensor):
            found.append((names[place] if place < len(names) else f"arg{place}", value))
        elif not isinstance(value, PLAIN):
            found.extend(find_tensors(value, names[place] if place < len(names) else f"arg{place}"))
    for name, value in kwargs.items():
        if not isinstance(value, PLAIN):
            found.extend(find_tensors(value, name))
    return found


def name_results(result: Any) -> Named:
    """The tensors of a result: "out" for a single one, else its parts' own names."""
    if isinstance(result, Tensor):
        return [("out", result)]
    named = isinstance(result, Mapping) or hasattr(result, "_fields") or is_dataclass(result)
    return list(find_tensors(result, "" if named else "out"))


def positional_names(kind: type[nn.Module]) -> tuple[str, ...]:
    """The names that a module's `forward` gives to its positional arguments; none where it cannot be inspected."""
    return name_positional(getattr(kind, "forward", None))[1:]  # scripted modules do not even let one ask


def input_names(kind: type[nn.Module]) -> tuple[str, ...]:
    """The names that the whole model gives to its positional arguments: those of a call of its own, else `forward`."""
    return name_positional(find_called(kind))[1:]


def find_called(kind: type[nn.Module]) -> Any:
    """What names the inputs of a model: a `__call__` of its own, unless that hands on whatever it is given."""
    code = getattr(inspect.unwrap(kind.__call__), "__code__", None) if has_own_call(kind) else None
    is_named = code is not None and not code.co_flags & inspect.CO_VARARGS
    return kind.__call__ if is_named else getattr(kind, "forward", None)


def reads_argument(kind: type[nn.Module], name: str) -> bool:
    """Whether a model has an input of that name."""
    try:
        return name in inspect.signature(find_called(kind)).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def name_positional(func: Any) -> tuple[str, ...]:
    """The names of a function's positional parameters; none where it cannot be inspected."""
    if type(func) is FunctionType and not func.__dict__:  # nothing wraps it, so its code tells
        return func.__code__.co_varnames[: func.__code__.co_argcount]
    try:
        parameters = inspect.signature(func).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
