"""Which places a mask lets each place see: the same for all, those of one piece, some others, or those it chose."""

import re
from dataclasses import dataclass
from math import prod

import numpy as np

from xray.ir.flow.attention_sites import Site, has_keys_first
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CLAMPS, SIDE_BY_SIDE, ZEROS
from xray.ir.flow.projections import is_product
from xray.ir.flow.softmax_axis import read_axis
from xray.story.branches.operands.sides import is_kept, prod_of_row
from xray.story.recognition.addends import FILLS, NEGATIONS
from xray.story.recognition.score_operands import Scored
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.value_rules import LOW
from xray.story.recognition.values.value_shapes import Values, number

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
EITHER_HIDDEN = frozenset({"or", "or_", "logical_or", "bitwise_or"})
FILLED_IN = ("value", "other", "arg2")
LAST = re.compile(r"\.\.\., -1:?(, None)?")
"""The index of the last of each row."""


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


def count_causal_blocks(squares: Values) -> int | None:
    """The same where each place of a piece sees those of it up to itself; a place by itself may be padding."""
    if squares.shape[-1] != squares.shape[-2]:
        return None
    both = np.maximum(squares, squares.swapaxes(-1, -2))
    return count_blocks(both) if ((both > LOW).sum(axis=-1) > 1).all() else None


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
    hidden = number(flow.steps[here], "fill_value", "other") or 0
    ends = [0, *(end for _, end in sorted(spans))]
    are_whole = [begin for begin, _ in sorted(spans)] == ends[:-1] and flow.output(here).shape == (ends[-1], ends[-1])
    return len(spans) if hidden <= LOW and are_whole and flow.output(maker).shape[-2:] == (ends[-1], ends[-1]) else None


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


def count_kept_scores(flow: Flow, site: Site) -> int | None:
    """How many of its scores each row keeps, its highest ones, where lower ones are hidden; None if no such.

    None too where something else hides scores by what they are.
    """
    own = [part.nodes[0] for part in read_scored(flow, site.scored) if part.kind == "kept"]
    if len(own) != 1 or has_keys_first(flow, site) or read_axis(flow.steps[site.softmax]) != -1:
        return None
    masks = [maker for record, maker in flow.given(own[0]) if record.dtype == "bool"]
    scores = [flow.carried_from(maker) for record, maker in flow.given(own[0]) if record.is_float]
    low = number(flow.steps[own[0]], *FILLED_IN) or 0
    if len(masks) != 1 or len(scores) != 1 or low > LOW:
        return None
    return count_above(flow, masks[0], scores[0], hides=flow.op(own[0]) in FILLS)


def count_above(flow: Flow, here: int | None, scores: int | None, *, hides: bool) -> int | None:
    """How many of each row of scores a bool leaves, the highest: those no lower than the lowest of so many.

    It may leave off such as are hidden already, too.
    """
    here = flow.carried_from(here)
    while here is not None and flow.op(here) in NEGATIONS:
        here, hides = flow.carried_from(flow.makers[here][0]), not hides
    if here is None or scores is None:
        return None
    if flow.op(here) in (EITHER_HIDDEN if hides else BOTH_SHOWN):
        sides = [one for one in map(flow.carried_from, flow.makers[here]) if one is not None]
        left = [one for one in sides if not is_bound(flow, one, scores, hides=hides)]
        return count_above(flow, left[0], scores, hides=hides) if len(left) == 1 < len(sides) else None
    makers = [flow.carried_from(maker) for maker in flow.makers[here]]
    if flow.op(here) != ("lt" if hides else "ge") or len(makers) != 2 or makers[0] != scores:
        return None
    return count_highest(flow, flow.makers[here][1], scores)


def is_bound(flow: Flow, node: int, scores: int, *, hides: bool) -> bool:
    """Whether a bool tells which scores are hidden already, or which are not: they are as low, or higher."""
    is_compared = flow.op(node) in (("le", "lt") if hides else ("gt", "ge")) and len(flow.makers[node]) == 1
    bound = number(flow.steps[node]) if is_compared else None
    return bound is not None and bound <= LOW and flow.carried_from(flow.makers[node][0]) == scores


def count_highest(flow: Flow, here: int | None, scores: int) -> int | None:
    """Of how many of the highest numbers of each row of scores a tensor holds the lowest; None if it is no such."""
    taken = False
    while here is not None and flow.op(here) in CARRYING and flow.makers[here]:
        step = flow.steps[here]
        asked = [
            step.settings.get(name, step.settings.get(word)) for name, word in (("dim", "other"), ("index", "arg2"))
        ]
        is_last = flow.op(here) == "select" and asked == [-1, -1]
        is_last |= flow.op(here) == "index" and LAST.fullmatch(str(step.settings.get("index", ""))) is not None
        if not is_last and flow.op(here) not in CASTING and prod(flow.output(here).shape) != prod(step.inputs[0].shape):
            return None
        taken |= is_last
        here = flow.makers[here][0]
    if here is None or not taken or flow.op(here) != CHOSEN or flow.carried_from(flow.makers[here][0]) != scores:
        return None
    settings, rows = flow.steps[here].settings, flow.steps[here].inputs[0].shape
    is_along = settings.get("dim", -1) in (-1, len(rows) - 1)
    is_plain = settings.get("largest", True) is True and settings.get("sorted", True) is True
    return flow.output(here).shape[-1] if is_along and is_plain else None


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
    low = number(flow.steps[maker], *FILLED_IN) or 0
    return flow.makers[maker][1] if is_filled and low <= LOW else None


def find_written(flow: Flow, node: int) -> Choice | None:
    """What found the highest scores whose places another step writes at, along its last axis; None else."""
    step = flow.steps[node]
    if step.op not in WRITING or len(step.inputs) < 2:
        return None
    dim = number(step, "dim", "other")
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
