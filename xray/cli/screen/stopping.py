"""Ctrl-C and SIGTERM, asked for once in a civil way and the second time at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


class StoppedAtOnce(BaseException):
    """Somebody wants the program to end now; `exit_code` says by which signal.

    It is no KeyboardInterrupt, since typer makes the same exit code of all of those.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@dataclass
class StopRequest:
    """Whether somebody asked to stop, and by which signal."""

    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that ended by that signal: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + (self.signal or 0)


@contextmanager
def listen_for_stop() -> Iterator[StopRequest]:
    """Inside the block the first Ctrl-C or SIGTERM is only noted; the second interrupts at once."""
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        if request.signal is not None:
            raise StoppedAtOnce(number)
        request.signal = number

    with handling((signal.SIGINT, signal.SIGTERM), note):
        yield request


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Inside the block SIGTERM ends the program like Ctrl-C does: what is half done is cleared away."""

    def end(number: int, frame: FrameType | None) -> None:
        raise StoppedAtOnce(number)

    with handling((signal.SIGTERM,), end):
        yield


@contextmanager
def handling(numbers: tuple[int, ...], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside the block these signals are handled so; in a thread they cannot be, and are left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
