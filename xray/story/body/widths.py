"""Widths: how many numbers a row of the stream has at a layer, and on which axis they lie."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS
from xray.story.body.stages import Staging
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import is_linear


def shape_of(flow: Flow, layer: Sequence[Staging]) -> tuple[int, ...]:
    """What shape the stream has at a layer: as many places in all that are alike."""
    return flow.output(layer[0].joints[0].add).shape


def width_of(flow: Flow, layer: Sequence[Staging]) -> int | None:
    """How wide the stream is at a layer."""
    joint = layer[0].joints[0]
    if joint.mixing is not None:
        return flow.output(joint.mixing.gather).shape[-1]
    return flow.output(joint.add).shape[find_width(flow, layer)]


def find_width(flow: Flow, layer: Sequence[Staging]) -> int:
    """Which axis of the stream is as wide as a row: as its layers make it, else as pictures and rows usually lie."""
    joint = layer[0].joints[0]
    if joint.mixing is not None:
        return -1
    axes = len(flow.output(joint.add).shape)
    last = layer[-1].joints[-1]  # it thinks about each place alone: where columns of places are multiplied, it tells
    is_row = axes == 3 and len(flow.output(last.region.end).shape) == 3
    found = find_channels(flow, last.region.end if is_row else joint.region.end)
    convolves = any(flow.op(node) in FINDINGS for one in layer for node in one.nodes)
    if found is not None or not convolves:
        return -1 if found is None else found
    return 1 if axes == 4 or (axes == 3 and is_channels_first(flow, layer)) else -1


def is_channels_first(flow: Flow, layer: Sequence[Staging]) -> bool:
    """Whether convolutions read the rows of a layer as they lie, and no other linear layer reads them."""
    nodes = {node for one in layer for node in one.nodes}
    shape = shape_of(flow, layer)
    read = [flow.steps[node].inputs[0].shape for node in nodes if flow.op(node) in FINDINGS]
    return shape in read and all(flow.op(node) in FINDINGS for node in nodes if is_linear(flow, node))
