"""Rows taken in a given order (by windows, as Qwen2.5-VL's eye does), or sorted, and back; the first one in front."""

from collections.abc import Collection

from xray.ir.flow.cut_rows import read_span
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SIDE_BY_SIDE
from xray.ir.records import TensorRecord
from xray.story.recognition.between import list_reading_data

TAKING = frozenset({"index", "index_select"})
PADDINGS = frozenset({"pad", "zero_pad2d", "constant_pad_nd"})


def takes_in_order(flow: Flow, node: int) -> bool:
    """Whether a step takes as many rows as there are, in the order that a row of whole numbers says, or sorted ones."""
    if find_order(flow, node) is not None:
        return True
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2 or not step.outputs:
        return False
    rows, order = step.inputs
    is_order = len(order.shape) == 1 and order.shape[0] > 1 and not order.is_float and order.dtype != "bool"
    is_rows = rows.is_float and len(rows.shape) > 1 and rows.shape == step.outputs[0].shape
    return is_order and is_rows and order.shape[0] in rows.shape[:-1] and node in list_reading_data(flow)


def find_order(flow: Flow, node: int) -> int | None:
    """The step that sorts numbers, one of each row of a sequence, in whose order another takes all rows (V-JEPA 2)."""
    step = flow.steps[node]
    if flow.op(node) != "gather" or len(step.inputs) != 2 or not step.inputs[0].is_float:
        return None
    rows, order = (one.shape for one in step.inputs)
    sorts = flow.carried_from(flow.makers[node][1], CARRYING | REPEATS)
    if sorts is None or flow.op(sorts) != "argsort" or len(rows) != len(("batch", "row", "width")) or rows != order:
        return None
    return sorts if flow.output(sorts).shape == rows[:-1] and node in list_reading_data(flow) else None


def name_order(flow: Flow, node: int) -> str:
    """What a step is called that takes all rows: those that a mask keeps, or in another order."""
    sorts = find_order(flow, node)
    if sorts is None:
        return "ROWS IN A GIVEN ORDER" if find_mask(flow, node) is None else "ROWS THAT A MASK KEEPS"
    return "ROWS SORTED" if sorts_back(flow, sorts) is None else "ROWS PUT BACK IN THEIR ORDER"


def sorts_back(flow: Flow, sorts: int) -> int | None:
    """The step that takes rows in an order which another sorts back, if both are known."""
    former = flow.carried_from(flow.makers[sorts][0])
    if former is None or flow.op(former) != "argsort":
        return None
    moved = set(flow.ahead(former, within=lambda one: one == former or flow.op(one) in CARRYING | REPEATS))
    readers = (one for place in sorted(moved) for one in flow.readers.get(place, ()) if flow.is_leaf(one))
    return next((one for one in readers if find_order(flow, one) == former), None)


def find_mask(flow: Flow, node: int) -> TensorRecord | None:
    """The mask, one answer for each row, where a step takes the rows that it does not hide, in their order.

    The places of what is not nothing come from the first to the last.
    """
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2:
        return None
    (rows, _), (order, maker) = flow.given(node)
    found = flow.carried_from(maker)
    if found is None or flow.op(found) != "nonzero" or len(order.shape) != 1 or not rows.is_float:
        return None
    mask = flow.steps[found].inputs[0]
    return mask if mask.dtype == "bool" and mask.shape == rows.shape[:1] else None


def shifts_places(flow: Flow, node: int) -> bool:
    """Whether a step hands each place the row of the one before it: nothing in front, the last row cut (RWKV)."""
    step = flow.steps[node]
    told = step.settings.get("padding", step.settings.get("pad"))
    return flow.op(node) in PADDINGS and isinstance(told, str) and told.endswith("1x-1")


def label_first_row(flow: Flow, node: int, nodes: Collection[int]) -> str:
    """What a step of a part is called that puts the first row of what came before the part in front of rows made in it.

    So CANINE keeps the row of the class beside those that several characters became. "" for any other.
    """
    given, made = list(flow.given(node)), flow.output(node).shape
    if flow.op(node) not in SIDE_BY_SIDE or len(given) != 2 or len(made) != len(("batch", "places", "width")):
        return ""
    (first, cut), (rest, maker) = given
    if cut is None or cut not in nodes or maker not in nodes or flow.op(cut) != "index":
        return ""
    if first.shape[1] + rest.shape[1] != made[1] or any(one in nodes for one in flow.makers[cut]):
        return ""
    span = read_span(str(flow.steps[cut].settings.get("index", "")), flow.steps[cut].inputs[0].shape, 1)
    return f"THE STREAM'S FIRST ROW IN FRONT: 1 + {rest.shape[1]:,}" if span == (0, 1) else ""
