"""One number for each channel that a linear layer makes beside a part, and that is added to all places of it."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CURVES, SUMS
from xray.ir.records import TensorRecord
from xray.story.passages.held_factors import list_fed
from xray.story.recognition.between import is_linear, width_out

EACH_CHANNEL = "EACH CHANNEL + ITS NUMBER"


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
