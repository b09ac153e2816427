"""The residual stream: sums that add a branch to the tensor that the branch began at, chained from end to start."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, LOOKUPS, SIDE_BY_SIDE
from xray.ir.flow.projections import is_product
from xray.story.recognition.between import does_mix, find_region, is_linear, list_reading_data, strip_plain
from xray.story.recognition.norms import Norm, find_norm
from xray.story.streams.asides import list_carried_readers
from xray.story.streams.cut_streams import part_streams
from xray.story.streams.joints import MOST_SUMS_OF_A_BRANCH, Joint, find_joints, root_of
from xray.story.streams.rejoined_rows import find_rejoining
from xray.story.streams.shortcuts import before_places, find_any_norm, step_back, with_turns
from xray.story.streams.side_ways import find_side_ways

FARTHEST = 24
MOST_OF_A_LAYER = 12
FEW_CONVOLUTIONS = 10


@dataclass
class Chain:
    """Joints that follow each other on one stream, in order; `skips` are sums that reach over several of them."""

    joints: list[Joint]
    skips: list[Joint]

    @property
    def start(self) -> int | None:
        """The step that made what the first branch and the first sum read."""
        return self.joints[0].stream

    @property
    def end(self) -> int:
        """The last sum."""
        return max([self.joints[-1].add, *(skip.add for skip in self.skips)])

    def reaches_back(self, skip: Joint) -> bool:
        """Whether a sum behind the last one adds what a later branch than the first began at."""
        return skip.add > self.joints[-1].add and skip.stream != self.start


def find_chains(flow: Flow, sites: Sequence[Site] = ()) -> list[Chain]:
    """The residual streams of a pass that are not inside a branch of another, in the order of their first sums.

    A sum around layers that began anew inside it, and behind which nothing more is done, is of none (Hiveformer).
    """
    joints = {joint.add: joint for joint in part_streams(flow, find_joints(flow, sites))}
    joints = {
        add: joint
        for add, joint in joints.items()
        if not leads_along(flow, joint, joints) and not holds_most(flow, joint, joints)
    }
    before = find_before(flow, joints, sites)
    for add in find_side_ways(flow, joints, before, sites):
        del joints[add], before[add]
    roots = {add: begin_of(flow, joint.stream) for add, joint in joints.items()}
    begun_at = {add: roots[min(chain_behind(add, before))] for add in joints}
    nested: set[int] = set()
    skips: dict[int, int] = {}
    for add, joint in joints.items():
        inside = [
            other
            for other in joints
            if other in joint.region.inner
            and (begun_at[other] == begun_at[add] or not passes_by(joints[first_in(other, joint, before)], joint))
        ]
        if not inside:
            continue
        begun = [
            other
            for other in inside
            if before[other] == before[add] and (before[add] is not None or roots[other] == roots[add])
        ]
        begun = begun or (list_begun_anew(flow, add, inside, joints, before) if find_sites(joint, sites) else [])
        last = follow(begun[0], set(inside), before) if begun else None
        sums = set() if last is None else chain_behind(last, before) & set(inside)
        looking = [one for one in inside if find_sites(joints[one], sites)]
        goes_around = not begun and len(inside) > 1 and looking and not goes_on(flow, joint, max(inside))
        if (goes_around and not leads_past(flow, joint, looking)) or is_lateral(
            flow, joint, sums if begun else inside, sites
        ):
            nested.add(add)
            continue
        if last is not None and (not goes_on(flow, joint, last) or len(sums) > 2 * MOST_SUMS_OF_A_BRANCH):
            skips[add] = before[add] = last
            nested |= set(inside) - chain_behind(last, before)
        else:
            nested |= set(inside)
    chains: list[Chain] = []
    ends: dict[int, Chain] = {}
    for add, joint in joints.items():
        if add in nested:
            continue
        if add in skips:
            chain = ends.get(skips[add])
            if chain is not None:
                chain.skips.append(joint)
                ends[add] = chain
            continue
        previous = before[add]
        chain = next((one for one in reversed(chains) if is_beside(one, joint)), None)
        if chain is None and previous is not None:
            chain = ends.get(previous)
            chain = None if chain is not None and chain.end != previous else chain
        if chain is None:
            chain = Chain([], [])
            chains.append(chain)
        within = tuple(joints[one] for one in sorted(joint.region.inner & nested))
        chain.joints.append(replace(joint, nested=within) if within else joint)
        ends[add] = chain
    return [leave_projected_end(flow, chain) for chain in chains]


def list_begun_anew(
    flow: Flow, add: int, inside: Sequence[int], joints: Mapping[int, Joint], before: Mapping[int, int | None]
) -> list[int]:
    """The sums within a branch, in order, where they are one stream of more than a branch has; else none of them.

    The stream was made shorter before, say, and is made as long again behind them (Squeezeformer). Where several came
    together in it, it is none of them (TransFuser).
    """
    outer = [one for one in inside if not any(one in joints[other].region.inner for other in inside)]
    sums = sorted(chain_behind(max(outer), before).intersection(inside))
    if len(sums) <= 2 * MOST_SUMS_OF_A_BRANCH or not set(outer).issubset(sums):
        return []
    met = joints.keys() & flow.behind(joints[sums[0]].stream, ends=joints.__contains__)
    return sums if met <= {before[add]} else []


def leave_projected_end(flow: Flow, chain: Chain) -> Chain:
    """A chain without last sums that make rows of another width by linear layers alone, on both ways (Chronos-Bolt).

    They make of the stream what is handed out, each for itself (two of them in TimesFM 2.5), where the stream comes by
    the sums before as it is; but for the first, which may make the rows that it begins with in the same way. Nor is one
    of a layer that adds what is made of all layers' rows side by side (ExpansionNet), or of their rows to some of them.
    """
    ends = [*takewhile(lambda joint: joint.stream == chain.joints[-1].stream, reversed(chain.joints))]
    before = chain.joints[: -len(ends)]
    if len(ends) == 1 and (joins_layers(flow, ends[0], before) or gathers_rows(flow, ends[0], before)):
        return replace(chain, joints=before)
    if len(before) < 2 or chain.skips or any(joint.past for joint in before[1:]):
        return chain
    ways = [way for joint in ends for way in (joint.past, joint.region.inner)]
    by_rows = all(any(is_linear(flow, node) for node in way) for way in ways)
    others = any(flow.op(node) in FINDINGS or is_product(flow, node) for way in ways for node in way)
    is_as_wide = any(flow.output(joint.add).shape[-1] == flow.output(before[-1].add).shape[-1] for joint in ends)
    return chain if is_as_wide or others or not by_rows else replace(chain, joints=before)


def joins_layers(flow: Flow, joint: Joint, before: Sequence[Joint]) -> bool:
    """Whether a branch begins with what several sums before gave, put side by side."""
    sums = {one.add for one in before}
    joins = (node for node in joint.region.inner if flow.op(node) in SIDE_BY_SIDE)
    given = ({strip_plain(flow, maker) for maker in flow.makers[node] if maker is not None} for node in joins)
    return any(len(makers) > 1 and makers <= sums for makers in given)


def gathers_rows(flow: Flow, joint: Joint, before: Sequence[Joint]) -> bool:
    """Whether a sum of fewer rows, in no numbered block, stands around those that hold each sum before (NAGphormer)."""
    around = {*flow.parents(joint.add)}
    holders = [{*flow.parents(one.add)} for one in before]
    if not holders or is_numbered(flow, around) or not all(around <= one and is_numbered(flow, one) for one in holders):
        return False
    made, given = flow.output(joint.add).shape, flow.output(before[-1].add).shape
    return len(made) == len(given) == 3 and made[::2] == given[::2] and made[1] < given[1]


def is_numbered(flow: Flow, blocks: Collection[int]) -> bool:
    """Whether one of some blocks is an element of a list."""
    return any(flow.steps[one].path.rpartition(".")[2].isdecimal() for one in blocks)


def count_streams(chains: Sequence[Chain]) -> int | None:
    """How many streams side by side every sum of some chains adds to; None where one adds to one alone."""
    counts = {None if joint.mixing is None else joint.mixing.count for chain in chains for joint in chain.joints}
    return counts.pop() if len(counts) == 1 else None


def leave_side_ways(flow: Flow, chains: Sequence[Chain]) -> list[Chain]:
    """The chains without sums alone whose rows are put beside those of a longer one, for one of its layers (X-CLIP)."""
    streams = {joint.stream for chain in chains if len(chain.joints) > 1 for joint in chain.joints}
    return [one for one in chains if len(one.joints) > 1 or streams.isdisjoint(list_joins(flow, one.end))]


def list_joins(flow: Flow, end: int) -> list[int]:
    """The steps that put what a step made beside something else, be it moved before."""
    return [reader for reader in list_carried_readers(flow, end) if flow.op(reader) in SIDE_BY_SIDE]


def convolves_little(flow: Flow, chains: Sequence[Chain]) -> bool:
    """Whether chains have a few sums, each of them of convolutions of rows."""
    joints = [joint for chain in chains for joint in chain.joints]
    return len(joints) <= FEW_CONVOLUTIONS and all(
        len(flow.output(joint.add).shape) == len(("batch", "channels", "row"))
        and any(flow.op(node) in FINDINGS and not is_linear(flow, node) for node in joint.region.inner)
        and not any(is_product(flow, node) for node in joint.region.inner)
        for joint in joints
    )


def begin_of(flow: Flow, stream: int | None) -> int | None:
    """Where a stream comes from, norms and places that are added to it left out."""
    root = root_of(flow, stream)
    before = before_places(flow, root)
    return root if before is None else strip_plain(flow, before)


def first_in(add: int, joint: Joint, before: Mapping[int, int | None]) -> int:
    """The first sum within a branch on the stream of a sum within it."""
    previous = before[add]
    while previous is not None and previous in joint.region.inner:
        add, previous = previous, before[previous]
    return add


def passes_by(first: Joint, joint: Joint) -> bool:
    """Whether a stream with a sum within a branch began neither there nor where the branch did: another one (SAM).

    Two streams may look at each other in turn; then a branch of one leads along the sums of the other.
    """
    return first.stream is not None and first.stream != joint.stream and first.stream not in joint.region.inner


def leads_along(flow: Flow, joint: Joint, joints: Mapping[int, Joint]) -> bool:
    """Whether a branch goes along a wider stream that began before it: what one router hands on to the next (ZAYA)."""
    if joint.stream is None:
        return False
    width = flow.output(joint.add).shape[-1]
    return any(
        other.stream is not None and other.stream < joint.stream and flow.output(add).shape[-1] > width
        for add, other in joints.items()
        if add in joint.region.inner
    )


def holds_most(flow: Flow, joint: Joint, joints: Collection[int]) -> bool:
    """Whether a sum adds what went in to what nearly the whole network made of it: no layer has so much (Swin2SR).

    Sums of one place at a time, two axes each, are no layers. Nor is a sum one that adds an image as it came in to what
    layers of rows of another size made (a U-Net that predicts what is to be changed).
    """
    inside = [one for one in joints if one in joint.region.inner and len(flow.output(one).shape) > 2]
    sizes = {prod(flow.output(one).shape) for one in inside}
    if joint.stream is None and len(inside) > 1 and prod(flow.output(joint.add).shape) not in sizes:
        return True
    return len(inside) > MOST_OF_A_LAYER and len(inside) > len(joints) * 3 / 4


def goes_on(flow: Flow, joint: Joint, last: int) -> bool:
    """Whether a branch does more behind the last sum inside it, so that it is no way past that chain (Zamba)."""
    return does_mix(flow, [node for node in joint.region.inner if node > last])


def leads_past(flow: Flow, joint: Joint, inside: Collection[int]) -> bool:
    """Whether a way through a branch leads past some sums inside it: they weigh what it made, as gates (CSATv2)."""
    return find_region(flow, joint.region.start, joint.region.end, walls=inside) is not None


def is_lateral(flow: Flow, joint: Joint, sums: Collection[int], sites: Sequence[Site]) -> bool:
    """Whether a sum joins two stages of different width that both went through a layer: a pyramid, not a stream.

    A layer with an attention has two sums, and no branch holds a whole one (DEIMv2).
    """
    straight = joint.stream in (strip_plain(flow, maker) for maker in flow.makers[joint.add])
    most = 1 if any(site.softmax in joint.region.inner for site in sites) else MOST_SUMS_OF_A_BRANCH
    return not straight and len(sums) > most and goes_on(flow, joint, max(sums))


def is_beside(chain: Chain, joint: Joint) -> bool:
    """Whether a sum adds a second branch that began where the chain's last one did."""
    return bool(chain.joints) and chain.joints[-1].stream == joint.stream


def follow(first: int, inside: set[int], before: dict[int, int | None]) -> int:
    """The last of the sums that follow one another within a branch."""
    last = first
    while True:
        onward = [add for add in inside if before[add] == last]
        if not onward:
            return last
        last = onward[-1]


def chain_behind(last: int, before: Mapping[int, int | None]) -> set[int]:
    """A sum and all before it on its stream."""
    found: set[int] = set()
    here: int | None = last
    while here is not None and here not in found:
        found.add(here)
        here = before[here]
    return found


def find_before(flow: Flow, joints: Mapping[int, Joint], sites: Sequence[Site]) -> dict[int, int | None]:
    """The sum before each one on its stream; None where it begins one.

    One begins where other rows attend to each other behind a norm than before, but where these are put back later:
    then layers take turns on one stream, be places added where it first turns (MixSTE).
    """
    found: dict[int, int | None] = {}
    turns: dict[int, tuple[tuple[int, ...], ...]] = {}
    for add, joint in joints.items():
        is_new = meets_another(flow, joint.stream, joints, found)
        found[add] = None if is_new else go_back(flow, joint.stream, joints)[0]
        last, is_normed = (None, False) if is_new else go_back(flow, joint.stream, joints, with_places=True)
        looked = last if is_normed and find_sites(joint, sites) else None
        while looked is not None and not find_sites(joints[looked], sites):
            looked = go_back(flow, joints[looked].stream, joints)[0]
        if looked is not None and turns_rows(flow, joints[looked], joint, sites):
            turns[add] = flow.output(looked).shape, flow.output(add).shape
            found[add] = last
    back = {(other, one) for one, other in turns.values()}
    return found | {add: None for add, turn in turns.items() if turn not in back}


def go_back(
    flow: Flow, here: int | None, joints: Mapping[int, Joint], *, with_places: bool = False
) -> tuple[int | None, bool]:
    """The sum before a step, through norms, moves, bends and pools, and whether norms are among these."""
    *way, last = (None, *walk_back(flow, here, joints, with_places=with_places))
    is_normed = any(find_norm(flow, node) is not None for node in (*way, last) if node is not None)
    return last if last in joints else None, is_normed


def walk_back(flow: Flow, here: int | None, joints: Mapping[int, Joint], *, with_places: bool = False) -> Iterator[int]:
    """A step and those before it that a stream goes through, be places added to it, as far as a sum."""
    for _ in range(FARTHEST):
        if here is None:
            return
        yield here
        behind = None if here in joints else find_rejoining(flow, here, joints) or step_back(flow, here)
        here = before_places(flow, here) if behind is None and with_places and here not in joints else behind


def meets_another(flow: Flow, here: int | None, joints: Mapping[int, Joint], before: Mapping[int, int | None]) -> bool:
    """Whether rows that a stream goes on with are put end to end with those of a stream that began elsewhere (Flux).

    A sum alone is none: what comes in may go through one (Chronos-2). So with those of which some are looked up, in
    place of rows that the stream had until then (RMT).
    """
    for node in walk_back(flow, here, joints):
        if flow.op(node) in SIDE_BY_SIDE and looks_up_anew(flow, node, joints):
            return True
        rows = [record.shape[:1] + record.shape[2:] for record, _ in flow.given(node)]
        if flow.op(node) in SIDE_BY_SIDE and len(rows[0]) == len(("batch", "width")) and len({*rows}) == 1:
            ends = {end for maker in flow.makers[node] if (end := go_back(flow, maker, joints)[0]) is not None}
            streams = [chain_behind(end, before) for end in ends]
            return len({min(sums) for sums in streams if len(sums) > 1}) > 1
    return False


def looks_up_anew(flow: Flow, join: int, joints: Collection[int]) -> bool:
    """Whether a step puts rows that are looked up, by ids that come in, beside fewer rows than a stream had before."""
    ways = [[*flow.behind(maker, ends=joints.__contains__)] for maker in flow.makers[join] if maker is not None]
    old = [way for way in ways if any(one in joints for one in way)]
    ends = ((flow.output(way[0]).shape, flow.output(one).shape) for way in old for one in way if one in joints)
    is_fewer = any(rows[1:-1] < had[1:-1] for rows, had in ends if len(rows) == len(had) > 2)
    new = (one for way in ways if way not in old for one in way)
    return is_fewer and any(flow.op(one) in LOOKUPS and one in list_reading_data(flow) for one in new)


def find_sites(joint: Joint, sites: Sequence[Site]) -> list[Site]:
    """The attentions in the branch of a sum."""
    return [site for site in sites if site.softmax in joint.region.inner]


def are_regrouped(flow: Flow, before: int, after: int) -> bool:
    """Whether other rows than before stand together in a sequence: those of a place, and not of a picture of a film."""
    one, other = flow.output(before).shape, flow.output(after).shape
    is_same = len(one) == len(other) == len(("batch", "row", "width")) and one[-1] == other[-1]
    return is_same and prod(one) == prod(other) and one[0] != other[0]


def turns_rows(flow: Flow, old: Joint, new: Joint, sites: Sequence[Site]) -> bool:
    """Whether rows are regrouped between two sums: other numbers of them ask, and batch and rows do not but swap."""
    first, second = ({flow.output(one.softmax).shape[-2] for one in find_sites(joint, sites)} for joint in (old, new))
    return first.isdisjoint(second) and are_regrouped(flow, old.add, new.add)


def list_stream_norms(flow: Flow, joint: Joint, following: Joint | None) -> list[Norm]:
    """The norms through which the stream goes on behind a sum, in order: one most often, or two (Grounding DINO)."""
    found: list[Norm] = []
    here = None if following is None else following.stream
    while here is not None and here > joint.add:
        norm = find_any_norm(flow, here)
        if norm is None:
            if found:
                return []
            here = step_back(flow, here)
            continue
        norm = with_turns(flow, norm)
        found.insert(0, norm)
        here = strip_plain(flow, norm.origin)
    return found if here == joint.add else []
