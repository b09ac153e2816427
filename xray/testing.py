"""For tests of your own: hold a model to the shapes of a committed trace, and its masks to what they are for."""

import os
from pathlib import Path

from xray.ir.files import read_trace_file
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.scratch import write_aside
from xray.story.alarms.arguments import list_given
from xray.story.alarms.whole import audit
from xray.story.compare.changes import list_difference
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
        lines = "\n".join(list_difference(found, MOST_LINES))
        raise AssertionError(
            f"{show_controls(trace.title)} does not do what {name} says (written there -> now). {lines}\n"
            f"If that is meant, write the fixture anew and read its diff: {UPDATE}=1 pytest"
        )


def assert_masks_reach(trace: Trace, *names: str) -> None:
    """Hold the masks of a trace to what they are for: no alarm is raised.

    With names, these arguments of the model have to be among the masks that reach attention.

    Raises:
        AssertionError: an alarm is raised, and the message tells each with its line and what to do; or a name is no
            mask that reaches attention.
    """
    found = audit(trace)
    reached = {mask.name for mask in found.masks if mask.reached}
    missing = [name for name in names if name not in reached]
    lines = [f"{alarm.location or alarm.step}: {alarm.kind}: {alarm.text} {alarm.remedy}" for alarm in found.alarms]
    if missing and not lines:
        given = sorted({name for one in trace.passes for name in list_given(one)})
        lines = [f"{name} reaches no attention; {', '.join(given) or 'no mask'} was given." for name in missing]
    if lines:
        raise AssertionError(f"masks of {show_controls(trace.title)} do not do what they are for:\n" + "\n".join(lines))
