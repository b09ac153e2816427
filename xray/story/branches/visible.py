"""Which places a mask lets each place see: the same for all, those of one piece, some others, or those it chose."""

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.projections import is_product
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.value_rules import LOW
from xray.story.recognition.value_shapes import Values

FEWEST = 2
MOST_BEHIND = 60


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


def hides_from_some(squares: Values) -> bool:
    """Whether what some places see is hidden from others of the same sequence: no padding, which nobody sees."""
    hidden, asks = squares <= LOW, (squares > LOW).any(axis=-1, keepdims=True)  # a row of padding may see nothing
    return bool(((hidden & asks).any(axis=-2) & (squares > LOW).any(axis=-2)).any())


def chooses_keys(flow: Flow, site: Site) -> bool:
    """Whether a mask shows the keys that have the highest of other scores, which are products of rows (an indexer)."""
    makers = [part.operand.maker for part in read_scored(flow, site.scored) if part.operand is not None]
    keys = flow.output(site.scores).shape[-1:]
    for node in flow.behind(*makers, most=MOST_BEHIND, ends=lambda one: flow.op(one) == "topk"):
        if flow.op(node) == "topk" and flow.steps[node].inputs[0].shape[-1:] == keys:
            return any(is_product(flow, one) for one in flow.behind(*flow.makers[node], most=MOST_BEHIND))
    return False
