"""For tests of your own: hold a model's shapes to a trace that was committed before."""

import os
from pathlib import Path

from xray.ir.files import read_trace_file
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.story.difference import diff
from xray.story.telling_changes import tell_difference

UPDATE = "XRAY_UPDATE_FIXTURES"
MOST_LINES = 20


def assert_same_shapes(trace: Trace, fixture: str | Path) -> None:
    """Compare a trace with the one in a file: the same steps in the same order, with the same shapes, axes and masks.

    The file is written if it is missing or if the environment says XRAY_UPDATE_FIXTURES=1; commit it and read its diff.

    Raises:
        AssertionError: they differ; the message lists where, the first change first.
        TraceError: the file is no trace.
    """
    path = Path(fixture)
    if not path.exists() or os.environ.get(UPDATE):
        path.write_text(trace_to_json(trace), encoding="utf-8")
        return
    found = diff(read_trace_file(path), trace)
    if found:
        lines = "\n".join(tell_difference(found, MOST_LINES))
        raise AssertionError(f"{path.name} and the model disagree: {lines}\nIf that is meant: {UPDATE}=1 pytest")
