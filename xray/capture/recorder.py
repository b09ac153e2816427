"""The recorder: global forward hooks note every call of a model's modules while a `with` block is open."""

import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from xray.capture.naming import describe_settings, name_layer, name_op
from xray.capture.tensors import name_arguments, name_results, positional_names
from xray.capture.values import PreviewRule, describe_mask
from xray.errors import TraceError
from xray.ir.records import MaskFacts, MaskKind, Role, TensorRecord
from xray.ir.trace import Pass, PassKind, Setting, Step, Trace

MACHINERY = (torch_module.__file__, __file__)
"""Files that stand between a call and the module it reaches."""


@dataclass
class OpenCall:
    """A step whose call has begun and not yet ended; the module is held only while it runs."""

    module: nn.Module | None
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
    inputs: tuple[TensorRecord, ...] = ()
    outputs: tuple[TensorRecord, ...] = ()
    error: str | None = None


@dataclass
class OpenPass:
    """A pass still being recorded."""

    kind: PassKind
    number: int
    tokens: Mapping[str, tuple[tuple[str, ...], ...]]
    calls: list[OpenCall] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class KnownTensor:
    """What is remembered of a tensor that some step made, as long as the tensor itself lives."""

    tensor: "weakref.ref[Tensor]"
    source: str | None
    role: Role
    mask: MaskFacts | None


class Recorder:
    """Records the calls of a model's modules, and of other modules given by name, between `with` and the end of it.

    `recorder.trace` holds all that ran, also after an exception, which passes through unchanged. The recorder reads
    tensors and keeps none; it sets no flag, draws no random number and leaves no hook. Calls from other threads, and
    of modules that do not belong to the model, are not recorded.
    """

    def __init__(self, model: nn.Module, *, preview: PreviewRule | None = None, **others: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise TraceError(f"a {type(model).__name__} cannot be recorded. Give a torch.nn.Module.")
        self._preview = preview
        self._title = type(model).__name__
        self._paths = {id(module): (module, path) for path, module in named_modules(model, others)}
        self._params: dict[int, int] = {}
        self._arguments: dict[type[nn.Module], tuple[str, ...]] = {}
        self._known: dict[int, KnownTensor] = {}
        self._passes: list[OpenPass] = []
        self._declared: OpenPass | None = None
        self._stack: list[OpenCall] = []
        self._thread = 0
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        self._hooks.callback(register_module_forward_pre_hook(self._before).remove)
        after = register_module_forward_hook(self._after, with_kwargs=True, always_call=True)
        # torch's own remove leaves the entry of with_kwargs behind
        self._hooks.callback(torch_module._global_forward_hooks_with_kwargs.pop, after.id, None)
        self._hooks.callback(after.remove)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._hooks.close()
        for call in self._stack:
            call.error, call.module = describe_error(error), None
        self._stack.clear()
        self._known.clear()
        self._paths.clear()

    @property
    def trace(self) -> Trace:
        """All that has been recorded up to now."""
        passes = tuple(
            Pass(one.kind, one.number, one.tokens, tuple(close_call(call) for call in one.calls))
            for one in self._passes
        )
        return Trace(title=self._title, sizes={}, config={}, passes=passes)

    @contextmanager
    def declared_pass(
        self, kind: PassKind, number: int = 0, tokens: Mapping[str, tuple[tuple[str, ...], ...]] | None = None
    ) -> Iterator[None]:
        """All calls inside the block belong to one pass, of the given kind.

        `tokens` is kept as given, so words that only come out can be added to it before the block ends.
        """
        self._declared = OpenPass(kind, number, tokens or {})
        self._passes.append(self._declared)
        try:
            yield
        finally:
            self._declared = None

    def add_step(
        self,
        path: str,
        op: str,
        *,
        inputs: Mapping[str, Tensor] | None = None,
        outputs: Mapping[str, Tensor] | None = None,
        roles: Mapping[str, Role] | None = None,
    ) -> None:
        """Note something that no module does: making ids from words, or back-propagation.

        `roles` gives the role of an input or output by its name, where its type does not tell.
        """
        call = self._open(path, op, kind="", settings={}, params=0)
        roles = roles or {}
        call.inputs = tuple(self._describe(name, tensor, call, None) for name, tensor in (inputs or {}).items())
        call.outputs = tuple(
            self._describe(name, tensor, call, None, made=True, role=roles.get(name))
            for name, tensor in (outputs or {}).items()
        )

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not self._is_ours(module):
            return
        _, path = self._paths[id(module)]
        op = name_op(module)
        call = self._open(path, op, type(module).__name__, describe_settings(module), self._count_parameters(module))
        call.module = module
        self._stack.append(call)

    def _after(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """Called with (kwargs, result) after a forward that returned, with one value less after one that raised."""
        if not self._is_ours(module):
            return
        call = self._close_down_to(module)
        if call is None:
            return
        if len(rest) < 2:
            call.error = describe_error(sys.exception())
        kwargs = rest[0] if len(rest) == 2 else {}
        kind: MaskKind | None = getattr(module, "mask_kind", None)
        names = self._arguments.setdefault(type(module), positional_names(type(module)))
        call.inputs = tuple(
            self._describe(name, tensor, call, None) for name, tensor in name_arguments(names, args, kwargs)
        )
        if len(rest) == 2:
            call.outputs = tuple(
                self._describe(name, tensor, call, kind, made=True) for name, tensor in name_results(rest[1])
            )

    def _is_ours(self, module: nn.Module) -> bool:
        return id(module) in self._paths and threading.get_ident() == self._thread

    def _open(self, path: str, op: str, kind: str, settings: Mapping[str, Setting], params: int) -> OpenCall:
        if self._declared is None and not self._stack:
            self._passes.append(OpenPass("forward", len(self._passes), {}))
        current = self._passes[-1]
        number = current.counts[path]
        current.counts[path] += 1
        parent = self._stack[-1] if self._stack else None
        call = OpenCall(
            module=None,
            id=f"{path}#{number}",
            path=path,
            call=number,
            op=op,
            kind=kind,
            parent=None if parent is None else parent.id,
            depth=len(self._stack),
            params=params,
            location=find_caller(sys._getframe(1)),
            settings=settings,
        )
        current.calls.append(call)
        return call

    def _close_down_to(self, module: nn.Module) -> OpenCall | None:
        """End the innermost call of `module`, and any inside it whose end was not seen."""
        if not any(call.module is module for call in self._stack):
            return None
        call = self._stack.pop()
        while call.module is not module:
            call.module = None
            call = self._stack.pop()
        call.module = None
        return call

    def _describe(
        self,
        name: str,
        tensor: Tensor,
        call: OpenCall,
        mask_kind: MaskKind | None,
        *,
        made: bool = False,
        role: Role | None = None,
    ) -> TensorRecord:
        known = self._known.get(id(tensor))
        if known is None or known.tensor() is not tensor:
            mask = describe_mask(tensor, mask_kind) if mask_kind or "mask" in name else None
            role = role or guess_role(name, tensor, call, is_mask=mask_kind is not None or mask is not None)
            known = KnownTensor(weakref.ref(tensor), call.id if made else None, role, mask)
            self._known[id(tensor)] = known
        return TensorRecord(
            name=name,
            shape=tuple(tensor.shape),
            axes=("",) * tensor.dim(),
            dtype=str(tensor.dtype).removeprefix("torch."),
            device=str(tensor.device),
            role=known.role,
            source=known.source,
            mask=known.mask,
            preview=self._preview(call.path, call.op, tensor) if made and self._preview else None,
        )

    def _count_parameters(self, module: nn.Module) -> int:
        if id(module) not in self._params:
            self._params[id(module)] = sum(parameter.numel() for parameter in module.parameters())
        return self._params[id(module)]


def named_modules(model: nn.Module, others: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, with its path; the modules in `others` stand under their own names beside the model."""
    seen: set[int] = set()
    for prefix, root in (("", model), *others.items()):
        for path, module in root.named_modules(prefix=prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield path or type(model).__name__, module


def guess_role(name: str, tensor: Tensor, call: OpenCall, *, is_mask: bool) -> Role:
    if isinstance(tensor, nn.Parameter):
        return "parameter"
    if is_mask:
        return "mask"
    if tensor.dim() == 0 and "loss" in call.op:
        return "loss"
    if not tensor.is_floating_point() and not tensor.is_complex():
        return "ids"
    return "activation"


def close_call(call: OpenCall) -> Step:
    return Step(
        id=call.id,
        path=call.path,
        call=call.call,
        op=call.op,
        module=call.kind,
        parent=call.parent,
        depth=call.depth,
        layer=name_layer(call.path),
        params=call.params,
        location=call.location,
        inputs=call.inputs,
        outputs=call.outputs,
        settings=call.settings,
        error=call.error,
    )


def describe_error(error: BaseException | None) -> str:
    return "did not return" if error is None else f"{type(error).__name__}: {error}"


def find_caller(frame: FrameType | None) -> str | None:
    """Where the call was written: the nearest line that is neither torch's module machinery nor the recorder's own."""
    while frame is not None and frame.f_code.co_filename in MACHINERY:
        frame = frame.f_back
    if frame is None:
        return None
    name = str(frame.f_globals.get("__name__", "__main__"))
    file = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    folder = "/".join(name.split(".")[:-1])
    return f"{folder}/{file}:{frame.f_lineno}" if folder else f"{file}:{frame.f_lineno}"


def record(model: nn.Module, **others: nn.Module) -> Recorder:
    """A recorder for several passes, generation loops or training steps; use it as a `with` block.

    Modules outside the model, such as the loss, can be given by name: `record(model, loss=criterion)`.

    Raises:
        TraceError: `model` is no torch.nn.Module.
    """
    return Recorder(model, **others)


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> Trace:
    """One forward pass of any model, called with the given arguments, as a Trace.

    Raises:
        TraceError: `model` is no torch.nn.Module.
        Whatever the model itself raises, unchanged.
    """
    with Recorder(model) as recorder:
        model(*args, **kwargs)
    return recorder.trace
