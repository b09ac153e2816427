"""The numbered blocks of a model that hold the layers of a tower, those that hold none, and sums between them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.anatomy.beside_layers import Span
from xray.story.body.layers import Layer
from xray.story.body.stages import Staging
from xray.story.passages.bridges import end_of
from xray.story.recognition.between import weights_of
from xray.story.streams.chains import Chain

NUMBERED = re.compile(r"(.*)\.\d+")
NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Numbered:
    """How many blocks there are beside each other, how many of them are idle, and the layers, from 0, that are none.

    `idle_at` is where the idle ones stand: before the layers, between them, or behind.
    `apart` are sums between two blocks, `unlisted` those that no block holds of the list that most layers are in, or of
    such a list in each stage, of which there are so many `lists`. `inside` are the blocks that layers hold, if more.
    """

    blocks: int | None = None
    idle: int = 0
    idle_at: tuple[str, ...] = ()
    apart: tuple[int, ...] = ()
    unlisted: tuple[int, ...] = ()
    lists: int = 1
    inside: int = 0


def read_numbered(flow: Flow, layers: Sequence[Layer], around: Collection[int]) -> Numbered:
    """The blocks of a tower; those without a layer count where all they do is done `around` the layers or behind."""
    held = [find_block(flow, find_work(flow, layer)) for layer in layers]
    blocks = {one for one in held if one is not None}
    if not blocks:
        return Numbered()
    if inside := count_inside(flow, layers):
        return Numbered(inside=inside)
    none = [number for number, block in enumerate(held) if block is None]
    apart = tuple(number for number in none if stands_between(flow, layers[number], blocks))
    unlisted: tuple[int, ...] = ()
    lists = 1
    if not apart:
        unlisted = list_unlisted(flow, held)
        lists, inner = read_stages(flow, layers) if not unlisted and len(blocks) < len(held) else (1, ())
        unlisted = unlisted or inner
    idle = list_idle(flow, layers, blocks, around)
    used = {flow.steps[node].path for node in blocks}
    if not idle or len(used) != len(held) - len(none):  # a stage of several layers is no block
        idle, used = list_idle_in_stages(flow, layers, around)
    if not idle:
        return Numbered(apart=apart, unlisted=unlisted, lists=lists)
    stand = place_beside(idle, layers[0][0].joints[0].add, layers[-1][-1].joints[-1].add)
    paths = {flow.steps[node].path for node in idle}
    return Numbered(len(paths | used), len(paths), stand, apart, unlisted, lists)


def count_inside(flow: Flow, layers: Sequence[Layer]) -> int:
    """How many blocks of one class layers hold, where some are one each, and others several within a sum (VRT); else 0.

    Blocks that hold a sum of the stream are sublayers, of which some layers may have fewer (LeViT). Of experts one
    stands for the others: what they hold is no block beside those of layers that have one alone (Jamba).
    """
    sums = [joint.add for layer in layers for staging in layer for joint in staging.joints]
    nodes = ({node for staging in layer for node in staging.nodes - list_expert_nodes(staging)} for layer in layers)
    held = [{block for node in own for block in list_blocks(flow, node)} for own in nodes]
    for kind in sorted({flow.steps[block].module for own in held for block in own if flow.steps[block].module}):
        alike = [{block for block in own if flow.steps[block].module == kind} for own in held]
        every = set[int]().union(*alike)
        several = set[int]().union(*(own for own in alike if len(own) > 1))
        is_nested = any(not every.isdisjoint(flow.parents(block)) for block in every)
        are_sublayers = any(block < add < flow.ends[block] for block in several for add in sums)
        if len(every) > len(layers) and not (is_nested or are_sublayers) and min(map(len, alike)) == 1:
            return len(every)
    return 0


def list_expert_nodes(staging: Staging) -> set[int]:
    """The steps of the branches of a stage in which a place goes through some of several experts."""
    return {node for one in staging.branches if one.branch.part == "experts" for node in one.region.inner}


def find_work(flow: Flow, layer: Layer) -> int:
    """Where a layer stands: at the last weights of its first branch; the next block may work its sum out (Mamba)."""
    joint = layer[0].joints[0]
    inner = sorted(joint.region.inner, reverse=True)
    return next((node for node in inner if flow.is_leaf(node) and weights_of(flow, [node])), joint.add)


def list_idle(
    flow: Flow, layers: Sequence[Layer], blocks: Collection[int], around: Collection[int], *, staged: bool = False
) -> set[int]:
    """The blocks of the list that holds layers, or of one such list in each stage, that hold none.

    None where there are lists of several kinds, where one of them does more than is done around the layers or behind,
    or adds what it worked out to something else (a ResNet's first block of a stage).
    """
    name = name_stages if staged else name_list
    alike = {(name(flow, one), flow.steps[one].module) for one in blocks}
    used = {flow.steps[one].path for one in blocks}  # such a block may run again, and hold no layer then (VRT)
    found = {
        node
        for node, step in enumerate(flow.steps)
        if step.path not in used and (name(flow, node), step.module) in alike
    }
    last = layers[-1][-1].joints[-1].add
    is_around = len({name for name, _ in alike}) == 1 and not any(adds_up(flow, node) for node in found)
    is_around = is_around and all(
        inner in around or inner > last
        for node in found
        for inner in range(node, flow.ends[node])
        if flow.is_leaf(inner) and flow.steps[inner].params
    )
    return found if is_around else set()


def list_idle_in_stages(flow: Flow, layers: Sequence[Layer], around: Collection[int]) -> tuple[set[int], set[str]]:
    """The blocks in stages that hold no layer, and the paths of those that hold one each (HGNet); none of neither."""
    adds = [find_work(flow, layer) for layer in layers]
    own = {one for add in adds if (one := find_own_block(flow, add, adds)) is not None}
    used = {flow.steps[node].path for node in own}
    is_staged = len(used) == len(adds) and all(find_block(flow, node) is not None for node in own)
    return (list_idle(flow, layers, own, around, staged=True), used) if is_staged else (set(), set())


def place_beside(blocks: Collection[int], first: int, last: int) -> tuple[str, ...]:
    """Where blocks without a sum stand, by the first sum of all layers and the last one."""
    found = {"before" if one < first else "behind" if one > last else "between" for one in blocks}
    return tuple(where for where in ("before", "between", "behind") if where in found)


def adds_up(flow: Flow, block: int) -> bool:
    """Whether a block adds what it worked out to something else."""
    sums = (one for one in range(block, flow.ends[block]) if flow.op(one) in SUMS and flow.is_leaf(one))
    return any(len(flow.makers[one]) > 1 and None not in flow.makers[one] for one in sums)


def list_unlisted(flow: Flow, held: Sequence[int | None]) -> tuple[int, ...]:
    """The layers outside the list of which each block holds one layer, if more than half of all layers are in it."""
    lists = Counter(name_list(flow, one) for one in held if one is not None)
    name, count = lists.most_common(1)[0]
    own = [one for one in held if one is not None and name_list(flow, one) == name]
    if len({flow.steps[one].path for one in own}) < count or 2 * count <= len(held):
        return ()
    return list_others(flow, held, own)


def list_others(flow: Flow, held: Sequence[int | None], own: Collection[int]) -> tuple[int, ...]:
    """The layers that no block of some holds; none where several of these are blocks of another list (P-STMO)."""
    others = Counter(name_list(flow, one) for one in held if one is not None and one not in own)
    is_listed = any(several > 1 for several in others.values())
    return () if is_listed else tuple(number for number, one in enumerate(held) if one not in own)


def read_stages(flow: Flow, layers: Sequence[Layer]) -> tuple[int, tuple[int, ...]]:
    """How many lists of blocks the stages of a tower have, a layer to a block, and the layers outside (GroupViT).

    More than half of all layers are in these. The only block of a list, in a stage of one layer, is one of these where
    it is of the same class as the others (CvT).
    """
    adds = [find_work(flow, layer) for layer in layers]
    held = [find_own_block(flow, add, adds) for add in adds]
    kinds = Counter(name_stages(flow, one) for one in held if one is not None)
    kind, _ = max(kinds.items(), key=lambda one: one[1], default=("", 0))
    alike = {flow.steps[one].module for one in held if one is not None and name_stages(flow, one) == kind}
    for number, add in enumerate(adds):
        inner = (one for one in list_own_blocks(flow, add, adds) if name_stages(flow, one) == kind)
        held[number] = next((one for one in inner if flow.steps[one].module in alike), held[number])
    own = [one for one in held if one is not None and name_stages(flow, one) == kind]
    lists = {name_list(flow, one) for one in own}
    if len({flow.steps[one].path for one in own}) < len(own) or 2 * len(own) <= len(held) or len(lists) == 1:
        return 1, ()
    return len(lists), list_others(flow, held, own)


def find_own_block(flow: Flow, add: int, adds: Collection[int]) -> int | None:
    """The outermost numbered block that holds one of some sums, and none of the others."""
    return min(list_own_blocks(flow, add, adds), default=None)


def list_own_blocks(flow: Flow, add: int, adds: Collection[int]) -> Iterator[int]:
    """The numbered blocks that hold one of some sums, and none of the others, from within."""
    return (one for one in list_blocks(flow, add) if sum(one < other < flow.ends[one] for other in adds) == 1)


def find_begun_block(flow: Flow, layers: Sequence[Layer], nodes: Collection[int]) -> int | None:
    """The block of the first layer alone, where an attention of it stands among what comes before all layers.

    Nothing goes past that, where it gives wider or narrower rows than it reads (Fun-ASR); None where there is none.
    """
    adds = [layer[0].joints[0].add for layer in layers]
    block = find_own_block(flow, adds[0], adds) if len(adds) > 1 else None
    inside = (site.weighted_sum for site in list_sites(flow) if site.weighted_sum in nodes)
    return block if block is not None and any(block < node < flow.ends[block] for node in inside) else None


def find_block(flow: Flow, add: int) -> int | None:
    """The outermost numbered block that holds a step."""
    return min(list_blocks(flow, add), default=None)


def list_blocks(flow: Flow, add: int) -> Iterator[int]:
    """The numbered blocks that hold a step, from within."""
    return (node for node in flow.parents(add) if name_list(flow, node))


def name_list(flow: Flow, node: int) -> str:
    """The path of the list that a block is an element of; empty where it is in none."""
    found = NUMBERED.fullmatch(flow.steps[node].path)
    return found[1] if found is not None and flow.steps[node].module else ""


def name_stages(flow: Flow, node: int) -> str:
    """The path of the list that a block is an element of, the same for such a list in each stage."""
    return NUMBERS.sub("", name_list(flow, node))


def stands_between(flow: Flow, layer: Layer, blocks: Collection[int]) -> bool:
    """Whether the sums of a layer stand before one of some numbered blocks, and what they add was made in none."""
    add = layer[0].joints[0].add
    own = next(flow.parents(add), None)
    inner = (node for staging in layer for joint in staging.joints for node in joint.region.inner)
    makers = {block for node in inner if (block := find_block(flow, node)) is not None}
    is_beside = own is not None and any(add < block < flow.ends[own] for block in blocks)
    return is_beside and all(next(flow.parents(one), None) != own for one in makers)


def list_spans(flow: Flow, chains: Sequence[Chain], layers: Sequence[Layer]) -> tuple[Span, ...]:
    """The layers and groups of them, but not of all, behind which a sum adds what the first of them began with.

    All that a layer alone gives goes into that sum: else what it began with is added for some readers (SAM).
    """
    begun = {layer[0].joints[0].stream: number for number, layer in enumerate(layers)}
    ends = {layer[-1].joints[-1].add: number for number, layer in enumerate(layers)}
    found: list[Span] = []
    for skip in (skip for chain in chains for skip in chain.skips):
        over = [number for add, number in ends.items() if add in skip.region.inner]
        is_added = skip.stream in map(flow.carried_from, flow.makers[skip.add])
        is_stream = len(over) > 1 or (bool(over) and len(flow.leaf_readers(end_of(layers[over[0]]))) == 1)
        if is_added and is_stream and over == [*range(begun.get(skip.stream, -1), over[-1] + 1)]:
            made, first = (flow.output(one).shape for one in (skip.add, layers[over[0]][0].joints[0].add))
            behind = (node for node in skip.region.inner if node > end_of(layers[over[-1]]))
            if prod(made) == prod(first):  # else some rows were left out before
                found.append(Span(over[0], over[-1], any(flow.steps[node].params for node in behind)))
    return tuple(one for one in found if one.last - one.first + 1 < len(layers))
