"""The towers of one pass."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow, read_flow
from xray.ir.flow.operation_kinds import FINDINGS, LOOKUPS
from xray.ir.flow.remembering import once
from xray.ir.trace import Pass, Trace
from xray.story.anatomy.tree import Attention, Branch, Stage, Tower
from xray.story.body.joints import Joint
from xray.story.body.spine import Chain, convolves_little, find_chains, leave_side_ways
from xray.story.body.stages import Staging
from xray.story.body.towers import Towering, read_tower
from xray.story.branches.joint import find_beside
from xray.story.branches.operands import read_sides
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import Region, find_region
from xray.story.recognition.ways import find_straight_ends

LEAST_JOINTS, NEAR_BEHIND, MOST_BEHIND, FAR_BEHIND = 2, 8, 80, 200
NAMES = {"ids": "text", "image": "vision", "video": "vision", "audio": "audio"}
"""What a tower is called by what it reads."""
UNNAMED = "#"
"""Stands before the number of a tower that has no name yet."""
FEWEST_PIECES = 4
"""So many towers that are alike, each with the keys of another one beside its own, are no towers."""
FEATURE_MAP = 4
"""How many axes a picture has: batch, channels, height, width."""


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
        tower = read_tower(flow, family, sites, names | dict.fromkeys(list_sums(family), "self"), sums)
        towers.append(tower)
        names |= dict.fromkeys([tower.end, *tower.sums], f"{UNNAMED}{number}")
    towers = name_towers(towers, find_memories(flow, families, sites))
    if any(is_joint(tower.tower) for tower in towers) or are_in_turn(towers):
        towers = [tell_apart(flow, one, towers, sites) for one in towers]
    return Reading(flow, () if are_pieces([one.tower for one in towers]) else tuple(towers), sites)


def are_pieces(towers: Sequence[Tower]) -> bool:
    """Whether many towers alike stand beside one another in their attentions: pieces of a stream that has no one way.

    What a layer reads is chosen anew among what earlier pieces gave (Inkling 2); a tower is no such piece.
    """
    besides = Counter(
        tuple(
            (group.count, tuple(branch.part for stage in group.stages for branch in stage.branches)) for group in groups
        )
        for groups in (tower.groups for tower in towers if is_joint(tower))
    )
    return max(besides.values(), default=0) >= FEWEST_PIECES


def find_families(flow: Flow, sites: Sequence[Site]) -> list[list[Chain]]:
    """The chains of each tower; a few convolutions behind attention predict or sound, and are none (VITS)."""
    chains = leave_side_ways(flow, find_chains(flow, sites))
    kept = [kept for one in join_chains(flow, chains, sites) if (kept := keep_stream(flow, one, sites))]
    attending = {add for one in kept if any(has_site(chain, sites) for chain in one) for add in list_sums(one)}
    return [one for one in kept if not convolves_little(flow, one) or attending.isdisjoint(flow.behind(one[0].start))]


def name_towers(towers: Sequence[Towering], memories: Collection[int]) -> list[Towering]:
    """The same towers, named, and by their names in the attentions that look at them."""
    names: list[str] = []
    for number, one in enumerate(towers):
        crosses = any_cross(one.tower) and not any(
            f"{UNNAMED}{number}" in list_sources(towers[other].tower) for other in list_asked(one.tower)
        )
        name = name_tower(one.tower, number in memories, crosses)
        used = 1 + sum(known.split(" ")[0] == name for known in names)
        names.append(name if used == 1 else f"{name} {used}")
    return [
        tell_names(replace(one, tower=replace(one.tower, name=name)), names)
        for one, name in zip(towers, names, strict=True)
    ]


def list_sources(tower: Tower) -> set[str]:
    """What the attentions of a tower look at."""
    return {branch.source for branch in tower.branches if isinstance(branch, Attention) and branch.source is not None}


def list_asked(tower: Tower) -> list[int]:
    """The numbers of the towers that a tower without a name looks at."""
    return [int(one.removeprefix(UNNAMED)) for one in list_sources(tower) if one.startswith(UNNAMED)]


def tell_names(towering: Towering, names: Sequence[str]) -> Towering:
    """A tower whose attentions tell other towers by their names."""

    def settle(branch: Branch) -> Branch:
        if not isinstance(branch, Attention):
            return branch
        source, beside = (
            names[int(told.removeprefix(UNNAMED))] if told is not None and told.startswith(UNNAMED) else told
            for told in (branch.source, branch.beside)
        )
        return replace(branch, source=source, beside=beside)

    def settle_stage(stage: Stage) -> Stage:
        return replace(stage, branches=tuple(map(settle, stage.branches)))

    def settle_staging(staging: Staging) -> Staging:
        found = tuple(replace(one, branch=settle(one.branch)) for one in staging.branches)
        return replace(staging, stage=settle_stage(staging.stage), branches=found)

    tower = towering.tower
    groups = tuple(replace(group, stages=tuple(map(settle_stage, group.stages))) for group in tower.groups)
    settled = {id(one): settle_staging(one) for layer in (towering.stagings, *towering.layers) for one in layer}
    return replace(
        towering,
        tower=replace(tower, groups=groups),
        stagings=tuple(settled[id(one)] for one in towering.stagings),
        layers=tuple(tuple(settled[id(one)] for one in layer) for layer in towering.layers),
    )


def is_joint(tower: Tower) -> bool:
    """Whether keys of another stream stand beside its own."""
    return any(isinstance(branch, Attention) and branch.beside is not None for branch in tower.branches)


def are_in_turn(towers: Sequence[Towering]) -> bool:
    """Whether a stream goes on before another one that began behind its beginning has ended: they take turns (SAM)."""
    spans = [(min(one.sums), max(one.sums)) for one in towers]
    return any(first < begun < last for first, last in spans for begun, _ in spans)


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

    theirs = frozenset[int]().union(*(cut(joint, other).inner for other in others for joint in list_joints(other)))

    def part(joint: Joint) -> Joint:
        region = cut(joint, one)
        return replace(joint, region=replace(region, beside=region.beside - theirs))

    chains = [replace(chain, joints=list(map(part, chain.joints))) for chain in one.chains]
    joined = others if any(is_joint(each.tower) for each in towers) else []
    names = {chain.start: other.tower.name for other in joined for chain in other.chains if chain.start is not None}
    names |= {end: other.tower.name for other in others for end in (other.end, *other.sums)}
    names |= dict.fromkeys(one.sums, "self")
    found = read_tower(flow, chains, sites, names)
    return replace(found, tower=replace(found.tower, name=one.tower.name, entrance=one.tower.entrance))


def list_sums(chains: Sequence[Chain]) -> list[int]:
    """The sums of some chains: a key that comes from one of them comes from the stream itself, of a layer before."""
    return [joint.add for chain in chains for joint in chain.joints]


def list_joints(one: Towering) -> list[Joint]:
    """The sums of a tower."""
    return [joint for chain in one.chains for joint in chain.joints]


def keep_stream(flow: Flow, chains: Sequence[Chain], sites: Sequence[object]) -> list[Chain]:
    """The chains of a tower that are a stream: of several sums, or with an attention.

    A sum alone is a stage if what it adds to is a picture, and stages come behind it (EfficientNet).
    """
    long = [len(chain.joints) >= LEAST_JOINTS or has_site(chain, sites) for chain in chains]
    last = max((number for number, is_long in enumerate(long) if is_long), default=-1)
    return [
        chain
        for number, chain in enumerate(chains[: last + 1])
        if long[number] or len(flow.output(chain.end).shape) == FEATURE_MAP
    ]


def has_site(chain: Chain, sites: Sequence[object]) -> bool:
    return any(getattr(site, "softmax", -1) in joint.region.inner for site in sites for joint in chain.joints)


def any_cross(tower: Tower) -> bool:
    """Whether a tower looks at anything but itself."""
    return any(isinstance(branch, Attention) and branch.leaves_stream for branch in tower.branches)


def name_tower(tower: Tower, is_memory: bool, crosses: bool) -> str:
    """What a tower is called: by its part in a pair, else by what it reads."""
    if crosses:
        return "decoder"
    if is_memory:
        return "encoder"
    return NAMES.get(tower.reads or "", "stack")


def join_chains(flow: Flow, chains: Sequence[Chain], sites: Sequence[Site]) -> list[list[Chain]]:
    """Chains that follow one another as stages of one tower: the next begins with what the last one ends with."""
    families: list[list[Chain]] = []
    ends: dict[int, list[Chain]] = {}
    for chain in chains:
        before = end_behind(flow, chain.start, ends)
        family = None if before is None else ends[before]
        if family is None or family[-1].end != before or begins_anew(flow, family, chain, sites):
            family = []
            families.append(family)
        family.append(chain)
        ends[chain.end] = family
    return families


def begins_anew(flow: Flow, family: Sequence[Chain], following: Chain, sites: Sequence[Site]) -> bool:
    """Whether a chain is no stage of the tower before it: it is narrower, or a few convolutions behind attention."""
    is_little = convolves_little(flow, [following]) and any(has_site(one, sites) for one in family)
    return is_little or is_narrower(flow, family, following)


def is_narrower(flow: Flow, family: Sequence[Chain], following: Chain) -> bool:
    """Whether a chain goes on with fewer numbers for each place than there were for as many: a stack behind a neck.

    What an image becomes is brought to the width of an encoder (DETR) or of a predictor (V-JEPA 2). A map with more
    places, and fewer numbers for each, is a stage on the way back up.
    """
    (width, places), *_ = measure(flow, following)
    before = [each for chain in family for each in measure(flow, chain)]
    last, many = before[-1]
    is_up = places > many and is_map(flow, following)
    return (width < last and not is_up) or any(width < one and places == other for one, other in before)


def measure(flow: Flow, chain: Chain) -> list[tuple[int, int]]:
    """How many numbers the stream has for each place at the sums of a chain, and how many places."""
    shapes = [flow.output(joint.add).shape for joint in chain.joints]
    axes = list_axes(flow, chain)
    return [(shape[axis], prod(shape[1:]) // max(shape[axis], 1)) for axis, shape in zip(axes, shapes, strict=True)]


def list_axes(flow: Flow, chain: Chain) -> list[int]:
    """Which axis is as wide as a row at each sum of a chain: as it is made, or as at another sum that lies alike."""
    found = [find_axis(flow, joint) for joint in chain.joints]
    lying = [len(flow.output(joint.add).shape) for joint in chain.joints]
    known = {axes: axis for axis, axes in zip(found, lying, strict=True) if axis is not None}
    return [known.get(axes, -1) if axis is None else axis for axis, axes in zip(found, lying, strict=True)]


def find_axis(flow: Flow, joint: Joint) -> int | None:
    """Which axis but the first is as wide as a row at a sum, by what makes it, or by a convolution of that shape."""
    shape, found = flow.output(joint.add).shape, find_channels(flow, joint.region.end)
    if found:
        return found
    convolved = (node for node in joint.region.inner if flow.op(node) in FINDINGS)
    return 1 if any(flow.output(node).shape == shape for node in convolved) else None


def is_map(flow: Flow, chain: Chain) -> bool:
    """Whether channels stand before places at some sum of a chain."""
    axes = zip(list_axes(flow, chain), chain.joints, strict=True)
    return any(axis == 1 and len(flow.output(joint.add).shape) > len(("batch", "row")) for axis, joint in axes)


def end_behind(flow: Flow, start: int | None, ends: dict[int, list[Chain]]) -> int | None:
    """The end of a chain that the beginning of another is made of, if no table is looked into on the way.

    Where several are put together there, all of one tower, it is the last of them: the others are ways past it. Tables
    do not count if the chain before began with one of them too: a wider stream goes past both (Gemma 3n).
    """

    def is_end(here: int) -> bool:
        return here in ends or flow.op(here) in LOOKUPS or picks_best(flow, here)

    behind = list(flow.behind(start, most=FAR_BEHIND, ends=is_end))
    found = [here for here in behind if here in ends]
    if len({id(ends[end]) for end in found}) > 1:
        found = find_straight_ends(flow, start, ends)  # what others made is worked into that one's (BridgeTower)
    if len({id(ends[end]) for end in found}) != 1:
        return None
    last = max(found)
    if start is not None and leaves_one_row(flow, last, start):
        return None  # it begins anew (X-CLIP)
    looked_up = {here for here in behind if here not in ends and flow.op(here) in LOOKUPS}
    return last if not looked_up or not looked_up.isdisjoint(flow.behind(ends[last][-1].start)) else None


def leaves_one_row(flow: Flow, before: int, after: int) -> bool:
    """Whether of the rows of each sequence a single one is left, and no axis for more of them."""
    rows, row = flow.output(before).shape, flow.output(after).shape
    return len(row) == len(("batch", "width")) < len(rows) and row[0] == rows[0]


def picks_best(flow: Flow, here: int) -> bool:
    """Whether a step picks the rows that scored best: they begin another stream (RT-DETR)."""
    if flow.op(here) not in ("gather", "index", "index_select"):
        return False
    found = (maker for record, maker in flow.given(here) if not record.dtype.startswith(("float", "bfloat")))
    return any(flow.op(one) == "topk" for maker in found for one in flow.behind(maker, most=NEAR_BEHIND))


def find_memories(flow: Flow, families: Sequence[Sequence[Chain]], sites: Sequence[Site]) -> set[int]:
    """Which towers another one's cross-attention looks at."""
    ends = {chain.end: number for number, family in enumerate(families) for chain in family}
    found: set[int] = set()
    for number, family in enumerate(families):
        for chain in family:
            for joint in chain.joints:
                for site in sites:
                    if site.softmax not in joint.region.inner or site.kind != "cross":
                        continue
                    if find_beside(flow, read_sides(flow, site, joint.region)[1], joint.region) is not None:
                        continue
                    memory = tower_behind(flow, site.key.origin, ends)
                    if memory is not None and memory != number:
                        found.add(memory)
    return found


def tower_behind(flow: Flow, place: int | None, ends: dict[int, int]) -> int | None:
    """The tower whose end a tensor is made of, within a few steps."""
    return next((ends[here] for here in flow.behind(place, most=MOST_BEHIND) if here in ends), None)
