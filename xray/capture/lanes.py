"""Threads that work for a recording: which ones belong to it, and what each of them is doing."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from torch import nn

from xray.capture.calls import Counted
from xray.capture.journal import Lane
from xray.capture.operations import OperationMode
from xray.capture.operator import Operator
from xray.capture.tensors import find_tensors


class Lanes:
    """The threads beside the one that records.

    A thread joins where, while the model runs, it calls a part of the model with a tensor that the recording knows; it
    leaves when that call ends. One that calls the model itself, or parts of it with tensors of its own, is somebody
    else's, and nothing of it is seen. Nor are operations outside of modules in such threads.
    """

    def __init__(
        self, operator: Operator, known: Mapping[int, tuple[nn.Module, Counted]], *, sees_operations: bool
    ) -> None:
        self._main = operator
        self._known = known
        self._sees_operations = sees_operations
        self._operators: dict[int, Operator] = {}
        self._modes: dict[int, ExitStack] = {}
        self._others: dict[int, list[nn.Module]] = {}

    def enter(self, thread: int, module: nn.Module, args: tuple[Any, ...]) -> Lane | None:
        """The lane of a thread in which a module is called now; None for a thread that is somebody else's."""
        operator = self._operators.get(thread)
        if operator is not None:
            return operator.lane
        others = self._others.get(thread)
        if others is not None:
            others.append(module)
            return None
        above = self._main.lane.innermost
        if module is self._main.root or above is None or id(module) not in self._known or not self._knows(args):
            self._others[thread] = [module]
            return None
        operator = Operator(module, self._main.journal, self._main.sight, Lane(blind=not self._sees_operations))
        operator.lane.above = above
        self._operators[thread], self._modes[thread] = operator, ExitStack()
        if self._sees_operations:
            self._modes[thread].enter_context(OperationMode(operator))
        return operator.lane

    def find(self, thread: int, module: nn.Module) -> Lane | None:
        """The lane of a thread in which a call of a module ends."""
        others = self._others.get(thread)
        if others is not None:
            while others and others.pop() is not module:
                pass
            if not others:
                del self._others[thread]
            return None
        operator = self._operators.get(thread)
        return None if operator is None else operator.lane

    def operator_of(self, lane: Lane) -> Operator:
        """Who runs the operations of a lane."""
        return next((one for one in self._operators.values() if one.lane is lane), self._main)

    def leave(self, thread: int) -> None:
        """The thread has done what it was to do."""
        self._modes.pop(thread).close()
        self._operators.pop(thread).forget()

    def close(self) -> None:
        """Nobody is watched any more; what still runs in other threads goes on unseen."""
        for operator in self._operators.values():
            operator.lane.blindness.append(True)
            for call in operator.lane.running:
                call.error = "did not return"
                call.release()
            operator.lane.running.clear()
            operator.forget()
        self._operators.clear()
        self._modes.clear()
        self._others.clear()

    def _knows(self, args: tuple[Any, ...]) -> bool:
        find = self._main.sight.find
        return any(find(tensor) is not None for _, tensor in find_tensors(args, "") if type(tensor) is not nn.Parameter)
