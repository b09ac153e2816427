"""Looking at a tensor in passing: what it is, which step made it, what it hides, a few of its values."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.calls import OpenCall, SeenTensor
from xray.capture.mask_facts import look_at_mask, tells_what_is_hidden
from xray.capture.tensor_log import Known, TensorLog, name_dtype, shape_of
from xray.capture.tensors import Named, name_results
from xray.capture.values import PreviewRule
from xray.ir.records import MaskKind, Role

STATE_NAMES = ("cache", "past_key", "layer_past")
"""Arguments with these names carry what a model keeps from one call to the next."""


class Sight:
    """Sees the tensors of one recording, and remembers their makers for as long as they live."""

    def __init__(self, preview: PreviewRule | None) -> None:
        self._preview = preview
        self._log = TensorLog()
        self._plain_dtypes: dict[torch.dtype, str] = {}

    def see_given(self, named: Named, call: OpenCall) -> tuple[SeenTensor, ...]:
        """What a call is given."""
        return tuple([self._see(name, tensor, call) for name, tensor in named])

    def see_result(self, result: Any, call: OpenCall, mask_kind: MaskKind | None = None) -> tuple[SeenTensor, ...]:
        """What a call made; a tensor that it only handed on keeps its maker."""
        return tuple([self.see_made(name, tensor, call, mask_kind=mask_kind) for name, tensor in name_results(result)])

    def see_named(
        self, tensors: Mapping[str, Tensor], call: OpenCall, roles: Mapping[str, Role]
    ) -> tuple[SeenTensor, ...]:
        """What a call made, with the roles of those whose type does not tell."""
        return tuple(self.see_made(name, tensor, call, role=roles.get(name)) for name, tensor in tensors.items())

    def see_made(
        self, name: str, tensor: Tensor, call: OpenCall, *, mask_kind: MaskKind | None = None, role: Role | None = None
    ) -> SeenTensor:
        """One tensor that a call made."""
        known = self._log.find(tensor)
        if known is None or (known.source is None and call.op.endswith("_")):
            mask = look_at_mask(tensor, mask_kind) if mask_kind else None
            role = role or guess_role(tensor, call, is_mask=mask_kind is not None)
            known = self._log.note(tensor, call.id, role, mask)
        seen = self._write_down(name, tensor, known)
        if self._preview is None:
            return seen
        return seen._replace(preview=self._preview(call.path, call.op, tensor))

    def note_change(self, tensor: Tensor, call: OpenCall) -> None:
        """A call changed the tensor in place."""
        self._log.note_change(tensor, call.id)

    def note_maker(self, tensor: Tensor, source: str) -> None:
        """The tensor comes from another step than the call that gave it."""
        self._log.note(tensor, source, "activation", None)

    def forget(self) -> None:
        """Remember no tensor any more."""
        self._log.clear()

    def _see(self, name: str, tensor: Tensor, call: OpenCall) -> SeenTensor:
        known = self._log.find(tensor)
        if known is None or ("mask" in name and known.mask is None):
            mask = None
            if "mask" in name:
                kind: MaskKind | None = "padding" if "padding_mask" in name else None
                mask = look_at_mask(tensor, kind, true_is_hidden=tells_what_is_hidden(name, call.op, call.module))
            role = guess_role(tensor, call, is_mask=mask is not None)
            known = self._log.note(tensor, known.source if known else None, role, mask)
        seen = self._write_down(name, tensor, known)
        return seen._replace(role="state") if name.startswith(STATE_NAMES) else seen

    def _write_down(self, name: str, tensor: Tensor, known: Known) -> SeenTensor:
        if tensor.layout is torch.strided and not tensor.is_nested:
            dtype = self._plain_dtypes.get(tensor.dtype)
            if dtype is None:
                dtype = self._plain_dtypes[tensor.dtype] = name_dtype(tensor)
            return SeenTensor(name, tensor.shape, dtype, tensor.device, known.role, known.source, known.mask)
        return SeenTensor(
            name, shape_of(tensor), name_dtype(tensor), tensor.device, known.role, known.source, known.mask
        )


def guess_role(tensor: Tensor, call: OpenCall, *, is_mask: bool) -> Role:
    """What a tensor is, as far as its type and the call tell."""
    if is_mask:
        return "mask"
    if isinstance(tensor, nn.Parameter):
        return "parameter"
    if tensor.is_floating_point():
        is_loss = tensor.dim() == 0 and ("loss" in call.op or "cross_entropy" in call.op)
        return "loss" if is_loss else "activation"
    return "activation" if tensor.dtype is torch.bool or tensor.is_complex() else "ids"
