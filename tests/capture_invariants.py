"""What a recording may not change, held together so that every test can check all of it."""

import random
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn.modules import module as torch_module

from xray.capture.recorder import record

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks")


class Snapshot:
    """A model and torch as they are now."""

    def __init__(self, model):
        self.model = model
        self.seen = self.look()

    def look(self):
        """Everything that a recording must leave as it found it, by name."""
        modules = list(self.model.modules())
        return {
            "train and eval flags": [module.training for module in modules],
            "hooks of modules": [[list(getattr(module, name)) for name in HOOKS] for module in modules],
            "attributes": [sorted(vars(module)) for module in modules],
            "classes": [type(module) for module in modules],
            "tensors": {name: one.detach().clone() for name, one in tensors_of(self.model) if not one.is_meta},
            "versions": {name: one._version for name, one in tensors_of(self.model)},
            "global hooks": [
                list(hooks)
                for hooks in (
                    torch_module._global_forward_hooks,
                    torch_module._global_forward_pre_hooks,
                    torch_module._global_forward_hooks_with_kwargs,
                    torch_module._global_forward_hooks_always_called,
                )
            ],
            "modes": (
                len(torch.overrides._get_current_function_mode_stack()),
                len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()),
                torch._C._is_torch_function_enabled(),
            ),
            "settings": (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.get_default_dtype(),
                torch.are_deterministic_algorithms_enabled(),
                torch.backends.mha.get_fastpath_enabled(),
                torch.get_num_threads(),
            ),
            "random state": (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()),
        }

    def changes(self):
        """The names of what is not as it was."""
        now = self.look()
        return [name for name, before in self.seen.items() if not is_same(before, now[name])]

    @contextmanager
    def held(self):
        """Check at the end of the block, however it ends."""
        try:
            yield
        finally:
            assert self.changes() == []


def run_twice(model, *args, **kwargs):
    """The trace of a call that gives the same as an unrecorded one, bit for bit, and leaves the same behind."""
    torch.manual_seed(3)
    plain = model(*args, **kwargs)
    after = Snapshot(model).look()
    torch.manual_seed(3)
    with record(model) as recorder:
        recorded = model(*args, **kwargs)
    now = Snapshot(model).look()
    assert is_same(leaves_of(plain), leaves_of(recorded))
    different = [name for name in after if name not in ("versions", "tensors") and not is_same(after[name], now[name])]
    assert different == []
    return recorder.trace


def tensors_of(model):
    return [
        (name, one)
        for name, one in (*model.named_parameters(), *model.named_buffers())
        if not torch.nn.parameter.is_lazy(one)
    ]


def leaves_of(value):
    return torch.utils._pytree.tree_leaves(value)


def is_same(one, other):
    """Equality that goes into containers and compares tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and (one.shape, one.dtype, type(one)) == (other.shape, other.dtype, type(other))
            and torch.equal(one, other)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(is_same(a, b) for a, b in zip(one, other, strict=True))
    return one == other
