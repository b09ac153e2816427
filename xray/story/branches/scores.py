"""What happens to scores before softmax: what is added for positions, what is hidden, how far each query sees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import Site, lies_in_columns
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.flow.softmax_axis import read_pair
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Positions
from xray.story.branches.caps import find_cap
from xray.story.branches.visible import (
    count_blocks,
    count_causal_blocks,
    count_kept_scores,
    count_written,
    hides_from_some,
)
from xray.story.facts.mask_names import shows_later
from xray.story.recognition.between import is_linear
from xray.story.recognition.diagonals import read_diagonals
from xray.story.recognition.known_values import Known, keep_hiding, keep_values, read_scores_alone, values_of
from xray.story.recognition.scored_parts import Operand, is_of_bools, list_behind, read_scored, reads_table
from xray.story.recognition.value_rules import LOW
from xray.story.recognition.value_shapes import Values, number

CAUSAL = ("causal", "padding+causal")
LOWEST = -50
HIDING = ("gt", "triu", "triu_")
"""They mark the future as what is hidden; other triangles mark the past as what is seen."""
COUNTED = ("arange", "cumsum")
PICKING = LOOKUPS | {"index", "index_select"}
FAR = 60
EITHER = ("or", "logical_or", "bitwise_or")
Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """What is proven of the way from scores to softmax.

    `bias` says what is added for positions, "none" where nothing is; `causal` whether the future is hidden; `window`
    how many places each query sees at most; `cap` the number that no score can pass. Where `is_masked`, a mask joins
    them that is not the same for every query. `blocks` counts pieces of which each sees itself alone, `is_partial` says
    that some places are hidden from some others in another way than by time, `within_a_kind` that how far apart two
    are counts if both are of one kind, and else their kinds alone. `each_side` is how many places of a window lie on
    each side of the one that looks, where that is followed weight by weight.
    """

    bias: Positions | None
    causal: bool | None
    window: int | None
    cap: float | None = None
    is_masked: bool = False
    blocks: int | None = None
    is_partial: bool = False
    within_a_kind: bool = False
    each_side: int | None = None


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
    hiding = None if hiding is None else mark_hidden(hiding)
    causal = None if hiding is None else sees_no_future(hiding)
    unsure = [part.operand for part in parts if part.kind == "mixed_mask" and part.operand is not None]
    is_unread = any(part.kind == "mixed_mask" or (part.kind == "mask" and part.operand is None) for part in parts)
    if causal is None and not is_unread:
        causal = join_verdicts(flow, site, joining)
        causal = None if causal and hiding is not None and shows_ahead(hiding) else causal
    window = None if hiding is None or causal is None else find_window(hiding, causal)
    sees_both = hiding if causal is False else None
    if window is None:
        window = next((w for one in joining if (w := shifted_window(flow, one.maker)) is not None), None)
    blocks = None if sees_both is None else count_blocks(sees_both)
    if causal and window is None and hiding is not None:
        blocks = count_causal_blocks(hiding)
    own = [part for part in parts if part.kind == "kept"]
    causal = causal or (None if own and count_kept_scores(flow, site) is None else causal)
    if hiding is None and not causal:
        blocks = next((n for one in joining if (n := count_written(flow, one.maker)) is not None), None)
        causal = causal if blocks is None else False
    bias = name_bias(flow, site, biases, alone, not biases and are_masks(flow, [*masks, *unsure]))
    return Scores(
        bias,
        causal,
        window,
        find_cap(flow, site.scored),
        any(mask.record.shape[-2:-1] != (1,) for mask in masks),
        blocks,
        bool(own)
        or (hides_from_some(sees_both) if sees_both is not None else causal is False and hides_by_a_rule(joining)),
        bias == "relative" and bool(biases) and all(counts_within_a_kind(flow, one.maker) for one in biases),
    )


def read_columns(flow: Flow, site: Site, is_biased: bool) -> Scores:
    """The same where scores lie in columns, one for each distance: masks do not lie over queries and keys there."""
    found = read_diagonals(flow, site)
    window = None if found is None else found.before + 1 + found.behind
    causal = False if found is not None and found.sees_ahead else None
    each_side = found.before if found is not None and found.before == found.behind else None
    cap = find_cap(flow, site.scored)
    return Scores(None if is_biased else "none", causal, window, cap, is_masked=True, each_side=each_side)


def counts_within_a_kind(flow: Flow, bias: int | None) -> bool:
    """Whether rows of a table are added that how far apart two places are picks if their kinds are equal.

    Else their kinds alone do: no place is counted out on the way from these (the segments of CPM-Ant).
    """
    table = next((one for one in list_behind(flow, bias) if flow.op(one) in LOOKUPS), None)
    ids = None if table is None else next((maker for record, maker in flow.given(table) if not record.is_float), None)
    choice = flow.carried_from(ids)
    if choice is None or flow.op(choice) != "where" or len(flow.makers[choice]) != len(("equal", "near", "kinds")):
        return False
    equal, near, other = map(flow.carried_from, flow.makers[choice])
    kinds = [] if equal is None or flow.op(equal) != "eq" else [flow.carried_from(one) for one in flow.makers[equal]]
    if len(kinds) != 2 or kinds[0] is None or kinds[0] != kinds[1]:
        return False
    by_place, by_kind = (list(flow.behind(one, most=FAR, ends=kinds.__contains__)) for one in (near, other))
    counts = [any(flow.op(one) in COUNTED for one in way) for way in (by_place, by_kind)]
    return counts == [True, False] and kinds[0] in by_kind and kinds[0] not in by_place


def hides_by_a_rule(joining: Sequence[Operand]) -> bool:
    """Whether a mask was recorded that hides some cells, and neither the future nor padding alone (Mllama's tiles)."""
    facts = (one.record.mask for one in joining)
    return any(one is not None and one.kind == "custom" and one.hidden_share > 0 for one in facts)


def read_own_future(flow: Flow, site: Site, scores: Scores, own: slice | None) -> Scores:
    """What is proven where keys of two streams stand side by side: whether the future is hidden among a branch's own.

    Of a mask that hides some of them it is not known which ones, but where its cells are.
    """
    if not scores.is_masked:
        return scores
    hiding = None if own is None else read_squares(flow, site, keep_hiding(flow))
    cells = None if hiding is None else mark_hidden(hiding)[..., own]
    is_square = cells is not None and cells.shape[-1] == cells.shape[-2]
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
        if alone.shape != shape:
            return None
        alone = np.moveaxis(alone, pair, (-2, -1))
    # without what stands beside the keys, as sinks do
    return alone.reshape(-1, *alone.shape[-2:])[..., : shape[pair[1]]]


def sees_no_future(squares: Values) -> bool | None:
    """Whether every cell behind the diagonal is hidden, or one of them is not; None where that is not known.

    None too where some places see later ones and others do not, as the words behind an image that sees itself whole.
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
        return True if not (squares[:, newest, newest + columns - rows] <= LOW).all() else None
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
    """Whether one of the masks hides the future, by how they are made."""
    verdicts = [hides_future(flow, operand.record, operand.maker) for operand in operands]
    if any(verdict is True for verdict in verdicts):
        return True
    queries = flow.output(site.softmax).shape[-2:-1]
    return None if queries == (1,) or any(verdict is None for verdict in verdicts) else False


def hides_future(flow: Flow, record: TensorRecord, maker: int | None) -> bool | None:
    """Whether a mask hides what comes later: True or False where that is proven, else None."""
    facts = record.mask
    if facts is not None:
        if facts.kind in CAUSAL:
            return True
        if facts.kind in ("none", "padding"):
            return False
    behind = list_behind(flow, maker)
    triangles = {node for node in behind if cuts_triangle(flow, node)}
    if triangles:
        shown = {one for node in behind if shows_more(flow, node) for one in list_behind(flow, node)}
        is_cut = any(node not in shown or flow.op(node) in HIDING for node in triangles)
        is_open = shows_later(facts) if facts is not None else adds_nothing_ahead(flow, record, maker)
        return True if is_cut and not is_open else None
    if record.shape[-2:-1] == (1,) or (maker is None and len(record.shape) == 2 and record.dtype == "bool"):
        return False
    return False if is_learned(flow, record, maker, behind) and not has_mask(flow, behind) else None


def adds_nothing_ahead(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether numbers that are added to scores are known, and some places see later ones by them."""
    values = values_of(flow, maker) if record.is_float and len(record.shape) > 1 else None
    return values is not None and shows_ahead(values.reshape(-1, *values.shape[-2:]))


def has_mask(flow: Flow, behind: Sequence[int]) -> bool:
    """Whether something behind a tensor asks a question that a mask may come from."""
    return any(
        flow.op(node) in ("where", "masked_fill", "masked_fill_") or flow.output(node).dtype == "bool"
        for node in behind
    )


def shows_more(flow: Flow, node: int) -> bool:
    """Whether a step lets through what one of two masks lets through, as where the words of a prefix see each other.

    Or lays a mask into a wider one that shows all around it, and not in front of its keys alone (rows of memory).
    """
    if flow.op(node) == "pad":
        sizes = str(flow.steps[node].settings.get("pad", "")).split("x")
        return flow.steps[node].settings.get("value") in (True, 1) and any(size != "0" for size in sizes[1:])
    shape = flow.output(node).shape
    return flow.op(node).strip("_") in EITHER and all(
        len(record.shape) == len(shape) and max(record.shape, default=1) > 1 for record in flow.steps[node].inputs
    )


def cuts_triangle(flow: Flow, node: int) -> bool:
    """Whether a step cuts a triangle, or asks which of two rows of places comes first."""
    step = flow.steps[node]
    if step.op.rstrip("_") in ("tril", "triu"):
        return True
    if step.op not in ("le", "lt", "ge", "gt") or len(step.inputs) != 2 or not step.outputs:
        return False
    out = step.outputs[0].shape
    if len(out) < 2 or min(out[-2:]) < 2 or any(record.shape == out for record in step.inputs):
        return False
    return all(counted_from(flow, maker) == 0 for maker in flow.makers[node])


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


def are_masks(flow: Flow, masks: Sequence[Operand]) -> bool:
    """Whether all that joins the scores is known to hide, and to do nothing else."""
    for one in masks:
        values = values_of(flow, one.maker)
        hides = values is not None and hides_or_not(values)
        if not hides and not chooses(flow, one.maker) and one.record.mask is None and one.record.dtype != "bool":
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


def name_bias(
    flow: Flow, site: Site, biases: Sequence[Operand], alone: Values | None, only_masks: bool
) -> Positions | None:
    """What kind of positions is added to the scores: learned by distance, a slope for each head, or none."""
    if has_score_sum(flow, site):
        return "relative"
    if any(one.maker is not None and holds_other_scores(flow, site, one.maker) for one in biases):
        return None
    if any(is_learned(flow, one.record, one.maker, list_behind(flow, one.maker)) for one in biases):
        return None if any(picks_by_a_corner(flow, one.maker) for one in biases) else "relative"
    if alone is not None and not np.isnan(alone).any():
        return name_known_bias(alone)
    sloped = [list_behind(flow, one.maker) for one in biases]
    if any(is_sloped(flow, behind) for behind in sloped):
        return "alibi"
    return "none" if only_masks or adds_nothing(flow, biases) else None


def picks_by_a_corner(flow: Flow, bias: int | None) -> bool:
    """Whether rows of a learned table are added that but a corner of a square of ids picks, which is of a map.

    The table holds more rows than there are distances between so many places in one row. How far two places of another
    map are apart such a corner does not say (MONAI's Swin, where a map is smaller than a window).
    """
    for node in list_behind(flow, bias):
        given = list(flow.given(node)) if flow.op(node) in PICKING else []
        table = next((record for record, maker in given if is_learned(flow, record, maker, ())), None)
        ids = next((maker for record, maker in given if not record.is_float), None)
        cuts = (one for one in flow.behind(ids) if flow.op(one) == "index" and len(flow.steps[one].inputs) == 1)
        squares = [(flow.steps[one].inputs[0].shape, flow.output(one).shape) for one in cuts if table is not None]
        of_corners = [min(whole) for whole, taken in squares if len(taken) == 2 and max(taken) < min(whole)]
        if table is not None and any(table.shape[0] > 2 * places - 1 for places in of_corners):
            return True
    return False


def name_known_bias(squares: Values) -> Positions | None:
    """What numbers that are added to scores mean: the same for all that is seen, or falling with the distance."""
    seen = np.where(squares > LOW, squares, np.nan)
    with np.errstate(all="ignore"):
        steps = np.diff(seen, axis=-1)
    known = steps[~np.isnan(steps)]
    if np.allclose(known, 0, atol=1e-6):
        return "none"
    slopes = [one[~np.isnan(one)] for one in steps]
    even = all(not one.size or np.allclose(one, one[0], rtol=1e-3) for one in slopes)
    return "alibi" if even else None


def adds_nothing(flow: Flow, biases: Sequence[Operand]) -> bool:
    """Whether what is added for positions is nothing but zeros."""
    found = [values_of(flow, one.maker) for one in biases]
    return bool(biases) and all(one is not None and not one.any() for one in found)


def is_learned(flow: Flow, record: TensorRecord, maker: int | None, behind: Sequence[int]) -> bool:
    """Whether a tensor is a parameter, or picked from a table, or made by learned steps."""
    if record.role == "parameter" and maker is None:
        return True
    return any(
        flow.op(node) in LOOKUPS or reads_table(flow, node) or is_linear(flow, node) or is_product(flow, node)
        for node in behind
    )


def is_sloped(flow: Flow, behind: Sequence[int]) -> bool:
    """Whether places were counted out and multiplied, as slopes are."""
    ops = {flow.op(node) for node in behind}
    return bool(ops & {"arange", "cumsum"}) and bool(ops & SCALINGS)


def has_score_sum(flow: Flow, site: Site) -> bool:
    """Whether another product of the queries, or of the keys, is added to the scores, as positions are (XLNet)."""
    return any(
        flow.op(node) in SUMS
        and any(
            maker is not None
            and maker not in site.scored
            and any(is_product(flow, one) for one in [maker, *list_behind(flow, maker)[:12]])
            and not holds_other_scores(flow, site, maker)
            for _, maker in flow.given(node)
        )
        for node in site.scored[1:]
    )


def holds_other_scores(flow: Flow, site: Site, maker: int) -> bool:
    """Whether an addend is a product of two that linear layers make, neither of them this attention's own (LiLT)."""
    product = next((one for one in [maker, *list_behind(flow, maker)[:12]] if is_product(flow, one)), None)
    if product is None:
        return False
    sides = [find_projections(flow, one) for one in flow.makers[product]]
    own = [one for place in flow.makers[site.scores] for one in find_projections(flow, place)]
    return all(sides) and not any(one in own for side in sides for one in side)


def find_projections(flow: Flow, place: int | None) -> list[int]:
    """The linear layers that a factor of a product was made by."""
    return [one for one in list_behind(flow, place) if is_linear(flow, one)]
