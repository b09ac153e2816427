"""Rows that are taken in an order that is given: by windows, and back (the eyes of Qwen2.5-VL)."""

from xray.ir.flow.dataflow import Flow
from xray.story.recognition.between import list_reading_data

TAKING = frozenset({"index", "index_select"})


def takes_in_order(flow: Flow, node: int) -> bool:
    """Whether a step takes as many rows as there are, in the order that a row of whole numbers says."""
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2 or not step.outputs:
        return False
    rows, order = step.inputs
    is_order = len(order.shape) == 1 and order.shape[0] > 1 and not order.is_float and order.dtype != "bool"
    is_rows = rows.is_float and len(rows.shape) > 1 and rows.shape == step.outputs[0].shape
    return is_order and is_rows and order.shape[0] in rows.shape[:-1] and node in list_reading_data(flow)
