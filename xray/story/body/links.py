"""Links between towers: what one takes from another, and behind which layers of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.cut_rows import find_cut_part
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.flow.remembering import once
from xray.ir.flow.softmax_axis import list_added_along
from xray.story.anatomy.attentions import Attention, Looking
from xray.story.anatomy.tree import Link
from xray.story.body.naming import MOST_BEHIND, list_branchings, looks_beside
from xray.story.body.reading import Reading
from xray.story.body.stages import Branching
from xray.story.body.towers import Towering
from xray.story.branches.operands.given_rows import is_between, read_towers
from xray.story.branches.weighed import list_other_scores
from xray.story.entrance.tables import PICKING
from xray.story.facts.unsaid import follow
from xray.story.passages.homes import read_leading
from xray.story.recognition.between import list_reading_data
from xray.story.streams.shortcuts import find_any_norm

MOST_TO_IDS = 2000
"""So many steps are gone back to what ids were worked out of: each of many codes is of what the others left over."""
Meetings = dict[tuple[str, str], int]
"""Products in which rows of two towers meet, by the names of these."""


@once
def list_meetings(reading: Reading) -> Meetings:
    """The products in which rows of two towers meet behind both, by the names of the two."""
    flow, towers = reading.flow, reading.towers
    inside = frozenset(node for one in towers for staging in one.stagings for node in staging.nodes)
    reached = {one.tower.name: reach_from(flow, one, inside) for one in towers}
    found = {
        (one, other): find_meeting(flow, reached[one], reached[other], inside)
        for one, other in combinations(reached, 2)
    }
    met = {pair: place for pair, place in found.items() if place is not None}
    named = {one.tower.name: one for one in towers}
    return {
        pair: place
        for pair, place in met.items()
        if not comes_by_entrance(flow, pair, place, reached, named)
        and not comes_by_another(flow, pair, place, met, reached, named)
    }


def comes_by_entrance(
    flow: Flow, pair: tuple[str, str], place: int, reached: Mapping[str, set[int]], named: Mapping[str, Towering]
) -> bool:
    """Whether one of two towers that meet comes in only by what the other begins with: that is its own (AdaBins).

    What says which rows that begins with is none of it (OmDet).
    """
    for own, second in (pair, pair[::-1]):
        start, entrance = named[second].start, named[second].entrance
        begun = flow.behind(start, within=entrance.__contains__, reads=partial(list_taken_from, flow))
        side = [maker for maker in flow.makers[place] if maker in reached[own] and maker not in reached[second]]
        straight = flow.behind(*side, within=reached[own].difference(begun).__contains__)
        ends = {named[own].end, *(chain.end for chain in named[own].chains)}
        if side and ends.isdisjoint(straight):
            return True
    return False


def comes_by_another(
    flow: Flow,
    pair: tuple[str, str],
    place: int,
    met: Meetings,
    reached: Mapping[str, set[int]],
    named: Mapping[str, Towering],
) -> bool:
    """Whether one of two towers that meet comes in only as what another one began with, which meets the second too.

    What that began with may be added to what it gives: a sum around all of its layers (X-CLIP).
    """
    for own, second in (pair, pair[::-1]):
        others = {name for one, at in met.items() if at == place and second in one for name in one} - {own, second}
        side = [maker for maker in flow.makers[place] if maker in reached[own] and maker not in reached[second]]
        for other in (named[name] for name in others):
            begun = list_begun_as(flow, other)
            straight = set(flow.behind(*side, within=(reached[own] - begun).__contains__))
            ends = {named[own].end, *(chain.end for chain in named[own].chains)}
            if side and straight.isdisjoint(ends) and not ends.isdisjoint(flow.behind(other.end)):
                return True
    return False


def list_begun_as(flow: Flow, one: Towering) -> set[int]:
    """What a stream begins with, and steps before it that make as many numbers: places may be added to these."""
    size = None if one.start is None else prod(flow.output(one.start).shape)
    return {node for node in {*one.entrance, one.start} if node is not None and prod(flow.output(node).shape) == size}


def read_links(flow: Flow, towers: Sequence[Towering], meetings: Meetings) -> tuple[Link, ...]:
    """How towers reach one another."""
    found: dict[Link, set[int]] = {}
    looked: dict[tuple[str, str], set[int]] = {}
    ends = {end: one.tower.name for one in towers for end in (one.end, *one.sums)}
    whose = ((branching.site, one.tower.name) for one in towers for branching in list_branchings(one))
    scored = {site.scores: name for site, name in whose if site is not None}
    added = list_added_alone(flow, towers)
    for one in towers:
        for branching in list_branchings(one):
            branch = branching.branch
            if isinstance(branch, Looking) and branch.leaves_stream and branch.source not in (None, one.tower.name):
                found.setdefault(Link("memory", str(branch.source), one.tower.name), set())
                for place in list_taken(flow, branching, ends, added):
                    looked.setdefault((ends[place], one.tower.name), set()).add(place)
            for place in [] if isinstance(branch, Looking) else list_multiplied(flow, branching, ends):
                if ends[place] != one.tower.name:
                    found.setdefault(Link("multiplied", ends[place], one.tower.name), set()).add(place)
            site = branching.site
            for scores in [] if site is None else list_other_scores(flow, site, site.scored):
                if scored.get(scores, one.tower.name) != one.tower.name:
                    found.setdefault(Link("scored", scored[scores], one.tower.name), set())
        for other in towers:
            if other is not one and looks_beside(flow, one, other, other.tower.name):
                found.setdefault(Link("memory", other.tower.name, one.tower.name), set())
            elif other is not one and takes_keys(flow, one, other):
                found.setdefault(Link("keys", other.tower.name, one.tower.name), set())
        begun = list_ends_behind(flow, one.chains[0].start, ends)
        led_in = list_led_in(flow, one, towers, [place for place in begun if ends[place] != one.tower.name], ends)
        for place, name in led_in.items():
            found.setdefault(Link("met", ends[place], name), set()).add(place)
            looked.get((ends[place], one.tower.name), set()).discard(place)
        for place in (*begun, *(rows.source for rows in one.added)):
            if ends[place] != one.tower.name and place not in led_in:
                found.setdefault(Link("joined", ends[place], one.tower.name), set()).add(place)
        chosen = list_ends_behind(flow, one.chains[0].start, ends, through_ids=True)
        known = {one.tower.name, *(ends[place] for place in begun)}
        for name in sorted({ends[place] for place in chosen} - known):
            found.setdefault(Link("chosen", name, one.tower.name), set())
    reached = {frozenset((link.source, link.target)) for link in found}
    fresh = {place for pair, place in meetings.items() if frozenset(pair) not in reached}
    for (first, second), place in meetings.items():
        if place in fresh:  # be it that one of several that meet there reaches the other in another way too (OneFormer)
            found[Link("compared", first, second)] = set()
    for pair, places in looked.items():
        if (via := find_join(flow, towers, pair, places)) is not None:
            found.setdefault(Link("met", pair[0], via), set()).update(places)
            places.clear()
    pairs = {(link.source, link.target) for link in found}
    for pair, places in ((pair, places) for pair, places in looked.items() if places):
        if (link := Link("memory", *pair)) in found or (pair not in pairs and pair[0] != pair[1]):
            found.setdefault(link, set()).update(places)  # memory is of layers of other towers too (Mllama)
    named = {one.tower.name: one for one in towers}
    behind = {link: tell_behind(named[link.source], taken) for link, taken in found.items()}
    joins = {one.tower.name: read_joins(flow, one, ends) for one in towers}
    return tuple(
        replace(link, behind=behind[link], joins=joins[link.target].get(link.source, ""))
        if link.kind == "joined"
        else replace(link, behind=behind[link])
        for link in found
    )


def read_joins(flow: Flow, one: Towering, ends: Mapping[int, str]) -> dict[str, Literal["whole", "some"]]:
    """The towers whose rows a stream begins with, or is added to it later; and whether it begins with no others."""
    others = {place: name for place, name in ends.items() if name != one.tower.name}
    whole = read_towers(flow, one.chains[0].start, others)

    def goes_on(here: int) -> bool:
        makers = flow.makers[here] if flow.op(here) in SCALINGS and find_any_norm(flow, here) is None else ()
        return here in others or not (
            is_between(flow, here) or any(read_towers(flow, two, others) is None for two in makers)
        )

    way = flow.behind(one.chains[0].start, most=MOST_BEHIND, within=goes_on, ends=others.__contains__)
    some = {others[place] for place in way if place in others} | {ends[rows.source] for rows in one.added}
    return {name: "whole" if whole and name in whole else "some" for name in some}


def takes_keys(flow: Flow, one: Towering, other: Towering) -> bool:
    """Whether each layer of a tower has keys and values beside its own that the other's layer of its number made."""
    inside, sums = other.nodes, one.sums
    for own, given in zip(one.layers, other.layers, strict=False):
        made = frozenset[int]().union(*(staging.nodes for staging in given))
        sites = [
            branching.site
            for branching in (branching for staging in own for branching in staging.branches)
            if isinstance(branching.branch, Attention) and branching.branch.beside == other.tower.name
        ]
        known = [site for site in sites if site is not None]
        if not sites or len(known) < len(sites):
            return False
        for product in (product for site in known for product in (site.scores, site.weighted_sum)):
            operand = flow.makers[product][-1]
            way = flow.behind(operand, most=MOST_BEHIND, ends=lambda place: place in inside or place in sums)
            reached = inside.intersection(way)
            if not reached or not reached <= made:
                return False
    return len(one.layers) == len(other.layers)


def list_added_alone(flow: Flow, towers: Sequence[Towering]) -> frozenset[int]:
    """The steps that make rows of one tower for nothing but to be added between layers of another (BridgeTower)."""
    found: set[int] = set()
    for rows in (rows for one in towers for rows in one.added):
        led = {rows.add}
        for node in sorted(rows.nodes, reverse=True):
            led |= {node} if led.issuperset(flow.leaf_readers(node)) else set()
        found |= led - {rows.add}
    return frozenset(found)


def list_taken(flow: Flow, branching: Branching, ends: Collection[int], added: Collection[int]) -> list[int]:
    """The ends and sums of towers that what a branch looks at is made of, through no other ones.

    What was `added` to the rows of one in between, that one gives.
    """
    starts = list_looked_at(flow, branching)
    way = flow.behind(*starts, most=MOST_BEHIND, within=lambda node: node not in added, ends=ends.__contains__)
    return [place for place in way if place in ends]


def list_looked_at(flow: Flow, branching: Branching) -> list[int | None]:
    """The steps that a branch takes what it looks at from."""
    site, sampling = branching.site, branching.sampling
    starts: list[int | None] = [] if site is None else [site.key.origin, *flow.makers[site.scores][-1:]]
    return starts + ([] if sampling is None else [sampling.origin])


def list_led_in(
    flow: Flow, one: Towering, towers: Sequence[Towering], begun: Sequence[int], ends: Mapping[int, str]
) -> dict[int, str]:
    """The ends and sums that a tower begins with through the block of another tower alone, and what that is called.

    They meet there what that one gives, behind its layers: finer maps in the pyramid of an encoder (RT-DETR).
    """
    found: dict[int, str] = {}
    if len({ends[place] for place in begun}) < 2:
        return found
    names = {other.end: other.tower.name for other in towers}
    for end, held in read_leading(flow, one, towers).inside.items():
        straight = list_ends_behind(flow, one.chains[0].start, ends.keys() | held)
        found |= {place: names[end] for place in begun if ends[place] != names[end] and place not in straight}
    return found


def find_join(flow: Flow, towers: Sequence[Towering], pair: tuple[str, str], places: Collection[int]) -> str | None:
    """The tower behind whose layers, and in whose block, all that another tower looks at meets what that one gives.

    So does what lower layers of Mllama's eye gave meet what a tower behind it makes, before words look at both.
    """
    named = {one.tower.name: one for one in towers}
    source, target = (named[name] for name in pair)
    sums, first = frozenset[int]().union(*({one.end, *one.sums} for one in towers)), min(target.sums)

    def list_onward(place: int) -> set[int]:
        return {*flow.ahead(*flow.readers.get(place, ()), within=lambda one: one < first and one not in sums)}

    for one in towers:
        if one is target or not source.end < one.end < first:
            continue
        behind = list_onward(one.end)
        met = [min(behind & list_onward(place), default=first) for place in places]
        blocks = {*flow.parents(one.end)}.difference(flow.parents(first))
        if met and all(not blocks.isdisjoint(flow.parents(join)) for join in met):
            return one.tower.name
    return None


def list_multiplied(flow: Flow, branching: Branching, ends: Collection[int]) -> list[int]:
    """The ends and sums of towers that what a branch multiplies its rows with is made of, if it did not make that."""
    products = list_products(flow, branching)
    inner = branching.region.inner
    others = [maker for node in products for maker in flow.makers[node] if maker not in inner]
    return [place for place in flow.behind(*others, most=MOST_BEHIND, ends=ends.__contains__) if place in ends]


def list_products(flow: Flow, branching: Branching) -> list[int]:
    """The products of what a branch made with what it did not make."""
    inner = branching.region.inner
    products = (node for node in inner if flow.is_leaf(node) and is_product(flow, node))
    return [node for node in products if {maker in inner for maker in flow.makers[node]} == {True, False}]


def list_added_behind(flow: Flow, branching: Branching) -> list[int]:
    """The sums that add to such a product what the branch did not make either: a bias for each place (UnivNet)."""
    inner = branching.region.inner
    behind = (reader for node in list_products(flow, branching) for reader in flow.readers.get(node, ()))
    sums = (node for node in behind if flow.is_leaf(node) and node in inner and flow.op(node) in SUMS)
    roots = {node: [flow.carried_from(maker) for maker in flow.makers[node]] for node in sums}
    apart = {*inner, None, branching.region.start}
    reading = list_reading_data(flow)
    return [node for node, own in roots.items() if any(one not in apart and one in reading for one in own)]


def tell_behind(one: Towering, taken: Collection[int]) -> tuple[int, ...]:
    """The layers of a tower, from 0, behind which rows are taken; none where all are of its end, or it is not known.

    What is taken in the middle of a layer is told of no layer.
    """
    layers = {layer[-1].joints[-1].add: number for number, layer in enumerate(one.layers)}
    layers |= dict.fromkeys((one.chains[-1].end, one.end), len(one.layers) - 1)
    if not set(taken) - {one.end} or any(place not in layers for place in taken):
        return ()
    return tuple(sorted({layers[place] for place in taken}))


def find_meeting(flow: Flow, first: set[int], second: set[int], inside: Collection[int]) -> int | None:
    """The product in which steps that two towers reach meet; None if there is none.

    `inside` are the steps of all towers: what meets there meets in an attention. So does what meets in one that stands
    behind all layers (SAM 3: the words that the masks are of). Products added up along the batch meet no rows: each
    number meets each (Barlow Twins). Nor is anything compared where more rows are multiplied with what is made: the
    keys and values of an attention without scores (DAEFormer), or where products made what meets.
    """
    inside = {*inside, *(site.scores for site in list_sites(flow))}
    for place in sorted((first & second).difference(inside)):
        makers = flow.makers[place]
        if is_product(flow, place) and len(makers) >= 2 and "batch" not in list_added_along(flow.steps[place]):
            sides = [(one in first, one in second) for one in makers[-2:]]
            made = (flow.carried_from(one, CARRYING | SCALINGS) for one in makers[-2:])
            beside = {one for one in made if one is not None} | follow(flow, place, CARRYING | SCALINGS)[1]
            if sorted(sides) == [(False, True), (True, False)] and not any(is_product(flow, one) for one in beside):
                return place
    return None


def reach_from(flow: Flow, tower: Towering, inside: Collection[int]) -> set[int]:
    """The end of a tower, and all steps that work on what it made, as far as the next tower."""
    found = {tower.end, *(chain.end for chain in tower.chains)}
    for place in range(min(found) + 1, len(flow.steps)):
        if place not in inside and any(maker in found for maker in flow.makers[place]):
            found.add(place)
    return found


def list_ends_behind(flow: Flow, start: int | None, ends: Collection[int], *, through_ids: bool = False) -> list[int]:
    """The ends and sums of towers that a stream begins with; not of those that say which rows are picked (OmDet).

    Rows of a table are the table's, be it of what another tower gives that their ids are worked out, unless it is to be
    gone `through_ids` too (X-Codec).
    """
    found: list[int] = []
    seen: set[int] = set()
    todo: list[int | None] = [start]
    while todo and len(seen) < (MOST_TO_IDS if through_ids else MOST_BEHIND):
        here = todo.pop()
        if here is None or here in seen:
            continue
        seen.add(here)
        if here in ends:
            found.append(here)
            continue
        todo += list_taken_from(flow, here, through_ids=through_ids)
    return found


def list_taken_from(flow: Flow, place: int, *, through_ids: bool = False) -> list[int]:
    """The steps whose numbers a step works on; not those that say which rows it picks, or whose rows it leaves out.

    It may be gone `through_ids` of a table too, to what these are worked out of.
    """
    if flow.op(place) in LOOKUPS:
        picks = not through_ids
    else:
        picks = flow.op(place) in PICKING and flow.steps[place].inputs[0].is_float
    cut = find_cut_part(flow, place)
    taken = flow.given(place) if cut is None else [cut]
    return [maker for record, maker in taken if maker is not None and (record.is_float or not picks)]
