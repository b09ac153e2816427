"""What is added to scores that hides nothing: places by a table, by slopes, by another product, or other scores."""

from collections.abc import Collection, Sequence
from math import prod

import numpy as np

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DIFFERENCES,
    LOOKUPS,
    MASKINGS,
    REPEATS,
    SCALINGS,
    SHAPING,
    SIDE_BY_SIDE,
    SUMS,
    TURNS,
    WAVES,
)
from xray.ir.flow.projections import is_product
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Positions
from xray.story.recognition.addends import MOST_BEHIND, list_behind, reads_table
from xray.story.recognition.between import is_linear
from xray.story.recognition.score_operands import Operand, Scored
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_rules import LOW
from xray.story.recognition.values.value_shapes import Values

COUNTED = ("arange", "cumsum")
PICKING = LOOKUPS | {"index", "index_select"}
BENDING = frozenset({"pow", "exp", "log", "log1p", "log2", "sqrt"})
FAR, MOST_NEAR = 60, 12
OTHER_PARTS, OF_QUERIES = "+ SCORES OF OTHER PARTS", "+ WHAT IS MADE OF Q"
OF_SCORES = "+ WHAT IS MADE OF THE SCORES"
AROUND_SLOPES = CARRYING | SUMS | SCALINGS | MASKINGS | REPEATS | SIDE_BY_SIDE | {"neg", "sub", "pad", "stack"}
"""What may be done to slopes times distances before they are added to scores."""


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


def name_bias(
    flow: Flow, site: Site, biases: Sequence[Operand], alone: Values | None, only_masks: bool
) -> Positions | None:
    """What kind of positions is added to the scores: learned by distance, a slope for each head, or none."""
    sums = list_score_sums(flow, site)
    if sums:
        return "relative" if any(has_factor_of_places(flow, site, one) for one in sums) else None
    if any(one.maker is not None and holds_other_scores(flow, site, one.maker) for one in biases):
        return None
    learned = [one for one in biases if is_learned(flow, one.record, one.maker, list_behind(flow, one.maker))]
    if learned:
        return "relative" if any(tells_places(flow, site, one) for one in learned) else None
    is_single = bool(biases) and flow.output(site.scores).shape[-1:] == (1,)  # which no distance tells from another
    if alone is not None and not np.isnan(alone).any() and not is_single:
        return name_known_bias(alone, has_heads=prod(flow.output(site.scores).shape[1:-2]) > 1)
    if any(is_sloped(flow, one.maker) for one in biases):
        return "alibi"
    if is_single:
        return None
    return "none" if only_masks or adds_nothing(flow, biases) else None


def name_known_bias(squares: Values, *, has_heads: bool) -> Positions | None:
    """What numbers that are added to scores mean: the same for all that is seen, or falling with the distance."""
    seen = np.where(squares > LOW, squares, np.nan)
    steps = list_steps(seen)
    if np.allclose(steps[~np.isnan(steps)], 0, atol=1e-6):
        return "none"
    is_for_each = len(np.unique(squares, axis=0)) > 1 or not has_heads
    return "alibi" if is_for_each and is_even(steps) and not (steps < 0).any() else None


def list_steps(squares: Values) -> Values:
    """By how much numbers rise from each key to the next that is one nearer to the query; the last queries ask."""
    queries, keys = squares.shape[-2:]
    is_before = np.arange(keys - 1) < np.arange(keys - queries, keys)[:, None]
    with np.errstate(all="ignore"):
        return np.diff(squares, axis=-1) * np.where(is_before, 1, -1)


def is_even(steps: Values) -> bool:
    """Whether each square rises by one and the same number from key to key, be it nearer or farther, and some do."""
    found = [one[~np.isnan(one)] for one in steps.reshape(-1, *steps.shape[-2:])] if steps.size else []
    return all(not one.size or np.allclose(one, one[0], rtol=1e-3) for one in found) and any(one.any() for one in found)


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


def is_sloped(flow: Flow, bias: int | None) -> bool:
    """Whether places were counted out and multiplied, as slopes are, and then hidden, added to or moved at most.

    Numbers that are known have to rise or fall evenly with the distance.
    """
    ways = flow.behind(bias, most=MOST_BEHIND, within=lambda one: flow.op(one) in AROUND_SLOPES)
    return any(
        flow.op(node) in SCALINGS and any(are_distances(flow, maker, node) for maker in flow.makers[node])
        for node in ways
    )


def are_distances(flow: Flow, maker: int | None, product: int) -> bool:
    """Whether numbers are counted places; if all are known, such as rise or fall evenly from key to key."""
    values, shape = values_of(flow, maker), flow.output(product).shape
    if maker is None or not any(flow.op(one) in COUNTED for one in (maker, *flow.behind(maker))):
        return False
    if values is None or np.isnan(values).any():
        way = flow.behind(maker, ends=lambda one: flow.op(one) in COUNTED)
        return not any(flow.op(one) in CURVES | WAVES | BENDING for one in way)
    if len(shape) < 2 or values.ndim > len(shape):
        return False
    steps = list_steps(np.broadcast_to(values, shape))
    return is_even(steps) or is_even(np.diff(np.broadcast_to(values, shape), axis=-1))


def list_score_sums(flow: Flow, site: Site) -> list[int]:
    """The other products of the queries, or of the keys, that are added to the scores, as positions are (XLNet)."""
    added = (maker for node in site.scored[1:] if flow.op(node) in SUMS for _, maker in flow.given(node))
    others = [maker for maker in added if maker is not None and maker not in site.scored]
    near = [one for one in others if product_behind(flow, one, MOST_NEAR) is not None]
    return [one for one in near if not holds_other_scores(flow, site, one)]


def product_behind(flow: Flow, maker: int, most: int = MOST_BEHIND) -> int | None:
    """The product that an addend is, or is made of in no more than so many steps."""
    return next((one for one in [maker, *list_behind(flow, maker)[:most]] if is_product(flow, one)), None)


def has_factor_of_places(flow: Flow, site: Site, maker: int) -> bool:
    """Whether one factor of a product that is added to scores is worked out of something else than what asks.

    Where both are, it is another part of the same scores, as of the numbers that are turned (DeepSeek-V3's own code).
    It has to be picked by how far apart two are, or made of that, or what the product gives moves on from row to row.
    """
    product = product_behind(flow, maker)
    if product is None:
        return False
    factors = flow.makers[product]
    others = [one for one in factors if one is None or not is_of_content(site, {one, *flow.behind(one)})]
    way = [*list_behind(flow, maker), *flow.behind(*others)]
    is_moved = any(is_shifted(flow, one) for one in (maker, *list_behind(flow, maker)) if one > product)
    return bool(others) and (
        is_moved
        or any(is_apart(flow, one) or (is_picked(flow, one) and picks_by_distance(flow, site, one)) for one in way)
    )


def is_shifted(flow: Flow, place: int) -> bool:
    """Whether a step lays rows out as columns in the order they had, or puts some beside them to do so (Huang 2018)."""
    before, after = (flow.steps[place].inputs[0].shape if flow.steps[place].inputs else ()), flow.output(place).shape
    is_laid = flow.op(place) in SHAPING - TURNS and sorted(before) == sorted(after) and before != after
    return is_laid or flow.op(place) in PADDINGS


def tells_places(flow: Flow, site: Site, bias: Operand) -> bool:
    """Whether a learned addend hangs on how far apart two places are, and on nothing else that is picked.

    All rows of tables in it are picked by that, or it is a product with such, or it is made of differences (BROS).
    """
    if bias.maker is None or not may_tell_apart(flow, site, bias):
        return False
    onward = flow.ahead(bias.maker, within=lambda place: place < site.softmax)
    picking = [one for one in (*list_behind(flow, bias.maker), *onward) if is_picked(flow, one)]
    if picking:
        tables = [one for one in picking if flow.op(one) in LOOKUPS or reads_table(flow, one)]
        return all(picks_by_distance(flow, site, one) for one in tables or picking)
    if product_behind(flow, bias.maker) is not None:
        return has_factor_of_places(flow, site, bias.maker)
    way = (bias.maker, *flow.behind(bias.maker))
    return not is_of_content(site, way) and any(is_apart(flow, one) for one in way)


def goes_by_places(flow: Flow, site: Site, part: Scored) -> bool:
    """Whether one of several biases is itself what tells places, as the only one is where any does."""
    biases = [one for one in read_scored(flow, site.scored) if one.kind == "bias" and one.operand is not None]
    if len(biases) < 2 or part.operand is None or part.operand.maker is None:
        return len(biases) < 2
    maker = part.operand.maker
    return is_sloped(flow, maker) or has_factor_of_places(flow, site, maker) or tells_places(flow, site, part.operand)


def may_tell_apart(flow: Flow, site: Site, bias: Operand) -> bool:
    """Whether a learned addend has numbers for pairs that are not known to go by no distance.

    A table with a number for each pair goes by none, nor does one row for all places; of more axes than scores have
    the last are no pairs.
    """
    of_pair, scores = bias.record.shape, flow.output(site.scores).shape
    is_row = 1 in of_pair[-2:] and 1 not in scores[-2:] and len(of_pair) <= len(scores)
    if is_row and flow.op(site.scores) != "einsum":
        return False
    way = [*flow.behind(bias.maker)]
    outer = [record for one in way for record, maker in flow.given(one) if maker is None]
    is_moved = all(flow.op(one) in CARRYING | {"index"} for one in way)
    return not (is_moved and all(one.role == "parameter" for one in outer))


def is_picked(flow: Flow, place: int) -> bool:
    """Whether a step looks rows of a table up, or picks numbers by places (ProphetNet, Inkling)."""
    ids = [record for record in flow.steps[place].inputs[1:] if not record.is_float and record.dtype != "bool"]
    return flow.op(place) in LOOKUPS or (bool(ids) and flow.op(place) in PICKING | {"gather"})


def picks_by_distance(flow: Flow, site: Site, place: int) -> bool:
    """Whether ids by which a step picks were seen to hang on how far apart two places are, or two of one kind.

    Where a single place asks that is not to be seen: then places that were counted are believed. What no place was
    counted for may take differences of what was given (BROS); numbers that were given may go by that by chance.
    """
    ids = [given for given in flow.given(place) if not given[0].is_float]
    way = [*flow.behind(*(maker for _, maker in ids))]
    is_given = any(
        record.argument is not None for record, _ in (*ids, *(one for node in way for one in flow.given(node)))
    )
    if (flow.steps[place].settings.get("apart") and not is_given) or counts_within_a_kind(flow, place):
        return True
    if any(flow.op(one) in COUNTED for one in way):
        return flow.output(site.scores).shape[-2:-1] == (1,)
    return any(is_apart(flow, one) for one in way)


def is_apart(flow: Flow, place: int) -> bool:
    """Whether a step takes each of several numbers from each other one: how far apart two are."""
    sizes = [prod(record.shape) for record in flow.steps[place].inputs]
    return flow.op(place) in DIFFERENCES and len(sizes) == 2 and prod(flow.output(place).shape) > max(sizes)


def is_of_content(site: Site, way: Collection[int]) -> bool:
    """Whether what the queries or the keys of an attention are made of stands among some steps."""
    return any(side.origin is not None and side.origin in way for side in (site.query, site.key))


def holds_other_scores(flow: Flow, site: Site, maker: int) -> bool:
    """Whether an addend is a product of two that linear layers make, neither of them this attention's own (LiLT)."""
    product = product_behind(flow, maker, MOST_NEAR)
    if product is None:
        return False
    sides = [find_projections(flow, one) for one in flow.makers[product]]
    own = [one for place in flow.makers[site.scores] for one in find_projections(flow, place)]
    return all(sides) and not any(one in own for side in sides for one in side)


def name_addend(flow: Flow, site: Site, maker: int | None) -> str:
    """What an addend of scores is that is no bias: made of these, other scores of the same rows, or made of queries."""
    if site.scores in flow.behind(maker, within=lambda node: node >= site.scores):
        return OF_SCORES
    if is_of_other_parts(flow, site, maker):
        return OTHER_PARTS
    return OF_QUERIES if is_of_queries(flow, site, maker) else ""


def is_of_other_parts(flow: Flow, site: Site, maker: int | None) -> bool:
    """Whether an addend is a product of other numbers that the same layers made of what asks, and of what is asked."""
    product = None if maker is None else product_behind(flow, maker)
    if product is None or len(flow.makers[product]) != 2:
        return False
    ends = {site.query.origin, site.key.origin}
    sides, own = (
        [
            {here for here in flow.behind(one, ends=ends.__contains__) if is_linear(flow, here)}
            for one in flow.makers[node]
        ]
        for node in (product, site.scores)
    )
    ways = (sides, sides[::-1])
    return len(own) == 2 and any(not (way[0].isdisjoint(own[0]) or way[1].isdisjoint(own[1])) for way in ways)


def is_of_queries(flow: Flow, site: Site, maker: int | None) -> bool:
    """Whether an addend is worked out of queries, and neither of keys nor of scores (HaloNet's places)."""
    asking, asked = {*site.query.nodes} - {*site.key.nodes}, {*site.key.nodes} - {*site.query.nodes}
    others = asked | {site.scores}
    way = set() if maker is None else {*flow.behind(maker, ends=(asking | others).__contains__)}
    return not asking.isdisjoint(way) and others.isdisjoint(way)


def find_projections(flow: Flow, place: int | None) -> list[int]:
    """The linear layers that a factor of a product was made by."""
    return [one for one in list_behind(flow, place) if is_linear(flow, one)]
