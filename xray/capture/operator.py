"""Running one operation and noting it: what it was given, what it made, or how it failed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor, nn

from xray.capture.calls import OpenCall, SeenTensor, describe_error
from xray.capture.fast_path import InnerMode
from xray.capture.fused import ATTENTIONS, derive_attention
from xray.capture.journal import Journal
from xray.capture.modules import in_backward
from xray.capture.operations import describe_options, is_in_place, name_operands
from xray.capture.sight import Sight
from xray.capture.tensors import name_arguments, name_results

OPAQUE = frozenset({"multi_head_attention_forward"})
"""Python functions of torch whose insides are worth seeing, and are seen at the level below."""


class Operator:
    """Runs the operations of one recording, and writes down those that make tensors.

    `blindness` is a stack whose last entry says whether operations are passed over now: inside a plain layer, inside a
    module that has nothing to do with the model, or inside an optimiser.
    """

    def __init__(self, root: nn.Module, journal: Journal, sight: Sight, *, blind: bool) -> None:
        self.root: nn.Module | None = root
        self.journal = journal
        self.sight = sight
        self.blindness = [blind]
        self._operands: dict[Any, tuple[str, ...]] = {}

    @property
    def is_blind(self) -> bool:
        """Whether operations are passed over at the moment."""
        return self.blindness[-1] or in_backward()

    def run(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of the operation, which is noted on the way; what it raises passes through."""
        journal = self.journal
        if not journal.passes or (journal.is_declared and not journal.running):
            return func(*args, **kwargs)
        operands = self._operands.get(func)
        if operands is None:
            operands = self._operands[func] = name_operands(name, func)
        path = f"{journal.running[-1].path}.{name}" if journal.running else name
        call = journal.open(path, name, settings=describe_options(operands, args, kwargs))
        call.inputs = self.sight.see_given(name_arguments(operands, args, kwargs), call)
        place, is_opaque = journal.place, name in OPAQUE
        try:
            with self._inside(call) if is_opaque else nullcontext():
                result = func(*args, **kwargs)
        except BaseException as error:
            call.error = describe_error(error)
            journal.write(call, place)
            raise
        if name == "backward":
            call.outputs = self._see_gradients(call)
        else:
            self._see_result(call, result, args, kwargs)
        if not call.outputs and not is_opaque:
            journal.drop(call)  # it made no tensor, so it is no step
            return result
        journal.write(call, place)
        if name in ATTENTIONS:
            self._open_attention(call, result, args, kwargs, place)
        return result

    def forget(self) -> None:
        """Hold nothing of the model any more."""
        self.root = None
        self._operands.clear()

    def _see_result(self, call: OpenCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        changed = args[0] if args and is_in_place(call.op, kwargs) else None
        call.outputs = self.sight.see_result(kwargs.get("out", changed if result is None else result), call)
        if isinstance(changed, Tensor):
            self.sight.note_change(changed, call)

    def _see_gradients(self, call: OpenCall) -> tuple[SeenTensor, ...]:
        """The gradients that back-propagation left, one for each parameter of the model that has one."""
        parameters = self.root.named_parameters() if self.root is not None else ()
        gradients = {f"{name}.grad": one.grad for name, one in parameters if one.grad is not None}
        return self.sight.see_named(gradients, call, dict.fromkeys(gradients, "parameter"))

    def _open_attention(
        self, call: OpenCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int
    ) -> None:
        """Put the stages of fused attention behind its call; what it made comes from the last of them."""
        stages = derive_attention(call, args, kwargs)
        if not stages:
            return
        for offset, stage in enumerate(stages):
            self.journal.write(stage, place + 1 + offset)
        self.sight.note_maker(name_results(result)[0][1], stages[-1].id)
        call.outputs = (call.outputs[0]._replace(source=stages[-1].id), *call.outputs[1:])

    @contextmanager
    def _inside(self, call: OpenCall) -> Iterator[None]:
        """What runs inside the block belongs to the call, and is seen at the level below the user's."""
        self.journal.running.append(call)
        self.blindness.append(False)
        try:
            with InnerMode(self):
                yield
        finally:
            self.blindness.pop()
            self.journal.running.pop()
