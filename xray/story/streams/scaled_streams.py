"""The numbers by which a stream itself is multiplied: on its way past a branch, or behind the sum."""

from collections.abc import Sequence
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.story.recognition.between import is_scale, is_shift
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.joints import Joint
from xray.story.streams.shortcuts import before_mask, find_any_norm

MOST_MOVES = 12


def list_factors_past(flow: Flow, joint: Joint) -> list[int]:
    """The steps that multiply the stream by one number on its way past a branch (LASR), or by learned ones (Doge).

    What the branch reads too stands before both ways.
    """
    if joint.stream is None or joint.mixing or joint.weighing or joint.past or joint.replaces:
        return []
    for maker in flow.makers[joint.add]:
        here, found = maker, list[int]()
        for _ in range(MOST_MOVES):
            if here is None or here in joint.region.inner or here == joint.stream:
                break
            if is_one_number(flow, here) or is_by_weights(flow, here):
                found.append(here)
            elif flow.op(here) not in CARRYING | DROPOUTS and not is_shift(flow, here):
                break
            shape = flow.output(here).shape
            here = next((before for record, before in flow.given(here) if record.shape == shape), None)
        if found and here is not None and (here == joint.stream or here in joint.region.inner):
            return found
    return []


def is_passed(flow: Flow, node: int) -> bool:
    """Whether a step ends a norm, and others than that norm read the rows that it begins with."""
    norm = find_any_norm(flow, node)
    before = None if norm is None else flow.makers[min(norm.nodes)][0]
    return norm is not None and before is not None and not {*norm.nodes}.issuperset(flow.leaf_readers(before))


def list_learned_past(flow: Flow, joint: Joint) -> list[int]:
    """The steps that multiply the stream by learned numbers on its way past a branch, and shift it by others before."""
    found: list[int] = []
    for node in list_factors_past(flow, joint):
        if is_by_weights(flow, node):
            shape = flow.output(node).shape
            before = next((maker for record, maker in flow.given(node) if record.shape == shape), None)
            is_own = before is not None and before != joint.stream and before not in joint.region.inner
            found += [node] if before is None or not is_own or not is_shift(flow, before) else [node, before]
    return found


def find_before_both(flow: Flow, joint: Joint) -> int | None:
    """The step from which both go on, a branch and the stream that learned numbers multiply past it, be it no sum."""
    past = list_learned_past(flow, joint)
    if not past:
        return None
    shape = flow.output(past[-1]).shape
    before = next((flow.carried_from(maker) for record, maker in flow.given(past[-1]) if record.shape == shape), None)
    return before if before in joint.region.inner else None


def name_factors_past(flow: Flow, joints: Sequence[Joint]) -> Literal["before", "learned"] | None:
    """Whether the stream is multiplied before something is added to it: by one number, or by learned ones.

    Rows of a norm that others go past are no stream (MEGA).
    """
    own = [joint for joint in joints if joint.stream is not None and not is_passed(flow, joint.stream)]
    found = [node for joint in own for node in list_factors_past(flow, joint)]
    return None if not found else "learned" if any(is_by_weights(flow, node) for node in found) else "before"


def is_by_weights(flow: Flow, place: int) -> bool:
    """Whether a step multiplies a tensor by a parameter, or by what is worked out of parameters alone (Muse Spark)."""
    shape = flow.output(place).shape
    others = [(record, maker) for record, maker in flow.given(place) if record.shape != shape]
    return is_scale(flow, place) and bool(others) and all(is_of_weights(flow, *one) for one in others)


def find_factor_behind(flow: Flow, add: int) -> int | None:
    """The step that multiplies by one number all that goes on from a sum (Gemma 4); None if there is none."""
    readers = flow.leaf_readers(add)
    is_all = len(readers) == 1 and is_one_number(flow, readers[0])
    return readers[0] if is_all and flow.output(readers[0]).shape == flow.output(add).shape else None


def list_learned_behind(flow: Flow, add: int) -> list[int]:
    """The steps that multiply all that goes on from a sum by learned numbers, and shift it by others (MobileBERT).

    They stand in the block of the sum: what the next one begins with is its own.
    """
    found: list[int] = []
    here, block = add, next(flow.parents(add), None)
    for is_next in (is_by_weights, is_shift):
        readers = flow.leaf_readers(here)
        if len(readers) != 1 or not is_next(flow, readers[0]) or block not in (None, *flow.parents(readers[0])):
            break
        here = readers[0]
        found.append(here)
    return found


def find_cleared(flow: Flow, end: int) -> int | None:
    """The step that sets rows to 0 that a mask names, in all that goes on from a sum (Gemma 3n); None if none does."""
    readers = flow.leaf_readers(end)
    return readers[0] if len(readers) == 1 and before_mask(flow, readers[0]) == end else None


def name_learned_behind(behind: Sequence[int]) -> str:
    """What is done to all that goes on from a sum by the steps behind it, in the words of boxes."""
    return "SCALE AND SHIFT" if len(behind) > 1 else "× LEARNED NUMBERS"


def is_one_number(flow: Flow, place: int) -> bool:
    """Whether a step multiplies a tensor by one number that is not 1, be it a setting or kept in the model."""
    others = [one for one in flow.steps[place].inputs if one.shape != flow.output(place).shape]
    if not is_scale(flow, place) or any(prod(one.shape) != 1 for one in others):
        return False
    return bool(others) or (len(flow.steps[place].inputs) == 1 and number(flow.steps[place]) not in (None, 1))
