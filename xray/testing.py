"""For tests of your own: hold a model's shapes to a trace that was committed before."""

import os
from pathlib import Path

from xray.ir.files import read_trace_file
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.scratch import write_aside
from xray.story.compare.changes import tell_difference
from xray.story.compare.difference import diff
from xray.text import show_controls

UPDATE = "XRAY_UPDATE_FIXTURES"
MOST_LINES = 20


def assert_same_shapes(trace: Trace, fixture: str | Path) -> None:
    """Hold a trace to the one in a file: the same steps in order, the same shapes, axes, masks and parameter counts.

    The file is written where the environment says XRAY_UPDATE_FIXTURES=1; commit it and read its diff.

    Raises:
        AssertionError: they differ, and the message lists where, the first change first; or there is no such file yet,
            and the message tells how to write it.
        TraceError: the file is no trace.
    """
    path = Path(fixture)
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_aside(path.resolve()) as file:
            file.write(trace_to_json(trace).encode())
        return
    name = show_controls(str(path))
    if not path.exists():
        raise AssertionError(f"there is no fixture {name} to compare with. Write it, and commit it: {UPDATE}=1 pytest")
    found = diff(read_trace_file(path), trace)
    if found:
        lines = "\n".join(tell_difference(found, MOST_LINES))
        raise AssertionError(
            f"{show_controls(trace.title)} does not do what {name} says (written there -> now). {lines}\n"
            f"If that is meant, write the fixture anew and read its diff: {UPDATE}=1 pytest"
        )
