"""Which step made a tensor: remembered by identity and version, for as long as the tensor itself lives."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor, nn

from xray.capture.calls import Known
from xray.capture.masks.facts import SeenMask
from xray.capture.parts import is_distributed, look_at_part, unwrap, watch_storage
from xray.ir.records import Role

STRIDED = torch.strided
USUAL_ROLES: Mapping[torch.dtype, Role] = {
    torch.float32: "activation",
    torch.float64: "activation",
    torch.float16: "activation",
    torch.bfloat16: "activation",
    torch.bool: "activation",
    torch.int64: "ids",
    torch.int32: "ids",
}
"""What a tensor of a type is, where nothing else is known."""
make_known: Callable[[tuple[Any, ...]], Known] = partial(tuple.__new__, Known)
"""A named tuple's own constructor takes twice as long."""


class TensorLog:
    """The makers of all tensors seen, and the `names` of those that are parameters, by their identity.

    A tensor that is handed on unchanged keeps its maker. One that was changed in place has a new one, and so have all
    views of the same storage: torch counts changes in a version that views share.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self._known: dict[int, Known] = {}
        self._writers: dict[int, tuple[int, int]] = {}
        self._parts: dict[tuple[int, tuple[int, ...]], tuple[Any, Known]] = {}
        self.knows_ranks = is_distributed()
        self._uncounted = -1

    def find(self, tensor: Tensor) -> Known | None:
        """What is known of a tensor as it is now."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return self._find_part(tensor) if self._parts else None
        noted = known[1]
        if (
            noted == (tensor._version if noted >= 0 else self._uncounted)
            and tensor.dtype is known[3]
            and tensor.shape == known[2]
        ):
            return known
        return self._look_again(tensor, known)

    def note(
        self, tensor: Tensor, maker: int | None, role: Role, mask: SeenMask | None, given: str | None = None
    ) -> Known:
        """Remember a tensor, and the call that made it."""
        shape: tuple[int, ...]
        dtype: torch.dtype | str
        if tensor.layout is torch.strided and not tensor.is_nested:
            shape, dtype = tensor.shape, tensor.dtype
        else:
            shape, dtype = shape_of(tensor), name_dtype(tensor)
        part = None if type(tensor) is Tensor else look_at_part(tensor)
        version = self._version_of(tensor)
        trained, weight = None, None
        if role == "parameter" or type(tensor) is nn.Parameter:  # as a mask may be one
            trained, weight = tensor.requires_grad, self.names.get(id(tensor))
        known = Known(
            ref(tensor), version, shape, dtype, tensor.device, role, maker, mask, given, part, trained, weight
        )
        self._known[id(tensor)] = known
        if self.knows_ranks:
            self.note_part(tensor, known)
        return known

    def note_part(self, tensor: Tensor, known: Known) -> None:
        """Remember a tensor by its storage too: what is handed over between ranks changes its wrapping on the way."""
        inner = unwrap(tensor)
        if inner.layout is STRIDED and not inner.is_nested:
            self._parts[storage_of(inner), tuple(inner.shape)] = (watch_storage(inner), known)

    def note_new(self, tensor: Tensor, maker: int) -> Known | None:
        """What `note` does for the usual tensor, seen for the first time, in less than half the time; else None."""
        if type(tensor) is not Tensor or tensor.is_nested or tensor.layout is not STRIDED:
            return None
        shape, dtype = tensor.shape, tensor.dtype
        role = USUAL_ROLES.get(dtype)
        if role is None or not shape:
            return None
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return None
        try:
            version = tensor._version
        except RuntimeError:
            version = self._uncounted
        known = make_known(
            (ref(tensor), version, shape, dtype, tensor.device, role, maker, None, None, None, None, None)
        )
        self._known[id(tensor)] = known
        if self.knows_ranks:
            self.note_part(tensor, known)
        return known

    def note_change(self, tensor: Tensor, maker: int) -> None:
        """A call changed the tensor in place, and with it every view of the same storage."""
        if tensor.is_inference():
            self._uncounted -= 1
        self._writers[storage_of(tensor)] = (maker, self._version_of(tensor))

    def has_changed(self, tensor: Tensor) -> bool:
        """Whether the tensor was seen before and changed since."""
        known = self._known.get(id(tensor))
        return known is not None and known[0]() is tensor and known[1] != self._version_of(tensor)

    def is_changed_in(self, tensor: Tensor, call: int, given: Iterable[Known]) -> bool:
        """Whether a call changed a tensor that it was given, and no other call inside it did."""
        before = next((one.version for one in given if one.tensor() is tensor), None)
        writer, _ = self._writers.get(storage_of(tensor), (None, 0))
        is_newer = before is not None and 0 <= before < self._version_of(tensor)
        return is_newer and (writer is None or writer < call)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._parts.clear()
        self._writers.clear()

    def _find_part(self, tensor: Tensor) -> Known | None:
        """What is known of a tensor that has another wrapping now: this rank's part, taken out of the whole."""
        inner = unwrap(tensor)
        found = self._parts.get((storage_of(inner), tuple(inner.shape)))
        if found is None or found[0].expired() or inner.dtype is not found[1].dtype:
            return None
        noted = found[1]
        own = None if type(tensor) is Tensor else look_at_part(tensor)
        shape, part = (noted.shape, noted.part) if own is None else (tuple(tensor.shape), own)
        known = noted._replace(tensor=ref(tensor), version=self._version_of(tensor), shape=shape, part=part)
        self._known[id(tensor)] = known
        return known

    def _look_again(self, tensor: Tensor, known: Known) -> Known | None:
        """A tensor that may have changed since it was noted: by a call that was seen doing it, or unseen."""
        version = self._version_of(tensor)
        writer, changed = self._writers.get(storage_of(tensor), (None, 0))
        if writer is not None and known.maker is not None and writer < known.maker:
            writer = None  # it changed an earlier tensor, whose storage this one has taken over
        if version < 0:
            is_new = writer is not None and changed < known.version
            return self.note(tensor, writer, known.role, None) if is_new else self._note_again(tensor, known)
        if version == known.version:  # its form was changed, or it has an unusual one
            return self._note_again(tensor, known)
        if writer is None and self._is_view_of_unchanged(tensor):
            return self._note_again(tensor, known)
        if writer is None or version - changed not in (0, 1):  # below the user's level torch counts only afterwards
            return None
        return self.note(tensor, writer, known.role, None)

    def _note_again(self, tensor: Tensor, known: Known) -> Known:
        return self.note(tensor, known.maker, known.role, known.mask, known.given)

    def _is_view_of_unchanged(self, tensor: Tensor) -> bool:
        """Whether only the count is new: below the user's level a view takes over its base's after it was noted."""
        base = tensor._base
        noted = None if base is None else self._known.get(id(base))
        return base is not None and noted is not None and noted.tensor() is base and noted.version == base._version

    def _version_of(self, tensor: Tensor) -> int:
        """How often the tensor or a view of it was changed in place.

        Tensors of inference mode do not count; theirs is a number below 0, lower after each change that was seen.
        """
        return self._uncounted if tensor.is_inference() else tensor._version


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
