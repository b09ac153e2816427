"""Running one operation and noting it: what it was given, what it made, or how it failed."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from xray.capture.calls import OpenCall, Pattern, Seen, describe_error
from xray.capture.journal import Journal, Lane
from xray.capture.kernels.fast_path import InnerMode
from xray.capture.kernels.flexible import FLEX, changes_scores, describe_score_mod, see_flex_mask
from xray.capture.kernels.fused import ATTENTIONS
from xray.capture.kernels.varlen import FEWEST, note_ends, see_ragged_mask, tells_ends
from xray.capture.operations import is_in_place, name_operands
from xray.capture.parts import is_distributed
from xray.capture.sight import Sight, see_named
from xray.capture.tensors import find_tensors, name_results
from xray.capture.values import (
    describe_constants,
    describe_triangle,
    goes_by_distance,
    is_of_sines,
    read_constant,
    read_frequencies,
    read_sizes,
    turns_nothing,
)

task_id = torch._C._current_graph_task_id
OPAQUE = frozenset({"multi_head_attention_forward"})
"""Python functions of torch whose insides are worth seeing, and are seen at the level below."""
CHOICES = frozenset({"argmax", "multinomial"})
"""What chooses the next word, between two calls of a model."""
ROUTES = frozenset({"topk", "argmax"})
"""What chooses experts, within a model."""
HELD = frozenset({"activation", "ids", "mask"})
"""The roles of what a model holds that says who may see whom, be it of numbers, whole ones or bools."""
PICKING = frozenset({"embedding", "index", "index_select", "gather", "take", "take_along_dim"})
"""What picks numbers by whole ones."""
WORKING = frozenset({"linear", "matmul", "mm", "bmm", "einsum", "addmm", "conv1d"}) | ATTENTIONS
"""What works on numbers with learned ones, and looks no row up."""
TORCH = torch.__file__.removesuffix("__init__.py")
DISTRIBUTED = f"{TORCH}distributed{os.sep}"
VALUES = frozenset({int, float, bool, str, torch.dtype})
"""The types of plain values that an operation may be told."""
WRITING = "index_put_"
INDEXING = frozenset({"index", WRITING})
"""What is told a place by brackets: `x[:, 0]`, and `x[:, 0] = y`."""


def describe_picking(name: str, inputs: list[Seen]) -> list[tuple[str, Any]]:
    """Whether the whole numbers by which an operation picks others hang on how far apart two places are alone."""
    ids = (inputs[:1] if name == "embedding" else inputs[1:]) if name in PICKING else []
    found = [known.tensor() for _, known, _ in ids]
    return [("apart", True)] if found and all(one is not None and goes_by_distance(one) for one in found) else []


def is_pattern(value: Any) -> bool:
    """Whether an index holds no tensor, only numbers, slices, None and `...`."""
    parts = value if type(value) is tuple else (value,)
    return all(type(part) is int or part is None or part is Ellipsis or is_plain_slice(part) for part in parts)


def count_listed(value: Any) -> int | None:
    """How many places the one list of an index names that holds no tensor; None for any other index."""
    lists = [part for part in value if type(part) is list] if type(value) is tuple else []
    others = tuple(part for part in value if type(part) is not list) if lists else ()
    is_plain = len(lists) == 1 and all(type(one) is int for one in lists[0]) and is_pattern(others)
    return len(lists[0]) if is_plain else None


def mark_places(value: Any) -> Pattern | None:
    """What stands around the tensors of an index that holds other things too, such as "..., ids, ids"; else None."""
    parts = value if type(value) is tuple else (value,)
    tensors = [isinstance(part, Tensor) for part in parts]
    others = tuple(part for part, is_one in zip(parts, tensors, strict=True) if not is_one)
    if len(others) in (0, len(parts)) or not is_pattern(others):
        return None
    return Pattern(tuple("ids" if is_one else part for part, is_one in zip(parts, tensors, strict=True)))


def is_plain_slice(part: Any) -> bool:
    return type(part) is slice and not any(isinstance(end, Tensor) for end in (part.start, part.stop, part.step))


def is_of_ranks(frame: FrameType | None) -> bool:
    """Whether torch itself runs an operation to divide tensors among ranks.

    What is exchanged then is a step; how torch cuts and joins on the way is none.
    """
    while frame is not None and (name := frame.f_code.co_filename).startswith(TORCH):
        if name.startswith(DISTRIBUTED):
            return True
        frame = frame.f_back
    return False


class Operator:
    """Runs the operations of one thread of a recording, and writes down those that make tensors."""

    def __init__(self, root: nn.Module, journal: Journal, sight: Sight, lane: Lane) -> None:
        self.root: nn.Module | None = root
        self.journal = journal
        self.sight = sight
        self.lane = lane
        self.hides_ranks = is_distributed()
        self._operands: dict[Any, tuple[str, ...]] = {}

    @property
    def is_blind(self) -> bool:
        """Whether operations are passed over at the moment."""
        return self.lane.blindness[-1] or task_id() != -1

    def run(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        quiet: Callable[[], AbstractContextManager[Any]] | None = None,
        *,
        is_block: bool = False,
    ) -> Any:
        """The result of the operation, which is noted on the way; what it raises passes through.

        What runs inside a block is noted too, as it is inside of those of torch that hold whole sublayers.
        """
        journal, lane = self.journal, self.lane
        above = lane.running[-1] if lane.running else lane.above
        if not journal.passes or (journal.is_declared and above is None):
            return func(*args, **kwargs)
        if self.hides_ranks and is_of_ranks(sys._getframe(2)):
            return self._pass_on(func, args, kwargs)
        line = journal.locations.find(sys._getframe(2))
        call = OpenCall(next(journal.serials), f"{above.path}.{name}" if above is not None else name, name, above, line)
        if quiet is None:
            self._see_arguments(call, name, func, args, kwargs)
        else:
            with quiet():
                self._see_arguments(call, name, func, args, kwargs)
        calls = journal.passes[-1].calls
        place = len(calls)
        back, lane.back = lane.back, call if name == "backward" else lane.back
        try:
            if is_block or name in OPAQUE:
                with self._inside(call):
                    result = func(*args, **kwargs)
            else:
                result = func(*args, **kwargs)
        except BaseException as error:
            call.error = describe_error(error)
            calls.insert(place, call)
            raise
        finally:
            lane.back = back
        if quiet is None:
            self._note_result(call, result, args, kwargs)
        else:
            with quiet():
                self._note_result(call, result, args, kwargs)
        if call.outputs or is_block or name in OPAQUE:  # what makes no tensor is no step
            calls.insert(place, call)
        return result

    def forget(self) -> None:
        """Hold nothing of the model any more."""
        self.root = None
        self._operands.clear()

    def _see_arguments(
        self, call: OpenCall, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if kwargs.get("out") is not None:  # nothing of what is written over is read
            kwargs = {operand: value for operand, value in kwargs.items() if operand != "out"}
        names = self._operands.get(func)
        if names is None:
            names = self._operands[func] = name_operands(name, func)
        if len(names) < len(args):
            names = self._operands[func] = (*names, *(f"arg{place}" for place in range(len(names), len(args))))
        inputs: list[Seen] = []
        options: list[tuple[str, Any]] = []
        see = self.sight.see_given
        for operand, value in (*zip(names, args, strict=False), *kwargs.items()) if kwargs else zip(names, args):  # noqa: B905  # names may be more
            kind = type(value)
            if kind is Tensor:
                inputs.append(see(operand, value, call))
            elif kind in VALUES:
                options.append((operand, value))
            elif value is None:
                continue
            elif isinstance(value, Tensor):
                inputs.append(see(operand, value, call))
            elif isinstance(value, np.generic):
                options.append((operand, value.item()))
            elif operand == "index" and name in INDEXING and is_pattern(value):
                options.append((operand, Pattern(value if kind is tuple else (value,))))
            elif operand == "index" and name == WRITING and (listed := count_listed(value)) is not None:
                options.append(("listed", listed))
            elif operand == "index" and name == WRITING and (around := mark_places(value)) is not None:
                inputs.extend([see(part, tensor, call) for part, tensor in find_tensors(value, operand)])
                options.append(("around", around))
            elif isinstance(value, (tuple, list)) and value and all(isinstance(one, int) for one in value):
                options.append((operand, tuple(value)))
            else:
                inputs.extend([see(part, tensor, call) for part, tensor in find_tensors(value, operand)])
                sizes = read_sizes(value) if operand == "pad" else None
                options += [] if sizes is None else [(operand, sizes)]
        if name == FLEX:
            asked, seen = see_flex_mask(args)
            inputs = [*inputs, seen] if seen is not None else inputs
            options.append(("score_mod", changes_scores(args)))
            if changes_scores(args):
                options += [("score_mod_does", describe_score_mod(args)), ("asked", asked)]
        elif len(inputs) >= FEWEST and tells_ends(inputs):
            inputs = note_ends(inputs)
        elif name == "where":
            inputs = self.sight.see_condition(inputs, args, call)
        elif name in ATTENTIONS and (ragged := see_ragged_mask(args, kwargs)) is not None:
            inputs.append(ragged)
        call.inputs = inputs
        for _, known, _ in inputs:
            if known.maker is None and known.role in HELD and known.shape[-1:] == known.shape[-2:-1] != ():
                square = known.tensor()
                options += [] if square is None else describe_triangle(square)
            if known.maker is None and known.role == "activation" and len(known.shape) == 1:
                constants = known.tensor()
                options += [] if constants is None else describe_constants(constants)
            elif known.maker is None and known.role == "activation" and not known.shape:
                held = known.tensor()
                value = None if held is None else read_constant(held)
                options += [] if value is None else [("constant", value)]
            elif known.maker is None and name not in WORKING and len(known.shape) in (2, 3):
                table = known.tensor()
                options += [("sines", True)] if table is not None and is_of_sines(table) else []
                options += [] if table is None else describe_constants(read_frequencies(table))
                is_still = table is not None and known.role != "parameter" and turns_nothing(table)
                options += [("still", True)] if is_still else []
        options += describe_picking(name, inputs)
        if options:
            call.options = options

    def _note_result(self, call: OpenCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        name = call.op
        if name == "backward":
            call.outputs = self._see_gradients(call)
        elif is_in_place(name, kwargs):
            call.outputs = self._see_changed(call, result, args, kwargs)
        else:
            call.outputs = self.sight.see_result(result, call)
            self.sight.weigh(call)
            if self.sight.shows_ids and (name in ROUTES or (name in CHOICES and call.parent is None)):
                call.outputs = [self.sight.show_ids(seen) for seen in call.outputs]

    def _pass_on(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of what is no step: it comes from where the tensors came from."""
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            self.sight.hand_on(find_tensors((args, kwargs), ""), find_tensors(result, ""))
        return result

    def _see_changed(self, call: OpenCall, result: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Seen]:
        changed = kwargs.get("out", args[0] if args else None)
        return [
            seen
            for name, tensor in name_results(changed if result is None else result)
            for seen in self.sight.see_changed(tensor, call, name)
        ]

    def _see_gradients(self, call: OpenCall) -> list[Seen]:
        """The gradients that back-propagation left, one for each parameter of the model that has one."""
        parameters = self.root.named_parameters() if self.root is not None else ()
        gradients = {f"{name}.grad": one.grad for name, one in parameters if one.grad is not None}
        return see_named(self.sight, gradients, call, dict.fromkeys(gradients, "parameter"))

    @contextmanager
    def _inside(self, call: OpenCall) -> Iterator[None]:
        """What runs inside the block belongs to the call, and is seen at the level below the user's."""
        lane = self.lane
        lane.running.append(call)
        lane.blindness.append(False)
        try:
            with InnerMode(self):
                yield
        finally:
            lane.blindness.pop()
            lane.running.pop()
