"""A recording while it is being made: open passes, open steps, tensors as they were seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from xray.capture.mask_facts import SeenMask
from xray.capture.naming import name_layer
from xray.ir.records import Preview, Role, TensorRecord
from xray.ir.trace import Pass, PassKind, Setting, Step


class SeenTensor(NamedTuple):
    """What was noted of a tensor in passing; it becomes a TensorRecord when the recording is read."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: torch.device | str
    role: Role
    source: str | None
    mask: SeenMask | None = None
    preview: Preview | None = None

    def to_record(self) -> TensorRecord:
        """The frozen record, its axes still without words."""
        return TensorRecord(
            name=self.name,
            shape=tuple(int(size) for size in self.shape),
            axes=("",) * len(self.shape),
            dtype=self.dtype,
            device=str(self.device),
            role=self.role,
            source=self.source,
            mask=None if self.mask is None else self.mask.to_facts(),
            preview=self.preview,
        )


@dataclass(slots=True)
class OpenCall:
    """A step whose call has begun; the module and its arguments are held only until it ends."""

    id: str
    path: str
    call: int
    op: str
    kind: str
    parent: str | None
    depth: int
    params: int
    location: str | None
    settings: Mapping[str, Setting]
    inputs: tuple[SeenTensor, ...] = ()
    outputs: tuple[SeenTensor, ...] = ()
    error: str | None = None
    module: nn.Module | None = None
    arguments: tuple[Any, ...] | None = None

    def release(self) -> None:
        """Let go of the module and the arguments."""
        self.module = self.arguments = None

    def to_step(self) -> Step:
        """The frozen step."""
        return Step(
            id=self.id,
            path=self.path,
            call=self.call,
            op=self.op,
            module=self.kind,
            parent=self.parent,
            depth=self.depth,
            layer=name_layer(self.path),
            params=self.params,
            location=self.location,
            inputs=tuple(seen.to_record() for seen in self.inputs),
            outputs=tuple(seen.to_record() for seen in self.outputs),
            settings=self.settings,
            error=self.error,
        )


def describe_error(error: BaseException | None) -> str:
    """An exception's type and text."""
    return "did not return" if error is None else f"{type(error).__name__}: {error}"


@dataclass
class OpenPass:
    """A pass still being recorded."""

    kind: PassKind
    number: int
    tokens: Mapping[str, tuple[tuple[str, ...], ...]]
    calls: list[OpenCall] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def to_pass(self) -> Pass:
        """The frozen pass."""
        return Pass(self.kind, self.number, self.tokens, tuple(call.to_step() for call in self.calls))
