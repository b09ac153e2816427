"""X-Ray shows what really happens inside a transformer: every tensor shape and every mask, recorded and drawn.

The public door. Names load on first use, so that `import xray` needs neither torch nor datasets.
"""

import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xray.capture.recorder import Recorder, record, trace
    from xray.capture.targets.run import Run, load
    from xray.errors import XRayError
    from xray.ir.trace import Trace
    from xray.renderers.render import render
    from xray.story.alarms.whole import Audit, audit
    from xray.story.anatomy.tree import Anatomy
    from xray.story.body.whole import anatomy
    from xray.story.compare.difference import diff

__all__ = [
    "Anatomy",
    "Audit",
    "Recorder",
    "Run",
    "Trace",
    "XRayError",
    "anatomy",
    "audit",
    "diff",
    "load",
    "read_trace",
    "record",
    "render",
    "trace",
]

HOMES = {
    "Anatomy": "xray.story.anatomy.tree",
    "Audit": "xray.story.alarms.whole",
    "Recorder": "xray.capture.recorder",
    "Run": "xray.capture.targets.run",
    "Trace": "xray.ir.trace",
    "XRayError": "xray.errors",
    "anatomy": "xray.story.body.whole",
    "audit": "xray.story.alarms.whole",
    "diff": "xray.story.compare.difference",
    "load": "xray.capture.targets.run",
    "record": "xray.capture.recorder",
    "render": "xray.renderers.render",
    "trace": "xray.capture.recorder",
}
"""The room that each public name lives in."""


def read_trace(path: str) -> "Trace":
    """The trace that a file holds; no torch needed.

    Raises:
        TraceError: the file cannot be read, or is not a trace that this version understands.
    """
    from xray.ir.files import read_trace_file

    return read_trace_file(path)


def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the name stands for
    if name == "__version__":
        return installed_version("transformer-xray")
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module 'xray' has no attribute {name!r}. It has: {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def prepare_notebook() -> None:
    """In an IPython shell, let traces show themselves; elsewhere, nothing."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        from xray.renderers.notebook import show_traces

        show_traces(shell)


prepare_notebook()
