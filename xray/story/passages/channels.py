"""Channels: which axis of a tensor is as wide as a row, followed from the layer that made it through every turn."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.looked_along import looks_along, runs_alike
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DIVISIONS,
    DROPOUTS,
    FINDINGS,
    NORMS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
    TURNS,
)
from xray.ir.flow.projections import data_input
from xray.ir.flow.regrouping import MAP, MOVES, Piece, lay_out
from xray.ir.flow.regrouping import follow as follow_pieces
from xray.ir.flow.written_softmaxes import read_axis_of
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.ir.turns import read_turn
from xray.story.recognition.addends import is_given
from xray.story.recognition.between import is_linear, list_reading_data

OVER_CHANNELS = ("batch_norm", "group_norm", "instance_norm", "conv", "max_pool", "avg_pool", "adaptive_")
FARTHEST = 30
SPREADS = frozenset({"expand", "expand_as", "broadcast_to"})
FEWEST_AXES = len(("batch", "channels", "place"))
AT_ONCE = frozenset({"addcmul", "addcmul_"})
"""What adds a product to something in one step."""
KEEPING = CARRYING | DROPOUTS | CURVES | SUMS | SCALINGS | SIDE_BY_SIDE | REPEATS | AT_ONCE | {"normalize", "roll"}
"""What leaves the channels where they are, or moves them in a way that can be followed."""
MASKED = "× ONE NUMBER FOR EACH PLACE"
"""What is said where rows are multiplied by a mask: what is no place becomes 0."""
BETWEEN_0_AND_1 = frozenset({"sigmoid", "sigmoid_", "hardsigmoid", "hardsigmoid_"})


def find_channels(flow: Flow, place: int) -> int | None:
    """The axis of what a step makes that holds the numbers of one row; None where that is not known."""
    way: list[int] = []
    here: int | None = place
    while here is not None and len(way) < FARTHEST:
        op, axes = flow.op(here), len(flow.output(here).shape)
        if op in FINDINGS or op.startswith(OVER_CHANNELS):
            return follow(flow, way, 1)
        if op in NORMS or is_linear(flow, here):
            return follow(flow, way, axes - 1)
        if op not in KEEPING:
            return None
        way.append(here)
        here = step_back(flow, here)
    return None


def reads_places(flow: Flow, node: int, *, alone: bool = False) -> bool:
    """Whether a linear layer, a convolution or a pool takes numbers of several places for those of one row.

    Proven by the moves before it, from where it is known which axis holds these. `alone`: it takes none of these so.
    """
    is_over = flow.op(node).startswith(OVER_CHANNELS)
    number = 0 if is_over and flow.makers[node] else data_input(flow, node)
    here = None if number is None else flow.makers[node][number]
    moves: list[int] = []
    while here is not None and flow.op(here) in MOVES | DROPOUTS and flow.makers[here]:
        moves += [here] * (flow.op(here) in MOVES)
        here = flow.makers[here][0]
    own = None if here is None or not moves else find_channels(flow, here)
    before, after = follow_pieces(flow, moves)
    if own is None or not after:
        return own is not None and not alone  # axes of which no whole parts were laid out anew
    read = {*after[1 if is_over else -1]}
    return read.isdisjoint(before[own]) if alone else not read <= {*before[own]}


def keeps_channels(flow: Flow, finder: int) -> bool:
    """Whether what a convolution makes of a place is a row behind it: not where its map is laid out without turns."""
    end = max(flow.ahead(finder, within=lambda here: here == finder or flow.op(here) in CARRYING))
    shape, axis = flow.output(end).shape, find_channels(flow, end)
    return axis == len(shape) - 1 or (axis is not None and len(shape) > FEWEST_AXES)


def tells_places(flow: Flow, node: int, record: TensorRecord, maker: int | None) -> bool:
    """Whether what a sum adds may differ from place to place: not where it does from sequence to sequence alone.

    Nor where it is one row for many places, as one for each frame, view or variable is: alike along the last axis of
    rows, or at neighbours. Nor where it differs along an axis along which no attention looks then, as that of heads.
    Where there is one place alone, that is not known.
    """
    if runs_alike(flow, maker):
        return False
    made, record = flow.output(node), flow.before_moves(record, maker, SPREADS | REPEATS)[0]
    laid = (1,) * (len(made.shape) - len(record.shape)) + tuple(record.shape)
    channels = find_channels(flow, node)
    own = len(laid) - 1 if channels is None else channels
    rows = [axis for axis, word in enumerate(made.axes) if word != "batch" and axis != own]
    varied = [axis for axis in rows if laid[axis] > 1]
    if not varied:
        return all(made.shape[axis] == 1 for axis in rows)
    inner = [axis for axis in rows if axis] if len(laid) > MAP else rows[-1:] if len(laid) == MAP else []
    is_for_many = any(laid[axis] == 1 < made.shape[axis] for axis in inner)
    return not is_for_many and looks_along(flow, node, varied) is not False


def masks_places(flow: Flow, node: int) -> bool:
    """Whether the one number of each place that rows are multiplied by came in, or was worked out of no data.

    Or says what is so, be it worked out of data: how long they are (VITS).
    """
    given = list(flow.given(node)) if multiplies_places(flow, node) else []
    masks = [maker for record, maker in given if record.shape != flow.output(node).shape and record.role != "parameter"]
    return len(masks) == 1 and (
        masks[0] not in list_reading_data(flow) or is_given(flow, masks[0]) or is_comparison(flow, masks[0])
    )


def multiplies_places(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows or maps by one number for each place, be it worked out of them (FocalNet).

    Rows have no other axis than that of their places; maps may have more, behind their channels.
    """
    given = [record.shape for record in flow.steps[node].inputs] if flow.op(node) in SCALINGS - DIVISIONS else []
    axis = find_channels(flow, node) if len(given) == 2 else None
    shape = flow.output(node).shape
    if (
        axis is None
        or axis != (1 if len(shape) > FEWEST_AXES else axis)
        or shape[axis] == 1
        or prod(shape) == shape[axis]
    ):
        return False
    return {shape, (*shape[:axis], 1, *shape[axis + 1 :])} == set(given)


def is_comparison(flow: Flow, maker: int | None) -> bool:
    """Whether numbers are 1 where something is so, and 0 elsewhere."""
    root = flow.carried_from(maker)
    return root is not None and flow.output(root).dtype == "bool"


def find_channels_ahead(flow: Flow, place: int) -> int | None:
    """The same axis, known by the first layer that what a step makes goes into, through sums and scales of its shape.

    Rows that are looked up, or taken from others, have no layer behind them that tells (UDOP, ViLT).
    """
    shape, todo, seen = flow.output(place).shape, [place], {place}
    while todo and len(seen) < FARTHEST:
        here = todo.pop(0)
        made = flow.output(here).shape
        for reader in (one for one in flow.readers.get(here, ()) if one not in seen):
            seen.add(reader)
            is_read = flow.makers[reader][0] == here
            if is_read and (flow.op(reader) in FINDINGS or flow.op(reader).startswith(OVER_CHANNELS)):
                return 1
            if is_read and (flow.op(reader) in NORMS or is_linear(flow, reader)):
                return len(shape) - 1
            is_alike = flow.op(reader) in SUMS | SCALINGS | DROPOUTS and flow.output(reader).shape[1:] == made[1:]
            if is_alike or (is_read and keeps_axes(flow, reader)):
                todo.append(reader)
    return None


def widens_rows(flow: Flow, join: int) -> bool:
    """Whether a step that joins tensors makes their rows longer, and not more of them."""
    axis, before = find_channels_ahead(flow, join), flow.steps[join].inputs[0].shape
    return axis is not None and flow.output(join).shape[axis] > before[axis]


def keeps_axes(flow: Flow, node: int) -> bool:
    """Whether a step cuts rows off or puts some around, and leaves each axis where it is."""
    before, after = flow.steps[node].inputs[:1], flow.output(node).shape
    if flow.op(node) not in PADDINGS | {"index", "narrow", "slice"} or not before or len(before[0].shape) != len(after):
        return False
    is_plain = len(flow.steps[node].inputs) == 1 and "None" not in str(flow.steps[node].settings.get("index", ""))
    return is_plain and sum(one != other for one, other in zip(before[0].shape, after, strict=True)) < 2


def step_back(flow: Flow, place: int) -> int | None:
    """The step that made what a step works on: of several the one that is not stretched, and was made last."""
    shape, joins = flow.output(place).shape, flow.op(place) in SIDE_BY_SIDE | SUMS | SCALINGS | AT_ONCE
    makers = [
        (prod(record.shape), maker)
        for record, maker in flow.given(place)
        if maker is not None and (not joins or is_worked_on(flow, place, record.shape == shape, maker))
    ]
    chosen = max(makers, default=None) if joins else next(iter(makers), None)
    return None if chosen is None else chosen[1]


def is_worked_on(flow: Flow, place: int, is_whole: bool, maker: int) -> bool:
    """Whether what a step is given has its own axes: of rows side by side, those that are made of something."""
    return bool(flow.makers[maker]) if flow.op(place) in SIDE_BY_SIDE else is_whole


def follow(flow: Flow, way: list[int], axis: int | None) -> int | None:
    """Where an axis is at the end of a way that is told backwards."""
    for place in reversed(way):
        step = flow.steps[place]
        if axis is None or not step.inputs:
            return axis
        came = step_back(flow, place)
        read = next((record for record, maker in flow.given(place) if maker == came), step.inputs[0])
        before, after = read.shape, flow.output(place).shape
        if step.op in TURNS and len(before) == len(after):
            turned = read_turn(step)
            axis = turned.index(axis) if turned is not None else None
        elif step.op == "unbind":
            gone = (read_axis_of(step, len(before)) or 0) % len(before)  # the first one where it is not told
            axis = None if axis == gone else axis - (axis > gone)
        elif len(before) != len(after) or step.op in ("view", "reshape"):
            axis = move(before, after, axis)
    return axis


def move(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Where an axis is when others are cut or joined, and it stays whole: be it as it was, last or second."""
    if axis == len(before) - 1 and after and after[-1] == before[-1]:
        return len(after) - 1
    if axis == 1 and len(after) > 1 and after[:2] == before[:2]:
        return 1
    axes = [[Piece(size)] for size in before]
    laid = lay_out(axes, after) if before[axis] > 1 else None
    return None if laid is None or axes[axis] not in laid else laid.index(axes[axis])


def gates_channels(flow: Flow, place: int) -> bool:
    """Whether a step multiplies each channel of a map by a number between 0 and 1 that was worked out for it."""
    shape = flow.output(place).shape if flow.op(place) in SCALINGS and flow.steps[place].outputs else ()
    if len(shape) < FEWEST_AXES or len(flow.steps[place].inputs) != 2:
        return False
    gates = [
        flow.carried_from(maker)
        for record, maker in flow.given(place)
        if record.shape != shape and record.shape[:2] == shape[:2] and prod(record.shape) == prod(shape[:2])
    ]
    is_bent = any(gate is not None and flow.op(gate) in BETWEEN_0_AND_1 for gate in gates)
    return is_bent and find_channels(flow, place) == 1


def spreads_both(flow: Flow, place: int) -> bool:
    """Whether a step multiplies one number of each channel with a map that all share (FocalNet's third gate)."""
    shape = flow.output(place).shape if flow.op(place) in SCALINGS and flow.steps[place].outputs else ()
    given = [record.shape for record in flow.steps[place].inputs]
    if len(shape) < FEWEST_AXES or len(given) != 2:
        return False
    return {(*shape[:2], *(1 for _ in shape[2:])), (shape[0], 1, *shape[2:])} == set(given) and shape not in given


def lay_last(flow: Flow, place: int) -> tuple[int, ...]:
    """The shape of a stream, sequences first and the numbers of each place last, however it lies."""
    shape, axes = flow.output(place).shape, flow.output(place).axes
    if len(shape) == len(("places", "batch", "width")) and axes[1:2] == ("batch",):
        return shape[1], shape[0], shape[2]
    is_map = len(shape) == len(("batch", "channels", "height", "width")) and find_channels(flow, place) == 1
    return (shape[0], *shape[2:], shape[1]) if is_map else shape
