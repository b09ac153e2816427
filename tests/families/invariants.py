"""The invariants of a recording as checks that return what they found wrong: what it changed, and which data it lost.

Each compares two twins of a model that are called alike, one of them recorded. An empty answer is a pass.
"""

import copy
import gc
import random
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from xray.capture.recorder import record

Watch = Callable[[nn.Module], AbstractContextManager[Any]]
"""What makes a recorder of a model."""
Call = Callable[[nn.Module, dict[str, Any]], Any]
Facts = dict[str, Any]


def call_with_gradients(model: nn.Module, inputs: dict[str, Any]) -> Any:
    """The result, after sending the sum of its floating-point tensors back through the model."""
    result = model(**inputs)
    total = sum(one.double().sum() for _, one in find_tensors(result) if one.requires_grad)
    if isinstance(total, Tensor):
        total.backward()
    return result


def call_without_gradients(model: nn.Module, inputs: dict[str, Any]) -> Any:
    with torch.no_grad():
        return model(**inputs)


def find_changes(
    build: Callable[[], nn.Module],
    make_inputs: Callable[[], dict[str, Any]],
    *,
    training: bool = False,
    call: Call | None = None,
    watch: Watch = record,
) -> list[str]:
    """The names of the facts that differ after a watched call from those after the same call unwatched.

    Facts are the results and gradients bit for bit, the random states, every attribute, hook and buffer of every
    module, the inputs, torch's settings and global hooks, and which activations are still alive.
    """
    call = call or (call_with_gradients if training else call_without_gradients)
    built = build()
    built.train(training)
    mix_modes(built)
    plain = observe(copy.deepcopy(built), make_inputs(), call, None)
    watched = observe(copy.deepcopy(built), make_inputs(), call, watch)
    return [name for name in sorted(plain.keys() | watched.keys()) if plain.get(name) != watched.get(name)]


def mix_modes(model: nn.Module) -> None:
    """Turn the first dropout to the other mode: whoever restores one mode for all is found out."""
    dropout = next((module for module in model.modules() if isinstance(module, nn.Dropout)), None)
    if dropout is not None:
        dropout.train(not dropout.training)


def observe(model: nn.Module, inputs: dict[str, Any], call: Call, watch: Watch | None) -> Facts:
    """All facts after one call, made with a fixed seed; the user's own hook on every module notes the activations."""
    alive: list[weakref.ref[Tensor]] = []
    order: list[str] = []
    hooks = [add_user_hook(name, module, alive, order) for name, module in model.named_modules()]
    seed_everything()
    if watch is None:
        result = call(model, inputs)
        recorder = None
    else:
        with watch(model) as recorder:
            result = call(model, inputs)
    facts: Facts = {f"surroundings.{key}": value for key, value in describe_surroundings().items()}
    facts |= {f"random.{key}": value for key, value in describe_random_states().items()}
    facts |= {f"result.{name}": describe(one) for name, one in find_tensors(result)}
    facts["result.form"] = describe_form(result)
    facts |= {f"input.{name}": value for name, value in describe_attributes(inputs)}
    facts["order of the user's hooks"] = order
    for name, module in model.named_modules():
        facts |= {f"module.{name}.{key}": value for key, value in describe_attributes(vars(module))}
    facts |= {f"gradient.{name}": describe(one.grad) for name, one in model.named_parameters() if one.grad is not None}
    facts |= {f"state_dict.{name}": describe(one) for name, one in model.state_dict().items()}
    del result, inputs
    model.zero_grad()
    for hook in hooks:
        hook.remove()
    del model, hooks
    gc.collect()
    facts["activations alive"] = sum(one() is not None for one in alive)
    del recorder  # the recording itself was still there
    return facts


def add_user_hook(name: str, module: nn.Module, alive: list[Any], order: list[str]) -> Any:
    parameters = {id(one) for one in module.parameters()}

    def note(_: nn.Module, __: Any, result: Any) -> None:
        order.append(name)
        alive.extend(weakref.ref(one) for _, one in find_tensors(result) if id(one) not in parameters)

    return module.register_forward_hook(note)


def seed_everything() -> None:
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)


def describe_random_states() -> Facts:
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": str(np.random.get_state()[1].tolist()) + str(np.random.get_state()[2]),
        "python": random.getstate(),
    }


def describe_surroundings() -> Facts:
    """Every switch and hook of torch and Python that a recorder may be tempted to touch."""
    hooks = {
        f"{place.__name__}.{name}": len(value)
        for place in (torch_module, torch_optimizer)
        for name, value in vars(place).items()
        if name.startswith("_global") and isinstance(value, Mapping)
    }
    return hooks | {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
        "threads": torch.get_num_threads(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "functions on": torch._C._is_torch_function_enabled(),
        "saved tensor hooks": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
        "attention": id(torch.nn.functional.scaled_dot_product_attention),
        "module call": id(nn.Module.__call__),
        "warnings": len(warnings.filters),
        "profile": sys.getprofile(),
        "tracer": sys.gettrace(),
        "recursion": sys.getrecursionlimit(),
        "excepthook": sys.excepthook,
    }


def describe(tensor: Tensor) -> tuple[Any, ...]:
    """All that can be told of a tensor, its bits included."""
    plain = tensor.detach()
    if plain.is_nested:
        return ("nested", *(describe(one) for one in plain.unbind()))
    bits: Any = None
    if not plain.is_meta:
        bits = plain.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return type(tensor).__name__, str(plain.dtype), tuple(plain.shape), plain.stride(), tensor.requires_grad, bits


def describe_attributes(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every attribute below a value with its content: tensors by their bits, the rest by its kind or plain value."""
    if isinstance(value, Tensor):
        yield name, describe(value)
        yield f"{name}.attributes", sorted(vars(value))
    elif isinstance(value, nn.Module) or depth > 6:
        yield name, type(value).__name__
    elif isinstance(value, Mapping):
        # hooks are counted on for all modules of the process, so their numbers say nothing
        keys = [str(place) if isinstance(key, int) else str(key) for place, key in enumerate(value)]
        yield f"{name}.keys", keys
        for key, inner in zip(keys, value.values(), strict=True):
            yield from describe_attributes(inner, f"{name}.{key}", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        yield f"{name}.len", len(value)
        for place, inner in enumerate(value):
            yield from describe_attributes(inner, f"{name}.{place}", depth + 1)
    elif isinstance(value, str | int | float | bool | type(None) | torch.dtype):
        yield name, value
    elif hasattr(value, "__dict__") and not callable(value):
        yield f"{name}.type", type(value).__name__
        yield from describe_attributes(vars(value), name, depth + 1)
    else:
        yield name, type(value).__name__


def find_tensors(value: Any, name: str = "out", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a result, through containers, dataclasses and objects such as caches."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, nn.Module) or depth > 8:
        return
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from find_tensors(inner, f"{name}.{key}", depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for place, inner in enumerate(value):
            yield from find_tensors(inner, f"{name}.{place}", depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for entry in fields(value):
            yield from find_tensors(getattr(value, entry.name), f"{name}.{entry.name}", depth + 1)
    elif hasattr(value, "__dict__") and not callable(value):
        yield from find_tensors(vars(value), name, depth + 1)


def describe_form(value: Any, depth: int = 0) -> Any:
    """The types of a result and of what is in it."""
    if isinstance(value, Mapping) and depth < 6:
        return type(value).__name__, {str(key): describe_form(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple) and depth < 6:
        return type(value).__name__, [describe_form(inner, depth + 1) for inner in value]
    return type(value).__name__
