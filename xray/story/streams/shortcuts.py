"""Shortcuts: what a stream may go through on its way past a branch and stay the stream."""

from collections.abc import Collection
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    DROPOUTS,
    FINDINGS,
    ONES,
    PLACING,
    SCALINGS,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
    TIMES,
)
from xray.ir.flow.put_together import find_whole
from xray.ir.records import TensorRecord
from xray.ir.turns import SWAPS, read_turn
from xray.story.passages.channels import find_channels
from xray.story.recognition.addends import FILLS
from xray.story.recognition.between import is_linear, is_scale, strip_plain, works_on_weights
from xray.story.recognition.norms import INVERTING, Norm, find_norm
from xray.story.recognition.statistics import is_of_weights

LONGEST_SHORTCUT = 10
SHORTENING = frozenset({"max", "mean", "amax", "unfold"}) | frozenset(
    ["max_pool1d", "max_pool2d", "max_pool3d", "avg_pool2d", "avg_pool3d"]
)
UNCUT = (CARRYING | SHORTENING) - SPLITS - {"index"}
"""What rows go through that are moved and pooled, and of which none are cut off."""
NORMS = ("batch_norm", "group_norm", "instance_norm")
FEWEST_AXES = 3
"""A row of numbers for channels has that many axes, all but one of length 1."""
POOLS = frozenset(
    ["mean", "avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"]
) | frozenset(["interpolate", "cat", "index_select", "gather", "masked_select", "pad", "roll", "repeat", "expand"])
"""What a stream may go through on its way and stay the stream, besides moves, norms and bends."""


def is_learned(flow: Flow, place: int) -> bool:
    """Whether a step is a linear layer or a convolution."""
    return is_linear(flow, place) or flow.op(place) in FINDINGS


def is_shortcut(flow: Flow, place: int) -> bool:
    """Whether a step is one that a stream may go through beside a branch: a linear layer, a pool, a norm, a move."""
    op = flow.op(place)
    return (
        is_linear(flow, place)
        or op in CARRYING | DROPOUTS | SHORTENING
        or is_batch_norm(flow, place) is not None
        or find_norm(flow, place) is not None
        or is_frozen(flow, place)
        or before_split(flow, place) is not None
    )


def before_split(flow: Flow, place: int) -> int | None:
    """The step whose rows others are pooled of and put end to end with again (MViT's class row); None if none are.

    One step may cut them all, or several each its own, so that all rows stand in the order they had.
    """
    makers = flow.makers[place] if flow.op(place) in SIDE_BY_SIDE else ()
    cuts = [flow.carried_from(maker, UNCUT) for maker in makers]
    first = cuts[0] if len(cuts) > 1 else None
    if first is None or not flow.steps[first].inputs:
        return None
    if {*cuts} == {first} and flow.op(first) in SPLITS:
        return flow.makers[first][0]
    dim, whole = flow.steps[place].settings.get("dim", 0), flow.steps[first].inputs[0]
    return find_whole(flow.steps, flow.makers, whole, cuts, dim)


def name_past(flow: Flow, past: Collection[int]) -> tuple[str, ...] | None:
    """What the stream goes through on its way past a branch, in order, without moves; None where it comes as it is."""
    norms = {node: norm.nodes for node in past if (norm := find_norm(flow, node)) is not None}
    within = {inner for end, nodes in norms.items() for inner in nodes if inner != end}
    told = [
        "norm" if node in norms or flow.op(node).startswith(NORMS) else name_step(flow, node)
        for node in sorted(past)
        if flow.is_leaf(node) and node not in within and flow.op(node) not in CARRYING | DROPOUTS
        if before_split(flow, node) is None
    ]
    return tuple(dict.fromkeys(told)) or None


def name_step(flow: Flow, place: int) -> str:
    """What a step is on a stream's way past a branch."""
    kinds = {"convolution": FINDINGS, "pool": SHORTENING, "scale": SCALINGS, "shift": SUMS}
    plain = "linear" if is_linear(flow, place) else flow.op(place)
    return next((kind for kind, ops in kinds.items() if flow.op(place) in ops), plain)


def is_frozen(flow: Flow, place: int) -> bool:
    """Whether a step multiplies or shifts channels by numbers that no data made: half of a norm that learns no more."""
    step = flow.steps[place]
    if step.op not in SCALINGS | SUMS or len(step.inputs) != 2 or step.inputs[0].shape != flow.output(place).shape:
        return False
    shape, maker = step.inputs[1].shape, flow.makers[place][1]
    if len(shape) < FEWEST_AXES or maker is None or prod(shape) != max(shape):
        return False
    return all(prod(flow.output(node).shape) <= prod(shape) for node in flow.behind(maker, most=LONGEST_SHORTCUT))


def step_back(flow: Flow, here: int) -> int | None:
    """The step before one that a stream goes through; None if the step is no such one."""
    norm = find_norm(flow, here)
    if norm is not None:
        return norm.origin
    if not flow.makers[here]:
        return None
    if is_scale(flow, here):
        return strip_plain(flow, here)
    if flow.op(here) in CARRYING | CLAMPS | DROPOUTS | CURVES | POOLS:
        return next((maker for maker in flow.makers[here] if maker is not None), None)
    befores = (is_batch_norm, before_mask, before_normed_rows, before_mixed_in)
    return next((before for find in befores if (before := find(flow, here)) is not None), None)


def before_normed_rows(flow: Flow, here: int | None) -> int | None:
    """The step of whose rows one puts some back where they were, normed and no more (XCiT's class row); or None."""
    makers = () if here is None or flow.op(here) not in PLACING or not flow.is_leaf(here) else flow.makers[here]
    norm = find_norm(flow, makers[-1]) if len(makers) == len(("stream", "rows")) else None
    cut = None if norm is None else norm.origin
    if here is None or cut is None or flow.op(cut) != "index" or flow.makers[cut] != makers[:1]:
        return None
    is_same = flow.steps[cut].settings.get("index") == flow.steps[here].settings.get("index")
    return makers[0] if is_same else None


def before_mixed_in(flow: Flow, here: int) -> int | None:
    """The last step of a stream into which a sum mixes an earlier one, both multiplied by a learned number (nanochat).

    None where the step is no such sum.
    """
    makers = [flow.carried_from(maker) for maker in flow.makers[here]] if flow.op(here) in SUMS else []
    rows = [before_one_learned(flow, maker) for maker in makers if maker is not None]
    if len(rows) != 2 or None in rows:
        return None
    return max((before for one in rows if (before := strip_plain(flow, one)) is not None), default=None)


def before_one_learned(flow: Flow, place: int) -> int | None:
    """What a step multiplies by one number that is worked out of parameters alone, be it laid out (SVD); or None."""
    shape = flow.output(place).shape
    rows, others = ([one for one in flow.given(place) if (one[0].shape == shape) == own] for own in (True, False))
    is_one = flow.op(place) in SCALINGS and len(rows) == len(others) == 1
    return rows[0][1] if is_one and is_of_one(flow, *others[0]) and is_of_weights(flow, *others[0]) else None


def is_of_one(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is one number, or laid out of such alone: all that was held or given before."""
    given = ((one, before) for node in flow.behind(maker) for one, before in flow.taken(node))
    is_laid = maker is not None and all(prod(one.shape) == 1 for one, before in given if before is None)
    return is_laid or prod(record.shape) == 1


def before_mask(flow: Flow, here: int) -> int | None:
    """The step whose rows a step sets to 0 or keeps each, as a mask says: multiplied by it, or filled; or None."""
    given, shape, step = list(flow.given(here)), flow.output(here).shape, flow.steps[here]
    fills = step.op in FILLS and step.settings.get("value") == 0
    if (step.op not in TIMES and not fills) or len(given) != 2:
        return None
    rows = [maker for record, maker in given if record.shape == shape]
    laid = [(*shape[1:-1], 1)] + [(1, *shape[2:])] * (len(rows) == 1 and has_channels_first(flow, rows[0]))
    masks = [one for one in given if one[0].shape != shape and one[0].shape[1:] in laid]
    return rows[0] if len(rows) == 1 == len(masks) and is_mask(flow, *masks[0]) else None


def has_channels_first(flow: Flow, rows: int | None) -> bool:
    """Whether the second axis of rows, normed or not, is that of channels: so of one thing at least that a sum adds."""
    norm = find_norm(flow, rows)
    before = rows if norm is None else norm.origin
    parts = () if before is None else (before, *(flow.makers[before] if flow.op(before) in SUMS else ()))
    return any(part is not None and find_channels(flow, part) == 1 for part in parts)


def is_mask(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether numbers are a mask's, moved, inverted and brought to another type at most, or 1 with 0 put into some."""
    for _ in range(LONGEST_SHORTCUT):
        if record.dtype == "bool" or maker is None or flow.op(maker) not in CARRYING | INVERTING:
            break
        record, maker = next(iter(flow.given(maker)), (record, None))
    return record.dtype == "bool" or record.role == "mask" or is_ones_and_zeros(flow, maker)


def is_ones_and_zeros(flow: Flow, maker: int | None) -> bool:
    """Whether a step makes numbers that are all 1, or puts 0 into such as are."""
    while maker is not None and flow.op(maker) in PLACING and flow.steps[maker].settings.get("values") in (0, "0"):
        maker = flow.makers[maker][0]
    return maker is not None and flow.op(maker) in ONES and len(flow.makers[maker]) <= 1


def before_places(flow: Flow, here: int | None) -> int | None:
    """The step to whose rows a step adds learned ones, one for each place; None if it does not."""
    if here is None or flow.op(here) not in SUMS or len(flow.makers[here]) != 2:
        return None
    data = [maker for record, maker in flow.given(here) if record.role != "parameter"]
    learned = [record.shape for record, _ in flow.given(here) if record.role == "parameter"]
    rows = flow.output(here).shape[-2:]
    return data[0] if [shape[-2:] for shape in learned] == [rows] and len(rows) > 1 else None


def before_added(flow: Flow, here: int, added: int) -> int | None:
    """The step to whose rows a sum adds what another step made, be it moved; None if a step is no such sum."""
    makers = [strip_plain(flow, maker) for maker in flow.makers[here]] if flow.op(here) in SUMS else []
    return makers[1 - makers.index(added)] if len(makers) == 2 and makers.count(added) == 1 else None


def is_batch_norm(flow: Flow, here: int) -> int | None:
    """The step before a norm over the batch or over groups; None if the step is none."""
    if flow.op(here).startswith(("batch_norm", "group_norm", "instance_norm")):
        return flow.makers[here][0]
    return None


def find_any_norm(flow: Flow, node: int) -> Norm | None:
    """The norm that ends at a step, those over the batch or over groups included; weights alone are no rows (BiT)."""
    step = flow.steps[node]
    if step.op.startswith(NORMS) and flow.makers[node]:
        if reads_parameter(flow, node):
            return None
        return Norm(node, (node,), flow.makers[node][0], centred=True)
    if works_on_weights(flow, node):
        way = {node, *flow.ahead(node, within=lambda one: works_on_weights(flow, one))}
        if any(flow.op(reader) in FINDINGS for one in way for reader in flow.leaf_readers(one)):
            return None
    return find_norm(flow, node)


def with_turns(flow: Flow, norm: Norm) -> Norm:
    """A norm over the batch, with the swaps that lay channels second for it alone, and last again (PatchTST)."""
    before, readers = norm.origin, flow.readers.get(norm.end, ())
    if before is None or len(readers) != 1 or not flow.op(norm.end).startswith("batch_norm"):
        return norm
    turns = [read_turn(flow.steps[one]) if flow.op(one) in SWAPS else None for one in (before, *readers)]
    if turns[0] is None or turns[0] != turns[1] or [*flow.readers[before]] != [norm.end]:
        return norm
    return replace(norm, end=readers[0], nodes=(before, *norm.nodes, *readers), origin=flow.makers[before][0])


def ends_turns(flow: Flow, node: int, start: int | None) -> bool:
    """Whether a step is the last swap of a norm that made a stream: it is drawn with that."""
    norm = None if start is None else find_any_norm(flow, start)
    return norm is not None and node == with_turns(flow, norm).end != norm.end


def reads_parameter(flow: Flow, normed: int) -> bool:
    """Whether what a step reads is a parameter, laid another way at most."""
    node = normed
    while flow.op(node) in CARRYING or node == normed:
        before = next(iter(flow.makers[node]), None)
        if before is None:
            return bool(flow.steps[node].inputs) and flow.steps[node].inputs[0].role == "parameter"
        node = before
    return False


def start_before_norm(flow: Flow, here: int, place: int) -> int:
    """Where a stream begins that is normed and bent once for a branch and for the way past it (BiT): before that norm.

    What stands behind a convolution is a norm of that one, and nothing but the sum at `place` may be made of it.
    """
    norm = flow.carried_from(flow.makers[here][0]) if flow.op(here) in CURVES else here
    origin = None if norm is None else is_batch_norm(flow, norm)
    before = None if origin is None else strip_plain(flow, origin)
    if before is None or is_learned(flow, before):
        return here
    ways = [one for one in flow.ahead(here, within=lambda one: one <= place) if one != place]
    readers = (reader for one in ways for reader in flow.leaf_readers(one))
    return before if all(reader <= place for reader in readers) else here
