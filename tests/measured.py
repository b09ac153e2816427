"""What is counted while something runs, by torch and by Python itself, to hold a record's accounts and its cost to."""

import cProfile

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


def count_flops_in_torch(model, *args, **kwargs):
    """The FLOPs that torch's own counter sees.

    Attention is taken as plain products and the fast paths are left out, since the counter misses their kernels.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return counter.get_total_flops()


def count_calls(work):
    """How many functions written in Python are called; however busy the machine is, it is the same number."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


class StorageMode(TorchFunctionMode):
    """While it is on, `made` adds up the bytes of every tensor that shares no storage with what it was made from."""

    def __init__(self):
        super().__init__()
        self.made = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        given = {storage_of(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") != "__get__":
            for one in tree_leaves(result):
                if isinstance(one, Tensor) and storage_of(one) not in given:
                    given.add(storage_of(one))
                    self.made += one.numel() * one.element_size()
        return result


def storage_of(tensor):
    return tensor.untyped_storage().data_ptr()


def measure_storage_in_torch(model, *args, **kwargs):
    """The bytes that the operations of a forward pass store, told by the addresses of their tensors."""
    with torch.no_grad(), StorageMode() as mode:
        model(*args, **kwargs)
    return mode.made
