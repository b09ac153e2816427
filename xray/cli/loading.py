"""Loading torch, which takes longer than what most commands do."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Inside the block modules are loaded with nobody looking for garbage among them: a ninth of the time is saved.

    What is loaded stays to the end, so nobody looks through it later either.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
