"""The numbers by which a stream itself is multiplied: on its way past a branch, or behind the sum."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.story.recognition.between import is_scale
from xray.story.recognition.value_shapes import number
from xray.story.streams.joints import Joint

MOST_MOVES = 12


def list_factors_past(flow: Flow, joint: Joint) -> list[int]:
    """The steps that multiply the stream by one number on its way past a branch (LASR)."""
    if joint.stream is None or joint.mixing or joint.weighing or joint.past or joint.replaces:
        return []
    for maker in flow.makers[joint.add]:
        here, found = maker, list[int]()
        for _ in range(MOST_MOVES):
            if here is None or here in joint.region.inner or here == joint.stream:
                break
            if is_one_number(flow, here):
                found.append(here)
            elif flow.op(here) not in CARRYING | DROPOUTS:
                break
            here = flow.makers[here][0] if flow.makers[here] else None
        if here == joint.stream and found:
            return found
    return []


def find_factor_behind(flow: Flow, add: int) -> int | None:
    """The step that multiplies by one number all that goes on from a sum (Gemma 4); None if there is none."""
    readers = [reader for reader in flow.readers.get(add, ()) if flow.is_leaf(reader)]
    is_all = len(readers) == 1 and is_one_number(flow, readers[0])
    return readers[0] if is_all and flow.output(readers[0]).shape == flow.output(add).shape else None


def is_one_number(flow: Flow, place: int) -> bool:
    """Whether a step multiplies a tensor by one number that is not 1, be it a setting or kept in the model."""
    others = [one for one in flow.steps[place].inputs if one.shape != flow.output(place).shape]
    if not is_scale(flow, place) or any(prod(one.shape) != 1 for one in others):
        return False
    return bool(others) or (len(flow.steps[place].inputs) == 1 and number(flow.steps[place]) not in (None, 1))
