"""Which places masks hide: what comes later, what is too far away, in what shape the rest is seen."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.softmax_axis import read_pair
from xray.ir.records import TensorRecord
from xray.story.branches.scored.biases import is_learned
from xray.story.facts.mask_names import hides_later
from xray.story.recognition.addends import list_behind
from xray.story.recognition.score_operands import Operand
from xray.story.recognition.values.value_rules import LOW
from xray.story.recognition.values.value_shapes import Values, number

CAUSAL = ("causal", "padding+causal")
Cells = NDArray[np.bool_]


def sees_no_future(squares: Values) -> bool | None:
    """Whether every cell behind the diagonal is hidden, or one of them is not; None where that is not known.

    None too where some places see later ones and others do not, as the words behind an image that sees itself whole,
    and where none sees an earlier one: then it is not for its being later that something is hidden.
    """
    rows, columns = squares.shape[-2:]
    if rows < 2 or columns < rows:
        return None
    future = np.triu(np.ones((rows, columns), dtype=bool), 1 + columns - rows)
    cells = squares[:, future]
    if not cells.size:
        return None
    if (cells <= LOW).all():
        newest = np.arange(rows)
        sees_itself = not (squares[:, newest, newest + columns - rows] <= LOW).all()
        return (
            True
            if sees_itself and not (squares[:, np.tri(rows, columns, columns - rows - 1, bool)] <= LOW).all()
            else None
        )
    return False if (cells > LOW).any() and not looks_back_more(squares) else None


def shows_ahead(squares: Values) -> bool:
    """Whether some places are known to see later ones, and not all: those may be padding, of which nothing is read."""
    rows, columns = squares.shape[-2:]
    seen: Cells = np.asarray(squares > LOW)
    ahead = np.triu(seen, 1 + columns - rows) & ~seen.all(axis=-1, keepdims=True)
    return columns >= rows > 1 and bool(ahead.any())


def looks_back_more(squares: Values) -> bool:
    """Whether some pairs of places are seen from the later one alone, and none from the earlier one alone."""
    rows, columns = squares.shape[-2:]
    if rows != columns:
        return False
    seen: Cells = np.asarray(squares > LOW)
    known: Cells = ~np.isnan(squares)
    read: Cells = np.asarray(seen.any(axis=1))  # padding is read by nobody
    pairs = np.triu(read[:, :, None] & read[:, None, :] & known & known.swapaxes(1, 2), 1)
    ahead, back = seen & pairs, seen.swapaxes(1, 2) & pairs
    return bool((back & ~ahead).any() and not (ahead & ~back).any())


def find_window(squares: Values, causal: bool) -> int | None:
    """How many places each query sees at most, if some of those that it might see are hidden in a regular way."""
    rows, columns = squares.shape[-2:]
    if rows != columns or rows < 3:
        return None
    hidden = (squares <= LOW).all(axis=0)
    past = np.tril(np.ones((rows, columns), dtype=bool)) if causal else np.ones((rows, columns), dtype=bool)
    if not (hidden & past).any():
        return None
    seen = int((~hidden & past).sum(axis=1).max())
    return (
        seen
        if seen and any(np.array_equal(~hidden & past, shape & past) for shape in list_shapes(rows, seen))
        else None
    )


def list_shapes(length: int, seen: int) -> list[Cells]:
    """The regular ways in which queries see `seen` places: the last ones, those around, those of the same chunk.

    One chunk and a shorter one behind it may as well be two sequences in one row (Mistral's own code).
    """
    row, column = np.indices((length, length))
    around = seen // 2
    shapes: list[Cells] = [row - column < seen, abs(row - column) <= around]
    return [*shapes, row // seen == column // seen] if length >= 2 * seen else shapes


def join_verdicts(flow: Flow, site: Site, operands: Sequence[Operand]) -> bool | None:
    """Whether one of the masks hides the future, by what was recorded of them."""
    axis, _ = read_pair(flow.steps[site.scores], flow.steps[site.softmax])
    verdicts = [hides_future(flow, operand.record, operand.maker, axis) for operand in operands]
    if any(verdict is True for verdict in verdicts):
        return True
    queries = flow.output(site.softmax).shape[axis]
    is_elsewhere = bool(verdicts) and axis != -2  # how a mask lies over the last two axes tells nothing then
    return None if is_elsewhere or queries == 1 or any(verdict is None for verdict in verdicts) else False


def hides_future(flow: Flow, record: TensorRecord, maker: int | None, axis: int = -2) -> bool | None:
    """Whether a mask hides what comes later: True or False where that is proven, else None.

    `axis` is that of queries, counted from the last one.
    """
    facts = record.mask
    if facts is not None:
        if facts.kind in CAUSAL:
            return True
        if facts.kind in ("none", "padding"):
            return False
        if hides_later(facts, record.shape):
            return True
    is_for_keys = maker is None and record.dtype == "bool" and len(record.shape) == len({*record.shape}) == 2
    if record.shape[axis:][:1] == (1,) or is_for_keys:
        return False
    behind = list_behind(flow, maker)
    return False if is_learned(flow, record, maker, behind) and not has_mask(flow, behind) else None


def has_mask(flow: Flow, behind: Sequence[int]) -> bool:
    """Whether something behind a tensor asks a question that a mask may come from."""
    return any(
        flow.op(node) in ("where", "masked_fill", "masked_fill_") or flow.output(node).dtype == "bool"
        for node in behind
    )


def counted_from(flow: Flow, maker: int | None) -> float | None:
    """By how much a row of places that was counted out is shifted; None if it is no such row."""
    shift = 0.0
    while maker is not None and flow.op(maker) in CARRYING | {"add", "sub"} and flow.makers[maker]:
        if flow.op(maker) in ("add", "sub"):
            other = number(flow.steps[maker])
            if other is None:
                return None
            shift += other if flow.op(maker) == "add" else -other
        maker = flow.makers[maker][0]
    return shift if maker is None or flow.op(maker) in ("arange", "cumsum") else None


def shifted_window(flow: Flow, maker: int | None) -> int | None:
    """How wide the window is that a comparison of places cuts, be it wider than the places that there are.

    Such as key > query - 4096, or |query - key| <= 64.
    """
    for node in list_behind(flow, maker):
        op, makers = flow.op(node), flow.makers[node]
        if op in ("gt", "ge") and len(makers) == 2 and min(flow.output(node).shape[-2:], default=0) > 1:
            shifts = [counted_from(flow, one) for one in makers]
            if shifts[0] is not None and shifts[1] is not None and shifts[0] - shifts[1] > 0:
                return int(shifts[0] - shifts[1]) + (op == "ge")
        if op in ("le", "lt") and len(makers) == 1 and makers[0] is not None and flow.op(makers[0]) == "abs":
            reach = number(flow.steps[node])
            if reach is not None and is_distance(flow, makers[0]):
                return 2 * int(reach - (op == "lt")) + 1
    return None


def is_distance(flow: Flow, place: int) -> bool:
    """Whether a step makes distances between places that were counted out."""
    before = flow.makers[place][0]
    return (
        before is not None
        and flow.op(before) in ("sub", "rsub")
        and len(flow.makers[before]) == 2
        and all(counted_from(flow, one) is not None for one in flow.makers[before])
    )
