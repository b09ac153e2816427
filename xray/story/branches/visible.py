"""Which places a mask lets each place see: the same for all, those of one piece, some others, or those it chose."""

import re
from dataclasses import dataclass

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CLAMPS, SIDE_BY_SIDE, ZEROS
from xray.ir.flow.projections import is_product
from xray.story.branches.operands import is_kept, prod_of_row
from xray.story.recognition.scored_parts import Scored, read_scored
from xray.story.recognition.value_rules import LOW
from xray.story.recognition.value_shapes import Values, number

FEWEST = 2
FILLED = frozenset({"full", "full_like", "new_full"})
SQUARE = re.compile(r"(\d+):(\d+), \1:\2")
MOST_BEHIND = 60
CHOSEN = "topk"
"""In settings, the name of how many are chosen holds it, as that of torch's own step does."""
NUMBERING = frozenset({"int", "long"})
"""What places of keys may go through, beside casts, before they are written."""
PUT_BESIDE = CARRYING | CLAMPS | NUMBERING | SIDE_BY_SIDE | {"masked_fill", "masked_fill_", "pad"}
"""The same of places of pieces: others may be put beside them, and some left out."""
WRITING = frozenset({"scatter", "scatter_", "scatter_add", "scatter_add_"})
BOTH_SHOWN = frozenset({"and", "and_", "logical_and", "bitwise_and", "mul"})
"""What shows of two masks what both show."""


@dataclass(frozen=True)
class Choice:
    """The step that finds the highest of the scores by which keys are chosen, each of them of so many places."""

    highest: int
    together: int = 1


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


def find_choice(flow: Flow, site: Site) -> Choice | None:
    """What finds the keys that a mask shows: those with the highest of other scores, products of rows (an indexer).

    Which ones these are is written along the keys of a mask; what picks queries picks rows of a mask (Informer).
    """
    makers = [find_hiding(flow, part) for part in read_scored(flow, site.scored)]
    keys = flow.output(site.scores).shape[-1:]
    for node in flow.behind(*makers, most=MOST_BEHIND, ends=lambda one: flow.op(one) == "topk"):
        choice = find_written(flow, node)
        if choice is not None and flow.output(node).shape[-1:] == keys and fits(flow, choice, keys[0]):
            behind = flow.behind(*flow.makers[choice.highest], most=MOST_BEHIND)
            return choice if any(is_product(flow, one) for one in behind) else None
    return None


def fits(flow: Flow, choice: Choice, keys: int) -> bool:
    """Whether there is a score for each key, or for each piece of them that is full."""
    scores = flow.steps[choice.highest].inputs[0].shape[-1]
    return scores == keys if choice.together == 1 else scores * choice.together <= keys


def chooses_none(flow: Flow, choice: Choice) -> bool:
    """Whether the rows of this pass are too few for any score, as those that fill no piece are."""
    return flow.steps[choice.highest].inputs[0].shape[-1] == 0


def chooses_all(flow: Flow, choice: Choice) -> bool:
    """Whether each place has as many scores as are chosen, so that the choice leaves none out."""
    there, chosen = flow.steps[choice.highest].inputs[0].shape[-1], flow.output(choice.highest).shape[-1]
    return choice.together == 1 and 0 < there == chosen


def read_most_chosen(flow: Flow, choice: Choice) -> int | None:
    """How many keys a place chooses at most; where all were chosen, by the only setting of its block that names such.

    None of pieces, and where no setting, or several, could be meant.
    """
    chosen = flow.output(choice.highest).shape[-1]
    if choice.together > 1 or not chooses_all(flow, choice):
        return chosen if choice.together == 1 else None
    settings = next((flow.steps[one].settings for one in flow.parents(choice.highest)), {})
    told = [value for name, value in settings.items() if CHOSEN in name and type(value) is int]
    return told[0] if len(told) == 1 and told[0] >= chosen else None


def count_kept_for(flow: Flow, choice: Choice) -> int | None:
    """How many numbers of each place a cache keeps for the scores that choose keys; None where it keeps none."""
    behind = flow.behind(*flow.makers[choice.highest], most=MOST_BEHIND, ends=lambda one: is_kept(flow, one))
    return sum(prod_of_row(flow, node) for node in set(behind) if is_kept(flow, node)) or None


def count_listed(flow: Flow, site: Site) -> int | None:
    """How many keys a list names at most for each place, where a mask shows these alone; None without such a list.

    None too where there are more keys than that.
    What a place sees is what another mask shows, and what is marked as True where its list says so (Qwen4).
    """
    makers = [find_hiding(flow, part) for part in read_scored(flow, site.scored)]
    for mask in (flow.carried_from(maker) for maker in makers):
        if mask is not None and flow.op(mask) in BOTH_SHOWN and len(flow.makers[mask]) == len(("mask", "list")):
            for marked in map(flow.carried_from, flow.makers[mask]):
                if marked is not None and marks_listed(flow, marked):
                    most = flow.steps[marked].inputs[1].shape[-1]
                    return most if most >= flow.output(site.scores).shape[-1] else None
    return None


def marks_listed(flow: Flow, node: int) -> bool:
    """Whether a step writes True along the last axis of a mask of nothing but False, where whole numbers say."""
    step = flow.steps[node]
    if flow.op(node) not in ("scatter", "scatter_") or len(step.inputs) != len(("marks", "places")):
        return False
    empty = flow.carried_from(flow.makers[node][0])
    is_last = any(number(step, name) in (-1, len(step.inputs[0].shape) - 1) for name in ("dim", "other"))
    is_true = any(step.settings.get(name) is True for name in ("arg3", "value", "src"))
    return empty is not None and flow.op(empty) in ZEROS and is_last and is_true and not step.inputs[1].is_float


def find_hiding(flow: Flow, part: Scored) -> int | None:
    """The step that made a mask, or says where what is added to the scores was filled so low that it hides."""
    maker = None if part.operand is None else part.operand.maker
    if part.kind == "mask" or maker is None:
        return maker
    is_filled = flow.op(maker) in ("masked_fill", "masked_fill_") and len(flow.makers[maker]) > 1
    low = next((one for name in ("value", "other", "arg2") if (one := number(flow.steps[maker], name)) is not None), 0)
    return flow.makers[maker][1] if is_filled and low <= LOW else None


def find_written(flow: Flow, node: int) -> Choice | None:
    """What found the highest scores whose places another step writes at, along its last axis; None else."""
    step = flow.steps[node]
    if step.op not in WRITING or len(step.inputs) < 2:
        return None
    dim = next((value for name in ("dim", "other") if (value := number(step, name)) is not None), None)
    if dim not in (-1, len(step.inputs[0].shape) - 1):
        return None
    written = flow.makers[node][1]
    highest = flow.carried_from(written, CASTING | NUMBERING)
    if highest is not None and flow.op(highest) == "topk":
        return Choice(highest)
    moved = flow.behind(written, most=MOST_BEHIND, within=lambda one: flow.op(one) in PUT_BESIDE)
    return next((found for one in moved if (found := find_pieces(flow, one)) is not None), None)


def find_pieces(flow: Flow, node: int) -> Choice | None:
    """What found the highest scores of pieces, whose places a step takes from rows of them, one for each (GLM-5.3)."""
    table, *picks = flow.steps[node].inputs or (flow.output(node),)
    if flow.op(node) != "index" or not picks or len(picks) != len(table.shape) - 1:
        return None
    highest = flow.carried_from(flow.makers[node][-1], CASTING | NUMBERING)
    if highest is None or flow.op(highest) != "topk" or flow.output(node).shape[-1] != table.shape[-1]:
        return None
    scores = flow.steps[highest].inputs[0].shape
    return Choice(highest, table.shape[-1]) if scores[-1] == table.shape[-2] else None
