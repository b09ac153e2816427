"""Towers that ran in different passes put together: an encoder in one, its decoder in others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SOFTMAXES
from xray.ir.flow.projections import is_product
from xray.ir.flow.remembering import once
from xray.ir.trace import Trace
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Branch
from xray.story.anatomy.tree import Link, Tower
from xray.story.body.naming import change_tower
from xray.story.body.reading import Reading, read_pass
from xray.story.body.towers import Towering
from xray.story.body.widths import find_lender, list_working
from xray.story.cutting.patterns import Layer
from xray.story.recognition.between import Region
from xray.story.recognition.curved_sites import STEPS

MOST_BEHIND = 80


def pick_reading(readings: Sequence[Reading]) -> Reading | None:
    """The pass that tells most: the most stages, then the most that is proven, then the first; None if none does."""
    told = [reading for reading in readings if has_substance(reading)]
    return max(told, key=lambda one: (count_stages(one), count_proven(one)), default=None)


def has_substance(reading: Reading) -> bool:
    """Whether any tower holds something that is known, or mixes rows by what they make of each other (HSTU).

    Sums of nothing that is known are no tower (Autoformer).
    """
    found = [one for tower in reading.towers for staging in tower.stagings for one in staging.branches]
    return any(one.branch.part != "unknown" or weighs_rows(reading.flow, one.region) for one in found)


def weighs_rows(flow: Flow, region: Region) -> bool:
    """Whether what a product of data gives goes into another one as weights of attention do, bent in place of softmax.

    So it is where queries, keys and values are not told apart, as where a softmax goes along another axis (PCT).
    """
    products = {node for node in region.inner if is_product(flow, node)}
    ways = products.union(node for node in region.inner if flow.op(node) in STEPS | SOFTMAXES)
    made = (flow.ahead(*flow.readers.get(node, ()), within=ways.__contains__) for node in products)
    return any(not products.isdisjoint(reached) for reached in made)


def count_stages(reading: Reading) -> int:
    return sum(len(tower.stagings) for tower in reading.towers)


def count_proven(reading: Reading) -> int:
    """In how many attentions it is known whether the future is hidden."""
    return sum(
        isinstance(branch, Attention) and branch.causal is not None
        for one in reading.towers
        for branch in one.tower.branches
    )


def list_others(readings: Sequence[Reading], chosen: Reading) -> Iterator[tuple[Reading, Towering]]:
    """The towers of other passes whose learned steps no tower before has."""
    known = {path for tower in chosen.towers for path in learned_paths(chosen.flow, tower)}
    for reading in sorted(readings, key=count_stages, reverse=True):
        for tower in reading.towers if reading is not chosen else ():
            own = learned_paths(reading.flow, tower)
            if own and not own & known:
                known |= own
                yield reading, tower


def learned_paths(flow: Flow, one: Towering) -> set[str]:
    """The paths of the learned steps of a tower's layers."""
    return {flow.steps[node].path for staging in one.stagings for node in staging.nodes if flow.steps[node].params}


def join_towers(chosen: Reading, others: Sequence[tuple[Reading, Towering]]) -> tuple[tuple[Tower, ...], list[Link]]:
    """All towers in one row, those of other passes first, each attention told what tower it looks at."""
    ends = {reading.flow.steps[tower.end].id: tower for reading, tower in others}
    sources = {
        number: found
        for number, one in enumerate(chosen.towers)
        if (found := ends.get(find_memory(chosen.flow, one) or "")) is not None
    }
    names = name_all([tower for _, tower in others], chosen, set(map(id, sources.values())))
    first = [replace(tower.tower, name=names[id(tower)]) for _, tower in others]
    links: list[Link] = []
    rest: list[Tower] = []
    for number, one in enumerate(chosen.towers):
        tower = replace(one.tower, name=names[id(one)])
        before = [other.layers for other in chosen.towers[:number]]
        lender, partner = (find(chosen.flow, one.layers, before) for find in (find_lender, find_partner))
        if lender is not None:
            tower = replace(tower, weights_of=names[id(chosen.towers[lender])])
        elif partner is not None:
            tower = replace(tower, some_weights_of=names[id(chosen.towers[partner])])
        if number in sources:
            source = names[id(sources[number])]
            tower = change_tower(tower, partial(look_out, source=source))
            links.append(Link("memory", source, tower.name))
        rest.append(tower)
    return (*first, *rest), links


def find_partner(flow: Flow, layers: Sequence[Layer], others: Sequence[Sequence[Layer]]) -> int | None:
    """Which of some towers has layers that work with some of the weights of these, in other steps; None if none has."""
    own = list_working(flow, layers)
    shared = (
        not {own[node] for node in own.keys() - there}.isdisjoint(there[node] for node in there.keys() - own)
        for there in (list_working(flow, one) for one in others)
    )
    return next((number for number, is_one in enumerate(shared) if is_one), None)


def name_all(others: Sequence[Towering], chosen: Reading, memories: set[int]) -> dict[int, str]:
    """A name for each tower; one that is looked at by another is an encoder."""
    names: dict[int, str] = {}
    used: dict[str, int] = {}
    for one in [*others, *chosen.towers]:
        name = "encoder" if id(one) in memories else one.tower.name
        used[name] = used.get(name, 0) + 1
        names[id(one)] = name if used[name] == 1 else f"{name} {used[name]}"
    return names


@once
def name_towers(trace: Trace) -> dict[int, str]:
    """The name of every tower of every pass, by its `id`; in several passes one is known by its learned steps."""
    readings = [read_pass(one_pass) for one_pass in trace.passes]
    chosen = pick_reading(readings)
    if chosen is None:
        return {}
    others = list(list_others(readings, chosen))
    joined, _ = join_towers(chosen, others)
    named = [*others, *((chosen, one) for one in chosen.towers)]
    known = [
        (learned_paths(reading.flow, one), tower.name) for (reading, one), tower in zip(named, joined, strict=True)
    ]
    found: dict[int, str] = {}
    for reading in readings:
        for one in reading.towers:
            own = learned_paths(reading.flow, one)
            found[id(one)] = next((name for paths, name in known if own & paths), one.tower.name)
    return found


def look_out(branch: Branch, source: str) -> Branch:
    """A branch that looks at that source, if it is an attention that looks out of its pass."""
    if not isinstance(branch, Attention) or branch.source is not None:
        return branch
    return replace(branch, source=source, of_others_too=None)


def find_memory(flow: Flow, one: Towering) -> str | None:
    """The step of an earlier pass that made what a tower's cross-attention looks at."""
    for staging in one.stagings:
        for branching in staging.branches:
            branch, site = branching.branch, branching.site
            if site is None or not isinstance(branch, Attention) or branch.source is not None:
                continue
            found = source_outside(flow, flow.makers[site.scores][-1]) or source_outside(
                flow, flow.makers[site.weighted_sum][-1]
            )
            if found is not None:
                return found
    return None


def source_outside(flow: Flow, place: int | None) -> str | None:
    """The step of an earlier pass that something is made of."""
    for here in flow.behind(place, most=MOST_BEHIND):
        for record, maker in flow.taken(here):
            if maker is None and record.source is not None and record.role != "parameter" and len(record.shape) >= 3:
                return record.source
    return None
