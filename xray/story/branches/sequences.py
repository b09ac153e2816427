"""A branch that holds several things one behind the other, such as a shared attention before a state (Zamba)."""

from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

from xray.ir.flow.attention_sites import Site, end_within
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.story.branches.lengths import POOLING
from xray.story.recognition.between import Region, does_mix, projections_in
from xray.story.streams.joints import Joint
from xray.story.streams.shortcuts import find_any_norm

DEEPEST, FEWEST_SUMS = 6, 2
SPREADING = frozenset({"interpolate", "upsample", "repeat_interleave"})
"""They make several rows of one."""


def split_sequence(flow: Flow, region: Region, sites: Sequence[Site], nested: Sequence[Joint] = ()) -> list[Region]:
    """The parts of a branch in which more is worked out behind an attention's output; else the branch itself.

    `nested` are the sums of a stream of its own inside the branch.
    """
    if not has_more(flow, region.inner, sites):
        return [region]
    along = cut_at_sums(flow, region, sites, nested)
    if along:
        return [Region(region.start, max(nodes), nodes, region.beside) for nodes in along]
    cut = join_loose(flow, cut_nodes(flow, region.inner, sites, DEEPEST), sites)
    parts = join_rest(flow, cut, sites)
    whole = [nodes for nodes in parts if does_mix(flow, nodes) and is_whole(flow, nodes, sites)]
    if len(whole) < 2:
        return [region]
    *others, last = take_pools(flow, parts, whole)
    closed = (*others, last | list_closing(flow, region, last))
    return [Region(region.start, max(nodes), nodes, region.beside) for nodes in closed]


def list_closing(flow: Flow, region: Region, last: Collection[int]) -> frozenset[int]:
    """The steps of the norm with which a branch ends, where it reads what its last part made (GMFlow)."""
    norm = find_any_norm(flow, region.end)
    return region.inner & {*norm.nodes} if norm is not None and norm.origin in last else frozenset()


def cut_at_sums(flow: Flow, region: Region, sites: Sequence[Site], nested: Sequence[Joint]) -> list[frozenset[int]]:
    """The parts of a branch along which a stream of its own goes behind an attention: what each sum of it adds.

    Its first part is cut by blocks, what is left behind the last sum is one more. Nothing where there are no such sums.
    """
    starts = [one.stream for one in nested]
    ends = [one.add for one in nested]
    first, last = (starts[0], ends[-1]) if nested else (None, 0)
    if len(nested) < FEWEST_SUMS or first is None or has_more(flow, nodes_until(region, first), sites):
        return []
    cuts = [first, *(end for end in starts[1:] if end is not None), last]
    parts = [frozenset(node for node in region.inner if begun < node <= end) for begun, end in pairwise(cuts)]
    if len(cuts) != len(nested) + 1 or not all(
        one.region.inner <= part and one.add in part and is_whole(flow, part, ()) and not own_sites(part, sites)
        for one, part in zip(nested, parts, strict=True)
    ):
        return []
    before = cut_nodes(flow, nodes_until(region, first), sites, 1)
    behind = frozenset(node for node in region.inner if node > last)
    return [nodes for nodes in (*before, *parts, behind) if nodes and does_mix(flow, nodes)]


def nodes_until(region: Region, last: int) -> frozenset[int]:
    """The steps of a branch up to one of them."""
    return frozenset(node for node in region.inner if node <= last)


def take_pools(flow: Flow, parts: Sequence[frozenset[int]], whole: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Whole parts, each attention with what makes its rows fewer before it, and as many again behind it."""
    taken = {nodes: set(nodes) for nodes in whole}
    attended: frozenset[int] | None = None
    waiting: set[int] = set()
    for nodes in parts:
        if nodes in taken:
            joins = any(flow.op(node) in SIDE_BY_SIDE for node in waiting)
            taken[nodes] |= waiting if attended is None or joins else set()
            attended, waiting = nodes, set()
            continue
        waiting |= nodes
        if attended is not None and any(flow.op(node) in SPREADING for node in nodes):
            taken[attended] |= waiting
            waiting = set()
    pools = any(flow.op(node).startswith(POOLING) for node in set().union(*taken.values()) - set().union(*whole))
    return [frozenset(taken[nodes]) for nodes in whole] if pools else list(whole)


def join_rest(flow: Flow, parts: Sequence[frozenset[int]], sites: Sequence[Site]) -> list[frozenset[int]]:
    """Parts with those behind the last attention as one, if none of these is whole by itself (SuperGlue)."""
    last = max((place for place, nodes in enumerate(parts) if own_sites(nodes, sites)), default=len(parts))
    own, rest = list(parts[: last + 1]), parts[last + 1 :]
    if len(rest) < 2 or any(is_whole(flow, nodes, sites) for nodes in rest):
        return list(parts)
    return [*own, frozenset().union(*rest)]


def join_loose(flow: Flow, parts: Sequence[frozenset[int]], sites: Sequence[Site]) -> list[frozenset[int]]:
    """Parts with those as one in which a block itself works an attention out, from its first linear layer to its last.

    So it is where one block holds an attention and a feed-forward, of which the latter alone has a block (HAT).
    """
    found: list[frozenset[int]] = []
    for whole, run in groupby(parts, lambda nodes: is_whole(flow, nodes, sites)):
        loose = [*run]
        nodes = frozenset[int]().union(*loose)
        own = [] if whole else own_sites(nodes, sites)
        last = end_within(flow, own[-1], nodes).output if own else None
        first = min(projections_in(flow, nodes), default=0)
        found += loose if last is None else [frozenset(node for node in nodes if first <= node <= last)]
    return found


def own_sites(nodes: Collection[int], sites: Sequence[Site]) -> list[Site]:
    """The attentions that stand among steps."""
    return [site for site in sites if site.softmax in nodes and site.weighted_sum in nodes]


def has_more(flow: Flow, nodes: frozenset[int], sites: Sequence[Site]) -> bool:
    """Whether several linear layers read on from the output of an attention among steps."""
    found = own_sites(nodes, sites)
    output = end_within(flow, found[-1], nodes).output if found else None
    if output is None:
        return False
    reached = {output}
    for node in sorted(nodes):
        if any(maker in reached for maker in flow.makers[node]):
            reached.add(node)
    return len([node for node in projections_in(flow, reached) if node != output]) > 1


def is_whole(flow: Flow, nodes: frozenset[int], sites: Sequence[Site]) -> bool:
    """Whether steps are more than a linear layer by itself."""
    return bool(own_sites(nodes, sites)) or len(projections_in(flow, nodes)) > 1


def cut_nodes(flow: Flow, nodes: frozenset[int], sites: Sequence[Site], left: int) -> list[frozenset[int]]:
    """Steps by the blocks that hold them, one block after the other; opened as long as more follows an attention."""
    groups: dict[int, set[int]] = {}
    above = shared_parent(flow, nodes)
    for node in sorted(nodes):
        groups.setdefault([node, *flow.parents(node)][-1 - above], set()).add(node)
    if len(groups) < 2 or left == 0:
        return [nodes]
    found: list[frozenset[int]] = []
    for group in (frozenset(one) for one in groups.values()):
        found += cut_nodes(flow, group, sites, left - 1) if has_more(flow, group, sites) else [group]
    return found


def shared_parent(flow: Flow, nodes: Collection[int]) -> int:
    """How many blocks hold all of the steps."""
    rows = [[*flow.parents(node)][::-1] for node in nodes]
    depth = 0
    while all(len(row) > depth and row[depth] == rows[0][depth] for row in rows):
        depth += 1
    return depth
