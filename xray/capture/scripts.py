"""Functions that `torch.jit.script` compiled, run as they were written, so that what they do is seen."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

SCRIPT: Any = getattr(torch._C, "ScriptFunction", None)
"""None in a torch that scripts nothing any more."""
RUN_COMPILED: Any = None if SCRIPT is None else SCRIPT.__call__
lock = threading.Lock()
open_blocks = 0


@contextmanager
def run_scripts_as_written() -> Iterator[None]:
    """Inside the block, in every thread, the compiled form of a scripted function is not used.

    What `torch.jit.trace` made of a function has lost its branches, and runs as it is.
    """
    if SCRIPT is None:
        yield
        return
    global open_blocks  # recorders of several threads may end in any order
    with lock:
        open_blocks += 1
        SCRIPT.__call__ = run_as_written
    try:
        yield
    finally:
        with lock:
            open_blocks -= 1
            if not open_blocks:
                SCRIPT.__call__ = RUN_COMPILED


def run_as_written(compiled: Any, *args: Any, **keywords: Any) -> Any:  # whatever it takes and gives
    """One call of what was compiled; its text is known where torch noted it, and gave it its name."""
    known = vars(compiled)
    run = known.get("_torchdynamo_inline") if "__name__" in known else None
    return RUN_COMPILED(compiled, *args, **keywords) if run is None else run(*args, **keywords)
