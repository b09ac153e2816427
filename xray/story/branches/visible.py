"""Which places a mask lets each place see: the same for all, those of one piece, some others, or those it chose."""

import re

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CASTING
from xray.ir.flow.projections import is_product
from xray.story.branches.operands import is_kept, prod_of_row
from xray.story.recognition.scored_parts import Scored, read_scored
from xray.story.recognition.value_rules import LOW
from xray.story.recognition.value_shapes import Values, number

FEWEST = 2
FILLED = frozenset({"full", "full_like", "new_full"})
SQUARE = re.compile(r"(\d+):(\d+), \1:\2")
MOST_BEHIND = 60
NUMBERING = frozenset({"int", "long"})
"""What places of keys may go through, beside casts, before they are written."""


def count_blocks(squares: Values) -> int | None:
    """How many pieces lie end to end of which each sees itself alone and whole; None where it is otherwise."""
    rows, columns = squares.shape[-2:]
    if rows != columns or np.isnan(squares).any():
        return None
    seen = squares > LOW
    if not (seen == seen[:1]).all():
        return None
    begins = np.argmax(seen[0], axis=-1)  # the first key that each query sees
    pieces = np.cumsum(np.concatenate([[True], begins[1:] != begins[:-1]]))
    is_cut = np.array_equal(seen[0], pieces[:, None] == pieces[None, :])
    return int(pieces[-1]) if is_cut and pieces[-1] >= FEWEST else None


def count_written(flow: Flow, maker: int | None) -> int | None:
    """The same of a mask that is too large to be worked out, by how it was made: squares of it were cleared.

    All of it hides, then pieces that lie end to end, each against itself alone, are made to hide nothing (Pixtral).
    """
    here, spans = flow.carried_from(maker), list[tuple[int, int]]()
    while here is not None and flow.op(here) == "index_put_" and number(flow.steps[here], "values") == 0:
        found = SQUARE.fullmatch(str(flow.steps[here].settings.get("index", "")))
        if found is None:
            return None
        spans.append((int(found[1]), int(found[2])))
        here = flow.carried_from(flow.makers[here][0])
    if here is None or maker is None or flow.op(here) not in FILLED or len(spans) < FEWEST:
        return None
    hidden = next((one for name in ("fill_value", "other") if (one := number(flow.steps[here], name)) is not None), 0)
    ends = [0, *(end for _, end in sorted(spans))]
    are_whole = [begin for begin, _ in sorted(spans)] == ends[:-1] and flow.output(here).shape == (ends[-1], ends[-1])
    return len(spans) if hidden <= LOW and are_whole and flow.output(maker).shape[-2:] == (ends[-1], ends[-1]) else None


def hides_from_some(squares: Values) -> bool:
    """Whether what some places see is hidden from others of the same sequence: no padding, which nobody sees."""
    hidden, asks = squares <= LOW, (squares > LOW).any(axis=-1, keepdims=True)  # a row of padding may see nothing
    return bool(((hidden & asks).any(axis=-2) & (squares > LOW).any(axis=-2)).any())


def find_choice(flow: Flow, site: Site) -> int | None:
    """What finds the keys that a mask shows: those with the highest of other scores, products of rows (an indexer).

    Which ones these are is written along the keys of a mask; what picks queries picks rows of a mask (Informer).
    """
    makers = [find_hiding(flow, part) for part in read_scored(flow, site.scored)]
    keys = flow.output(site.scores).shape[-1:]
    for node in flow.behind(*makers, most=MOST_BEHIND, ends=lambda one: flow.op(one) == "topk"):
        highest = find_written(flow, node)
        if highest is not None and flow.steps[highest].inputs[0].shape[-1:] == flow.output(node).shape[-1:] == keys:
            behind = flow.behind(*flow.makers[highest], most=MOST_BEHIND)
            return highest if any(is_product(flow, one) for one in behind) else None
    return None


def count_kept_for(flow: Flow, choice: int) -> int | None:
    """How many numbers of each place a cache keeps for the scores that choose keys; None where it keeps none."""
    behind = flow.behind(*flow.makers[choice], most=MOST_BEHIND, ends=lambda one: is_kept(flow, one))
    return sum(prod_of_row(flow, node) for node in set(behind) if is_kept(flow, node)) or None


def find_hiding(flow: Flow, part: Scored) -> int | None:
    """The step that made a mask, or says where what is added to the scores was filled so low that it hides."""
    maker = None if part.operand is None else part.operand.maker
    if part.kind == "mask" or maker is None:
        return maker
    is_filled = flow.op(maker) in ("masked_fill", "masked_fill_") and len(flow.makers[maker]) > 1
    low = next((one for name in ("value", "other", "arg2") if (one := number(flow.steps[maker], name)) is not None), 0)
    return flow.makers[maker][1] if is_filled and low <= LOW else None


def find_written(flow: Flow, node: int) -> int | None:
    """The step that found the highest scores whose places another one writes at, along its last axis; None else."""
    step = flow.steps[node]
    if step.op not in ("scatter", "scatter_") or len(step.inputs) < 2:
        return None
    dim = next((value for name in ("dim", "other") if (value := number(step, name)) is not None), None)
    highest = flow.carried_from(flow.makers[node][1], CASTING | NUMBERING)
    is_last = dim in (-1, len(step.inputs[0].shape) - 1)
    return highest if is_last and highest is not None and flow.op(highest) == "topk" else None
