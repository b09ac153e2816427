"""Channels of maps by numbers of their own: held ones, as of a frozen batch norm, or such as are made beside a part."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, SUMS, TIMES
from xray.ir.flow.remembering import once
from xray.ir.records import TensorRecord
from xray.story.passages.added_places import list_given
from xray.story.passages.channels import AT_ONCE, find_channels
from xray.story.recognition.between import is_linear, width_out

EACH_CHANNEL = "EACH CHANNEL + ITS NUMBER"
FEWEST_AXES = len(("batch", "channels", "place"))


def list_shift(flow: Flow, node: int) -> tuple[int, ...]:
    """The two steps that multiply each channel by a held number and add another, the last first; none for others.

    Nor for a sum of a part alone of what was multiplied, of which others read the rest (Falcon H1). One step may do
    both (timm's ConvNeXt V2).
    """
    if flow.op(node) in AT_ONCE:
        return () if read_held(flow, node, AT_ONCE, count=2) is None else (node,)
    scaled = read_held(flow, node, SUMS)
    factor = None if scaled is None else flow.carried_from(scaled, CARRYING)
    is_held = factor is not None and read_held(flow, factor, TIMES) is not None
    if factor is None or not is_held or prod(flow.output(factor).shape) != prod(flow.output(node).shape):
        return ()
    return (node, factor)


def read_held(flow: Flow, node: int, ops: frozenset[str], count: int = 1) -> int | None:
    """The maker of a map that a step works on with so many held numbers for each channel; None where it does not."""
    made = flow.output(node).shape if flow.op(node) in ops and flow.steps[node].outputs else ()
    if len(made) < FEWEST_AXES or node not in list_fed(flow):
        return None
    given = [maker for record, maker in flow.given(node) if record.shape == made]
    held = [
        record
        for record, maker in flow.given(node)
        if record.shape != made and maker not in list_fed(flow) and holds_channels(flow, node, record.shape)
    ]
    return given[0] if (len(given), len(held)) == (1, count) else None


def holds_channels(flow: Flow, node: int, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has one number for each channel of a map, and stands along its channels: the second axis,
    or another that is known to hold them (ConvNeXt V2).
    """
    made = flow.output(node).shape
    whole = (1,) * (len(made) - len(shape)) + shape
    axes = (1, find_channels(flow, node))
    return any(axis is not None and prod(shape) == whole[axis] == made[axis] for axis in axes)


@once
def list_fed(flow: Flow) -> frozenset[int]:
    """The steps that work on what the model was given, or an earlier pass made, and not on what it holds alone."""
    found: set[int] = set()
    for place in range(len(flow.steps)):
        for record, maker in flow.given(place):
            if maker in found or (maker is None and is_given(flow, record)):
                found.add(place)
    return frozenset(found)


def is_given(flow: Flow, record: TensorRecord) -> bool:
    """Whether what no step of this pass made came in, by its shape, or an earlier pass made it; else it is held."""
    return record.role != "parameter" and (record.source is not None or record.shape in list_given(flow))


def list_brought(flow: Flow, node: int, whole: Collection[int]) -> tuple[int, ...]:
    """A sum and the steps outside of the `whole` part that make for it alone what it adds to each channel of rows.

    These are a linear layer that works on data, and what bends its rows before: so a U-Net is told of the time that the
    noise has (Denoising Diffusion Probabilistic Models, appendix B). Empty for any other step.
    """
    given = list(flow.given(node)) if flow.op(node) in SUMS else []
    own = [one for one, maker in given if maker in whole and one.shape == flow.output(node).shape]
    others = [(one, maker) for one, maker in given if maker is not None and maker not in whole]
    if (len(given), len(own), len(others)) != (2, 1, 1):
        return ()
    (few, maker), linear = others[0], flow.carried_from(others[0][1])
    if linear is None or linear not in list_fed(flow) or not flow.steps[linear].params or not is_linear(flow, linear):
        return ()
    bend = flow.makers[linear][0]
    made = (linear, *([bend] if bend is not None and flow.op(bend) in CURVES else []))
    way = {node, *flow.behind(maker, ends=lambda one: one == linear)}
    is_alone = all(way.issuperset(flow.leaf_readers(one)) for one in way - {node})
    return (node, *made) if is_alone and is_of_channels(few, own[0], width_out(flow, linear)) else ()


def is_of_channels(few: TensorRecord, rows: TensorRecord, width: int | None) -> bool:
    """Whether a tensor has so many numbers for each sequence, one for each channel, and the same for all its places."""
    shape = (1,) * (len(rows.shape) - len(few.shape)) + few.shape
    sizes = [size for size in shape[1:] if size > 1]
    return len(shape) > 2 and sizes == [width] and width in rows.shape[1:]
