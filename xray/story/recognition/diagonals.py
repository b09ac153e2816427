"""Scores that lie in columns, one for each distance: which places each place reaches, told by following each weight.

Rows of weights are made longer and cut anew, so that columns become diagonals, and meet values that were cut into
pieces which lie over each other (Longformer, Beltagy et al. 2020). Where a weight stood, and which place it meets, is
found by going back through these steps, cell by cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import LAYING, Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING, COPIES, DROPOUTS, MASKINGS, SCALINGS, WRITES
from xray.ir.trace import Step
from xray.ir.turns import TURNED, read_turn
from xray.story.recognition.addends import list_behind, spreads_mask
from xray.story.recognition.score_operands import Scored
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.value_shapes import numbers, read_slices

MOST = 1 << 24
"""Weights are not followed where there are more of them than this in one head."""
RESHAPES = frozenset(
    {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "unsafe_view", "reshape_alias"}
)
KEEPING = CASTING | COPIES | DROPOUTS | MASKINGS | SCALINGS | RESHAPES | {"nan_to_num"}
"""What leaves each number, or what was made of it, where it was."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Diagonals:
    """How many places before itself, and how many behind itself, each place reaches with its weights."""

    before: int
    behind: int
    sees_ahead: bool


def read_diagonals(flow: Flow, site: Site) -> Diagonals | None:
    """How far each place reaches; None where a weight is not for the same distance in all rows, or that is not known.

    The weights of the first head are followed, and those of its places; of the others each step does the same.
    """
    product = flow.steps[site.weighted_sum]
    if len(product.inputs) < 2 or not any(flow.op(node) in LAYING for node in site.weighed):
        return None
    weights, values = product.inputs[-2:]
    rank = len(weights.shape)
    is_plain = rank == len(values.shape) > 2 and weights.shape[:-2] == values.shape[:-2]
    if not is_plain or weights.shape[-1] != values.shape[-2] or not is_product_of_rows(product):
        return None
    heads, (rows, keys) = weights.shape[0], weights.shape[-2:]
    pieces = prod(weights.shape[1:-2])
    if pieces * rows * keys > MOST:
        return None
    cells = np.arange(pieces * rows * keys, dtype=np.int64)  # of the first head
    asked = np.arange(pieces * keys, dtype=np.int64) * values.shape[-1]
    way = [site.softmax, *site.weighed]
    found = follow_back(flow, cells, way[1:])
    laid = [node for node in sorted(site.value.nodes) if flow.op(node) in LAYING or flow.op(node) == "as_strided"]
    begun = None if not laid else flow.steps[laid[0]].inputs[0].shape
    met = follow_back(flow, asked, [node for node in sorted(site.value.nodes) if laid and node >= laid[0]])
    if found is None or met is None or begun is None or len(begun) != 3 or begun[0] != heads:
        return None
    place = np.where(met < 0, -1, met // begun[-1] % begun[-2])
    return compare_places(
        flow, site, found, np.repeat(place.reshape(pieces, 1, keys), rows, axis=1).reshape(-1), begun[1]
    )


def is_product_of_rows(step: Step) -> bool:
    """Whether the last axis of the one operand meets the last but one of the other, the axes before these alike."""
    if step.op != "einsum":
        return step.op in ("matmul", "bmm")
    text = next((value for value in step.settings.values() if isinstance(value, str) and "->" in value), "")
    left, _, rest = text.replace(" ", "").partition(",")
    right, _, out = rest.partition("->")
    alike = left[:-2] == right[:-2] == out[:-2] and len(left) == len(right) == len(out) > 2
    return alike and left[-1:] == right[-2:-1] and out[-2:] == left[-2:-1] + right[-1:]


def compare_places(flow: Flow, site: Site, found: Places, place: Places, count: int) -> Diagonals | None:
    """How far weights reach, from where each stood among the weights, and the place of the value that it meets."""
    shape = flow.output(site.softmax).shape
    held = found >= 0
    stood = np.unravel_index(found[held], shape)
    asking = [axis for axis, size in enumerate(shape[:-1]) if size == count and stood[axis].any()]
    if len(asking) != 1:
        return None
    row, column, meets = stood[asking[0]], stood[-1], place[held]
    inside = meets >= 0
    away = (meets - row - column)[inside]  # from one column to the next, one place further
    if not away.size or away.min() != away.max():
        return None
    before, behind = int(-away[0]), int(shape[-1] - 1 + away[0])
    reached = sum(min(count, one + behind + 1) - max(0, one - before) for one in range(count))
    if min(before, behind) < 0 or reached != int(inside.sum()):
        return None
    ahead = column[inside] > before
    written = read_written(flow, site, row[inside], column[inside], asking[0])
    return Diagonals(before, behind, written is not None and bool((ahead & ~written).any()))


def read_written(flow: Flow, site: Site, row: Places, column: Places, asking: int) -> NDArray[np.bool_] | None:
    """For each row and column whether something was written over the scores there; None where that is not known."""
    shape = flow.output(site.softmax).shape
    over = np.zeros(row.shape, dtype=bool)
    if any(part.kind == "bias" or not is_of_keys(flow, part) for part in read_scored(flow, site.scored)):
        return None
    for node in reversed(site.scored[1:]):
        if flow.output(node).shape != shape:
            break
        if flow.op(node) not in WRITES:
            continue
        index = read_slices(flow.steps[node], len(shape))
        if index is None:
            return None
        marks = [np.zeros(size, dtype=bool) for size in shape]
        for mark, one in zip(marks, index, strict=True):
            mark[one] = True
        over |= marks[asking][row] & marks[-1][column]
    return over


def is_of_keys(flow: Flow, part: Scored) -> bool:
    """Whether a part hides no more than keys that nobody sees, or scores that were written over."""
    if part.kind != "mask" or flow.op(part.nodes[-1]) in WRITES:
        return True
    maker = None if part.operand is None else part.operand.maker
    return any(spreads_mask(flow, node) for node in list_behind(flow, maker))


def follow_back(flow: Flow, cells: Places, way: Sequence[int]) -> Places | None:
    """Where cells of the last of some steps stood before the first of them, by their number; −1 for what was put in."""
    for node in reversed(way):
        found = step_back(flow, node, cells)
        if found is None:
            return None
        cells = np.where(cells < 0, -1, found)
    return cells


def step_back(flow: Flow, node: int, cells: Places) -> Places | None:
    """Where cells of what a step makes stood in what it was given; None where it is not known how the step moves."""
    step, op = flow.steps[node], flow.op(node)
    before, after = step.inputs[0].shape, flow.output(node).shape
    if op in KEEPING and prod(before) == prod(after):
        return cells
    stood = [np.asarray(one) for one in np.unravel_index(np.maximum(cells, 0), after)]
    if op in TURNED:
        turned = read_turn(step)
        if turned is None:
            return None
        moved = [stood[turned.index(axis)] for axis in range(len(before))]
        return np.ravel_multi_index(moved, before)
    if op == "pad" and step.settings.get("mode", "constant") == "constant":
        return take_off(numbers(step, "pad"), stood, before)
    if op == "as_strided":
        return sum_up(step, stood) if is_laid_out_plainly(flow, flow.makers[node][0]) else None
    index = read_slices(step, len(before)) if op in ("index", "slice") else None
    if index is None:
        return None
    begins = [range(size)[one] for one, size in zip(index, before, strict=True)]
    return np.ravel_multi_index([one.start + at * one.step for one, at in zip(begins, stood, strict=True)], before)


def take_off(sizes: Sequence[int], stood: Sequence[Places], before: Sequence[int]) -> Places | None:
    """The same of a pad: what it put in stood nowhere."""
    if len(sizes) % 2 or len(sizes) > 2 * len(before):
        return None
    moved = list(stood)
    for number, size in enumerate(sizes[::2]):
        moved[-1 - number] = moved[-1 - number] - size
    inside = np.all([(at >= 0) & (at < size) for at, size in zip(moved, before, strict=True)], axis=0)
    safe = [np.where(inside, at, 0) for at in moved]
    return np.where(inside, np.ravel_multi_index(safe, tuple(before)), -1)


def sum_up(step: Step, stood: Sequence[Places]) -> Places | None:
    """The same of a cut into pieces that lie over each other, which says how many numbers further each axis begins."""
    strides = numbers(step, "stride") or numbers(step, "arg2")
    if len(strides) != len(stood) or step.settings.keys() & {"storage_offset", "arg3"}:
        return None
    return np.asarray(sum(stride * at for stride, at in zip(strides, stood, strict=True)))


def is_laid_out_plainly(flow: Flow, place: int | None) -> bool:
    """Whether a step makes numbers anew, which then lie one behind the other, the last axis first."""
    return (
        place is not None
        and flow.op(place) == "pad"
        and len(flow.output(place).shape) == len(("heads", "places", "width"))
    )
