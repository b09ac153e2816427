"""The recorder: while its `with` block is open, every call of a model's modules and operations is noted."""

import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from xray.capture.axes.hints import Axes, check_call, check_trace, read_hints, take_hints
from xray.capture.axes.spreading import spread_parts
from xray.capture.axes.structure import name_axes_by_structure
from xray.capture.caches import find_kept, list_parts
from xray.capture.calls import OpenCall, Seen, describe_error
from xray.capture.collectives import CollectiveMode
from xray.capture.copied_methods import name_copied_methods
from xray.capture.freezing import Links
from xray.capture.journal import Journal, Lane
from xray.capture.kernels.fast_path import may_take_fast_path, step_aside
from xray.capture.lanes import Lanes
from xray.capture.masks.turned import drop_turned_masks
from xray.capture.modules import (
    MANY,
    NO_KEYWORDS,
    ModuleClass,
    Survey,
    class_of,
    count_parameters,
    read_keywords,
    run_eagerly,
)
from xray.capture.naming import describe_settings
from xray.capture.operations import OperationMode
from xray.capture.operator import Operator, describe_picking
from xray.capture.optimizers import watch_optimizers
from xray.capture.own_calls import has_own_call, hear_own_call
from xray.capture.parts import is_distributed, name_groups
from xray.capture.scripts import run_scripts_as_written
from xray.capture.sight import Sight, see_named
from xray.capture.tensors import input_names, name_arguments
from xray.capture.unused import list_unused
from xray.capture.values import PreviewRule
from xray.capture.way_back import WayBack
from xray.errors import TraceError
from xray.ir.records import Role
from xray.ir.trace import IN_PLACE_OF, PassKind, Trace

get_ident = threading.get_ident
task_id = torch._C._current_graph_task_id
"""Tells -1, unless this thread is inside back-propagation, where checkpointed blocks run a second time."""
GRADIENT_REFUSED = "requires grad"
"""What torch says where something cannot be done to a tensor that has a gradient."""
WITHOUT_GRADIENTS = "If the model is meant to run without gradients, record it within: with torch.no_grad():"


class Unheard:
    """While it is on, what X-Ray itself asks of tensors is no step, neither at the user's level nor below it."""

    __slots__ = ("blindness", "functions")

    def __init__(self, lane: Lane | None = None) -> None:
        self.functions = torch._C.DisableTorchFunction()
        self.blindness = [] if lane is None else lane.blindness

    def __enter__(self) -> None:
        self.functions.__enter__()
        self.blindness.append(True)

    def __exit__(self, *_: object) -> None:
        self.blindness.pop()
        self.functions.__exit__(None, None, None)


class Recorder:
    """Records the calls of a model's modules, and of other modules given by name, between `with` and the end of it.

    With `operations` it also records what is no module: `@`, views, softmax, F.*, in-place changes, back-propagation.
    Operations inside torch's own plain layers, such as nn.Linear, are not steps of their own.

    `recorder.trace` holds all that ran, also after an exception, which passes through as it is and carries the same
    trace as `error.xray_trace`. The recorder reads tensors and keeps none; it sets no flag, draws no random number and
    leaves no hook. Modules that have nothing to do with the model are not recorded, nor are threads, unless they run a
    part of the model, for the model, on a tensor that it has (see `Lanes`).
    """

    def __init__(
        self,
        model: nn.Module,
        others: Mapping[str, nn.Module] | None = None,
        *,
        operations: bool = False,
        preview: PreviewRule | None = None,
        axes: Axes | None = None,
        shows_ids: bool = False,
        weighs: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TraceError(f"a {type(model).__name__} cannot be recorded. Give a torch.nn.Module.")
        for name, other in (others or {}).items():
            if not isinstance(other, nn.Module):
                raise TraceError(f"{name}={type(other).__name__} cannot be recorded. Give a torch.nn.Module.")
        self._title = class_of(model).__name__
        self._root: nn.Module | None = model
        self._apart: nn.Module | None = None  # a root that is not heard by torch's hooks, but where it is called
        with Unheard():
            survey = Survey(model, others or {})
        self._known = survey.known
        self._survey = survey
        self._classes: dict[type[nn.Module], ModuleClass] = {}
        self._journal = Journal()
        self._sight = Sight(preview, survey.names, shows_ids=shows_ids, weighs=weighs)
        self._sees_operations = operations
        self._lane = Lane(blind=not operations)
        self._operator = Operator(model, self._journal, self._sight, self._lane)
        self._lanes = Lanes(self._operator, survey.known, sees_operations=operations)
        self._thread = 0
        self._hooks = ExitStack()
        self._trace: Trace | None = None
        self._unused: Mapping[str, int] | None = None
        self._links: Sequence[Links] = ()
        self._hints = read_hints(model, axes or {})
        self._has_ranks = is_distributed()
        self._groups = name_groups(model) if self._has_ranks else {}
        self._way_back = WayBack(survey.known)

    def __enter__(self) -> Self:
        self._thread = get_ident()
        self._trace = None
        hooks = self._hooks
        hooks.callback(register_module_forward_pre_hook(self._before).remove)
        after = register_module_forward_hook(self._after, with_kwargs=True, always_call=True)
        # torch's own remove leaves the entry of with_kwargs behind
        hooks.callback(torch_module._global_forward_hooks_with_kwargs.pop, after.id, None)
        hooks.callback(after.remove)
        self._hear_own_call()
        if self._sees_operations and self._root is not None:
            hooks.enter_context(watch_optimizers(self, self._root, self._journal, self._lane))
            hooks.enter_context(run_eagerly(compiled=self._survey.is_compiled))
            hooks.enter_context(run_scripts_as_written())
            hooks.enter_context(name_copied_methods(self._root))
            hooks.enter_context(OperationMode(self._operator))
            if self._has_ranks:
                hooks.enter_context(
                    CollectiveMode(self._journal, self._sight, self._lane, self._groups, self._way_back)
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        while self._lane.asides:
            self._lane.asides.pop()[1].close()
        self._hooks.close()
        for call in self._lane.running:
            call.error = describe_error(error)
            call.release()
        self._lane.running.clear()
        self._lane.strangers.clear()
        self._lanes.close()
        with Unheard():
            self._unused = self._find_unused()
            self._survey.close()
        self._classes.clear()
        self._sight.forget()
        self._operator.forget()
        self._root = self._apart = None
        if isinstance(error, Exception) and not hasattr(error, "xray_trace"):
            with suppress(AttributeError, TypeError):  # an exception may refuse to carry anything
                error.xray_trace = self.trace  # type: ignore[attr-defined]  # for whoever has no recorder to ask
                if GRADIENT_REFUSED in str(error):
                    error.add_note(WITHOUT_GRADIENTS)

    @property
    def trace(self) -> Trace:
        """All that has been recorded up to now, with the axis words that the operations themselves tell."""
        if self._trace is not None:
            return self._trace
        passes, self._links = self._journal.to_passes()
        unused = self._unused if self._root is None else self._find_unused()
        trace = Trace(title=self._title, sizes={}, config={}, passes=passes, unused=unused)
        if self._has_ranks:
            trace = spread_parts(trace, self._links)
        if self._sees_operations:
            trace = self.name_axes(trace)
        if self._root is None:  # the recording is over
            self._trace = trace
        return trace

    def _hear_own_call(self) -> None:
        """Hear the whole model where its class's own `__call__` begins and ends, if it has one."""
        if self._root is not None and has_own_call(kind := type(self._root)):
            names, known = input_names(kind), self._look_at_class(self._root)
            self._apart, self._classes[kind] = self._root, replace(known, arguments=names, most_arguments=MANY)
            self._hooks.enter_context(hear_own_call(self._root, self._before, self._after))

    def _find_unused(self) -> Mapping[str, int] | None:
        """What took no part so far; nothing did where all modules ran, else None where no operation is seen."""
        calls = [call for one in self._journal.passes for call in one.calls]
        exact = self._sees_operations and not self._has_ranks
        found = list_unused(self._survey.parts, calls, self._survey.kept, exact=exact)
        return found if self._sees_operations or not found else None

    def name_axes(self, trace: Trace) -> Trace:
        """The recording's own trace, the words that its axes have by now spread along the data, and others added.

        Raises:
            TraceError: the words that were given for the inputs do not fit them.
        """
        check_trace(self._hints, trace)
        return name_axes_by_structure(drop_turned_masks(trace), self._links, self._hints)

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
        journal = self._journal
        if not journal.passes:
            journal.begin_pass()
        line = journal.locations.find(sys._getframe(1))
        call = OpenCall(next(journal.serials), path, op, self._lane.innermost, line)
        journal.passes[-1].calls.append(call)
        call.inputs = [self._sight.see_given(name, tensor, call) for name, tensor in (inputs or {}).items()]
        call.outputs = see_named(self._sight, outputs or {}, call, roles or {})

    # What torch calls

    def _before(self, module: nn.Module, args: tuple[Any, ...], is_own: bool = False) -> None:
        if module is self._apart and not is_own:
            return
        thread = get_ident()
        lane = self._lane if thread == self._thread else self._lanes.enter(thread, module, args)
        if lane is None or task_id() != -1:
            return
        running = lane.running
        known, above = self._known.get(id(module)), running[-1] if running else lane.above
        if known is None and above is None:
            lane.strangers.append(module)
            lane.blindness.append(True)
            return
        kind = self._classes.get(type(module)) or self._look_at_class(module)
        journal = self._journal
        if above is None and (module is self._root or not journal.passes):
            journal.begin_pass()
        frame = sys._getframe(1)
        path = known[1].path if known is not None else self._survey.name_made(module, above)
        call = OpenCall(next(journal.serials), path, kind.op, above, journal.locations.find(frame.f_back))
        call.kind, call.module = kind.name, module
        if known is not None:
            call.params = known[1]
        kwargs = NO_KEYWORDS if len(args) >= kind.most_arguments else read_keywords(frame)
        call.arguments = (args, kwargs)
        journal.passes[-1].calls.append(call)
        with Unheard(lane):
            call.settings = describe_settings(module)
            if known is not None and known[1].parts:
                call.settings = {**call.settings, **known[1].parts}
            if known is None:
                call.params = count_parameters(module)
                before = None if above is None else self._survey.name_replaced(module, above)
                told = self._survey.tell_made(module, above) if before is None else {IN_PLACE_OF: before}
                call.weights = self._survey.name_weights(module, path)
                call.settings = {**call.settings, **told} if told else call.settings
            call.inputs = self._see_arguments(call, kind, args, kwargs)
            call.options = describe_picking(kind.op, call.inputs)
            if above is None and self._sees_operations:
                call.inputs = [self._sight.note_given(seen) for seen in call.inputs]
                if self._sight.shows_ids:
                    call.inputs = [self._sight.show_ids(seen) for seen in call.inputs]
                call.inputs += self._see_kept(call, (*zip(kind.arguments, args, strict=False), *kwargs.items()))
        if self._has_ranks:
            self._way_back.begin(call)
        running.append(call)
        lane.blindness.append(not self._sees_operations or (kind.is_torch and not module._modules))
        if kind.has_fast_path and self._sees_operations and not lane.asides and may_take_fast_path(module):
            lane.asides.append((module, step_aside(self._lanes.operator_of(lane))))

    def _after(self, module: nn.Module, args: tuple[Any, ...], *rest: Any, is_own: bool = False) -> None:
        """Called with (kwargs, result) after a forward that returned, with one value less after one that raised."""
        if module is self._apart and not is_own:
            return
        thread = get_ident()
        lane = self._lane if thread == self._thread else self._lanes.find(thread, module)
        if lane is None or task_id() != -1:
            return
        if lane.asides and lane.asides[-1][0] is module:
            lane.asides.pop()[1].close()
        if lane.strangers and lane.strangers[-1] is module:
            lane.strangers.pop()
            lane.blindness.pop()
            return
        ended = lane.close_down_to(module)
        if not ended:
            return
        del lane.blindness[-len(ended) :]
        with Unheard(lane):
            self._finish_module(ended[-1], module, args, rest)
        for call in ended:
            if self._has_ranks:
                self._way_back.end(call)
            call.module = call.arguments = call.handed_on = None
        if lane is not self._lane and not lane.running:
            self._lanes.leave(thread)

    # Modules

    def _see_arguments(
        self, call: OpenCall, kind: ModuleClass, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[Seen]:
        see = self._sight.see_given
        if len(args) == 1 and not kwargs and type(args[0]) is Tensor and kind.arguments:
            return [see(kind.arguments[0], args[0], call)]
        return [see(name, tensor, call) for name, tensor in name_arguments(kind.arguments, args, kwargs)]

    def _look_at_class(self, module: nn.Module) -> ModuleClass:
        kind = self._classes[type(module)] = ModuleClass.of(module)
        return kind

    def _see_kept(self, call: OpenCall, values: Iterable[tuple[str, Any]]) -> list[Seen]:
        """What a call of the whole model is given, or gives back, in caches and the like."""
        taken = {name for name, _, _ in call.inputs}
        return [self._sight.note_state(name, one, call) for name, one in find_kept(values) if name not in taken]

    def _finish_module(self, call: OpenCall, module: nn.Module, args: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        seen = call.arguments
        kwargs: Mapping[str, Any] = rest[0] if len(rest) == 2 else {} if seen is None else seen[1]
        kind = self._classes.get(type(module)) or self._look_at_class(module)  # a lazy layer changes its class
        if seen is None or seen[0] is not args or (seen[1] is not kwargs and (kwargs or seen[1])):
            # a hook of the user's changed them
            call.inputs = self._see_arguments(call, kind, args, kwargs)
        if len(rest) == 2:
            if call.handed_on is None:
                call.outputs = self._sight.see_result(rest[1], call, kind.mask_kind)
            else:
                self._sight.see_result(rest[1], call.handed_on)
            if call.parent is None and not isinstance(rest[1], Tensor):
                call.outputs += self._see_kept(call, list_parts(rest[1])[0])
        else:
            call.error = describe_error(sys.exception())


def record(model: nn.Module, *, axes: Axes | None = None, **others: nn.Module) -> Recorder:
    """A recorder for several passes, generation loops or training steps; use it as a `with` block.

    Modules outside the model, such as the loss, can be given by name: `record(model, loss=criterion)`. `axes` gives
    words for the axes of inputs, by name or place: `axes={"x": ("batch", "time", "features")}`; they spread along the
    data from there. Of ids that the model reads, that are chosen between its calls, or that name the experts which a
    router chose, the values are kept where they are few.

    Raises:
        TraceError: `model` is no torch.nn.Module; on reading the trace, words that do not fit the inputs.
    """
    if isinstance(axes, nn.Module):  # a module beside the model that happens to be called so
        return Recorder(model, {**others, "axes": axes}, operations=True, shows_ids=True)
    return Recorder(model, others, operations=True, axes=axes, shows_ids=True)


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> Trace:
    """One forward pass of any model, called with the given arguments, as a Trace.

    The keyword `axes` gives words for the axes of inputs, by name or place, and is not passed on:
    `trace(model, x, axes={"x": ("batch", "time", "features")})`. Where the model's own forward has a parameter called
    `axes`, it goes to the model; words are then given to `record`.

    Raises:
        TraceError: `model` is no torch.nn.Module, or the words do not fit the inputs; the model has not run then.
        Whatever the model itself raises; `error.xray_trace` holds what ran before it. Where torch refuses what cannot
        have a gradient, a note of the error says to record within `torch.no_grad()`.
    """
    axes = kwargs.pop("axes") if "axes" in kwargs and take_hints(model, kwargs["axes"]) else None
    recorder = Recorder(model, operations=True, axes=axes)
    if axes:
        check_call(model, read_hints(model, axes), args, kwargs)
    with recorder:
        model(*args, **kwargs)
    return recorder.trace
