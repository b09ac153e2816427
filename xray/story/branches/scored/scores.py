"""What happens to scores before softmax: what is added for positions, what is hidden, how far each query sees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from xray.ir.flow.attention_sites import Site, lies_in_columns
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.softmax_axis import read_pair
from xray.ir.records import VISIBLE
from xray.story.anatomy.attentions import Blind, Positions
from xray.story.branches.before_last import is_learned, is_sink_share
from xray.story.branches.scored.biases import counts_within_a_kind, name_bias
from xray.story.branches.scored.caps import find_cap
from xray.story.branches.scored.hiding import (
    find_window,
    join_verdicts,
    sees_no_future,
    shifted_window,
    shows_ahead,
)
from xray.story.branches.scored.visible import (
    count_blocks,
    count_causal_blocks,
    count_kept_scores,
    count_written,
)
from xray.story.recognition.addends import is_of_bools
from xray.story.recognition.between import Region
from xray.story.recognition.diagonals import read_diagonals
from xray.story.recognition.score_operands import Operand, Scored
from xray.story.recognition.scored_parts import list_changing, read_scored
from xray.story.recognition.values.known_values import Known, keep_hiding, keep_values, read_scores_alone, values_of
from xray.story.recognition.values.value_rules import LOW, LOWEST
from xray.story.recognition.values.value_shapes import Values, number


@dataclass(frozen=True)
class Scores:
    """What is proven of the way from scores to softmax.

    `bias` says what is added for positions, "none" where nothing is; `causal` whether the future is hidden; `window`
    how many places each query sees at most; `cap` the number that no score can pass. Where `is_masked`, a mask joins
    them that is not the same for every query. `blocks` counts pieces of which each sees itself alone, `is_partial` says
    that some places are or may be hidden in another way than by time, `hides` that some are or may be in any way.
    `within_a_kind` says that how far apart two are counts if both are of one kind, and else their kinds alone.
    `each_side` is how many places of a window lie on each side of the one that looks, where that is followed weight by
    weight. `blind` says at what rows look that may see nothing.
    """

    bias: Positions | None
    causal: bool | None
    window: int | None
    cap: float | None = None
    is_masked: bool = False
    blocks: int | None = None
    is_partial: bool = False
    hides: bool = False
    within_a_kind: bool = False
    each_side: int | None = None
    blind: Blind | None = None


def read_scores(flow: Flow, site: Site) -> Scores:
    """What is added to the scores, what is hidden, and how far each query sees.

    Told by the numbers that follow from the steps themselves and by the cells of recorded masks; where those are not
    known, by how a mask is made.
    """
    parts = read_scored(flow, site.scored)
    if lies_in_columns(flow, site):
        return read_columns(flow, site, any(part.kind == "bias" for part in parts))
    masks = [part.operand for part in parts if part.kind == "mask" and part.operand is not None]
    biases = [part.operand for part in parts if part.kind == "bias" and part.operand is not None]
    joining = [*masks, *(one for one in biases if not is_of_bools(flow, one))]
    hiding, alone = (read_squares(flow, site, kept) for kept in (keep_hiding(flow), keep_values(flow)))
    filled, hiding = hiding, None if hiding is None else mark_hidden(hiding)
    causal = None if hiding is None else sees_no_future(hiding)
    unsure = [part.operand for part in parts if part.kind == "mixed_mask" and part.operand is not None]
    is_unread = any(hides_for_some(flow, site, part) for part in parts) or any(
        part.kind == "mixed_mask" or (part.kind == "mask" and part.operand is None) for part in parts
    )
    is_square = hiding is not None and hiding.shape[-2] == hiding.shape[-1] and not np.isnan(hiding).any()
    if causal is None and not is_unread and not is_square:  # one that is known throughout has the last word
        causal = join_verdicts(flow, site, joining)
        causal = None if causal and hiding is not None and shows_ahead(hiding) else causal
    if causal is False and hiding is not None and (hiding >= -LOW).any():
        causal = None  # what is as far above all others hides these (a learner's mask)
    window = None if hiding is None or causal is None else find_window(hiding, causal)
    sees_both = hiding if causal is False else None
    if window is None:
        window = next((w for one in joining if (w := shifted_window(flow, one.maker)) is not None), None)
        window = None if window and hiding is not None and (hiding > LOW).sum(axis=-1).max() > window else window
    blocks = None if sees_both is None else count_blocks(sees_both)
    if causal and window is None and hiding is not None:
        blocks = count_causal_blocks(hiding)
    own = [part for part in parts if part.kind == "kept"]
    causal = causal or (None if own and count_kept_scores(flow, site) is None else causal)
    if hiding is None and not causal:
        blocks = next((n for one in joining if (n := count_written(flow, one.maker)) is not None), None)
        causal = causal if blocks is None else False
    causal = None if causal is False and list_changing(flow, site, masks) else causal
    bias = name_bias(flow, site, biases, alone, not biases and are_masks(flow, [*masks, *unsure]))
    blind = tell_blind(flow, site, hiding, filled, masks)
    looks_ahead = causal is True and blind == "hidden"
    return Scores(
        bias,
        None if looks_ahead else causal,
        None if looks_ahead else window,
        find_cap(flow, site.scored),
        any(mask.record.shape[-2:-1] != (1,) for mask in masks),
        None if looks_ahead else blocks,
        bool(own) or (causal is False and may_hide(sees_both, masks)),
        bool(masks or unsure or own) or is_unread,
        bias == "relative" and bool(biases) and all(counts_within_a_kind(flow, one.maker) for one in biases),
        blind=blind,
    )


def is_one_looking(flow: Flow, site: Site, region: Region) -> bool:
    """Whether one row of a stream alone asks, all of it are keys, and nothing hides any (VOLO's class)."""
    asked, began = flow.output(site.scores).shape, () if region.start is None else flow.output(region.start).shape
    if len(asked) != len(("batch", "heads", "queries", "keys")) or len(began) != len(("batch", "row", "width")):
        return False
    is_one = (asked[0], *asked[2:]) == (began[0], 1, began[1]) and began[1] > 1
    return is_one and all(part.kind in ("scale", "softmax") for part in read_scored(flow, site.scored))


def tell_blind(
    flow: Flow, site: Site, hiding: Values | None, filled: Values | None, masks: Sequence[Operand]
) -> Blind | None:
    """What rows look at that may see nothing: at what is hidden, but where -inf hides it, or a kernel is told by bools.

    `filled` are the numbers that hide.
    """
    rows = None if hiding is None else (hiding <= LOW).all(axis=-1)
    if not any(map(hides_all, masks)) and (rows is None or not rows.any()):
        return None
    if rows is not None and filled is not None and np.isfinite(filled[rows]).any():
        return "hidden"
    is_added = any(one.record.mask is not None and one.record.mask.polarity == "additive" for one in masks)
    is_told = bool(flow.steps[site.softmax].settings.get("derived")) and not is_added
    steps = {*site.scored, *flow.behind(*(one.maker for one in masks))}
    return "nothing" if is_told or any("-inf" in flow.steps[one].settings.values() for one in steps) else "hidden"


def hides_all(mask: Operand) -> bool:
    """Whether a mask is known to hide all keys of a row."""
    facts = mask.record.mask
    rows = () if facts is None else (row for matrix in facts.cells or () for row in matrix)
    return any(VISIBLE not in row for row in rows) or bool(facts and facts.blind_rows)


def hides_for_some(flow: Flow, site: Site, part: Scored) -> bool:
    """Whether a part hides some of the rows of scores alone, as those of one head, that are put beside others again."""
    rows, all_rows = (prod(flow.output(node).shape[:-1]) for node in (part.nodes[-1], site.softmax))
    return part.kind == "mask" and rows < all_rows


def read_columns(flow: Flow, site: Site, is_biased: bool) -> Scores:
    """The same where scores lie in columns, one for each distance: masks do not lie over queries and keys there."""
    found = read_diagonals(flow, site)
    window = None if found is None else found.before + 1 + found.behind
    causal = False if found is not None and found.sees_ahead else None
    each_side = found.before if found is not None and found.before == found.behind else None
    cap = find_cap(flow, site.scored)
    return Scores(None if is_biased else "none", causal, window, cap, is_masked=True, each_side=each_side)


def may_hide(squares: Values | None, masks: Sequence[Operand]) -> bool:
    """Whether some cell is hidden, as those of padding are, or a mask joins the scores of which that is not known."""
    if squares is not None and not np.isnan(squares).any():
        return bool((squares <= LOW).any())
    facts = [one.record.mask for one in masks]
    return any(one is None or one.hidden_share > 0 or one.weighs for one in facts)


def read_own_future(flow: Flow, site: Site, scores: Scores, own: slice | None) -> Scores:
    """What is proven where keys of two streams stand side by side: whether the future is hidden among a branch's own.

    Of a mask that hides some of them it is not known which ones, but where its cells are.
    """
    if not scores.is_masked:
        return scores
    hiding = None if own is None else read_squares(flow, site, keep_hiding(flow))
    cells = None if hiding is None else mark_hidden(hiding)[..., own]
    is_square = cells is not None and cells.shape[-1] == cells.shape[-2] and scores.blind != "hidden"
    causal = sees_no_future(cells) if cells is not None and is_square else None
    return replace(scores, causal=causal, window=None, is_partial=scores.is_partial and not causal)


def mark_hidden(squares: Values) -> Values:
    """Scores in which what hides is very low: the lower one of two numbers hides, be it no lower than -100 (Swin)."""
    numbers = np.unique(squares[~np.isnan(squares)])
    return np.where(squares == numbers[0], -np.inf, squares) if len(numbers) == 2 and numbers[0] <= LOWEST else squares


def read_squares(flow: Flow, site: Site, kept: Known) -> Values | None:
    """What is added to scores of 0, a square of queries and keys for each head of each sequence; None if not known."""
    alone = read_scores_alone(flow, site.scored, kept)
    shape = flow.output(site.scores).shape
    if alone is None or not alone.size or alone.ndim < 2 or len(shape) < 2:
        return None
    pair = read_pair(flow.steps[site.scores], flow.steps[site.softmax])
    if pair != (-2, -1):
        if alone.ndim != len(shape):
            return None
        alone = np.moveaxis(np.broadcast_to(alone, shape), pair, (-2, -1))
    # without what stands beside the keys, as sinks do
    return alone.reshape(-1, *alone.shape[-2:])[..., : shape[pair[1]]]


def are_masks(flow: Flow, masks: Sequence[Operand]) -> bool:
    """Whether all that joins the scores is known to hide, and to do nothing else."""
    for one in masks:
        values = values_of(flow, one.maker)
        hides = values is not None and hides_or_not(values)
        hides = hides or (one.record.mask is not None and not one.record.mask.weighs) or one.record.dtype == "bool"
        if not hides and not chooses(flow, one.maker):
            return False
    return True


def hides_or_not(values: Values) -> bool:
    """Whether numbers that are added to scores hide, or change nothing."""
    return bool(((values == 0) | (values <= LOW)).all())


def chooses(flow: Flow, maker: int | None) -> bool:
    """Whether a step puts one of two numbers everywhere, of which one hides and the other changes nothing."""
    if maker is None or flow.op(maker) not in ("where", "masked_fill", "masked_fill_"):
        return False
    plain = [number(flow.steps[maker], name) for name in ("input", "other", "value")]
    given = [values_of(flow, one) for record, one in flow.given(maker) if record.dtype != "bool"]
    return all(one is not None and hides_or_not(one) for one in given) and all(
        one is None or one == 0 or one <= LOW for one in plain
    )


def has_sinks(flow: Flow, site: Site) -> bool:
    """Whether a learned score takes a share of the weights: beside the keys, or of what the heads found."""
    return has_sinks_inside(flow, site) or any(is_sink_share(flow, site, node) for node in site.concat)


def has_sinks_inside(flow: Flow, site: Site) -> bool:
    """Whether a learned score stands beside the keys when softmax shares out the weights."""
    return any(
        flow.op(node) == "cat" and any(is_learned(flow, record, maker) for record, maker in flow.given(node))
        for node in site.scored
    )
