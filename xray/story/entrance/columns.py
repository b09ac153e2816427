"""Columns of a map: a learned one at an end of each line, those left out before; the one channel that is read."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, SIDE_BY_SIDE
from xray.story.passages.added_places import learned_source

RESIZING = CARRYING | {"index", "interpolate"}
"""What may be done to a map that was cut before its column is put at an end (LLaVA-OneVision)."""
COLOURS = len(("red", "green", "blue"))


def label_column(flow: Flow, node: int) -> str:
    """What a step is called that puts one learned vector at an end of each line of a map; "" for any other (LLaVA)."""
    shape = flow.output(node).shape
    lines = [(source, record) for record, maker in flow.given(node) if (source := learned_source(flow, record, maker))]
    if len(shape) != len(("channels", "height", "width")) or len(lines) != 1 or len(flow.steps[node].inputs) != 2:
        return ""
    source, record = lines[0]
    if record.shape != (*shape[:-1], 1) or prod(source.shape) != shape[0] or source.trained is False:
        return ""
    return f"A LEARNED COLUMN {'IN FRONT' if record is flow.steps[node].inputs[0] else 'BEHIND'}"


def label_cut_map(flow: Flow, node: int) -> str:
    """What a step is called that leaves out lines or columns of a map which gets a learned column; "" for any other.

    So is what padded a picture taken off again (LLaVA-NeXT).
    """
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    if len(before) != len(("channels", "height", "width")) or len(after) != len(before) or before[0] != after[0]:
        return ""
    way = flow.ahead(node, within=lambda one: one == node or flow.op(one) in RESIZING)
    joins = {one for here in way for one in flow.readers.get(here, ()) if flow.op(one) in SIDE_BY_SIDE}
    if not any(label_column(flow, one) for one in joins):
        return ""
    sizes = zip(after[1:], before[1:], ("LINES", "COLUMNS"), strict=True)
    return ", ".join(f"{some:,} OF {whole:,} {name}" for some, whole, name in sizes if some < whole)


def label_channel(flow: Flow, node: int) -> str:
    """What a step is called that takes one channel of an image as it came in, for convolutions; "" for any other.

    Pictures have three; of others it is not known what they are, as frames (EfficientLoFTR, SuperPoint).
    """
    step = flow.steps[node]
    before, pieces = step.inputs[0].shape, [one.strip() for one in str(step.settings.get("index", "")).split(",")]
    others = {*pieces[:1], *pieces[2:]}
    if len(before) != len(("batch", "channels", "height", "width")) or others != {":"} or len(pieces) < 2:
        return ""
    if not pieces[1].isdecimal():
        return ""
    is_given = step.inputs[0].is_float and flow.carried_from(flow.makers[node][0]) is None and before[1] == COLOURS
    way = flow.ahead(node, within=lambda one: one == node or flow.op(one) in CARRYING | {"index"})
    readers = {one for here in way for one in flow.leaf_readers(here)}
    read = {flow.steps[one].inputs[0].shape for one in readers if flow.op(one) in FINDINGS}
    is_read = is_given and read == {(before[0], 1, *before[2:])}
    return f"CHANNEL {int(pieces[1]) + 1} OF {before[1]}" if is_read else ""
