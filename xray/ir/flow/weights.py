"""Which parameters a step works with: each by its name, so that none counts twice."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import prod

from xray.ir.flow.dataflow import Flow, list_read
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.remembering import once, once_each
from xray.ir.trace import Step


@once_each
def read_weights(flow: Flow, place: int) -> Mapping[str, int]:
    """The parameters that a leaf is given or its module holds, by their names, each with how many numbers it holds.

    A block has none: steps inside it work with them. Nor has a step that was given no rows, and makes no number, or
    moves numbers that nobody reads. One row of a table, taken by its number, is a parameter by itself. Those of a
    module that have no names are known by its path.
    """
    is_idle = makes_nothing(flow.steps[place]) or (flow.op(place) in CARRYING and not flow.leaf_readers(place))
    return list_weights(flow.steps[place]) if flow.is_leaf(place) and not is_idle else {}


def makes_nothing(step: Step) -> bool:
    """Whether what a step gives holds no number: an expert's to which no place was sent."""
    return bool(step.outputs) and all(0 in record.shape for record in step.outputs)


def list_weights(step: Step) -> dict[str, int]:
    """The parameters that a step is given or its module holds, by their names, with their sizes.

    A call that was given nothing, and gave nothing, works with none (OmniGen's patches of no image).
    """
    found = dict(step.weights)
    nameless = step.params - sum(found.values())
    if nameless > 0 and (step.inputs or step.outputs):
        found[step.path] = nameless
    row, read = step.settings.get("index"), list_read(step)
    for number, record in enumerate(step.inputs):
        if record.weight is not None and number in read:
            is_row = type(row) is int and record is step.inputs[0]
            name, shape = (f"{record.weight}[{row}]", record.shape[1:]) if is_row else (record.weight, record.shape)
            found[name] = prod(shape)
    return found


def gather_weights(flow: Flow, places: Iterable[int]) -> dict[str, int]:
    """The parameters that some steps work with, each once: no row of a table that is worked with as a whole too."""
    found: dict[str, int] = {}
    for place in places:
        found.update(read_weights(flow, place))
    rows = [name for name in found if name.endswith("]") and name.rpartition("[")[0] in found]
    return {name: n for name, n in found.items() if name not in rows} if rows else found


@once
def list_worked(flow: Flow) -> Mapping[str, int]:
    """The parameters that any step of a pass works with."""
    return gather_weights(flow, range(len(flow.steps)))


def list_unworked(flow: Flow) -> dict[str, int]:
    """The parameters that no step works with, and that one was given, or its module holds, which makes nothing."""
    found: dict[str, int] = {}
    for place, step in enumerate(flow.steps):
        if flow.is_leaf(place) and makes_nothing(step):
            found.update(list_weights(step))
    return {name: count for name, count in found.items() if name not in list_worked(flow)}


@once
def find_first(flow: Flow) -> dict[str, int]:
    """The first step that works with each parameter."""
    found: dict[str, int] = {}
    for place in range(len(flow.steps)):
        for name in read_weights(flow, place):
            found.setdefault(name, place)
    return found


def list_shared(flow: Flow, place: int) -> dict[str, int]:
    """The parameters of a step with which one at another path worked before."""
    path, first = flow.steps[place].path, find_first(flow)
    return {name: n for name, n in read_weights(flow, place).items() if flow.steps[first[name]].path != path}


def list_above(name: str) -> list[str]:
    """The paths of the modules that hold what has a name, the innermost first: "a.b" and "a" of "a.b.weight"."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def by_module(names: Iterable[str]) -> dict[str, set[str]]:
    """Parameters by the path of each module that holds them."""
    found: dict[str, set[str]] = {}
    for name in names:
        for path in list_above(name):
            found.setdefault(path, set()).add(name)
    return found


def list_common(paths: Iterable[Sequence[str]]) -> list[str]:
    """The parts that all of some paths begin with."""
    return [parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))]
