"""Rows of several streams put in turn, one of each and then the next of each, and every so manieth row taken out again
(Decision Transformer)."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import TURNS
from xray.ir.turns import read_turn
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.value_shapes import read_index

RESHAPES = frozenset({"reshape", "view", "flatten", "unflatten", "unsafe_view"})
ROWS = len(("batch", "row", "width"))


def list_in_turn(flow: Flow, stack: int) -> tuple[int, ...]:
    """The steps that stack rows of several streams and lay them out one of each after the other, the last first.

    Empty where they do anything else with them, as lay one stream behind another.
    """
    step = flow.steps[stack]
    shapes = {record.shape for record in step.inputs}
    if flow.op(stack) != "stack" or len(step.inputs) < 2 or len(shapes) != 1 or stack not in list_reading_data(flow):
        return ()
    shape, dim = shapes.pop(), step.settings.get("dim", 0)
    if len(shape) != ROWS or not isinstance(dim, int):
        return ()
    axes = [0, 1, 2]
    axes.insert(dim % (ROWS + 1), ROWS)  # the last number is the axis of the streams
    steps, here = [stack], stack
    while True:
        readers = [reader for reader in flow.readers.get(here, ()) if flow.is_leaf(reader)]
        if len(readers) != 1:
            return ()
        here = readers[0]
        steps.append(here)
        if flow.op(here) not in TURNS:
            break
        turned = read_turn(flow.steps[here])
        if turned is None:
            return ()
        axes = [axes[place] for place in turned]
    batch, rows, width = shape
    is_laid = flow.op(here) in RESHAPES and flow.output(here).shape == (batch, rows * len(step.inputs), width)
    return tuple(reversed(steps)) if is_laid and axes == [0, 1, ROWS, 2] else ()


def read_every(flow: Flow, cut: int) -> tuple[int, int] | None:
    """Of how many rows a step takes one, and which, from 0: rows were cut into so many before; None for others."""
    index = read_index(flow.steps[cut].settings) if flow.op(cut) in ("index", "select") else None
    if index is None or len(flow.steps[cut].inputs) != 1 or len(flow.steps[cut].inputs[0].shape) != ROWS + 1:
        return None
    numbers = [place for place, one in enumerate(index) if isinstance(one, int)]
    if len(numbers) != 1 or any(one != slice(None) for one in index if not isinstance(one, int)):
        return None
    axes, here = [0, 1, 2, 3], flow.makers[cut][0]
    while here is not None and flow.op(here) in TURNS:
        turned = read_turn(flow.steps[here])
        if turned is None:
            return None
        axes, here = [turned[axis] for axis in axes], flow.makers[here][0]
    if here is None or flow.op(here) not in RESHAPES or here not in list_reading_data(flow):
        return None
    before, after = flow.steps[here].inputs[0].shape, flow.output(here).shape
    is_cut = len(before) == ROWS and len(after) == ROWS + 1 and before == (after[0], after[1] * after[2], after[3])
    number = index[numbers[0]]
    if not is_cut or axes[numbers[0]] != 2 or [axes[place] for place in range(4) if place != numbers[0]] != [0, 1, 3]:
        return None
    return (after[2], number % after[2]) if isinstance(number, int) and after[2] > 1 < after[1] else None


def label_every(flow: Flow, cut: int) -> str:
    """What a step is called that takes every so manieth row; "" for any other."""
    found = read_every(flow, cut)
    return "" if found is None else f"EVERY {spell_place(found[0])} ROW, FROM THE {spell_place(found[1] + 1)}"


def spell_place(number: int) -> str:
    """A number as a place: 1ST, 2ND, 3RD, 4TH."""
    return f"{number}{'TH' if 10 < number % 100 < 14 else {1: 'ST', 2: 'ND', 3: 'RD'}.get(number % 10, 'TH')}"
