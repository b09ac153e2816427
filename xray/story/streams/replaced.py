"""Sublayers without a sum: what they give takes the stream's place.

So does the first attention of a tower (SAM), a convolution between two sublayers of a block (TinyViT), and a
feed-forward that ends each block.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS
from xray.story.branches.feed_forward import describe_feed_forward
from xray.story.recognition.between import Region, does_mix, find_region, projections_in, strip_plain
from xray.story.recognition.norms import find_norm
from xray.story.streams.chains import Chain
from xray.story.streams.joints import Joint, root_of

LONGEST_NORM = 24
"""Within so many steps behind a sum its norm has ended."""


def begin_with_replaced(flow: Flow, chains: Sequence[Chain], sites: Sequence[Site]) -> list[Chain]:
    """The chains of a tower, the first begun with the attention that makes its stream, if there is one."""
    first, *rest = chains
    joint = find_replaced(flow, first, sites)
    return list(chains) if joint is None else [replace(first, joints=[joint, *first.joints]), *rest]


def find_replaced(flow: Flow, chain: Chain, sites: Sequence[Site]) -> Joint | None:
    """The attention that makes the stream of a chain, and to which nothing is added; None if another thing makes it.

    It looks at itself, as long as the stream is, and another one of the chain is of the same class.
    """
    made = root_of(flow, chain.start)
    site = next((one for one in sites if one.output is not None and one.output == made), None)
    if site is None or made is None or site.kind != "self" or site.value.origin is None:
        return None
    others = [one for one in sites for joint in chain.joints if one.softmax in joint.region.inner]
    if class_of(flow, site) not in [class_of(flow, one) for one in others]:
        return None
    stream = strip_plain(flow, site.value.origin)
    region = None if stream is None else find_region(flow, stream, made)
    if region is None or stream is None or flow.output(stream).shape != flow.output(made).shape:
        return None
    return Joint(made, stream, region, replaces=True)


def class_of(flow: Flow, site: Site) -> str:
    """The class of the module that holds an attention's output projection."""
    parent = None if site.output is None else flow.places.get(flow.steps[site.output].parent or "")
    return "" if parent is None else flow.steps[parent].module


def put_convolutions_between(flow: Flow, chains: Sequence[Chain]) -> list[Chain]:
    """The chains of a tower with the convolutions that stand between two sums of a block, and that nothing goes past.

    Where one stands there, a chain ends: it begins the next one.
    """
    found = list(chains[:1])
    for before, chain in pairwise(chains):
        between = find_convolved(flow, before.joints[-1], chain.joints[0])
        found.append(chain if between is None else replace(chain, joints=[between, *chain.joints]))
    return found


def find_convolved(flow: Flow, before: Joint, following: Joint) -> Joint | None:
    """The convolution that makes of what a sum gives as many numbers for the next one; None if there is more, or none.

    The block that holds both sums, and it, holds no other block with one of them.
    """
    made = strip_plain(flow, following.stream)
    block = next(flow.parents(before.add), None)
    if made is None or made <= before.add or block != next(flow.parents(following.add), None):
        return None
    region = find_region(flow, before.add, made)
    if block is None or region is None or prod(flow.output(made).shape) != prod(flow.output(before.add).shape):
        return None
    found = [node for node in region.inner if flow.is_leaf(node) and flow.op(node) in FINDINGS]
    is_held = len(found) == 1 and block in flow.parents(found[0])
    is_alone = is_held and not does_mix(flow, region.inner.difference(found))
    return Joint(made, before.add, region, replaces=True) if is_alone else None


def end_with_thinking(flow: Flow, chains: Sequence[Chain]) -> list[Chain]:
    """The chains of a tower, each with the feed-forward that ends the block of its last sum, if nothing goes past it.

    Blocks of one class end so, two at least, and the next chain begins with what it makes.
    """
    begun = [*(root_of(flow, chain.start) for chain in chains[1:]), None]
    ends = [find_thinking(flow, *pair) for pair in zip(chains, begun, strict=True)]
    classes = Counter(kind for _, kind in filter(None, ends))
    return [
        replace(chain, joints=[*chain.joints, end[0]]) if end is not None and classes[end[1]] > 1 else chain
        for chain, end in zip(chains, ends, strict=True)
    ]


def find_thinking(flow: Flow, chain: Chain, following: int | None) -> tuple[Joint, str] | None:
    """The feed-forward that makes what the block of a last sum hands out of that sum alone, and the class of the block.

    It is what is `following`, where anything does.
    """
    last = chain.end
    begun = end_of_norm(flow, last)
    for block in flow.parents(last):
        for given in flow.steps[block].outputs:
            made = strip_plain(flow, flow.places.get(given.source or ""))
            region = None if made is None or made <= begun else find_region(flow, begun, made)
            if made is not None and following in (None, made) and region is not None and thinks_alone(flow, region):
                return Joint(made, begun, region, replaces=True), flow.steps[block].module
    return None


def end_of_norm(flow: Flow, add: int) -> int:
    """The step that ends the norm of a sum in its block; the sum itself, if there is none, or more reads the sum."""
    readers = set(flow.leaf_readers(add))
    norms = (find_norm(flow, node) for node in flow.ahead(add, within=lambda node: node <= add + LONGEST_NORM))
    found = [norm for norm in norms if norm is not None and norm.origin == add and readers.issubset(norm.nodes)]
    parent = flow.steps[add].parent
    return max((norm.end for norm in found if flow.steps[norm.end].parent == parent), default=add)


def thinks_alone(flow: Flow, region: Region) -> bool:
    """Whether a region is a feed-forward of rows, past which no way leads, and gives rows as wide as it begins with."""
    start = region.start
    if start is None or not region.inner.issuperset(flow.leaf_readers(start)):
        return False
    if find_region(flow, start, region.end, walls=projections_in(flow, region.inner)) is not None:
        return False
    is_as_wide = flow.output(start).shape == flow.output(region.end).shape
    convolves = any(flow.op(node) in FINDINGS for node in region.inner)
    return is_as_wide and not convolves and describe_feed_forward(flow, region, region.inner) is not None
