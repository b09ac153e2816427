"""The recorder: while its `with` block is open, every call of a model's modules and operations is noted."""

import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from xray.capture.calls import OpenCall, describe_error
from xray.capture.fast_path import InnerMode, may_take_fast_path
from xray.capture.journal import Journal
from xray.capture.modules import ModuleClass, count_parameters, in_backward, named_modules, run_eagerly
from xray.capture.naming import describe_settings
from xray.capture.operations import OperationMode
from xray.capture.operator import Operator
from xray.capture.sight import Sight
from xray.capture.structure import name_axes_by_structure
from xray.capture.tensors import name_arguments
from xray.capture.values import PreviewRule
from xray.errors import TraceError
from xray.ir.records import MaskKind, Role
from xray.ir.trace import PassKind, Trace


class Recorder:
    """Records the calls of a model's modules, and of other modules given by name, between `with` and the end of it.

    With `operations` it also records what is no module: `@`, views, softmax, F.*, in-place changes, back-propagation.
    Operations inside torch's own plain layers, such as nn.Linear, are not steps of their own.

    `recorder.trace` holds all that ran, also after an exception, which passes through as it is and carries the same
    trace as `error.xray_trace`. The recorder reads
    tensors and keeps none; it sets no flag, draws no random number and leaves no hook. Other threads, and modules that
    have nothing to do with the model, are not recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        others: Mapping[str, nn.Module] | None = None,
        *,
        operations: bool = False,
        preview: PreviewRule | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TraceError(f"a {type(model).__name__} cannot be recorded. Give a torch.nn.Module.")
        others = others or {}
        self._title = type(model).__name__
        self._root: nn.Module | None = model
        self._paths = {id(module): (module, path) for path, module in named_modules(model, others)}
        self._params = count_parameters(model, *others.values())
        self._classes: dict[type[nn.Module], ModuleClass] = {}
        self._journal = Journal()
        self._sight = Sight(preview)
        self._operator = Operator(model, self._journal, self._sight, blind=not operations)
        self._sees_operations = operations
        self._strangers: list[nn.Module] = []
        self._asides: list[tuple[nn.Module, ExitStack]] = []
        self._thread = 0
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        hooks = self._hooks
        hooks.callback(register_module_forward_pre_hook(self._before).remove)
        after = register_module_forward_hook(self._after, with_kwargs=True, always_call=True)
        # torch's own remove leaves the entry of with_kwargs behind
        hooks.callback(torch_module._global_forward_hooks_with_kwargs.pop, after.id, None)
        hooks.callback(after.remove)
        if self._sees_operations and self._root is not None:
            hooks.callback(register_optimizer_step_pre_hook(self._before_optimizer).remove)
            hooks.callback(register_optimizer_step_post_hook(self._after_optimizer).remove)
            hooks.enter_context(run_eagerly(self._root))
            hooks.enter_context(OperationMode(self._operator))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        while self._asides:
            self._asides.pop()[1].close()
        self._hooks.close()
        for call in self._journal.running:
            call.error = describe_error(error)
            call.release()
        self._journal.running.clear()
        self._strangers.clear()
        self._paths.clear()
        self._classes.clear()
        self._sight.forget()
        self._operator.forget()
        self._root = None
        if isinstance(error, Exception) and not hasattr(error, "xray_trace"):
            with suppress(AttributeError, TypeError):  # an exception may refuse to carry anything
                error.xray_trace = self.trace  # type: ignore[attr-defined]  # for whoever has no recorder to ask

    @property
    def trace(self) -> Trace:
        """All that has been recorded up to now, with the axis words that the operations themselves tell."""
        recorded = Trace(title=self._title, sizes={}, config={}, passes=self._journal.to_passes())
        return name_axes_by_structure(recorded) if self._sees_operations else recorded

    def declared_pass(
        self, kind: PassKind, number: int = 0, tokens: Mapping[str, tuple[tuple[str, ...], ...]] | None = None
    ) -> AbstractContextManager[None]:
        """A block in which all calls belong to one pass, of the given kind.

        `tokens` is kept as given, so words that only come out can be added to it before the block ends.
        """
        return self._journal.declare(kind, number, {} if tokens is None else tokens)

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

        `roles` gives the role of an output by its name, where its type does not tell.
        """
        if not self._journal.passes:
            self._journal.begin_pass()
        call = self._journal.open(path, op)
        self._journal.write(call)
        call.inputs = self._sight.see_given(list((inputs or {}).items()), call)
        call.outputs = self._sight.see_named(outputs or {}, call, roles or {})

    # What torch calls

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread or in_backward():
            return
        known, running = self._paths.get(id(module)), self._journal.running
        if known is None and not running:
            self._strangers.append(module)
            self._operator.blindness.append(True)
            return
        kind = self._classes.get(type(module)) or self._classes.setdefault(type(module), ModuleClass.of(module))
        path = known[1] if known else f"{running[-1].path}.{kind.name}"
        with torch._C.DisableTorchFunction():
            self._open_module(module, kind, path, args, read_keywords(sys._getframe(1)))
        if kind.has_fast_path and self._sees_operations and not self._asides and may_take_fast_path(module):
            self._asides.append((module, self._step_aside()))

    def _after(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """Called with (kwargs, result) after a forward that returned, with one value less after one that raised."""
        if threading.get_ident() != self._thread or in_backward():
            return
        if self._asides and self._asides[-1][0] is module:
            self._asides.pop()[1].close()
        if self._strangers and self._strangers[-1] is module:
            self._strangers.pop()
            self._operator.blindness.pop()
            return
        ended = self._journal.close_down_to(module)
        if not ended:
            return
        del self._operator.blindness[-len(ended) :]
        with torch._C.DisableTorchFunction():
            self._finish_module(ended[-1], module, args, rest)
        for call in ended:
            call.release()

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._operator.blindness.append(True)

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._operator.blindness.pop()
        if self._root is None or not self._journal.passes:
            return
        with torch._C.DisableTorchFunction():
            names = {id(parameter): name for name, parameter in self._root.named_parameters()}
            updated = [one for group in optimizer.param_groups for one in group["params"] if id(one) in names]
            if updated:
                outputs = {names[id(one)]: one for one in updated}
                self.add_step("optimizer.step", type(optimizer).__name__.lower(), outputs=outputs)

    # Modules

    def _open_module(
        self,
        module: nn.Module,
        kind: ModuleClass,
        path: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None,
    ) -> None:
        journal = self._journal
        if not journal.running and (module is self._root or not journal.passes):
            journal.begin_pass()
        call = journal.open(path, kind.op, kind.name, describe_settings(module))
        journal.write(call)
        call.params, call.module, call.arguments = self._params.get(id(module), 0), module, (args, kwargs)
        call.inputs = self._sight.see_given(name_arguments(kind.arguments, args, kwargs or {}), call)
        journal.running.append(call)
        self._operator.blindness.append(not self._sees_operations or (kind.is_torch and not module._modules))

    def _finish_module(self, call: OpenCall, module: nn.Module, args: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        kwargs = rest[0] if len(rest) == 2 else {}
        if call.arguments is None or call.arguments[0] is not args or call.arguments[1] is not kwargs:
            # a hook of the user's changed them, or the keywords could not be read before the call
            names = self._classes[type(module)].arguments
            call.inputs = self._sight.see_given(name_arguments(names, args, kwargs), call)
        if len(rest) == 2:
            kind: MaskKind | None = getattr(type(module), "mask_kind", None)
            call.outputs = self._sight.see_result(rest[1], call, kind)
        else:
            call.error = describe_error(sys.exception())

    def _step_aside(self) -> ExitStack:
        """Take the function mode out of the way, since torch's fast paths are not taken under one; watch from below."""
        aside = ExitStack()
        aside.enter_context(torch._C.DisableTorchFunction())
        aside.enter_context(InnerMode(self._operator))
        return aside


def read_keywords(frame: FrameType) -> Mapping[str, Any] | None:
    """The keyword arguments of a module call, found where torch keeps them: its global pre-hooks are not told."""
    kwargs = frame.f_locals.get("kwargs")
    return kwargs if isinstance(kwargs, dict) else None


def record(model: nn.Module, **others: nn.Module) -> Recorder:
    """A recorder for several passes, generation loops or training steps; use it as a `with` block.

    Modules outside the model, such as the loss, can be given by name: `record(model, loss=criterion)`.

    Raises:
        TraceError: `model` is no torch.nn.Module.
    """
    return Recorder(model, others, operations=True)


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> Trace:
    """One forward pass of any model, called with the given arguments, as a Trace.

    Raises:
        TraceError: `model` is no torch.nn.Module.
        Whatever the model itself raises; `error.xray_trace` holds what ran before it.
    """
    with record(model) as recorder:
        model(*args, **kwargs)
    return recorder.trace
