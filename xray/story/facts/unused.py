"""What of a model took no part in a recording, as it is told."""

import re
from collections.abc import Mapping
from math import prod

from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.remembering import once
from xray.ir.flow.weights import by_module, list_above, list_unworked, list_worked
from xray.ir.trace import Trace
from xray.story.anatomy.tree import Untold
from xray.story.facts.totals import find_outermost


def find_unused(trace: Trace) -> Mapping[str, int] | None:
    """What took no part of the modules whose parameters are counted: of a part that was called alone, what it holds.

    With what was called, and given no rows to work on. None where nobody knows.
    """
    outermost = find_outermost(trace)
    if trace.unused is None:
        return None
    return {
        path: n
        for path, n in find_idle(trace).items()
        if trace.title in outermost or any(one in outermost for one in (path, *list_above(path)))
    }


@once
def find_idle(trace: Trace) -> dict[str, int]:
    """The outermost modules that hold nothing with which a step worked, and single parameters of others.

    They took no part, or were called with rows that are not there: those of a sound, say, where there are words alone
    (Higgs Audio V2), or of an expert to whom no place was sent.
    """
    worked, idle, found = set[str](), dict[str, int](), dict[str, int]()
    for flow in map(read_flow, trace.passes):
        worked |= list_worked(flow).keys()
        idle |= list_unworked(flow)
    holding = worked | by_module(worked).keys()
    for name, count in idle.items():
        if name not in worked and count:
            path = next((one for one in reversed(list_above(name)) if one not in holding), name)
            found[path] = found.get(path, 0) + count
    for name, count in (trace.unused or {}).items():
        path = next((one for one in list_above(name) if one in found), name)
        found[path] = found.get(path, 0) + count
    return found


@once
def find_unworked(trace: Trace) -> dict[str, int]:
    """What no step works with: what is idle, and rows of tables of which others were taken."""
    unused = find_unused(trace)
    return {**(find_idle(trace) if unused is None else unused), **find_rows_left(trace)}


@once
def find_rows_left(trace: Trace) -> dict[str, int]:
    """The numbers of tables in rows that no step takes, where one takes others, each by its number."""
    worked, tables, taken = dict[str, int](), dict[str, int](), dict[str, int]()
    for one in trace.passes:
        worked |= list_worked(read_flow(one))
        given = (record for step in one.steps for record in step.inputs if record.weight is not None)
        tables |= {record.weight: prod(record.shape) for record in given if record.weight is not None}
    for name, count in worked.items():
        table = name.partition("[")[0]
        taken |= {table: taken.get(table, 0) + count} if name != table else {}
    left = {table: tables[table] - count for table, count in taken.items() if count < tables[table]}
    return {table: count for table, count in left.items() if table not in worked}


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
