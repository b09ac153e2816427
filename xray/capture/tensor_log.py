"""Which step made a tensor: remembered by identity and version, for as long as the tensor itself lives."""

import weakref
from typing import NamedTuple

import torch
from torch import Tensor

from xray.capture.mask_facts import SeenMask
from xray.ir.records import Role


class Known(NamedTuple):
    """What is remembered of a tensor; it is kept alive by nobody here."""

    tensor: "weakref.ref[Tensor]"
    version: int
    source: str | None
    role: Role
    mask: SeenMask | None


class TensorLog:
    """The makers of all tensors seen.

    A tensor that is handed on unchanged keeps its maker. One that was changed in place has a new one, and so have all
    views of the same storage: torch counts changes in a version that views share.
    """

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}
        self._writers: dict[int, str] = {}

    def find(self, tensor: Tensor) -> Known | None:
        """What is known of a tensor as it is now."""
        known = self._known.get(id(tensor))
        if known is None or known.tensor() is not tensor:
            return None
        version = version_of(tensor)
        if version == known.version:
            return known
        writer = self._writers.get(storage_of(tensor))
        if writer is None:
            return None
        return self._remember(Known(known.tensor, version, writer, known.role, None))

    def note(self, tensor: Tensor, source: str | None, role: Role, mask: SeenMask | None) -> Known:
        """Remember a tensor, and the step that made it."""
        return self._remember(Known(weakref.ref(tensor), version_of(tensor), source, role, mask))

    def note_change(self, tensor: Tensor, source: str) -> None:
        """A step changed the tensor in place, and with it every view of the same storage."""
        self._writers[storage_of(tensor)] = source

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._writers.clear()

    def _remember(self, known: Known) -> Known:
        tensor = known.tensor()
        if tensor is not None:
            self._known[id(tensor)] = known
        return known


def version_of(tensor: Tensor) -> int:
    """How often the tensor or a view of it was changed in place; 0 for tensors that do not count."""
    return 0 if tensor.is_inference() else tensor._version


def storage_of(tensor: Tensor) -> int:
    """A number that all views of one storage share; that of the tensor itself where it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape; of a nested tensor the padded one, as large as its largest part."""
    if not tensor.is_nested:
        return tensor.shape
    if tensor.layout == torch.jagged:
        return tuple(size if isinstance(size, int) else int(tensor._max_seqlen) for size in tensor.shape)
    sizes = tensor._nested_tensor_size()
    return (len(sizes), *sizes.max(dim=0).values.tolist()) if len(sizes) else (0,)


def name_dtype(tensor: Tensor) -> str:
    """The element type, with the layout where it is not the usual one: "float32", "float32 sparse_coo"."""
    name = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        return f"{name} nested"
    if tensor.layout != torch.strided:
        return f"{name} {str(tensor.layout).removeprefix('torch.')}"
    return name
