"""What of a model took no part in a recording, as it is told."""

import re
from collections.abc import Iterable, Mapping
from math import prod

from xray.ir.flow.remembering import once
from xray.ir.trace import Step, Trace
from xray.story.anatomy.tree import Untold
from xray.story.facts.totals import find_outermost, paths_above


def find_unused(trace: Trace) -> Mapping[str, int] | None:
    """What took no part of the modules whose parameters are counted: of a part that was called alone, what it holds.

    With what was called, and given no rows to work on.
    """
    outermost = find_outermost(trace)
    if trace.unused is None:
        return None
    unused = {**trace.unused, **find_idle(trace)}
    if trace.title in outermost:
        return unused
    return {path: n for path, n in unused.items() if any(one in outermost for one in (path, *paths_above(path)))}


@once
def find_idle(trace: Trace) -> dict[str, int]:
    """The outermost modules that never made a number, nor any whose path differs in numbers alone, as experts' do.

    They are of rows that are not there: those of a sound, say, where there are words alone (Higgs Audio V2). One in
    which another with parameters made numbers is none, be it that nothing comes out in the end (LoFTR, no match found).
    """
    works = set[str]()
    for one_pass in trace.passes:
        steps = {step.id: step for step in one_pass.steps}
        for step in one_pass.steps:
            makes = step.params and any(prod(record.shape) for record in step.outputs)
            here: Step | None = step if makes else None
            while here is not None:
                works.add(name_kind(here.path))
                here = steps.get(here.parent or "")
    held = {step.path: step.params for step in trace.steps if step.params and step.outputs}
    idle = {path: params for path, params in held.items() if name_kind(path) not in works}
    return {path: params for path, params in idle.items() if idle.keys().isdisjoint(paths_above(path))}


def name_kind(path: str) -> str:
    """A path without its numbers."""
    return re.sub(r"(?<![A-Za-z])\d+", "*", path)


def join_alike(unused: Mapping[str, int]) -> tuple[Untold, ...]:
    """Parts, the largest first; several whose paths differ in numbers alone are one."""
    alike: dict[str, list[str]] = {}
    for path in unused:
        alike.setdefault(name_kind(path), []).append(path)
    named = {
        whole if len(paths) > 1 else paths[0]: sum(unused[path] for path in paths) for whole, paths in alike.items()
    }
    return tuple(Untold(path, params) for path, params in sorted(named.items(), key=lambda one: -one[1]))


def drop_unused(trace: Trace, parts: Iterable[Untold]) -> tuple[Untold, ...]:
    """Some parts without those of whose parameters none was used, be it that they ran (Phi-4 multimodal)."""
    unused, idle = trace.unused or {}, find_idle(trace)
    return tuple(one for one in parts if one.path not in idle and unused.get(one.path) != one.params)
