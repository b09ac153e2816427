"""Looking at a tensor in passing: what it is, which step made it, what it hides, a few of its values."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from xray.capture.calls import Known, OpenCall, Seen
from xray.capture.kernels.fused import ATTENTIONS, weigh
from xray.capture.masks.facts import chooses_hidden, look_at_mask, tells_what_is_hidden
from xray.capture.parts import Part
from xray.capture.tensor_log import TensorLog
from xray.capture.tensors import name_results
from xray.capture.values import MAX_VALUES, PreviewRule, is_readable, take_preview
from xray.ir.records import MaskKind, Role

MAX_IDS = 1_024
"""The most ids whose values are noted unasked."""
DECIDING = ("mask", "position_id", "seqlen", "seq_len", "lengths", "document", "doc_id", "seq_idx", "sequence_id")
"""What is in the names of arguments that say who may see whom."""


class Sight:
    """Sees the tensors of one recording, and remembers their makers for as long as they live.

    `names` are those of the model's parameters, by their identity.
    """

    def __init__(
        self, preview: PreviewRule | None, names: Mapping[int, str], *, shows_ids: bool = False, weighs: bool = False
    ) -> None:
        self._preview = preview
        self._weighs = weighs
        self.shows_ids = shows_ids
        self._log = TensorLog(names)
        self._note_new = self._log.note_new
        self.find = self._log.find

    def see_given(self, name: str, tensor: Tensor, call: OpenCall) -> Seen:
        """A tensor that a call is given."""
        known = self.find(tensor)
        if known is None or ("mask" in name and known.mask is None):
            known = self._look_closely(name, tensor, call, known)
        return (name, known, None)

    def see_condition(self, inputs: list[Seen], args: tuple[Any, ...], call: OpenCall) -> list[Seen]:
        """What a choice was given, its condition as the mask that it is where scores give way to a number far below."""
        is_hidden = chooses_hidden(args)
        mask = None if is_hidden is None else look_at_mask(args[0], None, true_is_hidden=is_hidden)
        if mask is None or not inputs or inputs[0][1].mask is not None:
            return inputs
        (name, known, preview), *others = inputs
        return [(name, self._log.note(args[0], known.maker, "mask", mask, known.given), preview), *others]

    def see_result(self, result: Any, call: OpenCall, mask_kind: MaskKind | None = None) -> list[Seen]:
        """What a call made; a tensor that it only handed on keeps its maker."""
        if type(result) is Tensor and self._preview is None and mask_kind is None:
            known = self._note_new(result, call.serial)
            return [("out", known, None) if known is not None else self.see_made("out", result, call)]
        return [self.see_made(name, tensor, call, mask_kind=mask_kind) for name, tensor in name_results(result)]

    def see_changed(self, tensor: Tensor, call: OpenCall, name: str = "out") -> list[Seen]:
        """A tensor that a call changed in place, and with it every view of it."""
        self._log.note_change(tensor, call.serial)
        return [
            self._look_into(name, tensor, self._log.note(tensor, call.serial, guess_role(tensor, call), None), call)
        ]

    def see_made(
        self, name: str, tensor: Tensor, call: OpenCall, *, mask_kind: MaskKind | None = None, role: Role | None = None
    ) -> Seen:
        """One tensor that a call made, or changed, as a ReLU may what it is given."""
        if self._log.is_changed_in(tensor, call.serial, (given for _, given, _ in call.inputs)):
            return self.see_changed(tensor, call, name)[0]
        known = self.find(tensor)
        if known is None or known.maker is None:
            known = self._note_made(tensor, call, known, mask_kind, role)
        return self._look_into(name, tensor, known, call)

    def weigh(self, call: OpenCall) -> None:
        """Note what a fused attention weighs by, where that was asked for."""
        if self._weighs and self._preview is not None and call.op in ATTENTIONS:
            weights = weigh(call)
            call.weighed = None if weights is None else self._preview(f"{call.path}.softmax", "softmax", weights)

    def note_state(self, name: str, tensor: Tensor, call: OpenCall) -> Seen:
        """A tensor that is kept from one call of the model to the next."""
        known = self.find(tensor)
        if known is None:
            known = self._log.note(tensor, None, "state", None)
        elif known.role != "state":
            known = self._log.note(tensor, known.maker, "state", known.mask, known.given)
        return (name, known, None)

    def note_given(self, seen: Seen) -> Seen:
        """What the whole model is given; if its name says that it decides who may see whom, it is known by that name.

        The values of masks and places are noted, as far as they are few.
        """
        name, known, preview = seen
        tensor = known.tensor() if decides_who_sees(name) else None
        if tensor is None:
            return seen
        known = self._log.note(tensor, known.maker, known.role, known.mask, name)
        if preview is None and tensor.numel() <= MAX_VALUES and is_readable(tensor):
            preview = take_preview(tensor, tuple(tensor.shape))
        return (name, known, preview)

    def see_part(
        self,
        name: str,
        tensor: Tensor,
        call: OpenCall,
        *,
        shape: tuple[int, ...] | None = None,
        part: Part | None = None,
    ) -> Seen:
        """A tensor of this rank that a call made, and that others may hand on in another wrapping."""
        self._log.note_change(tensor, call.serial)
        known = self._log.note(tensor, call.serial, guess_role(tensor, call), None)
        if part is not None:
            known = known._replace(shape=shape or known.shape, part=part)
        self._log.note_part(tensor, known)
        return (name, known, None)

    def hand_on(self, given: Iterable[tuple[str, Tensor]], made: Iterable[tuple[str, Tensor]]) -> None:
        """Tensors that come from where others did, by something that is no step."""
        known = next((one for one in (self.find(tensor) for _, tensor in given) if one is not None), None)
        if known is not None:
            for _, tensor in made:
                if self.find(tensor) is None:
                    self._log.note(tensor, known.maker, known.role, None)

    def show_ids(self, seen: Seen) -> Seen:
        """What was seen with its values, if it is a few ids: what a model read, and which word was chosen."""
        name, known, preview = seen
        tensor = known.tensor() if known.role == "ids" and preview is None else None
        if tensor is None or tensor.numel() > MAX_IDS or not is_readable(tensor):
            return seen
        return (name, known, take_preview(tensor, tuple(tensor.shape)))

    def forget(self) -> None:
        """Remember no tensor any more."""
        self._log.clear()

    def _note_made(
        self,
        tensor: Tensor,
        call: OpenCall,
        known: Known | None,
        mask_kind: MaskKind | None = None,
        role: Role | None = None,
    ) -> Known:
        if known is not None and not call.op.endswith("_"):
            return known  # an input handed on
        if known is None and self._log.has_changed(tensor):
            self._log.note_change(tensor, call.serial)
        mask = look_at_mask(tensor, mask_kind) if mask_kind else None
        return self._log.note(
            tensor, call.serial, role or guess_role(tensor, call, is_mask=mask_kind is not None), mask
        )

    def _look_closely(self, name: str, tensor: Tensor, call: OpenCall, known: Known | None) -> Known:
        mask = None
        if "mask" in name:
            kind: MaskKind | None = "padding" if "padding_mask" in name else None
            mask = look_at_mask(tensor, kind, true_is_hidden=tells_what_is_hidden(name, call.op, call.module))
            if known is not None and mask is None:
                return known
        role = guess_role(tensor, call, is_mask=mask is not None)
        maker, given = (None, None) if known is None else (known.maker, known.given)
        return self._log.note(tensor, maker, role, mask, given)

    def _look_into(self, name: str, tensor: Tensor, known: Known, call: OpenCall) -> Seen:
        return (name, known, None if self._preview is None else self._preview(call.path, call.op, tensor))


def decides_who_sees(name: str) -> bool:
    """Whether an argument with this name is a mask, or tells where sequences begin and end."""
    return any(word in name.lower() for word in DECIDING)


def see_named(sight: Sight, tensors: Mapping[str, Tensor], call: OpenCall, roles: Mapping[str, Role]) -> list[Seen]:
    """What a call made, with the roles of those whose type does not tell."""
    return [sight.see_made(name, tensor, call, role=roles.get(name)) for name, tensor in tensors.items()]


def guess_role(tensor: Tensor, call: OpenCall, *, is_mask: bool = False) -> Role:
    """What a tensor is, as far as its type and the call tell."""
    if is_mask:
        return "mask"
    if type(tensor) is not Tensor and isinstance(tensor, nn.Parameter):
        return "parameter"
    if tensor.is_floating_point():
        is_loss = tensor.dim() == 0 and ("loss" in call.op or "cross_entropy" in call.op)
        return "loss" if is_loss else "activation"
    return "activation" if tensor.dtype is torch.bool or tensor.is_complex() else "ids"
