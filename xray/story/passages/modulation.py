"""Adaptive norms: rows scaled, shifted and let through by what stands beside the stream, as time and class (DiT)."""

from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DIVISIONS,
    LOOKUPS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
)
from xray.ir.records import TensorRecord
from xray.story.recognition.addends import list_behind
from xray.story.recognition.between import is_linear
from xray.story.recognition.norms import Norm

MOST, MOST_STEPS = 4, 2000


def list_modulation(flow: Flow, norm: Norm) -> tuple[int, ...]:
    """The steps right behind a norm that scale and shift each row by what is the same for all places; none if not.

    That is worked out of data, and not of the rows that the norm reads.
    """
    found: list[int] = []
    here = norm.end
    while len(found) < MOST:
        onward = flow.readers.get(here, ())
        if len(onward) != 1 or not modulates(flow, norm, onward[0], here):
            break
        here = onward[0]
        found.append(here)
    return tuple(found)


def is_adaptive(flow: Flow, norm: Norm) -> bool | None:
    """Whether a norm is scaled or shifted so; None where it is for some alone of those that read it."""
    some = any(modulates(flow, norm, reader, norm.end) for reader in flow.readers.get(norm.end, ()))
    return bool(list_modulation(flow, norm)) or (None if some else False)


def modulates(flow: Flow, norm: Norm, place: int, here: int) -> bool:
    """Whether a step scales or shifts what a norm has come to by what is worked out of data, and not of its rows."""
    if not is_from_beside(flow, place, here):
        return False
    beside = next(maker for maker in flow.makers[place] if maker != here)
    return not is_of_its_rows(flow, norm, beside) and comes_from_data(flow, beside)


def is_of_its_rows(flow: Flow, norm: Norm, maker: int | None) -> bool:
    """Whether what a step makes is worked out of the rows that a norm reads, or of others from outside as large."""
    behind = {*flow.behind(maker, most=MOST_STEPS)}
    rows = flow.output(norm.end).shape
    given = (record for node in behind for record, before in flow.taken(node) if before is norm.origin is None)
    return norm.origin in behind or any(record.shape == rows for record in given)


def find_beside_gate(flow: Flow, end: int, stream: int | None) -> int | None:
    """The step that ends a branch by letting as much of it through as what stands beside its stream says.

    What is worked out of the rows that the branch reads stands beside nothing (a mean of these, as in SENet).
    """
    here = flow.carried_from(end)
    if here is None or flow.op(here) not in SCALINGS - DIVISIONS:
        return None
    makers = [one for one in flow.makers[here] if one is not None]
    is_own = stream is not None and all(stream in flow.behind(one, most=MOST_STEPS) for one in makers)
    factors = [one for one in makers if any(is_from_beside(flow, here, row) for row in makers if row != one)]
    return here if not is_own and any(is_of_layers(flow, one) for one in factors) else None


def is_of_layers(flow: Flow, maker: int) -> bool:
    """Whether linear layers or tables give what a step makes: moved, bent, or added to learned numbers at most."""
    layers, todo = 0, [maker]
    for here in todo:
        is_layer = is_linear(flow, here) or flow.op(here) in LOOKUPS
        layers += is_layer
        if not is_layer and flow.op(here) not in CARRYING | CURVES | REPEATS | SUMS | SIDE_BY_SIDE:
            return False
        todo += [] if is_layer else [one for one in flow.makers[here] if one is not None]
    return layers > 0


def is_from_beside(flow: Flow, place: int, row: int) -> bool:
    """Whether a step multiplies or adds to a row what is learned beside it, and is the same for all places or cut.

    So each place may have a scale, a shift and a gate of its own, which are parts of one tensor (Wan 2.2's 5B).
    """
    step = flow.steps[place]
    if step.op not in SCALINGS | SUMS or len(step.inputs) != 2 or not step.outputs:
        return False
    others = [(record, maker) for record, maker in flow.given(place) if maker != row]
    if len(others) != 1:
        return False
    record, maker = others[0]
    shape, axes = step.outputs[0].shape, step.outputs[0].axes
    if maker is None or record.shape[-1:] != shape[-1:] or len(shape) < 3:
        return False
    places = -3 if axes[-2:-1] == ("batch",) else -2
    is_one = is_one_along(flow, record, maker, places) or (record.shape == shape and is_cut_off(flow, maker))
    return shape[places] > 1 and is_one and comes_from_learned(flow, maker)


def is_cut_off(flow: Flow, maker: int) -> bool:
    """Whether a step gives, moved and with a number added at most, a part of what layers made with learned numbers."""
    here: int | None = maker
    while here is not None and flow.op(here) in CARRYING | SPLITS | SUMS and len(flow.makers[here]) == 1:
        if len(flow.steps[here].outputs) > 1:
            return is_of_layers(flow, here)
        here = flow.makers[here][0]
    return False


def is_one_along(flow: Flow, record: TensorRecord, maker: int, axis: int) -> bool:
    """Whether all numbers along an axis are one: it is 1 long, or was before something was spread over the places."""
    if record.shape[axis:][:1] == (1,):
        return len(record.shape) >= -axis
    givers = list(flow.given(maker))
    if len(givers) != 1 or flow.op(maker) not in CARRYING | REPEATS | SPLITS | SUMS | SCALINGS:
        return False
    ((given, before),) = givers
    if len(given.shape) != len(record.shape):
        return False
    is_kept = given.shape[:axis] == record.shape[:axis] and given.shape[axis:-1] == record.shape[axis:-1]
    is_spread = flow.op(maker) in REPEATS and given.shape[axis] == 1
    return is_spread or (is_kept and before is not None and is_one_along(flow, given, before, axis))


def past_factors(flow: Flow, norm: Norm) -> Norm:
    """A norm, with the steps behind it that do nothing but multiply it by one number each."""
    readers = flow.leaf_readers(norm.end)
    is_factor = len(readers) == 1 and flow.op(readers[0]) in SCALINGS and len(flow.steps[readers[0]].inputs) == 1
    return past_factors(flow, replace(norm, end=readers[0])) if is_factor else norm


def comes_from_data(flow: Flow, maker: int | None) -> bool:
    """Whether what a step makes is worked out of anything that is no parameter: a moved layer scale is not."""
    return any(
        record.role != "parameter" and before is None and record.shape
        for node in flow.behind(maker, most=MOST_STEPS)
        for record, before in flow.taken(node)
    )


def comes_from_learned(flow: Flow, maker: int | None) -> bool:
    """Whether what a step makes is worked out by learned numbers, as no mask of padding is."""
    behind = list_behind(flow, maker)
    return any(is_linear(flow, node) or flow.op(node) in LOOKUPS for node in behind) or any(
        record.role == "parameter" for node in behind for record in flow.steps[node].inputs
    )
