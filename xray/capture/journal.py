"""The recording as it grows: passes, the calls in them, and which calls are running now."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count

from torch import nn

from xray.capture.calls import OpenCall, OpenPass
from xray.capture.freezing import Links, freeze_passes
from xray.capture.locations import Locations
from xray.ir.trace import Pass, PassKind


class Lane:
    """What one thread is doing: the calls that have not ended, and whether operations are passed over now.

    `blindness` is a stack whose last entry says so: inside a plain layer, inside a module that has nothing to do with
    the model, or inside an optimiser.
    """

    def __init__(self, *, blind: bool, above: OpenCall | None = None) -> None:
        self.running: list[OpenCall] = []
        self.blindness = [blind]
        self.strangers: list[nn.Module] = []
        self.asides: list[tuple[nn.Module, ExitStack]] = []
        self.above = above
        self.back: OpenCall | None = None  # the call of back-propagation that runs

    @property
    def innermost(self) -> OpenCall | None:
        """The call inside which the next one begins."""
        return self.running[-1] if self.running else self.above

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


class Journal:
    """Passes and calls, in the order of their beginning."""

    def __init__(self) -> None:
        self.passes: list[OpenPass] = []
        self.is_declared = False
        self.serials = count()
        self.locations = Locations()

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

    def to_passes(self) -> tuple[tuple[Pass, ...], list[Links]]:
        """Everything so far, frozen, and for each pass where each tensor was seen."""
        return freeze_passes(self.passes, self.locations.spell)
