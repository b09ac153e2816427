"""Ctrl-C and SIGTERM, asked for once in a civil way and the second time at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


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
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(number: int, frame: FrameType | None) -> None:
        if request.signal is not None:
            raise KeyboardInterrupt
        request.signal = number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
