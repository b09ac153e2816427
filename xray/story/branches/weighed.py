"""What attentions weigh: other scores, values made by other attentions, and parts of the values of one by several."""

from collections.abc import Collection, Sequence
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import Site, count_pairs, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SIDE_BY_SIDE, SUMS
from xray.story.branches.heads import count_d_k, count_d_v, count_heads
from xray.story.recognition.between import Region
from xray.story.recognition.earlier_keys import find_other_scores

MOST_BEHIND = 400
ONWARD = CARRYING | SUMS | {"roll"}
"""By these what an attention found comes to what puts it beside others, be it of windows that were cut elsewhere."""
"""So many steps at most are followed behind what is weighed: an inverse of weights is worked out in rounds."""


def list_other_scores(flow: Flow, site: Site, steps: Collection[int]) -> list[int]:
    """The scores of other attentions that some steps add to those of one, be they masked or scaled (LiLT)."""
    added = (find_other_scores(flow, site.scores, maker) for node in steps for maker in flow.makers[node])
    return [scores for scores in added if scores is not None]


def name_earlier_scores(flow: Flow, site: Site, region: Region) -> Literal["before", "earlier"] | None:
    """Which scores are added to those of an attention that one made before its stream: of the last such, or of another.

    None where none are, and where the stream does not hang on the other attention (LiLT).
    """
    others = {*list_other_scores(flow, site, site.scored)}
    behind = {*flow.behind(region.start)} if others else set()
    made = [one.scores for one in list_sites(flow) if one.weighted_sum in behind]
    if not others or not others.issubset(made):
        return None
    return "before" if others == {made[-1]} else "earlier"


def weighs_no_values(flow: Flow, sites: Sequence[Site], region: Region) -> bool:
    """Whether what a softmax weighs in a branch is nothing but what another one made, or comes out of its own scores.

    So weights are multiplied by an inverse of weights (Nyström), and slots that rows were gathered into by the scores
    are spread over the rows again by the same ones (Soft MoE): neither are values that places look up. Nor does one
    tell what a branch is where another one mixes what is made of it (SepViT's windows, CoTracker's tracks that look at
    points and are looked at by these, Anchor DETR's columns and rows).
    """
    is_mixed = any(mixes_found(flow, site, sites, region) for site in sites)
    return is_mixed or any(
        is_of_weights(flow, site, sites, region) or spreads_gathered(flow, site, sites) for site in sites
    )


def looks_at_scores(flow: Flow, site: Site, other: Site) -> bool:
    """Whether an attention looks among the scores of another one, and what it finds becomes these (AiATrack)."""
    if site is other or not other.scores < site.scores < other.softmax:
        return False
    between = range(other.scores, other.softmax).__contains__
    return other.scores in flow.behind(site.scores, within=between) and site.weighted_sum in flow.behind(
        other.softmax, within=lambda node: between(node) or node == other.softmax
    )


def mixes_found(flow: Flow, site: Site, sites: Sequence[Site], region: Region) -> bool:
    """Whether the values of an attention are made of what the first one of a branch found, or its own of another one.

    But where that one found a row for each key, as few queries do that ask in between.
    """
    behind = {*flow.behind(find_values(flow, site), within=region.inner.__contains__)}
    inside = [one for one in sites if one is not site and one.weighted_sum in behind]
    keys = count_pairs(flow, site)[1]
    return any(one is sites[0] or (site is sites[0] and count_pairs(flow, one)[0] != keys) for one in inside)


def is_of_weights(flow: Flow, site: Site, sites: Sequence[Site], region: Region) -> bool:
    """Whether all data that becomes the values of an attention within a branch goes through softmaxes of scores."""
    softmaxes = {one.softmax for one in sites}
    value = find_values(flow, site)
    way = [*flow.behind(value, ends=softmaxes.__contains__, most=MOST_BEHIND)]
    is_whole = len(way) < MOST_BEHIND and softmaxes.intersection(way) and region.inner.issuperset(way)
    return bool(is_whole) and not any(
        maker is None and (record.role == "parameter" or record.is_float)
        for node in {*way} - softmaxes
        for record, maker in flow.given(node)
    )


def spreads_gathered(flow: Flow, site: Site, sites: Sequence[Site]) -> bool:
    """Whether the values of an attention are made of what another one gathered by the same scores.

    That one weighs the very rows that were scored: where values are made of them, places look each way (LookViT).
    """
    scored = {flow.carried_from(maker) for maker in flow.makers[site.scores]}
    alike = (one for one in sites if one is not site and one.scores == site.scores)
    found = {one.weighted_sum for one in alike if flow.carried_from(find_values(flow, one)) in scored - {None}}
    value = find_values(flow, site) if found else None
    return value is not None and not found.isdisjoint(flow.behind(value))


def find_values(flow: Flow, site: Site) -> int | None:
    """The step that made the values of an attention."""
    return next((maker for record, maker in flow.given(site.weighted_sum) if record is site.value.end), None)


def are_twins(flow: Flow, one: Site, other: Site) -> bool:
    """Whether two attentions score the same queries and keys, each for a part of the values (DiffLlama)."""
    return list_scored(flow, one) == list_scored(flow, other) and is_widened(flow, one, other)


def list_scored(flow: Flow, site: Site) -> list[tuple[int | None, int | None]]:
    """The steps that made what an attention scores, or cut it out of more, and which of their outputs it is."""
    found = []
    for record, maker in list(flow.given(site.scores))[-2:]:
        while maker is not None and flow.op(maker) in CARRYING and flow.makers[maker]:
            before, earlier = next(flow.given(maker))
            if prod(before.shape) > prod(record.shape):
                break
            record, maker = before, earlier
        found.append((maker, record.output))
    return found


def count_apart(flow: Flow, sites: Sequence[Site]) -> int:
    """How many attentions alike stand side by side and have all that their rows are then: each has heads of its own.

    They are alike in how many heads they have, and how wide these are, be their windows others (CSWin); else 0.
    Those that ask with the same queries are of the same heads (DiffLlama's, by two halves of its values).
    """
    if len({list_scored(flow, site)[0] for site in sites}) < len(sites):
        return 1
    joins = {find_join(flow, site.weighted_sum) for site in sites}
    join = joins.pop() if len(joins) == 1 else None
    each = [] if join is None else list_found(flow, join)
    is_all = len(each) == len(sites) and all({site.weighted_sum} in each for site in sites)
    if not is_all or any(are_twins(flow, sites[0], one) for one in sites[1:]):
        return 1
    wide = [(count_d_k(flow, one), count_d_v(flow, one)) for one in sites]
    alike = {(count_heads(flow, one, own[1]), *own) for one, own in zip(sites, wide, strict=True)}
    return (len(sites) if len(alike) == 1 else 0) if is_widened(flow, sites[0], sites[-1]) else 1


def have_unlike_windows(flow: Flow, sites: Sequence[Site]) -> bool:
    """Whether attentions side by side cut their places into windows of several shapes (CSWin, CAT).

    Then what one of them sees is not all that a place sees. Those that only make what another one weighs, as of rows
    between (GRL's anchors), stand beside none.
    """
    join = find_join(flow, sites[0].weighted_sum)
    beside = [one for one in sites if find_join(flow, one.weighted_sum) == join]
    ways = {tuple(flow.output(node).shape for node in sorted(one.query.nodes)) for one in beside}
    return join is not None and len(ways) > 1


def list_found(flow: Flow, join: int) -> list[set[int]]:
    """What attentions found, of each tensor that a step puts beside others, be something added to it (CSWin)."""
    found = {one.weighted_sum for one in list_sites(flow)}
    ways = (
        flow.behind(maker, within=lambda one: one in found or flow.op(one) in ONWARD, ends=found.__contains__)
        for maker in flow.makers[join]
    )
    return [found.intersection(way) for way in ways]


def is_widened(flow: Flow, one: Site, other: Site) -> bool:
    """Whether what two attentions found is put side by side, so that rows get wider, and not one below the other."""
    join, another = (find_join(flow, site.weighted_sum) for site in (one, other))
    if join is None or join != another:
        return True
    return flow.output(join).shape[-1] > flow.steps[join].inputs[0].shape[-1]


def find_join(flow: Flow, start: int) -> int | None:
    """The first step that puts what a step made beside something else."""
    todo = [start]
    for here in todo:
        for reader in flow.readers.get(here, ()):
            if flow.op(reader) in SIDE_BY_SIDE:
                return reader
            if flow.op(reader) in ONWARD and reader not in todo:
                todo.append(reader)
    return None
