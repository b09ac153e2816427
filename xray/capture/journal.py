"""The recording as it grows: passes, the calls in them, and which calls are running now."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from xray.capture.calls import OpenCall, OpenPass
from xray.capture.locations import Locations
from xray.ir.trace import Pass, PassKind, Setting

NO_SETTINGS: Mapping[str, Setting] = {}


class Journal:
    """Passes and calls, in the order of their beginning; `running` is the stack of calls that have not ended."""

    def __init__(self) -> None:
        self.passes: list[OpenPass] = []
        self.running: list[OpenCall] = []
        self.is_declared = False
        self._locations = Locations()

    @contextmanager
    def declare(self, kind: PassKind, number: int, tokens: Mapping[str, tuple[tuple[str, ...], ...]]) -> Iterator[None]:
        """All calls inside the block belong to one pass of the given kind."""
        self.passes.append(OpenPass(kind, number, tokens))
        self.is_declared = True
        try:
            yield
        finally:
            self.is_declared = False

    def begin_pass(self) -> None:
        """A forward pass begins, unless it is inside a declared one."""
        if not self.is_declared:
            self.passes.append(OpenPass("forward", len(self.passes), {}))

    def open(self, path: str, op: str, kind: str = "", settings: Mapping[str, Setting] = NO_SETTINGS) -> OpenCall:
        """A call that begins now, inside the innermost one running; it is not written down yet."""
        counts = self.passes[-1].counts
        number = counts.get(path, 0)
        counts[path] = number + 1
        running = self.running
        return OpenCall(
            f"{path}#{number}",
            path,
            number,
            op,
            kind,
            running[-1].id if running else None,
            len(running),
            0,
            self._locations.find(sys._getframe(1)),
            settings,
        )

    def write(self, call: OpenCall, place: int | None = None) -> None:
        """Write a call down, at the end or at the place where it began."""
        calls = self.passes[-1].calls
        calls.insert(len(calls) if place is None else place, call)

    @property
    def place(self) -> int:
        """Where the next call will stand."""
        return len(self.passes[-1].calls)

    def drop(self, call: OpenCall) -> None:
        """The call is no step after all."""
        self.passes[-1].counts[call.path] -= 1

    def close_down_to(self, module: nn.Module) -> list[OpenCall]:
        """End the innermost call of `module`, which comes last, and any inside it whose end was not seen."""
        running = self.running
        if running and running[-1].module is module:
            return [running.pop()]
        if not any(call.module is module for call in running):
            return []
        ended = [running.pop()]
        while ended[-1].module is not module:
            ended.append(running.pop())
        return ended

    def to_passes(self) -> tuple[Pass, ...]:
        """Everything so far, frozen."""
        return tuple(one.to_pass() for one in self.passes)
