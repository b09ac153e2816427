"""What an attention is: its heads, what it looks at, and what is special to it, each proven by its steps."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import Site, lies_in_columns
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.projections import is_product
from xray.story.anatomy.attentions import ANOTHER_ROW, FORMER_ROWS, Attention, Positions
from xray.story.branches.before_last import find_gate, name_gate_curve, name_inner_norm
from xray.story.branches.convolutions import (
    count_before,
    count_convolved,
    count_mixed_anew,
    count_mixed_before,
    list_mixed_back,
)
from xray.story.branches.heads import (
    KEY_HEADS,
    QUERY_HEADS,
    agrees,
    count_d_k,
    count_d_v,
    count_heads,
    count_key_heads,
    name_fused_order,
    shares_weights,
)
from xray.story.branches.joint import ANOTHER, find_own_keys, leaves_unturned, name_beside, scores_own_keys_too
from xray.story.branches.lengths import (
    chooses_rows,
    count_aside,
    count_coarse,
    count_cut_window,
    count_fewer_keys,
    count_gathered,
    count_kept_last,
    count_pieces,
    count_pooled,
    has_longer_keys,
    leaves_out_places,
    read_chunk_size,
    read_set_window,
)
from xray.story.branches.operands.given_rows import read_given
from xray.story.branches.operands.sides import (
    Side,
    find_norm_of,
    is_laid_on_others,
    is_plain,
    name_kind,
    name_normed,
    read_latent,
    read_sides,
)
from xray.story.branches.operands.turned import (
    count_turned,
    goes_by_place,
    name_turned_pairs,
    read_rotary,
    read_turn_length,
    turn_alike,
)
from xray.story.branches.rows import (
    count_shifted,
    cuts_across_places,
    cuts_apart,
    is_left_behind,
    is_rolled,
    looks_at_another_row,
    loses_order,
    name_far_apart,
    read_kept_apart,
    rolls_any,
    swaps_places,
)
from xray.story.branches.scored.caps import (
    are_unscaled,
    count_sloped,
    name_mixed_heads,
    name_mixed_norm,
    name_taken_off,
    read_added_of_values,
)
from xray.story.branches.scored.scores import has_sinks, is_one_looking, read_own_future, read_scores
from xray.story.branches.scored.visible import (
    chooses_all,
    chooses_none,
    count_kept_for,
    count_kept_scores,
    count_listed,
    find_choice,
    read_most_chosen,
)
from xray.story.branches.unfolded import read_unfolded
from xray.story.branches.weighed import are_twins, count_apart, have_unlike_windows, name_earlier_scores
from xray.story.experts.chosen_heads import count_query_experts
from xray.story.passages.place_numbers import are_numbers_alike, count_place_numbers, have_unlike_numbers
from xray.story.passages.places_of_operands import adds_places
from xray.story.recognition.between import Region, is_linear, joins_linears
from xray.story.recognition.turning import (
    find_learned_turns,
    has_unlike_angles,
    is_rotary,
    name_factor_by_place,
    turns_by_head,
)

NEAR, FAR = 24, 200


def describe_attention(
    flow: Flow, sites: Sequence[Site], region: Region, makers_of_towers: Mapping[int, str]
) -> Attention:
    """The facts of the first attention that stands in a branch; others may weigh other values by the same scores."""
    site = sites[0]
    twins = [one for one in sites[1:] if are_twins(flow, site, one)]
    query, key, value = read_sides(flow, site, region)
    d_k, d_v = count_d_k(flow, site), count_d_v(flow, site)
    heads = count_heads(flow, site, d_v)
    scores, beside = read_scores(flow, site), name_beside(flow, key, region, makers_of_towers)
    scores = scores if beside is None else read_own_future(flow, site, scores, find_own_keys(flow, key, region))
    turned = all(is_rotary(flow, side.nodes) and goes_by_place(flow, side.nodes) for side in (query, key))
    turned = turned and turn_alike(flow, query, key)
    by_head = turned and turns_by_head(flow, query.nodes, heads)
    kv_heads = count_key_heads(flow, query, key, value, heads, d_k, d_v)
    if heads is not None and kv_heads is not None and kv_heads > heads:
        heads = kv_heads = None  # what was taken for heads are blocks of places (HaloNet)
    is_laid_out = lies_in_columns(flow, site)
    cut = None if is_laid_out else count_cut_window(flow, site, query, key, region, heads)
    apart = count_apart(flow, sites)
    asking, asked = (heads, QUERY_HEADS), (kv_heads if kv_heads != heads else None, KEY_HEADS)
    is_said = all(
        agrees(flow, site, one, names) or agrees(flow, site, one and one * apart, names)
        for one, names in (asking, asked)
    )
    of_one = heads if is_said else None
    heads, kv_heads = (one * apart or None if one and is_said else None for one in (heads, kv_heads))
    normed = [norm for side in (query, key) if (norm := find_norm_of(flow, side)) is not None]
    widths = [d_k, *(None if d_k is None or count is None else d_k * count for count in (heads, kv_heads))]
    gathered = count_gathered(flow, sites, region)
    reach = read_unfolded(flow, site) if key.is_own and not is_laid_out else None
    is_unlike = have_unlike_windows(flow, sites)
    is_silent = key.others is not None or is_unlike
    window = None if is_silent else scores.window or (cut if reach is None else sum(reach))
    source = name_source(flow, site, (query, key, value), region, makers_of_towers)
    keys_alone = are_keys_alone(flow, site, (key, value), makers_of_towers)
    given = read_given(flow, (key,) if keys_alone else (key, value), source, makers_of_towers)
    turning: Positions = "waves" if all(has_unlike_angles(flow, side.nodes) for side in (query, key)) else "rotary"
    positions = turning if turned and not by_head else name_positions(flow, query, key, region, scores.bias)
    choice = find_choice(flow, site)
    experts = count_query_experts(flow, query, region)
    is_earlier = choice is not None and region.start is not None and choice.highest < region.start
    is_open = window is None and source == "self"
    rolled = is_rolled(flow, site, region)
    blocks = None if rolls_any(flow, query.nodes) else scores.blocks  # of one window far apart before (TransMorph)
    pieces, coarse = count_pieces(flow, sites, region) or blocks, count_coarse(flow, site, region, of_one)
    fewer = count_fewer_keys(flow, sites, key) if is_open and not gathered else None
    set_window = read_set_window(flow, site, is_joint=beside is not None) if is_open else None
    kept_last = count_kept_last(flow, site) if is_open and set_window is None else None
    if source != "self" and scores_own_keys_too(flow, site, region):
        source, beside = "self", source or ANOTHER
    gate = find_gate(flow, site, region)
    before = count_mixed_before(flow, query.nodes & key.nodes)
    place_numbers = count_place_numbers(flow, query.nodes) if turned and not by_head else None
    pairs = name_turned_pairs(flow, query, key) if turned else None
    some, some_of = count_turned(flow, query, key, d_k) if turned and not by_head else (None, None)
    layers = {tuple(side.last for side in read_sides(flow, one, region)) for one in sites if one not in twins}
    fused = name_fusion(flow, query, key, value) if len(layers) == 1 and not joins_linears(flow, key.nodes) else None
    kept_apart = read_kept_apart(flow, site, query)
    causal = scores.causal if reach is None else reach.ahead == 0
    if loses_order(flow, query.nodes | key.nodes | value.nodes, causal=causal):
        causal = None
    is_told = gathered or fewer or pieces or coarse
    may_leave_out = is_open and causal is False and not is_told
    sees_back = None if causal and (is_unlike or mixes_places(flow, site, region)) else causal
    is_partial = (
        (scores.is_partial and window is None and blocks is None)
        or chooses_rows(flow, query)
        or (key.is_own and chooses_rows(flow, key))
        or (
            may_leave_out
            and (is_unlike or shares_weights(flow, site) or leaves_out_places(flow, site, query, key, region))
        )
    )
    return Attention(
        source=source,
        heads=heads,
        kv_heads=kv_heads,
        d_k=d_k if {count_d_k(flow, one) for one in sites} == {d_k} else None,
        d_v=d_v + sum(count_d_v(flow, twin) for twin in twins),
        window=window,
        positions=positions,
        unscaled=are_unscaled(flow, site, query, key) or None,
        added_of_values=read_added_of_values(flow, site, value, heads),
        places_by_rows=(positions == "relative" and adds_by_rows(flow, site, region)) or None,
        places_of=name_far_apart(flow, site) if positions == "relative" else None,
        sloped=count_sloped(flow, site, heads) if positions == "alibi" else None,
        turned=some,
        turned_of=some_of,
        turned_by_head=by_head or None,
        place_numbers=place_numbers,
        numbers_alike=(bool(place_numbers) and are_numbers_alike(flow, query.nodes)) or None,
        numbers_unlike=(bool(place_numbers) and pairs == "halves" and have_unlike_numbers(flow, query.nodes)) or None,
        within_a_kind=scores.within_a_kind or None,
        qk_norm=len(normed) == 2,
        qk_norm_over=name_normed(flow, normed, widths) if len(normed) == 2 else None,
        qk_norm_kind=name_kind(flow, normed) if len(normed) == 2 else None,
        taken_off=name_taken_off(flow, site, region.inner),
        v_norm=find_norm_of(flow, value) is not None or None,
        latent=read_latent(flow, query, key, value),
        sinks=has_sinks(flow, site),
        gate=gate is not None,
        gate_curve=name_gate_curve(flow, gate),
        fused=fused,
        fused_by=name_fused_order(flow, query, heads) if fused == "qkv" else None,
        kernel=name_kernel(flow, site),
        causal=sees_back,
        beside=beside,
        cap=scores.cap,
        inner_norm=name_inner_norm(flow, site.output, {site.weighted_sum, *site.concat}, is_gated=True),
        rolled=None if cut is None and kept_apart is None and blocks == scores.blocks else rolled,
        kept_apart=kept_apart,
        pooled=count_pooled(flow, site, key, region),
        gathered=gathered,
        ungathered=count_aside(flow, site) or None if gathered else None,
        fewer_keys=fewer,
        other_rows=bool(key.others) or None,
        pieces=pieces,
        partial=is_partial or None,
        hides=(scores.hides and (sees_back is None or is_partial)) or None,
        blind=scores.blind,
        coarse=coarse,
        with_others=tuple(sorted((given or list_met(flow, site, source, makers_of_towers)) - {source})),
        keys_alone=keys_alone or None,
        of_others_too=None if key.is_own or value.is_own or given is not None else True,
        foreign_queries=(key.is_own and value.is_own and not query.is_own) or None,
        chosen_keys=True if choice is not None else None,
        chosen_earlier=is_earlier or None,
        chosen_kept=None if choice is None or is_earlier else count_kept_for(flow, choice),
        chosen_together=choice.together if choice is not None and choice.together > 1 else None,
        chosen_most=None if choice is None else read_most_chosen(flow, choice),
        all_chosen=(choice is not None and chooses_all(flow, choice)) or None,
        none_chosen=(choice is not None and chooses_none(flow, choice)) or None,
        listed=count_listed(flow, site) if choice is None else None,
        kept_scores=count_kept_scores(flow, site),
        mixed_heads=name_mixed_heads(site),
        mixed_norm=name_mixed_norm(flow, site),
        query_experts=None if experts is None else experts[1],
        query_chosen=None if experts is None else experts[0],
        earlier_keys=(source == "self" and None not in (key.earlier, value.earlier)) or None,
        earlier_scores=name_earlier_scores(flow, site, region),
        longer_keys=(source == "self" and has_longer_keys(flow, site, (query, key, value), region)) or None,
        one_looks=(source == "self" and is_one_looking(flow, site, region)) or None,
        beside_unturned=(positions == "rotary" and leaves_unturned(flow, key, region)) or None,
        each_side=None if window is None else scores.each_side,
        sliding_window=set_window,
        kept_last=kept_last,
        chunk_size=read_chunk_size(flow, site, kept_last),
        convolved=count_convolved(flow, site, region),
        mixed_anew=count_mixed_anew(flow, site, region),
        mixed_before=before,
        mixed_back=list_mixed_back(flow, site, (query, key, value), region) if before is None else (),
        shifted=count_shifted(flow, (query, key, value)),
        values_before=count_before(flow, value.nodes),
        rotary_base=read_rotary(flow, query, key, "base") if positions == "rotary" else None,
        rotary_slowed=read_rotary(flow, query, key, "slowed") if positions == "rotary" else None,
        rotary_all_slowed=read_rotary(flow, query, key, "all_slowed") if positions == "rotary" else None,
        turn_length=read_turn_length(flow, query, key) if positions == "rotary" else None,
        values_turned=(positions == "rotary" and is_rotary(flow, value.nodes - query.nodes)) or None,
        turned_by_learned=find_learned_turns(flow, query.nodes) if positions == "rotary" else None,
        turned_pairs=pairs,
        queries_by_place=name_factor_by_place(flow, query.nodes),
    )


def mixes_places(flow: Flow, site: Site, region: Region) -> bool:
    """Whether places are swapped, or what the heads found is laid out anew across them.

    What is ahead of a place may stand in its row then.
    """
    return swaps_places(flow, region.inner) or any(
        node > site.weighted_sum and cuts_across_places(flow, node) for node in region.inner
    )


def name_positions(flow: Flow, query: Side, key: Side, region: Region, bias: Positions | None) -> Positions | None:
    """How an attention that turns nothing by its place knows where places are: by scores, or by queries and keys."""
    added = adds_places(flow, query, key, region)
    if bias not in (None, "none"):
        return bias
    if added is not False:
        return "added" if added else None
    return bias if all(is_plain(flow, side, region) for side in (query, key)) else None


def adds_by_rows(flow: Flow, site: Site, region: Region) -> bool:
    """Whether something that joins the scores is worked out of the rows of the branch, as queries and keys are."""
    asking = {*flow.makers[site.scores][-2:], *site.scored}  # one step may add to products as well (WavLM)
    added = {maker for node in site.scored for _, maker in flow.given(node) if maker is not None} - asking
    ways = [{maker, *flow.behind(maker)} for maker in added]  # not what is made of the scores themselves (LayoutLMv3)
    return any(way.isdisjoint(site.scored) and not way.isdisjoint(region.inner) for way in ways)


def name_fusion(flow: Flow, query: Side, key: Side, value: Side) -> Literal["qkv", "kv"] | None:
    """Which of the three come out of one linear layer; three that each are all of it are one and the same."""
    if query.last is not None and query.last == key.last == value.last:
        ways = flow.ahead(query.last, within=lambda one: one == query.last or is_moved(flow, query, one))
        given = (query.end, *map(flow.output, ways))  # others may be put beside them since (JoyImage)
        return "qkv" if min(prod(one.shape) for one in given) < prod(flow.output(query.last).shape) else None
    if key.last is not None and key.last == value.last and key.end.shape and query.last != key.last:
        return "kv"
    return None


def is_moved(flow: Flow, side: Side, node: int) -> bool:
    """Whether a step of an operand only moves numbers, or cuts some off, and puts none beside them."""
    return node in side.nodes and flow.op(node) in CARRYING


def name_kernel(flow: Flow, site: Site) -> str | None:
    """The fused operation that an attention was opened from, or "plain"."""
    step = flow.steps[site.scores]
    if not step.settings.get("derived"):
        return "plain"
    parent = flow.places.get(step.parent or "")
    return None if parent is None else flow.op(parent)


def name_source(
    flow: Flow, site: Site, sides: tuple[Side, Side, Side], region: Region, towers: Mapping[int, str]
) -> str | None:
    """Whether keys and values come from the stream itself, be it pooled since, or from which tower's end.

    What linear layers make beside the stream, of numbers that it was made of too, is none of its own (TimeXer). Nor are
    other rows of the tensor that it was cut off (CoTracker).
    """
    query, key, value = sides
    if key.is_own and value.is_own and is_laid_on_others(flow, key.nodes & value.nodes, region):
        return None
    if key.is_own and value.is_own:
        return ANOTHER_ROW if looks_at_another_row(flow, query, key, value, region) else "self"
    if key.is_own and is_made_in_layer(flow, site.value.origin, region.start, towers):
        return "self"
    other = value if key.is_own else key
    starts = (*(() if key.is_own else (site.key.origin,)), *other.nodes)
    if cuts_apart(flow, region.start, flow.behind(*starts, most=NEAR)):
        return FORMER_ROWS
    for place in flow.behind(*starts, most=FAR):
        if place in towers:
            own = {one for one, name in towers.items() if name == "self" and other.earlier is None}
            if place not in own or not is_left_behind(flow, region.start, place, own):
                return towers[place]
            whole = len(flow.steps)  # the last of many layers asks them, too (IPT)
            return FORMER_ROWS if is_made_in_layer(flow, place, region.start, towers, whole) else None
    if key.is_own:
        return None
    rows = flow.behind(*starts, most=FAR, ends=lambda here: here not in other.nodes and is_linear(flow, here))
    stream = flow.behind(
        region.start, most=NEAR, ends=lambda here: is_product(flow, here) and not is_linear(flow, here)
    )
    is_pooled = not {*stream}.isdisjoint(rows)
    return "self" if site.kind == "self" or is_pooled else None


def is_made_in_layer(
    flow: Flow, origin: int | None, start: int | None, towers: Mapping[int, str], most: int = FAR
) -> bool:
    """Whether rows that no other tower gives are made into what a branch begins at, with no product of two (Mega)."""

    def is_end(here: int) -> bool:
        return towers.get(here, "self") != "self" or (is_product(flow, here) and not is_linear(flow, here))

    return (
        origin is not None
        and towers.get(origin, "self") == "self"
        and origin in flow.behind(start, most=most, ends=is_end)
    )


def list_met(flow: Flow, site: Site, source: str | None, towers: Mapping[int, str]) -> frozenset[str]:
    """The towers that keys and values are made of among others, the one that they are known to come from with them."""
    way = flow.behind(site.key.origin, site.value.origin, most=FAR, ends=towers.__contains__)
    met = frozenset(towers[one] for one in way if one in towers) - {"self"}
    return met if source in met else frozenset()


def are_keys_alone(flow: Flow, site: Site, sides: tuple[Side, Side], towers: Mapping[int, str]) -> bool:
    """Whether keys are made of what another tower gives, and values of nothing that a tower gives."""
    if any(one.is_own for one in sides):
        return False
    ways = [[*flow.behind(side.origin, most=FAR)] for side in (site.key, site.value)]
    led = [any(towers.get(place, "self") != "self" for place in way) for way in ways]
    return led == [True, False] and len(ways[1]) < FAR
