"""How far queries in blocks see, each block beside the keys of a longer stretch that was unfolded."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from xray.ir.flow.attention_sites import STRETCHES, Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.index_spans import read_span
from xray.ir.flow.operand_ways import Way
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SIDE_BY_SIDE
from xray.ir.kinds import PADDINGS
from xray.ir.records import VISIBLE
from xray.story.branches.scored.hiding import Cells
from xray.story.branches.scored.scores import mark_hidden, read_squares
from xray.story.recognition.between import Region
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.known_values import keep_hiding
from xray.story.recognition.values.value_rules import LOW
from xray.story.recognition.values.value_shapes import numbers

UNNAMED = ("other", "arg2", "arg3")
"""What the settings of an unfolding are called where they are given without their names."""
LONGER = SIDE_BY_SIDE | PADDINGS
"""What makes a tensor longer."""


class Reach(NamedTuple):
    """How many places before its own a query sees, its own among them, and how many behind it."""

    back: int
    ahead: int


def read_unfolded(flow: Flow, site: Site) -> Reach | None:
    """How far queries in blocks see, each block beside the keys of a longer stretch; None where that is not proven.

    Keys are unfolded by as many places as a block of queries has, and the cells of a mask, counted from the first place
    of all, show every query as many of those keys that there are before and behind itself (Gemma 4 Audio).
    """
    score, unfolds = flow.output(site.scores).shape, [node for node in site.key.nodes if flow.op(node) == "unfold"]
    if len(score) < len(("block", "query", "key")) or len(unfolds) != 1:
        return None
    axis, size, step = read_unfold(flow, unfolds[0])
    padding, asked = (read_padding(flow, nodes, axis) for nodes in (site.key.nodes, site.query.nodes))
    if padding is None or asked != (0, padding[1]) or (step, size) != score[-2:]:
        return None
    if site.query.end.shape[-3:-1] != score[-3:-1]:
        return None
    rows, (begin, count) = score[-2], padding
    cells = read_cells(flow, site)
    if cells is None or len(cells) % score[-3]:
        return None
    seen: dict[int, set[bool]] = {}
    for sequence in cells.reshape(-1, score[-3], *score[-2:]):
        block, query, key = np.indices(sequence.shape)
        place, other = block * rows + query, block * rows + key - begin
        there = (place < count) & (other >= 0) & (other < count) & sequence.any(axis=-1, keepdims=True)
        there &= np.isin(other, other[sequence])  # padding is seen by nobody
        for distance in np.unique((place - other)[there]):
            seen.setdefault(int(distance), set()).update(sequence[there & (place - other == distance)].tolist())
    shown = [distance for distance, found in seen.items() if True in found]
    if any(len(found) > 1 for found in seen.values()) or not shown or len(shown) == len(seen):
        return None
    reach = Reach(max(shown) + 1, -min(shown))
    return reach if min(reach) >= 0 and len(shown) == sum(reach) else None


def read_cells(flow: Flow, site: Site) -> Cells | None:
    """Which keys each query sees, for each block of each head of each sequence; None where that is not known.

    It follows from the steps themselves, or a mask was recorded.
    """
    masks = [part.operand.record for part in read_scored(flow, site.scored) if part.kind == "mask" and part.operand]
    facts = masks[0].mask if len(masks) == 1 else None
    if facts is not None and facts.cells and masks[0].shape[-3:] == flow.output(site.scores).shape[-3:]:
        return np.array([[[letter == VISIBLE for letter in row] for row in matrix] for matrix in facts.cells])
    squares = read_squares(flow, site, keep_hiding(flow))
    return None if squares is None or np.isnan(squares).any() else np.asarray(mark_hidden(squares) > LOW)


def read_unfold(flow: Flow, node: int) -> tuple[int | None, int | None, int | None]:
    """Along which axis, from the first on, stretches are cut, how long each is, and how far the next one begins."""
    given = flow.steps[node].settings
    told = (given.get(one, given.get(other)) for one, other in zip(("dimension", "size", "step"), UNNAMED, strict=True))
    axis, size, step = (one if isinstance(one, int) else None for one in told)
    rank = len(flow.steps[node].inputs[0].shape)
    return axis if axis is None else axis % rank, size, step


def read_padding(flow: Flow, nodes: Collection[int], axis: int | None) -> tuple[int, int] | None:
    """How many rows that no data made stand before those of an operand, and how many rows there are without them.

    None where something is taken away at an end instead.
    """
    padded = [node for node in nodes if flow.op(node) in LONGER and len(flow.steps[node].outputs) == 1]
    if len(padded) != 1 or axis is None:
        return None
    (node,) = padded
    shapes = [record.shape for record in flow.steps[node].inputs]
    if flow.op(node) in PADDINGS:
        pads = numbers(flow.steps[node], "pad")
        before = 2 * (len(shapes[0]) - 1 - axis)  # those of the last axis come first
        return (pads[before], shapes[0][axis]) if len(pads) > before and min(pads) >= 0 else None
    own = [place for place, maker in enumerate(flow.makers[node]) if maker in nodes]
    return (sum(shape[axis] for shape in shapes[: own[0]]), shapes[own[0]][axis]) if len(own) == 1 else None


def find_stretch(flow: Flow, way: Way, places: int, region: Region) -> tuple[int | None, int, int, int] | None:
    """The tensor of rows of which a way takes a stretch, its first place, the one behind its last, and how many are.

    A stretch is of as many `places` as meet in the scores: heads may be cut into chunks as well (Perceiver AR).
    """
    for node in reversed(way.nodes):
        step, read = flow.steps[node], way.end
        if flow.op(node) not in CARRYING | REPEATS:
            return None
        if flow.op(node) not in STRETCHES or not step.inputs:
            continue
        whole, parts = step.inputs[0].shape, [one.shape for one in step.outputs]
        later = (record for one in way.nodes if one > node for record, maker in flow.given(one) if maker == node)
        number = next(later, read).output or 0
        if len(parts[number]) != len(whole):
            continue
        changed = [place for place, pair in enumerate(zip(whole, parts[number], strict=True)) if len({*pair}) > 1]
        is_of_sequences = 0 in changed and len(flow.output(region.end).shape) > 2
        if [parts[number][one] for one in changed] != [places] or is_of_sequences or len(whole) - 1 in changed:
            return None
        (axis,) = changed
        first = sum(part[axis] for part in parts[:number])
        span = (first, first + parts[number][axis])
        if len(parts) == 1:
            span = read_span(str(step.settings.get("index", "")), whole, axis) or (0, 0)
        return flow.makers[node][0], *span, whole[axis]
    return None
