"""What a norm makes of rows, proven by working it out on a few: a root that is forgotten makes another of it."""

from collections.abc import Callable, Collection
from typing import Literal

import numpy as np

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CLAMPS, RMS_NORMS, SCALINGS
from xray.ir.records import TensorRecord
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.known_curves import CURVE_RULES, is_scaled
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_rules import Rule, single
from xray.story.recognition.values.value_shapes import Values

ROWS = np.asarray(((1.0, -2.0, 3.5, 0.5, 4.0), (9.0, 2.0, -6.0, 1.0, 8.0), (-1.5, -0.5, 0.2, -3.0, -2.2)))
"""Rows of other lengths, means and spreads."""
CLOSE = 2e-3
"""So near is what a norm makes to what it is known to make; what is added to a spread so that none is 0 is less."""
LEARNED = np.ones((1, 1))
SIZES = np.asarray(((2.0,), (0.6,), (3.1,)))
"""By what rows are multiplied, each by its own, where that comes from beside."""
MOVES = CARRYING - frozenset({"index", "index_select", "slice", "narrow", "select", "split", "chunk"})
"""They leave rows whole."""


def root_mean_square(rows: Values) -> Values:
    found: Values = rows / np.sqrt((rows**2).mean(-1, keepdims=True))
    return found


def standardise(rows: Values) -> Values:
    return root_mean_square(rows - rows.mean(-1, keepdims=True))


OF_ROWS: dict[str, Callable[[Values], Values]] = {
    "mean": lambda rows: rows.mean(-1, keepdims=True),
    "var": lambda rows: rows.var(-1, keepdims=True),
    "std": lambda rows: rows.std(-1, keepdims=True),
}
ELEMENTWISE: dict[str, Rule] = {
    **{name: CURVE_RULES[name] for name in ("add", "sub", "rsub", "mul", "multiply", "div", "neg", "sqrt", "abs")},
    **{name: CURVE_RULES[name] for name in ("pow", "square", "reciprocal")},
    "rsqrt": single(lambda at: 1 / np.sqrt(at)),
    "layer_norm": single(standardise),
    **dict.fromkeys(RMS_NORMS, single(root_mean_square)),
    **dict.fromkeys(CLAMPS, single(lambda at: at)),
}


def tell_kind(flow: Flow, nodes: Collection[int], origin: int | None, end: int) -> Literal["layer", "rms"] | None:
    """Which norm of the rows of `origin` some steps are, the last of them `end`; None if none, or if it is not known.

    Learned numbers are taken as 1 each, and so is what is worked out of them alone in a way that is not known; what is
    made is that norm times one number, plus another.
    """
    made: dict[tuple[int, int], Values] = {}
    before = find_unscaled(flow, origin)
    if before is not None:
        made |= {(before, 0): ROWS, (origin or 0, 0): ROWS * SIZES}
    for node in sorted(nodes):
        asked = [*flow.given(node)][: 1 if flow.op(node) in CASTING else None]  # of others only the type is read
        read = [read_operand(flow, record, maker, (origin, end), made) for record, maker in asked]
        if flow.op(node) in SCALINGS:
            read = [
                LEARNED if one is None and is_of_others(flow, record, maker, origin) else one
                for one, (record, maker) in zip(read, asked, strict=True)
            ]
        given = [one for one in read if one is not None]
        found = work_out(flow, node, given) if len(given) == len(read) else None
        if found is None and flow.is_leaf(node) and not is_of_weights(flow, flow.output(node), node):
            return None
        made |= {(node, number): one for number, one in enumerate(found or ())}
    last = made.get((end, 0))
    if last is None or last.shape != ROWS.shape:
        return None
    ways = (last,) if before is None else (last, last / SIZES)
    if any(is_scaled(way, standardise(ROWS), CLOSE) for way in ways):
        return "layer"
    return "rms" if any(is_scaled(way, root_mean_square(ROWS), CLOSE) for way in ways) else None


def find_unscaled(flow: Flow, origin: int | None) -> int | None:
    """What made the rows that are multiplied, each by a number from beside, before a norm reads them; else None.

    It may have its measure of these rows as they were before (Gemma 3n).
    """
    if origin is None or flow.op(origin) not in SCALINGS or len(flow.makers[origin]) != 2:
        return None
    shape = flow.output(origin).shape
    rows = [maker for record, maker in flow.given(origin) if record.shape == shape]
    sizes = [(record, maker) for record, maker in flow.given(origin) if record.shape == (*shape[:-1], 1)]
    is_beside = len(rows) == 1 and len(sizes) == 1 and sizes[0][1] is not None
    return rows[0] if is_beside and is_of_others(flow, *sizes[0], rows[0]) else None


def is_of_others(flow: Flow, record: TensorRecord, maker: int | None, origin: int | None) -> bool:
    """Whether a factor is one number, or one for each row, that is not worked out of the rows themselves."""
    return record.shape[-1:] in ((), (1,)) and origin not in {*flow.behind(maker)}


def read_operand(
    flow: Flow,
    record: TensorRecord,
    maker: int | None,
    ends: tuple[int | None, int],
    made: dict[tuple[int, int], Values],
) -> Values | None:
    """What a step of a norm reads: what another makes, the rows themselves, learned numbers, or a number."""
    origin, end = ends
    if maker is not None and (found := made.get((maker, record.output or 0))) is not None:
        return found
    is_begun = record.shape and flow.carried_from(maker, MOVES) == flow.carried_from(origin, MOVES)
    if is_begun and (maker is not None or record.shape == flow.output(end).shape):
        return ROWS
    if is_of_weights(flow, record, maker):
        return LEARNED
    return values_of(flow, maker) if record.shape == () else None


def work_out(flow: Flow, node: int, given: list[Values]) -> tuple[Values, ...] | None:
    """What a step makes of rows, or of one number for each; None if that is not known."""
    op, step = flow.op(node).rstrip("_"), flow.steps[node]
    if op in MOVES and given:
        return (given[0],)
    if op in ELEMENTWISE and given:
        with np.errstate(all="ignore"):
            found = ELEMENTWISE[op](step, given)
        return None if found is None or np.isnan(found).any() else (np.asarray(found),)
    names = op.split("_") if op in ("var_mean", "std_mean") else [op]
    if not {*names} <= {*OF_ROWS} or not given or given[0].shape != ROWS.shape or not is_of_one_axis(flow, node):
        return None
    return tuple(OF_ROWS[name](given[0]) for name in names)


def is_of_one_axis(flow: Flow, node: int) -> bool:
    """Whether a step makes one number of all along one axis."""
    told = flow.steps[node].settings.get("dim")
    before, after = flow.steps[node].inputs[0].shape, list(flow.output(node).shape)
    gone = [size for place, size in enumerate(before) if len(before) == len(after) and after[place] != size]
    return len(gone) <= 1 and len(before) - len(after) <= 1 and (told is None or "x" not in str(told))
