"""The towers of one pass."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.operation_kinds import FINDINGS, SIDE_BY_SIDE, SUMS
from xray.ir.flow.remembering import once
from xray.ir.trace import Pass, Trace
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.beside_layers import Boxes
from xray.story.anatomy.branches import Projection, Recurrence, Unknown
from xray.story.anatomy.tree import Group, Tower
from xray.story.body.layers import name_in_lists
from xray.story.body.naming import UNNAMED, name_towers, tell_beginnings
from xray.story.body.numbered import are_split, are_told_unlike
from xray.story.body.towers import Towering, list_results, read_tower
from xray.story.body.widths import end_of
from xray.story.branches.joint import list_looked_at
from xray.story.passages.norm_factors import list_from_one
from xray.story.passages.rows_between import is_worked_out, list_added_rows
from xray.story.recognition.between import Region, find_region
from xray.story.recognition.mixed_streams import mixes_unread
from xray.story.recognition.norms import Norm, find_norm
from xray.story.streams.corrected import are_shared, corrects_again, count_steps, find_corrections
from xray.story.streams.families import find_families, list_sums
from xray.story.streams.joints import Joint
from xray.story.streams.taps import leaves_last, list_taps

FEWEST_PIECES, FEWEST_SMALL, MOST_OF_A_PIECE = 4, 6, 2
"""So many towers that are alike, each with the keys of another one beside its own, are no towers."""


@dataclass(frozen=True)
class Reading:
    """The towers of one pass, with the steps that they were read from, and every attention of it."""

    flow: Flow
    towers: tuple[Towering, ...]
    sites: tuple[Site, ...]


@once
def read_passes(trace: Trace) -> tuple[Reading, ...]:
    """The towers of every pass; of turns of decoding that did the same operations the first, and the last.

    The last one has the most rows, and shows what one row does not: whether any of them sees the future.
    """
    alike: dict[object, list[Pass]] = {}
    for number, one_pass in enumerate(trace.passes):
        did = tuple((step.id, step.op) for step in one_pass.steps) if one_pass.kind == "decode" else number
        alike.setdefault(did, []).append(one_pass)
    kept = {id(one) for passes in alike.values() for one in (passes[0], passes[-1])}
    return tuple(read_pass(one_pass) for one_pass in trace.passes if id(one_pass) in kept)


@once
def read_pass(one_pass: Pass) -> Reading:
    """The towers of one pass."""
    flow = read_flow(one_pass)
    sites = list_sites(flow)
    families = find_families(flow, sites)
    names: dict[int, str] = {}
    towers: list[Towering] = []
    sums = {add: f"{UNNAMED}{number}" for number, family in enumerate(families) for add in list_sums(family)}
    for number, family in enumerate(families):
        own = dict.fromkeys(list_sums(family), "self")
        tower = read_tower(flow, family, sites, names | own, sums, list_stems(flow, towers))
        towers.append(tower)
        names |= dict.fromkeys(list_results(flow, tower), f"{UNNAMED}{number}")
    towers = name_towers(flow, towers)
    mixed = any(is_joint(tower.tower) for tower in towers) or are_in_turn(towers)
    towers = [tell_apart(flow, one, towers, sites) if mixed or holds_another(one, towers) else one for one in towers]
    towers = tell_beginnings(flow, [tell_added(flow, one, towers) for one in towers])
    towers = [tell_from_one(flow, tell_boxes(flow, one), towers) for one in towers]
    towers = tell_tapped(flow, towers)
    towers = [leave_others(flow, number, towers) for number in range(len(towers))]
    read = [joint.mixing for one in towers for joint in list_joints(one) if joint.mixing is not None]
    is_unread = (
        are_pieces([one.tower for one in towers]) or are_worked_in(flow, towers) or mixes_unread(flow, sites, read)
    )
    is_unread = is_unread or any(add_up_apart(flow, one) or holds_sums_alike(flow, one, towers) for one in towers)
    is_unread = (
        is_unread
        or are_told_unlike(flow, {joint.add for one in towers for joint in list_joints(one)})
        or work_into_each_other(flow, towers)
        or are_split(flow, [max(one.sums) for one in towers if len(one.layers) == 1])
    )
    return Reading(flow, () if is_unread else tuple(towers), sites)


def attends_elsewhere(reading: Reading) -> bool:
    """Whether some attention of a pass is part of no layer of a tower."""
    layers = frozenset[int]().union(*(staging.nodes for tower in reading.towers for staging in tower.stagings))
    return any(site.softmax not in layers for site in reading.sites)


def tell_added(flow: Flow, one: Towering, towers: Sequence[Towering]) -> Towering:
    """A tower with the layers behind which rows of another one are added to its stream."""
    theirs = frozenset[int]().union(*(other.sums for other in towers if other is not one))
    added = tuple(list_added_rows(flow, one.layers, theirs)) if theirs else ()
    if not added:
        return one
    names = {end: other.tower.name for other in towers for end in other.sums}
    ends = {layer[-1].joints[-1].add: number for other in towers for number, layer in enumerate(other.layers)}
    groups = part_groups(one.tower.groups, [rows.layer for rows in added if is_worked_out(flow, rows)])
    told = replace(one.tower, rows_added=tuple(rows.layer for rows in added), groups=groups)
    layers = {node for other in towers for staging in other.stagings for node in staging.nodes}
    parted = ((rows, sorted(layers.intersection(rows.nodes))) for rows in added)
    ways = (
        replace(rows, nodes=tuple(one for one in rows.nodes if one not in inside), given=max([rows.source, *inside]))
        for rows, inside in parted
    )
    named = (replace(rows, of=names[rows.source], behind=ends.get(rows.source)) for rows in ways)
    return replace(one, tower=told, added=tuple(named))


def leave_others(flow: Flow, number: int, towers: Sequence[Towering]) -> Towering:
    """The tower of a number, whose entrance has no steps that stand between the layers of another one (Swin-Unet).

    Nor those by which an earlier one begins with what layers gave: these have their boxes there.
    """
    one, behind = towers[number], {*flow.ahead(*(add for other in towers for add in other.sums))}
    earlier = (other.entrance & behind for other in towers[:number])
    theirs = frozenset[int]().union(
        *earlier, *(bridge.nodes for two in towers if two is not one for bridge in two.bridges)
    )
    return one if one.start in theirs else replace(one, entrance=one.entrance - theirs)


def tell_tapped(flow: Flow, towers: Sequence[Towering]) -> list[Towering]:
    """The towers with what leaves them before their last layers."""
    taken = set[int]().union(*(one.nodes for one in towers))
    told: list[Towering] = []
    for one in towers:
        ends = [(layer[-1].joints[-1].add, layer[-1].norms) for layer in one.layers]
        given = [{add, *(norm.end for norm in norms if norm.end > add)} for add, norms in ends]
        taps = list_taps(flow, given, taken)
        behind = taken.difference(() if one.final is None else one.final.nodes)
        last = [len(given) - 1] if taps and leaves_last(flow, given[-1], behind) else []
        tapped = (*(tap.layer for tap in taps), *last)
        told.append(replace(one, taps=taps, tower=replace(one.tower, tapped=tapped)))
    return told


def tell_from_one(flow: Flow, one: Towering, towers: Sequence[Towering]) -> Towering:
    """A tower with where its norms stand that multiply by 1 + their weights; silent where one is not known."""
    found: dict[str, set[bool | None]] = {}
    for site, norm in list_norms(flow, one, {other.end for other in towers if other is not one}):
        found.setdefault(site, set()).update(list_from_one(flow, norm))
    if not any(True in ways for ways in found.values()) or any(None in ways for ways in found.values()):
        return one
    from_one, others = (tuple(site for site, ways in found.items() if way in ways) for way in (True, False))
    return replace(one, tower=replace(one.tower, from_one=from_one, not_from_one=others))


def list_norms(flow: Flow, one: Towering, others: Collection[int]) -> Iterator[tuple[str, Norm]]:
    """The norms of a tower, each with where it stands: around a sublayer, in a part, before or behind all layers.

    Those of rows that `others` end with are none of its own (the merger of Qwen 3.5's eye).
    """
    around = [norm for staging in one.stagings for norm in staging.norms]
    yield from (("sublayer", norm) for norm in around)
    taken = set[int]().union(*(norm.nodes for norm in around))
    led = flow.ahead(*others, within=lambda node: node in others or node in one.entrance)
    inside = {"entrance": set(one.entrance).difference(led)}
    for own in (own for staging in one.stagings for own in staging.branches):
        kind = own.branch.kind if isinstance(own.branch, Recurrence) else None
        inside.setdefault(kind or own.branch.part, set()).update(own.region.inner)
    for site, nodes in inside.items():
        norms = (find_norm(flow, node) for node in sorted(nodes - taken))
        yield from ((site, norm) for norm in norms if norm is not None and taken.isdisjoint(norm.nodes))
    if one.final is not None:
        yield "last", one.final


def tell_boxes(flow: Flow, one: Towering) -> Towering:
    """A tower with the boxes beside its stream that its layers correct."""
    inside = [
        frozenset[int]().union(
            *({joint.add, *joint.region.inner} for staging in layer for joint in staging.joints),
            *(norm.nodes for staging in layer for norm in staging.norms),
        )
        for layer in one.layers
    ]
    ends = [end_of(layer) for layer in one.layers]
    found = find_corrections(flow, list(zip(ends, inside, strict=True)))
    if not found:
        return one
    begun = found[0].layer if found[0].add is None else None
    behind = [each.layer for each in found if each.add is not None or each.first]
    behind += [one.tower.layers - 1] if corrects_again(flow, ends[-1], found[-1]) else []
    steps = None if begun is None else count_steps(flow, found[0], found[1])
    boxes = Boxes(tuple(behind), are_shared(flow, found), begun, steps)
    return replace(one, tower=replace(one.tower, boxes=boxes), corrections=found)


def part_groups(groups: Sequence[Group], added: Sequence[int]) -> tuple[Group, ...]:
    """Groups of layers, those behind which rows are added first apart from the others, where these are as many."""
    last = max(added, default=-1)
    is_begun = 0 < 2 * len(added) <= sum(group.count for group in groups) and len(added) == last + 1
    found: list[Group] = []
    for group in groups:
        parts = [[one for one in group.layers if (one > last) == is_behind] for is_behind in (False, True)]
        held = [part for part in parts if part] if is_begun else [list(group.layers)]
        found += [replace(group, layers=tuple(part), shared=group.shared if len(part) > 1 else None) for part in held]
    return tuple(found)


def are_pieces(towers: Sequence[Tower]) -> bool:
    """Whether many towers alike stand beside one another in their attentions: pieces of a stream that has no one way.

    What a layer reads is chosen anew among what earlier pieces gave (Inkling 2); a tower is no such piece. Nor are many
    that have a layer or two: streams side by side that are worked into one another all the way (CoaT, CrossViT).
    """
    besides = Counter(outline(tower) for tower in towers if is_joint(tower))
    small = Counter(outline(tower) for tower in towers if tower.layers <= MOST_OF_A_PIECE)
    return max(besides.values(), default=0) >= FEWEST_PIECES or max(small.values(), default=0) >= FEWEST_SMALL


def are_worked_in(flow: Flow, towers: Sequence[Towering]) -> bool:
    """Whether two towers have weights in common, the steps of which would stand in two boxes, and sums or most of one.

    So one is worked into the other (LookViT), or stands inside a branch of it (LViT's sums around halves of a U-Net).
    """

    def list_weighing(nodes: Collection[int]) -> set[int]:
        return {node for node in nodes if flow.is_leaf(node) and flow.steps[node].params}

    inside = [frozenset[int]().union(*(staging.nodes for staging in one.stagings)) for one in towers]
    for (one, nodes), (other, its) in combinations(zip(towers, inside, strict=True), 2):
        both = list_weighing(nodes & its)
        least = min(map(len, map(list_weighing, (nodes, its))))
        if (
            both
            and not go_together(flow, one, other)
            and ((one.sums | other.sums) & nodes & its or 2 * len(both) > least)
        ):
            return True
    return False


def go_together(flow: Flow, one: Towering, other: Towering) -> bool:
    """Whether each layer of a tower lays its rows end to end with those of the other's, and only then has steps of it.

    No sum is among these (CogVideoX). The first layers may be each tower's alone (FLUX.3).
    """
    parts = ([[*chain(*(part.joints for part in layer))] for layer in each.layers] for each in (one, other))
    mine, theirs = ([[joint.region.inner for joint in layer] for layer in each] for each in parts)
    both = [[first & second for first, second in zip(*pair, strict=False)] for pair in zip(mine, theirs, strict=False)]
    shared = (nodes for nodes in chain(*both) if nodes)
    are_joined = all(flow.op(min(nodes)) in SIDE_BY_SIDE and not nodes & (one.sums | other.sums) for nodes in shared)
    joined = [any(layer) for layer in both]
    return [*map(len, mine)] == [*map(len, theirs)] and are_joined and any(joined) and joined == sorted(joined)


def work_into_each_other(flow: Flow, towers: Sequence[Towering]) -> bool:
    """Whether sublayers that are not known of two towers each read what the other one's made, before it adds that up.

    Streams of maps of several sizes give each other so, in every block, what each has found (CoaT). Or whether linear
    layers of both each work on the other stream too (E2 TTS).
    """
    sums = frozenset[int]().union(*(one.sums for one in towers))
    made = [frozenset[int]().union(*(joint.region.inner - sums for joint in list_joints(one))) for one in towers]
    ways = [{*flow.behind(*list_read_beside(flow, one, Unknown), within=lambda at: at not in sums)} for one in towers]
    led = [{*flow.behind(*list_read_beside(flow, one, Projection), ends=sums.__contains__)} for one in towers]
    pairs = list(combinations(range(len(towers)), 2))
    are_led = any(led[one] & towers[other].sums and led[other] & towers[one].sums for one, other in pairs)
    return are_led or any(ways[one] & made[other] and ways[other] & made[one] for one, other in pairs)


def list_read_beside(flow: Flow, one: Towering, kind: type) -> Iterator[int | None]:
    """The makers of what branches of a tower that are of a kind read beside its stream."""
    for own in (own for staging in one.stagings for own in staging.branches if isinstance(own.branch, kind)):
        held = own.region.inner | {own.region.start}
        yield from (maker for node in own.region.inner for maker in flow.makers[node] if maker not in held)


def add_up_apart(flow: Flow, one: Towering) -> bool:
    """Whether branches of a layer that begin at one point are not added up: two images go each their way (LoFTR).

    They go through the same layers, and look at each other there.
    """
    pairs = ((first.add, second.add) for staging in one.stagings for first, second in pairwise(staging.joints))
    return any(first not in flow.behind(second, within=first.__le__) for first, second in pairs)


def holds_sums_alike(flow: Flow, one: Towering, towers: Sequence[Towering]) -> bool:
    """Whether a sublayer holds sums that stand in another block where a list has those of another tower.

    So do two streams of which each is worked into the other in every block: what one of them is in the last block is a
    tower, and what it is in all others is in the sublayers of the other stream (the Evoformer's rows and pairs).
    """
    theirs = {name_in_lists(flow, add) for other in towers if other is not one for add in other.sums}
    taken = frozenset[int]().union(*(other.sums for other in towers))
    adding = {node for node in range(len(flow.steps)) if flow.op(node) in SUMS and flow.is_leaf(node)} - taken
    inside = (joint.region.inner & adding for joint in list_joints(one))
    return any([name_in_lists(flow, add) in theirs for add in held].count(True) > 1 for held in inside)


def outline(tower: Tower) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """How many layers of each kind a tower has, by the parts of one."""
    return tuple(
        (group.count, tuple(branch.part for stage in group.stages for branch in stage.branches))
        for group in tower.groups
    )


def is_joint(tower: Tower) -> bool:
    """Whether keys of another stream stand beside its own."""
    return any(isinstance(branch, Attention) and branch.beside is not None for branch in tower.branches)


def are_in_turn(towers: Sequence[Towering]) -> bool:
    """Whether a stream goes on before another one that began behind its beginning has ended: they take turns (SAM)."""
    spans = [(min(one.sums), max(one.sums)) for one in towers]
    return any(first < begun < last for first, last in spans for begun, _ in spans)


def holds_another(one: Towering, towers: Sequence[Towering]) -> bool:
    """Whether another tower stands beside a sum: it began behind what the sum adds to (the images of IDEFICS)."""
    beside = frozenset[int]().union(*(joint.region.beside for joint in list_joints(one)))
    return any(not beside.isdisjoint(other.sums) for other in towers if other is not one)


def tell_apart(flow: Flow, one: Towering, towers: Sequence[Towering], sites: Sequence[Site]) -> Towering:
    """A tower read once more beside the others: their steps are not its own, and those after it have names now."""
    others = [other for other in towers if other is not one]
    walls = {
        id(each): frozenset[int]().union(*(other.sums for other in towers if other is not each)) for each in towers
    }

    def cut(joint: Joint, owner: Towering) -> Region:
        region = joint.region
        if walls[id(owner)].isdisjoint(region.inner):
            return region
        return find_region(flow, region.start, region.end, walls=walls[id(owner)]) or region

    own = [cut(joint, one) for joint in list_joints(one)]
    of_others = [cut(joint, other) for other in others for joint in list_joints(other)]
    theirs = frozenset[int]().union(
        *(region.inner for region in of_others),
        *(norm.nodes for other in others for staging in other.stagings for norm in staging.norms),
        *(other.sums | list_ends(other) for other in others),
        list_looked_at(flow, own, of_others, sites),
        list_made_for_many(flow, own, others, sites),
    )

    def part(joint: Joint) -> Joint:
        region = cut(joint, one)
        return replace(joint, region=replace(region, beside=region.beside - theirs))

    chains = [replace(chain, joints=list(map(part, chain.joints))) for chain in one.chains]
    joined = others if any(is_joint(each.tower) for each in towers) else []
    names = {chain.start: other.tower.name for other in joined for chain in other.chains if chain.start is not None}
    names |= {end: other.tower.name for other in others for end in list_results(flow, other)}
    names |= dict.fromkeys(one.sums, "self")
    found = read_tower(flow, chains, sites, names, shared=list_stems(flow, towers[: towers.index(one)]))
    return replace(found, tower=replace(found.tower, name=one.tower.name, entrance=one.tower.entrance))


def list_made_for_many(
    flow: Flow, regions: Sequence[Region], others: Sequence[Towering], sites: Sequence[Site]
) -> frozenset[int]:
    """The steps that work on what other towers end with for several sums of one, before keys and values are made."""
    beside = frozenset[int]().union(*(region.beside for region in regions))
    looking = {node for site in sites for way in (site.key, site.value) for node in way.nodes}
    read = Counter(
        node
        for region in regions
        for node in flow.behind(
            *(maker for inner in region.inner for maker in flow.makers[inner]),
            within=lambda place: place in beside,
        )
    )
    ends = {other.end for other in others}
    made = flow.ahead(*ends, within=lambda place: place in ends or place in beside)
    return frozenset(node for node in made if read[node] > 1 and node not in looking)


def list_ends(one: Towering) -> frozenset[int]:
    """The steps of a tower's entrance, and those of its last norm."""
    return frozenset(one.entrance).union(() if one.final is None else one.final.nodes)


def list_stems(flow: Flow, towers: Sequence[Towering]) -> set[int]:
    """The convolutions that stand before some towers, and what is worked out of them there."""
    found = set[int]()
    for one in towers:
        finders = {node for node in one.entrance if flow.op(node) in FINDINGS}
        found |= finders.union(flow.ahead(*finders, within=one.entrance.__contains__))
    return found


def list_joints(one: Towering) -> list[Joint]:
    """The sums of a tower."""
    return [joint for chain in one.chains for joint in chain.joints]
