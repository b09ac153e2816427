"""The recorder: while its `with` block is open, every call of a model's modules and operations is noted."""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from xray.capture.calls import OpenCall, OpenPass, SeenTensor
from xray.capture.fast_path import InnerMode, may_take_fast_path
from xray.capture.fused import ATTENTIONS, derive_attention
from xray.capture.locations import Locations
from xray.capture.mask_facts import look_at_mask, tells_what_is_hidden
from xray.capture.naming import describe_settings, name_op
from xray.capture.operations import OperationMode, describe_options, is_in_place, name_operands
from xray.capture.tensor_log import Known, TensorLog, name_dtype, shape_of
from xray.capture.tensors import name_arguments, name_results, positional_names
from xray.capture.values import PreviewRule
from xray.errors import TraceError
from xray.ir.records import MaskKind, Role
from xray.ir.trace import PassKind, Setting, Trace

OPAQUE = frozenset({"multi_head_attention_forward"})
"""Python functions of torch whose insides are worth seeing, and are seen at the level below."""

COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
STATE_NAMES = ("cache", "past_key", "layer_past")
"""Arguments with these names carry what a model keeps from one call to the next."""


class Recorder:
    """Records the calls of a model's modules, and of other modules given by name, between `with` and the end of it.

    With `operations` it also records what is no module: `@`, views, softmax, F.*, in-place changes, back-propagation.
    Operations inside torch's own plain layers, such as nn.Linear, are not steps of their own.

    `recorder.trace` holds all that ran, also after an exception, which passes through unchanged. The recorder reads
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
        self._root: nn.Module | None = model
        self._title = type(model).__name__
        self._preview = preview
        self._paths = {id(module): (module, path) for path, module in named_modules(model, others or {})}
        self._params = count_parameters(model, *(others or {}).values())
        self._arguments: dict[Any, tuple[str, ...]] = {}
        self._log = TensorLog()
        self._locations = Locations()
        self._passes: list[OpenPass] = []
        self._declared = False
        self._stack: list[OpenCall] = []
        self._blindness: list[bool] = [not operations]
        self._strangers: list[nn.Module] = []
        self._asides: list[tuple[nn.Module, ExitStack]] = []
        self._operations = operations
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
        if self._operations:
            hooks.callback(register_optimizer_step_pre_hook(self._before_optimizer).remove)
            hooks.callback(register_optimizer_step_post_hook(self._after_optimizer).remove)
            hooks.enter_context(run_eagerly(self._root))
            hooks.enter_context(OperationMode(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        while self._asides:
            self._asides.pop()[1].close()
        self._hooks.close()
        for call in self._stack:
            call.error = describe_error(error)
            call.release()
        self._stack.clear()
        self._strangers.clear()
        self._log.clear()
        self._paths.clear()
        self._arguments.clear()
        self._root = None

    @property
    def trace(self) -> Trace:
        """All that has been recorded up to now."""
        return Trace(title=self._title, sizes={}, config={}, passes=tuple(one.to_pass() for one in self._passes))

    @contextmanager
    def declared_pass(
        self, kind: PassKind, number: int = 0, tokens: Mapping[str, tuple[tuple[str, ...], ...]] | None = None
    ) -> Iterator[None]:
        """All calls inside the block belong to one pass, of the given kind.

        `tokens` is kept as given, so words that only come out can be added to it before the block ends.
        """
        self._passes.append(OpenPass(kind, number, tokens or {}))
        self._declared = True
        try:
            yield
        finally:
            self._declared = False

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
        self._begin_pass_if_none()
        call, roles = self._open(path, op), roles or {}
        call.inputs = tuple(self._see(name, tensor, call) for name, tensor in (inputs or {}).items())
        call.outputs = tuple(
            self._see_made(name, tensor, call, role=roles.get(name)) for name, tensor in (outputs or {}).items()
        )

    # What torch calls

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() != self._thread or in_backward():
            return
        with torch._C.DisableTorchFunction():
            known = self._paths.get(id(module))
            if known is None and not self._stack:
                self._strangers.append(module)
                self._blindness.append(True)
                return
            path = known[1] if known else f"{self._stack[-1].path}.{type(module).__name__}"
            self._open_module(module, path, args, read_keywords(sys._getframe(1)))
        if self._operations and not self._asides and may_take_fast_path(module):
            self._asides.append((module, self._step_aside()))

    def _after(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        """Called with (kwargs, result) after a forward that returned, with one value less after one that raised."""
        if threading.get_ident() != self._thread or in_backward():
            return
        if self._asides and self._asides[-1][0] is module:
            self._asides.pop()[1].close()
        if self._strangers and self._strangers[-1] is module:
            self._strangers.pop()
            self._blindness.pop()
            return
        with torch._C.DisableTorchFunction():
            call = self._close_down_to(module)
            if call is not None:
                self._finish_module(call, module, args, *rest)

    def _before_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._blindness.append(True)

    def _after_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._blindness.pop()
        with torch._C.DisableTorchFunction():
            parameters = dict(self._root.named_parameters()) if self._root is not None else {}
            ours = {id(parameter): name for name, parameter in parameters.items()}
            updated = [p for group in optimizer.param_groups for p in group["params"] if id(p) in ours]
            if updated and self._passes:
                named = {ours[id(parameter)]: parameter for parameter in updated}
                self.add_step("optimizer.step", type(optimizer).__name__.lower(), outputs=named)

    # Operations

    @property
    def is_blind(self) -> bool:
        """Whether operations are passed over: inside a plain layer, a stranger, an optimiser, or back-propagation."""
        return self._blindness[-1] or in_backward()

    def run_operation(
        self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one operation and note it: what it was given, what it made, or how it failed."""
        if not self._passes or (not self._stack and self._declared):
            return func(*args, **kwargs)
        names = self._arguments.get(func)
        if names is None:
            names = self._arguments[func] = name_operands(name, func)
        parent = self._stack[-1].path if self._stack else ""
        call = self._open(
            f"{parent}.{name}" if parent else name, name, settings=describe_options(names, args, kwargs), note=False
        )
        call.inputs = tuple(self._see(label, tensor, call) for label, tensor in name_arguments(names, args, kwargs))
        steps = self._passes[-1].calls
        place = len(steps)
        try:
            with self._inside(call) if name in OPAQUE else nullcontext():
                result = func(*args, **kwargs)
        except BaseException as error:
            call.error = describe_error(error)
            steps.insert(place, call)
            raise
        if name == "backward":
            call.outputs = self._see_gradients(call)
        else:
            changed = args[0] if args and is_in_place(name, kwargs) else None
            made = kwargs.get("out", changed if result is None else result)
            call.outputs = tuple(self._see_made(label, tensor, call) for label, tensor in name_results(made))
            if isinstance(changed, Tensor):
                self._log.note_change(changed, call.id)
        if call.outputs or name in OPAQUE:
            steps.insert(place, call)
            if name in ATTENTIONS:
                stages = derive_attention(call, args, kwargs)
                steps[place + 1 : place + 1] = stages
                self._hand_over(call, stages, name_results(made))
        else:
            self._passes[-1].counts[call.path] -= 1  # it made no tensor, so it is no step
        return result

    def _hand_over(self, call: OpenCall, stages: list[OpenCall], made: list[tuple[str, Tensor]]) -> None:
        """What fused attention made comes from the last of its stages, so that the flow leads through them."""
        if not stages or not made:
            return
        source = stages[-1].id
        self._log.note(made[0][1], source, "activation", None)
        call.outputs = (call.outputs[0]._replace(source=source), *call.outputs[1:])

    @contextmanager
    def _inside(self, call: OpenCall) -> Iterator[None]:
        """What runs inside the block belongs to the call, and is seen at the level below the user's."""
        self._stack.append(call)
        self._blindness.append(False)
        try:
            with InnerMode(self):
                yield
        finally:
            self._blindness.pop()
            self._stack.pop()

    def _see_gradients(self, call: OpenCall) -> tuple[SeenTensor, ...]:
        """The gradients that back-propagation left, one for each parameter of the model that has one."""
        parameters = self._root.named_parameters() if self._root is not None else ()
        gradients = {f"{name}.grad": parameter.grad for name, parameter in parameters}
        return tuple(
            self._see_made(name, gradient, call, role="parameter")
            for name, gradient in gradients.items()
            if gradient is not None
        )

    # Steps

    def _step_aside(self) -> ExitStack:
        """Take the function mode out of the way, since torch's fast paths are not taken under one; watch from below."""
        aside = ExitStack()
        aside.enter_context(torch._C.DisableTorchFunction())
        aside.enter_context(InnerMode(self))
        return aside

    def _open_module(
        self, module: nn.Module, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None
    ) -> None:
        if not self._declared and not self._stack and (module is self._root or not self._passes):
            self._passes.append(OpenPass("forward", len(self._passes), {}))
        call = self._open(path, name_op(module), type(module).__name__, describe_settings(module))
        call.params, call.module, call.arguments = self._params.get(id(module), 0), module, (args, kwargs)
        call.inputs = self._see_arguments(call, module, args, kwargs or {})
        self._stack.append(call)
        self._blindness.append(not self._operations or is_plain_layer(module))

    def _finish_module(self, call: OpenCall, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        kwargs = rest[0] if len(rest) == 2 else {}
        seen_before = call.arguments is not None and call.arguments[0] is args and call.arguments[1] is kwargs
        if not seen_before:  # a hook of the user's changed them, or the keywords could not be read before the call
            call.inputs = self._see_arguments(call, module, args, kwargs)
        if len(rest) == 2:
            kind: MaskKind | None = getattr(module, "mask_kind", None)
            call.outputs = tuple(
                self._see_made(name, tensor, call, mask_kind=kind) for name, tensor in name_results(rest[1])
            )
        else:
            call.error = describe_error(sys.exception())
        call.release()

    def _open(
        self,
        path: str,
        op: str,
        kind: str = "",
        settings: Mapping[str, Setting] | None = None,
        *,
        note: bool = True,
    ) -> OpenCall:
        current = self._passes[-1]
        number = current.counts[path]
        current.counts[path] = number + 1
        call = OpenCall(
            id=f"{path}#{number}",
            path=path,
            call=number,
            op=op,
            kind=kind,
            parent=self._stack[-1].id if self._stack else None,
            depth=len(self._stack),
            params=0,
            location=self._locations.find(sys._getframe(1)),
            settings=settings or {},
        )
        if note:
            current.calls.append(call)
        return call

    def _begin_pass_if_none(self) -> None:
        if not self._passes:
            self._passes.append(OpenPass("forward", 0, {}))

    def _close_down_to(self, module: nn.Module) -> OpenCall | None:
        """End the innermost call of `module`, and any inside it whose end was not seen."""
        if not any(call.module is module for call in self._stack):
            return None
        while True:
            call = self._stack.pop()
            self._blindness.pop()
            if call.module is module:
                return call
            call.release()

    # Tensors

    def _see_arguments(
        self, call: OpenCall, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[SeenTensor, ...]:
        names = self._arguments.get(type(module))
        if names is None:
            names = self._arguments[type(module)] = positional_names(type(module))
        return tuple(self._see(name, tensor, call) for name, tensor in name_arguments(names, args, kwargs))

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

    def _see_made(
        self, name: str, tensor: Tensor, call: OpenCall, *, mask_kind: MaskKind | None = None, role: Role | None = None
    ) -> SeenTensor:
        known = self._log.find(tensor)
        if known is None or (known.source is None and is_in_place(call.op, {})):
            mask = look_at_mask(tensor, mask_kind) if mask_kind else None
            role = role or guess_role(tensor, call, is_mask=mask_kind is not None)
            known = self._log.note(tensor, call.id, role, mask)
        seen = self._write_down(name, tensor, known)
        if self._preview is None:
            return seen
        return seen._replace(preview=self._preview(call.path, call.op, tensor))

    def _write_down(self, name: str, tensor: Tensor, known: Known) -> SeenTensor:
        return SeenTensor(
            name, shape_of(tensor), name_dtype(tensor), tensor.device, known.role, known.source, known.mask
        )


def named_modules(model: nn.Module, others: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, with its path; the modules in `others` stand under their own names beside the model."""
    seen: set[int] = set()
    for prefix, root in (("", model), *others.items()):
        for path, module in root.named_modules(prefix=prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield path or type(model).__name__, module


def count_parameters(*roots: nn.Module) -> dict[int, int]:
    """The number of parameters in each module and all inside it, shared ones once, by the module's id."""
    counts: dict[int, int] = {}

    def gather(module: nn.Module) -> dict[int, int]:
        sizes = {id(one): one.numel() for one in module._parameters.values() if one is not None}
        for child in module._modules.values():
            if child is not None:
                sizes |= gather(child)
        counts[id(module)] = sum(sizes.values())
        return sizes

    for root in roots:
        gather(root)
    return counts


def is_plain_layer(module: nn.Module) -> bool:
    """Whether a module is a layer of torch itself without modules inside, one step as a whole."""
    return type(module).__module__.startswith("torch.") and not module._modules


@contextmanager
def run_eagerly(model: nn.Module | None) -> Iterator[None]:
    """Inside the block compiled code runs as it was written; what was compiled before is there again afterwards."""
    compiled = model is not None and any(
        module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule"
        for module in model.modules()
    )
    if not compiled and not any(name in sys.modules for name in COMPILERS):
        yield  # nothing here compiles, and asking torch not to would load its compiler
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        if compiled:  # torch warns that hooks see the compiled shell too, which is what is wanted here
            warnings.filterwarnings("ignore", "Using `torch.compile\\(module\\)` when there are global hooks")
        yield


def read_keywords(frame: FrameType) -> Mapping[str, Any] | None:
    """The keyword arguments of a module call, found where torch keeps them: its global pre-hooks are not told."""
    kwargs = frame.f_locals.get("kwargs")
    return kwargs if isinstance(kwargs, dict) else None


def in_backward() -> bool:
    """Whether this thread is inside back-propagation, where checkpointed blocks run a second time."""
    return torch._C._current_graph_task_id() != -1


def guess_role(tensor: Tensor, call: OpenCall, *, is_mask: bool) -> Role:
    if isinstance(tensor, nn.Parameter):
        return "parameter"
    if is_mask:
        return "mask"
    if tensor.dim() == 0 and ("loss" in call.op or "cross_entropy" in call.op):
        return "loss"
    if not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool:
        return "ids"
    return "activation"


def describe_error(error: BaseException | None) -> str:
    return "did not return" if error is None else f"{type(error).__name__}: {error}"


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
        Whatever the model itself raises, unchanged.
    """
    with record(model) as recorder:
        model(*args, **kwargs)
    return recorder.trace
