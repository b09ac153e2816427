"""The numbered blocks of a tower: those that hold no layer, and sums over several layers."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SUMS
from xray.story.anatomy.beside_layers import Span
from xray.story.body.widths import end_of
from xray.story.cutting.blocks import find_block, find_own_block, find_work, name_list
from xray.story.cutting.patterns import Layer
from xray.story.streams.chains import Chain


@dataclass(frozen=True)
class Numbered:
    """How many blocks there are beside each other, how many of them are idle, and the layers, from 0, that are none.

    `idle_at` is where the idle ones stand: before the layers, between them, or behind. `unlisted` are those that no
    block holds of the list that most layers are in.
    """

    blocks: int | None = None
    idle: int = 0
    idle_at: tuple[str, ...] = ()
    unlisted: tuple[int, ...] = ()


def read_numbered(flow: Flow, layers: Sequence[Layer], around: Collection[int]) -> Numbered:
    """The blocks of a tower; those without a layer count where all they do is done `around` the layers or behind.

    Each layer that is a block is one alone: a stage of several layers is none.
    """
    held = [find_block(flow, find_work(flow, layer)) for layer in layers]
    blocks = {one for one in held if one is not None}
    if not blocks:
        return Numbered()
    unlisted = list_unlisted(flow, held)
    used = {flow.steps[node].path for node in blocks}
    idle = list_idle(flow, layers, blocks, around) if len(used) == len(held) - held.count(None) else set[int]()
    if not idle:
        return Numbered(unlisted=unlisted)
    stand = place_beside(idle, layers[0][0].joints[0].add, layers[-1][-1].joints[-1].add)
    paths = {flow.steps[node].path for node in idle}
    return Numbered(len(paths | used), len(paths), stand, unlisted)


def list_idle(flow: Flow, layers: Sequence[Layer], blocks: Collection[int], around: Collection[int]) -> set[int]:
    """The blocks of the one list and class that holds layers, of which none adds anything up, and holds a layer.

    None where one of them does more than is done around the layers or behind.
    """
    alike = {(name_list(flow, one), flow.steps[one].module) for one in blocks}
    used = {flow.steps[one].path for one in blocks}  # such a block may run again, and hold no layer then (VRT)
    found = {
        node
        for node, step in enumerate(flow.steps)
        if step.path not in used and (name_list(flow, node), step.module) in alike
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


def find_begun_block(flow: Flow, layers: Sequence[Layer], nodes: Collection[int]) -> int | None:
    """The block of the first layer alone, where an attention of it stands among what comes before all layers.

    Nothing goes past that, where it gives wider or narrower rows than it reads (Fun-ASR); None where there is none.
    """
    adds = [layer[0].joints[0].add for layer in layers]
    block = find_own_block(flow, adds[0], adds) if len(adds) > 1 else None
    inside = (site.weighted_sum for site in list_sites(flow) if site.weighted_sum in nodes)
    return block if block is not None and any(block < node < flow.ends[block] for node in inside) else None


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


def are_split(flow: Flow, ends: Collection[int]) -> bool:
    """Whether a tower of one layer each ends with the sum of a block, and with that of a later one of the same list.

    The later one works on what the other gives, in the same shape: the model has one stream there, and what leads from
    block to block is not known (OpenNMT's experts, each of which adds up by itself).
    """
    blocks = {end: flow.steps[end].path.rpartition(".")[0].rpartition(".") for end in sorted(ends)}
    pairs = combinations([end for end, (_, _, number) in blocks.items() if number.isdecimal()], 2)
    return any(
        blocks[first][0] == blocks[last][0]
        and blocks[first] != blocks[last]
        and flow.output(first).shape == flow.output(last).shape
        and first in flow.behind(last, within=first.__le__)
        for first, last in pairs
    )


def are_told_unlike(flow: Flow, told: Collection[int]) -> bool:
    """Whether two runs of blocks of one list do the same, and not the same sums of them are `told` as a tower's.

    So the towers part at least one of them as the model does not (MAT's decoder, whose first block begins another
    stream). What stands behind all sums of towers may be an exit. How numbers are moved does not matter.
    """
    last = max(told, default=-1)
    found: dict[object, set[tuple[bool, ...]]] = {}
    for node, step in enumerate(flow.steps):
        name = name_list(flow, node)
        if name and node < last and not flow.is_leaf(node):
            inner = [one for one in range(node, flow.ends[node]) if flow.is_leaf(one)]
            kind = (name, step.module, tuple(flow.op(one) for one in inner if flow.op(one) not in CARRYING))
            found.setdefault(kind, set()).add(tuple(one in told for one in inner if flow.op(one) in SUMS))
    return any(len(ways) > 1 for ways in found.values())
