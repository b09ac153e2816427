"""What common operations do whatever they are part of."""

from collections.abc import Iterator

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, DROPOUTS, JOINS, LOOKUPS, TURNS
from xray.ir.trace import Step

NATIVE_KERNELS = {
    "_transformer_encoder_layer_fwd": "a whole encoder layer in one kernel: self-attention and feed-forward",
    "_native_multi_head_attention": "a whole attention in one kernel",
}
TOOLS = {
    "tokenize": "text to ids",
    "shift": "shift: decoder input and targets",
    "backward": "back-propagation",
}
"""Operations that are recorded under a name of their own, and so leave no doubt."""


def list_operations(flow: Flow) -> Iterator[tuple[str, str]]:
    """The ids of steps whose operation says what they do, with the words for it."""
    for place, step in enumerate(flow.steps):
        words = TOOLS.get(step.op, "")
        if not words and flow.is_leaf(place) and step.inputs and step.outputs and not step.error:
            words = describe_operation(step)
        if words:
            yield step.id, words


def list_kernels(flow: Flow) -> Iterator[tuple[str, str]]:
    """The ids of steps that are a whole layer or attention in one, with the words for it."""
    return ((step.id, NATIVE_KERNELS[step.op]) for step in flow.steps if step.op in NATIVE_KERNELS)


def describe_operation(step: Step) -> str:
    """The words for one operation; empty where it could be several things."""
    before, after = step.inputs[0].shape, step.outputs[0].shape
    if step.op in ("split", "chunk", "tensor_split", "split_with_sizes", "unbind") and len(step.outputs) > 1:
        return f"split in {len(step.outputs)}"
    if step.op in JOINS and len(step.inputs) > 1:
        return f"join {len(step.inputs)} tensors"
    if step.op in ("expand", "expand_as", "broadcast_to") and before != after:
        return "broadcast"
    if step.op in TURNS and len(before) > 1:
        return "swap axes"
    if step.op == "flatten" and len(after) < len(before):
        return "flatten"
    if step.op in ("squeeze", "unsqueeze") and len(before) != len(after):
        return "drop an axis of size 1" if len(after) < len(before) else "add an axis of size 1"
    if step.op in CASTING and step.inputs[0].dtype != step.outputs[0].dtype:
        return f"cast to {step.outputs[0].dtype}"
    if step.op in DROPOUTS:
        return "dropout"
    if step.op in LOOKUPS:
        return "look up rows of a table"
    return ""
