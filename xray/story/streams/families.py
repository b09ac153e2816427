"""Families: the chains of one tower, which follow one another as its stages."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, LOOKUPS, SIDE_BY_SIDE, SUMS
from xray.story.entrance.tables import list_biases
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.chosen_rows import picks_best
from xray.story.recognition.norms import find_norm
from xray.story.streams.beginnings import begin_behind_moves, begin_with_moved
from xray.story.streams.chains import Chain, are_regrouped, convolves_little, find_chains, leave_side_ways
from xray.story.streams.joints import Joint, root_of
from xray.story.streams.replaced import begin_with_replaced, end_with_thinking, put_convolutions_between

LEAST_JOINTS, NEAR_BEHIND, FAR_BEHIND = 2, 24, 200
FEWEST_BEFORE = 4
NUMBERS = re.compile(r"\d+")
FEATURE_MAP = 4
"""How many axes a picture has: batch, channels, height, width."""


def find_families(flow: Flow, sites: Sequence[Site]) -> list[list[Chain]]:
    """The chains of each tower; a few convolutions behind attention predict or sound, and are none (VITS).

    Nor are sums that neither look at places nor work with what is learned.
    """
    chains = [leave_what_follows(flow, one) for one in leave_side_ways(flow, find_chains(flow, sites))]
    kept = [kept for one in join_chains(flow, chains, sites) if (kept := keep_stream(flow, one, sites))]
    attending = {add for one in kept if any(has_site(chain, sites) for chain in one) for add in list_sums(one)}
    found = [one for one in kept if not convolves_little(flow, one) or attending.isdisjoint(flow.behind(one[0].start))]
    found = [one for one in found if not attending.isdisjoint(list_sums(one)) or works_learned(flow, one)]
    found = [begin_with_replaced(flow, begin_with_moved(flow, begin_behind_moves(flow, one)), sites) for one in found]
    return [end_with_thinking(flow, put_convolutions_between(flow, one)) for one in found]


def works_learned(flow: Flow, chains: Sequence[Chain]) -> bool:
    """Whether a step between two sums of some chains learned something: a state that a loop adds to is no stream."""
    steps = (flow.steps[node] for chain in chains for joint in chain.joints for node in joint.region.inner)
    return any(step.is_learned for step in steps)


def leave_what_follows(flow: Flow, chain: Chain) -> Chain:
    """A chain without a last sum that stands outside of the one block that holds all others (OmDet-Turbo, SAM 3).

    One of another width stands where all is held, as two kinds of scores that are added up do (RWKV 1). A block of the
    class that theirs are of is one more of them (Inception-ResNet v2).
    """
    *before, last = chain.joints
    widths = {flow.output(joint.add).shape[-1] for joint in before}
    if len(before) < FEWEST_BEFORE or chain.skips or len(widths) > 1:
        return chain
    holders = {joint.add: next(flow.parents(joint.add), 0) for joint in chain.joints}
    own, kinds = holders.pop(last.add), {flow.steps[one].module for one in holders.values()}
    if own != 0 and (flow.output(last.add).shape[-1] not in widths or {flow.steps[own].module} == kinds):
        return chain
    shared = set.intersection(*(set(flow.parents(joint.add)) for joint in before))
    return chain if shared.issubset(flow.parents(last.add)) else replace(chain, joints=before)


def list_sums(chains: Sequence[Chain]) -> list[int]:
    """The sums of some chains: a key that comes from one of them comes from the stream itself, of a layer before."""
    return [joint.add for chain in chains for joint in chain.joints]


def keep_stream(flow: Flow, chains: Sequence[Chain], sites: Sequence[object]) -> list[Chain]:
    """The chains of a tower that are a stream: of several sums, or with an attention.

    A sum alone is a stage if what it adds to is a picture, and stages come behind it (EfficientNet), or if its block
    holds the sum before it too (TinyViT), or that with which the second stage begins (SANA-WM).
    """
    long = [len(chain.joints) >= LEAST_JOINTS or has_site(chain, sites) for chain in chains]
    following = chains[1] if long[1:2] == [True] and not is_aside(flow, *chains[:2]) else None
    long[0] = long[0] or (following is not None and share_block(flow, chains, chains[0].end, list_sums([following])[0]))
    for number, (before, chain) in enumerate(pairwise(chains), 1):
        long[number] = long[number] or (long[number - 1] and share_block(flow, chains, before.end, chain.end))
    last = max((number for number, is_long in enumerate(long) if is_long), default=-1)
    return [
        chain
        for number, chain in enumerate(chains[: last + 1])
        if long[number] or len(flow.output(chain.end).shape) == FEATURE_MAP
    ]


def is_aside(flow: Flow, chain: Chain, following: Chain) -> bool:
    """Whether a chain is but one way through a block that adds several up, and begins in it: no stream yet.

    So values are convolved beside an attention that nothing goes past (the first layer of Fun-ASR).
    """
    start, begun = following.start, chain.start
    block = next(flow.parents(start), None) if start is not None and flow.op(start) in SUMS else None
    if block is None or begun is None:
        return False
    return block <= begun < flow.ends[block] <= following.joints[0].add


def share_block(flow: Flow, chains: Sequence[Chain], one: int, other: int) -> bool:
    """Whether a block of one sum holds another too, and not those of all chains."""
    both = {*flow.parents(one)}.intersection(flow.parents(other))
    return not both <= set.intersection(*({*flow.parents(add)} for add in list_sums(chains)))


def has_site(chain: Chain, sites: Sequence[object]) -> bool:
    return any(getattr(site, "softmax", -1) in joint.region.inner for site in sites for joint in chain.joints)


def join_chains(flow: Flow, chains: Sequence[Chain], sites: Sequence[Site]) -> list[list[Chain]]:
    """Chains that follow one another as stages of one tower: the next begins with what the last one ends with."""
    families: list[list[Chain]] = []
    ends: dict[int, list[Chain]] = {}
    for chain in chains:
        before = end_behind(flow, chain, ends)
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
    if is_little or is_narrower(flow, family, following):
        return True
    if goes_another_way(flow, family[-1], following) or goes_through_waist(flow, family[-1], following):
        return True
    return is_laid_beside_given(flow, family, following) or is_of_another_block(flow, family, following, sites)


def is_laid_beside_given(flow: Flow, family: Sequence[Chain], following: Chain) -> bool:
    """Whether what a tower gives meets numbers that come in, no fewer for each place than its own, and laid beside.

    The stack behind that works on both: so what became of a picture stands beside each frame of a film (I2VGen-XL).
    What it was itself made of is no other input.
    """
    end, (width, _) = family[-1].end, measure(flow, family[-1])[-1]
    between = flow.behind(following.start, most=FAR_BEHIND, ends=lambda here: here <= end)
    joins = [here for here in between if flow.op(here) in SIDE_BY_SIDE and end in flow.behind(here)]
    given = [(one, here) for here in joins for one, maker in flow.given(here) if maker is None]
    laid = [one for one, here in given if width <= read_laid(one.shape, flow.output(here).shape)]
    behind = flow.behind(end) if laid else ()
    own = {(one.shape, one.argument) for node in behind for one, maker in flow.given(node) if maker is None}
    return any(one.role == "activation" and (one.shape, one.argument) not in own for one in laid)


def read_laid(part: Sequence[int], whole: Sequence[int]) -> int:
    """How many numbers of each place a part of some is that were laid side by side; 0 where those were whole rows."""
    axis = -1 if len(whole) < FEATURE_MAP else 1
    is_beside = len(part) == len(whole) and part[axis] < whole[axis]
    return part[axis] if is_beside else 0


def is_of_another_block(flow: Flow, family: Sequence[Chain], following: Chain, sites: Sequence[Site]) -> bool:
    """Whether the block of the layers before has ended, and linear layers outside of it lead to those of another one.

    So the layers of an adaptor stand behind those of an ear (Fun-ASR). Blocks of one list, or called alike but for
    their numbers, are stages.
    """
    start, end = following.start, family[-1].end
    if start is None or not all(any(has_site(one, sites) for one in chains) for chains in (family, [following])):
        return False
    before, behind = (hold_all(flow, chains) for chains in (family, [following]))
    first, second = (min(one - other, default=None) for one, other in ((before, behind), (behind, before)))
    if first is None or second is None or start < flow.ends[first]:
        return False
    names = {NUMBERS.sub("", flow.steps[block].path) for block in (first, second)}
    between = flow.behind(start, most=FAR_BEHIND, ends=lambda here: here <= end)
    return len(names) > 1 and any(
        here >= flow.ends[first] and is_linear(flow, here) and flow.steps[here].params for here in between
    )


def hold_all(flow: Flow, chains: Sequence[Chain]) -> set[int]:
    """The blocks that hold all sums of some chains."""
    return set.intersection(*(set(flow.parents(add)) for add in list_sums(chains)))


def goes_through_waist(flow: Flow, before: Chain, following: Chain) -> bool:
    """Whether a layer between two chains makes less than half as many numbers as either has: a code (VibeVoice).

    Where what was there before is added behind layers of the second chain, it is none (Squeezeformer).
    """
    start, end = following.start, before.end
    if start is None or any(root_of(flow, skip.stream) == end for skip in following.skips):
        return False
    least = min(prod(flow.output(place).shape) for place in (start, end))

    def is_waist(here: int) -> bool:
        is_layer = is_linear(flow, here) or flow.op(here) in FINDINGS
        return end < here < start and is_layer and 2 * prod(flow.output(here).shape) < least

    return end not in flow.behind(start, most=FAR_BEHIND, ends=lambda here: here <= end or is_waist(here))


def goes_another_way(flow: Flow, before: Chain, following: Chain) -> bool:
    """Whether rows are put together anew behind a norm: layers of the places of a picture, then of its moments.

    A tower for space and one for time have each their own last norm, and places of their own (VideoPrism).
    """
    start, end = following.start, before.end
    if start is None or not are_regrouped(flow, end, following.joints[0].add):
        return False
    between = flow.behind(start, most=NEAR_BEHIND, within=lambda place: place > end)
    return any(find_norm(flow, here) is not None for here in between)


def is_narrower(flow: Flow, family: Sequence[Chain], following: Chain) -> bool:
    """Whether a chain goes on with fewer numbers for each place than there were for as many: a stack behind a neck.

    What an image becomes is brought to the width of an encoder (DETR) or of a predictor (V-JEPA 2). A map with more
    places, and fewer numbers for each, is a stage on the way back up.
    """
    (width, places), *rest = measure(flow, following)
    before = [each for chain in family for each in measure(flow, chain)]
    last, many = before[-1]
    if any(wide >= last for wide, _ in rest):
        return False  # a stage whose last layer is wider, as the stage before had one (Next-ViT)
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


def end_behind(flow: Flow, following: Chain, ends: dict[int, list[Chain]]) -> int | None:
    """The end of a chain that the beginning of another is made of, if no table is looked into on the way.

    Where several are put together there, all of one tower, it is the last of them: the others are ways past it. Tables
    do not count if the chain before began with one of them too: a wider stream goes past both (Gemma 3n). Nor where one
    row alone is taken, by no data: that of a layer's turn, which is added (Universal Transformers). Nor where blocks of
    one list stand on both sides, in its order: what is looked up is no more than a condition there.
    """
    start = following.start
    looked_up = {node for node, step in enumerate(flow.steps) if step.op in LOOKUPS} - list_biases(flow)
    tables = {node for node in looked_up if prod(flow.output(node).shape[:-1]) > 1 or node in list_reading_data(flow)}

    def is_end(here: int) -> bool:
        return here in ends or here in tables or picks_best(flow, here)

    behind = list(flow.behind(start, most=FAR_BEHIND, ends=is_end))
    found = [here for here in behind if here in ends]
    if len({id(ends[end]) for end in found}) > 1:
        straight = find_straight_ends(flow, start, ends)  # what others made is worked into that one's (BridgeTower)
        found = straight or leave_earlier_ends(flow, start, found, ends)
    if len({id(ends[end]) for end in found}) != 1:
        return None
    last = max(found)
    if start is not None and leaves_one_row(flow, last, start):
        return None  # it begins anew (X-CLIP)
    looked_up = {here for here in behind if here not in ends and here in tables}
    if any(here < there for here, there in list_numbers(flow, last, following.joints[0].add)):
        return last
    return last if not looked_up or not looked_up.isdisjoint(flow.behind(ends[last][-1].start)) else None


def list_numbers(flow: Flow, *nodes: int) -> list[tuple[int, ...]]:
    """The numbers of the blocks in which steps stand, in each list that has blocks of all of them."""
    paths = ([flow.steps[block].path.rpartition(".") for block in flow.parents(node)] for node in nodes)
    found = [{name: int(number) for name, _, number in own if number.isdecimal()} for own in paths]
    return [tuple(own[name] for own in found) for name in found[0] if all(name in own for own in found)]


def find_straight_ends(flow: Flow, start: int | None, ends: Collection[int]) -> list[int]:
    """Those of some steps from which one comes to a later one through nothing but sums, norms and moves."""
    found: list[int] = []
    todo = [start]
    for here in todo:
        if here is None:
            continue
        norm = find_norm(flow, here)
        if here in ends:
            found.append(here)
        elif norm is not None:
            todo.append(norm.origin)
        elif flow.op(here) in CARRYING | DROPOUTS | SUMS:
            todo += [maker for maker in flow.makers[here] if maker not in todo]
    return found


def leave_earlier_ends(flow: Flow, start: int | None, found: list[int], ends: dict[int, list[Chain]]) -> list[int]:
    """Those of some ends that the tower of the last of them did not begin with, where streams beside each other go on.

    What an image became goes into rows that every layer reads beside the streams (Gemma 3n).
    """
    last = max(found)
    shape = flow.output(last).shape
    if start is None or len(shape) != len(("stream", "batch", "row", "width")) or flow.output(start).shape != shape:
        return found
    before = set(flow.behind(ends[last][0].start, most=FAR_BEHIND, ends=found.__contains__))
    return [here for here in found if ends[here] is ends[last] or here not in before]


def leaves_one_row(flow: Flow, before: int, after: int) -> bool:
    """Whether on every way between two steps a single row of each sequence is left, be others put beside it then.

    So pictures of a film, a row each, become one sequence of a stack of its own.
    """

    def is_one(here: int) -> bool:
        rows, row = flow.output(before).shape, flow.output(here).shape
        return len(row) == len(("batch", "width")) < len(rows) and row[0] == rows[0]

    ways = flow.behind(after, most=FAR_BEHIND, ends=lambda here: here <= before or is_one(here))
    return before not in ways
