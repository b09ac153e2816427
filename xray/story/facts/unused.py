"""What of a model took no part in a recording, as it is told."""

import re
from collections.abc import Mapping

from xray.ir.trace import Trace
from xray.story.anatomy.tree import Untold
from xray.story.facts.totals import find_outermost, paths_above


def find_unused(trace: Trace) -> Mapping[str, int] | None:
    """What took no part of the modules whose parameters are counted: of a part that was called alone, what it holds."""
    outermost = find_outermost(trace)
    if trace.unused is None or trace.title in outermost:
        return trace.unused
    return {path: n for path, n in trace.unused.items() if any(one in outermost for one in (path, *paths_above(path)))}


def join_alike(unused: Mapping[str, int]) -> tuple[Untold, ...]:
    """Parts, the largest first; several whose paths differ in numbers alone are one."""
    alike: dict[str, list[str]] = {}
    for path in unused:
        alike.setdefault(re.sub(r"(?<![A-Za-z])\d+", "*", path), []).append(path)
    named = {
        whole if len(paths) > 1 else paths[0]: sum(unused[path] for path in paths) for whole, paths in alike.items()
    }
    return tuple(Untold(path, params) for path, params in sorted(named.items(), key=lambda one: -one[1]))
