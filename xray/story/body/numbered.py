"""The numbered blocks of a model: how they cut a tower into layers, those that hold none, and sums between them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SUMS
from xray.story.anatomy.beside_layers import Span
from xray.story.body.layers import LONGEST_PATTERN, Layer, count_learned, cut_layers, find_period, name_coarse, runs_on
from xray.story.body.stages import Staging, are_added_within
from xray.story.body.widths import end_of
from xray.story.recognition.between import weights_of
from xray.story.streams.chains import Chain, is_numbered

ANY_NUMBER = re.compile(r"\d+")
NUMBERED = re.compile(r"(.*)\.\d+")

FEWEST_BESIDE = 20
"""Where sums stand beside blocks, one of so many may do so."""


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


def find_work(flow: Flow, layer: Layer) -> int:
    """Where a layer stands: at the last weights of its first branch; the next block may work its sum out (Mamba)."""
    joint = layer[0].joints[0]
    inner = sorted(joint.region.inner, reverse=True)
    return next((node for node in inner if flow.is_leaf(node) and weights_of(flow, [node])), joint.add)


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


def cut_by_blocks(flow: Flow, stagings: Sequence[Staging]) -> list[Layer] | None:
    """Stages in layers as the model's own blocks hold them (`cut_listed`), those beside these put to one of them.

    It is the layer before where nothing stands between, else the next one (LeViT's feed-forward behind fewer places);
    where something stands on both sides, it is a layer alone.
    """
    beside = list_beside(flow, stagings)
    layers = cut_listed(flow, [one for one in stagings if id(one) not in beside])
    if layers is None or not beside:
        return layers
    numbers = {id(one): number for number, layer in enumerate(layers) for one in layer}
    held: list[list[Staging]] = []
    current: int | None = None
    end = -1
    for one in stagings:
        number, start = numbers.get(id(one)), one.joints[0].stream
        is_near = start is not None and start <= end
        joins = bool(held) and (is_near if None in (number, current) else number == current)
        held = [*held[:-1], [*held[-1], one]] if joins else [*held, [one]]
        current = number if number is not None or not joins else current
        end = end_of((one,))
    return [tuple(layer) for layer in held]


def list_beside(flow: Flow, stagings: Sequence[Staging]) -> set[int]:
    """The stages, by their ids, that no block of the lists holds that all others are in: few, and none that looks.

    A list is known by its path without numbers, so those of all stages are one. None where some are in blocks of the
    same class, or in two of another list that follow one another and are alike: these are layers too.
    """
    held = [[*list_blocks(flow, find_work(flow, (one,)))] for one in stagings]
    names = [[ANY_NUMBER.sub("*", flow.steps[block].path) for block in blocks] for blocks in held]
    kinds = [name_coarse(one.stage) for one in stagings]
    looking = [own for own, kind in zip(names, kinds, strict=True) if kind not in ("think", "convolve")]
    counts = Counter(name for own in names for name in own)
    whole = [
        name for name, count in counts.items() if count * 4 >= 3 * len(names) and all(name in it for it in looking)
    ]
    name = min(whole, key=lambda one: (counts[one], one.count("*")), default="")
    beside = [place for place, own in enumerate(names) if name and name not in own]
    classes = {flow.steps[held[place][own.index(name)]].module for place, own in enumerate(names) if name in own}
    around = (one for place in beside for one in flow.parents(find_work(flow, (stagings[place],))))
    is_block = any(flow.steps[one].module in classes for one in around)
    return set() if is_block or follow_alike(held, names, kinds, beside) else {id(stagings[one]) for one in beside}


def follow_alike(
    held: Sequence[list[int]], names: Sequence[list[str]], kinds: Sequence[str], places: Sequence[int]
) -> bool:
    """Whether some stages are in two blocks of one list that follow one another and are alike."""
    runs = [[*run] for _, run in groupby((place for place in places if held[place]), lambda place: held[place][0])]
    return any(
        other[0] == one[-1] + 1
        and names[one[0]][0] == names[other[0]][0]
        and [kinds[place] for place in one] == [kinds[place] for place in other]
        for one, other in pairwise(runs)
    )


def cut_listed(flow: Flow, stagings: Sequence[Staging]) -> list[Layer] | None:
    """Stages in layers as the model's own blocks hold them; None where no blocks beside each other hold all sums.

    Blocks that each mix places are layers, whatever they are; those of one class also where some only think and no
    pattern of parts comes again (Nemotron-H). None too where that leaves something longer than any pattern.
    """
    holders = {id(one): [*flow.parents(one.joints[0].add)][::-1] for one in stagings}
    pieces = split_at_blocks(stagings, holders)
    if is_one_block(flow, pieces, holders):
        return [tuple(stagings)]
    if len(pieces) < 2:
        return None
    if not all(map(does_mix_places, pieces)):
        parts = [branch.part for one in stagings for branch in one.stage.branches]
        if not are_of_one_class(flow, pieces, holders):
            return None
        lists = [name_lists(flow, split_at_blocks(piece, holders), holders) for piece in pieces]
        if find_period(parts) is not None and not any(map(any, lists)):
            return [*pieces] if are_added_within(flow, pieces) else None
    return None if runs_on(stagings, pieces, found := cut_pieces(flow, pieces, holders) or []) else found or None


def cut_pieces(flow: Flow, pieces: Sequence[Layer], holders: Mapping[int, list[int]]) -> list[Layer] | None:
    """The layers that blocks hold, those cut again that are stages; None where one of them is longer than any pattern.

    Stages hold blocks of one class (Swin) or list, two of these alike in a row, that each mix places or are all alike
    (CAFormer). Blocks of a sum each, none of them alike that mix places, are sublayers (SHViT) unless of a known list.
    """
    layers: list[Layer] = []
    lists = set[str]()
    while pieces:
        piece, *pieces = pieces
        inner = split_at_blocks(piece, holders)
        names = name_lists(flow, inner, holders)
        name = names[0] if len(set(names)) == 1 else ""
        told = [tuple(tell_kind(flow, staging) for staging in one) for one in inner]
        alike = (one[0] if one == other else "" for one, other in pairwise(zip(names, told, strict=True)))
        is_listed = name in lists or any(alike)
        is_stage = len(inner) > 1 and are_of_one_class(flow, inner, holders)
        looks = {any(kind == "cross" for kind, _ in kinds) for kinds in told if len(kinds) == 1}
        are_blocks = all(map(does_mix_places, inner)) or (is_listed and len(set(told)) == 1)
        if (is_listed or is_stage) and are_blocks and len(looks) < 2 and (name in lists or not are_sublayers(inner)):
            pieces = [*inner, *pieces]
            lists |= {name} - {""}
            continue
        kinds = [tell_kind(flow, one) for one in piece]
        mixing = [kind for kind in kinds if kind[0] != "think"]
        comes_again = bool(mixing) and find_period(kinds) is not None
        is_stage = is_stage or (is_listed and told[0] == told[1])
        is_stage = is_stage and (any(len(one) > 1 for one in inner) or (bool(name) and len(set(mixing)) < len(mixing)))
        layers += cut_layers(piece) if is_stage or comes_again or count_maps(flow, piece) > 2 else [piece]
    return layers if all(len(layer) <= LONGEST_PATTERN for layer in layers) else None


def tell_kind(flow: Flow, staging: Staging) -> tuple[str, Collection[tuple[str, int]]]:
    """What a stage is for a layer, and what its convolutions are made of."""
    return name_coarse(staging.stage), count_learned(flow, staging, "convolution")


def cut_by_lists(flow: Flow, stagings: Sequence[Staging]) -> list[Layer] | None:
    """Stages by the members of the list that holds all of them: sublayers that the model calls one by one (BIT).

    None where not each member has several that mix places no two alike; no module may run that holds these alone.
    """
    paths = [flow.steps[next(flow.parents(one.joints[0].add))].path for one in stagings]
    if len(found := {one.rpartition(".")[0] for one in paths}) < 2:
        return None
    lists = {one.rpartition(".")[0] if one.rpartition(".")[2].isdecimal() else "" for one in found}
    if len(lists) > 1 or "" in lists or found & {step.path for step in flow.steps}:
        return None
    members = groupby(zip(paths, stagings, strict=True), lambda one: one[0].rpartition(".")[0])
    layers = [tuple(staging for _, staging in run) for _, run in members]
    kinds = [[kind for one in layer if (kind := name_coarse(one.stage)) != "think"] for layer in layers]
    is_whole = all(0 < len(own) == len({*own}) and len(layer) > 1 for own, layer in zip(kinds, layers, strict=True))
    return layers if is_whole and len(layers) == len(found) else None


def is_one_block(flow: Flow, pieces: Sequence[Layer], holders: Mapping[int, list[int]]) -> bool:
    """Whether one block of a list holds all stages, which are no pattern that comes again.

    It adds all up itself (PARSeq's one), or holds blocks of a sum each, no two of those alike that mix places (DCP).
    """
    stagings = [one for piece in pieces for one in piece]
    own = [holders[id(one)] for one in stagings]
    shared = own[0][: count_shared(own)]
    kinds = [name_coarse(one.stage) for one in stagings]
    if find_period(kinds) is not None:
        return False
    if len(pieces) < 2:
        return all(held == shared for held in own) and is_numbered(flow, shared[-1:])
    return are_sublayers(pieces) and "think" in kinds and is_numbered(flow, shared)


def are_sublayers(pieces: Sequence[Layer]) -> bool:
    """Whether blocks hold a sum each, and no two of them that mix places do so alike."""
    kinds = [name_coarse(one.stage) for piece in pieces for one in piece]
    mixing = [kind for kind in kinds if kind != "think"]
    return len(kinds) == len(pieces) and len({*mixing}) == len(mixing)


def count_maps(flow: Flow, piece: Layer) -> int:
    """How many sizes of map the sums of a piece have: more than a layer has, be it that it makes one smaller (Emu3)."""
    shapes = [flow.output(one.joints[0].add).shape for one in piece]
    return len({shape[2:] for shape in shapes if len(shape) == len(("batch", "channels", "height", "width"))})


def split_at_blocks(stagings: Sequence[Staging], holders: Mapping[int, list[int]]) -> list[Layer]:
    """Stages by the outermost blocks that do not hold all of them; all in one where sums stand beside these.

    One of many that stands between two blocks goes with the one before, be it that it is of no layer (Granite Speech).
    """
    own = [holders[id(one)] for one in stagings]
    depth = count_shared(own)
    alone = [len(one) <= depth for one in own]
    if alone[0] or sum(alone) * FEWEST_BESIDE > len(own):
        return [tuple(stagings)]
    blocks: list[int] = []
    for held, is_alone in zip(own, alone, strict=True):
        blocks.append(blocks[-1] if is_alone else held[depth])
    return [
        tuple(one for one, held in zip(stagings, blocks, strict=True) if held == block)
        for block in dict.fromkeys(blocks)
    ]


def count_shared(holders: Sequence[list[int]]) -> int:
    """In how many blocks, from the outermost on, all stand."""
    return next(
        (depth for depth, held in enumerate(zip(*holders, strict=False)) if len(set(held)) > 1), min(map(len, holders))
    )


def are_of_one_class(flow: Flow, pieces: Sequence[Layer], holders: Mapping[int, list[int]]) -> bool:
    """Whether the blocks of pieces are of one class."""
    depth = count_shared([holders[id(one)] for piece in pieces for one in piece])
    return len({flow.steps[holders[id(piece[0])][depth]].module for piece in pieces}) == 1


def name_lists(flow: Flow, pieces: Sequence[Layer], holders: Mapping[int, list[int]]) -> list[str]:
    """The lists, by their paths without numbers, that several pieces are blocks of; empty where one is of none."""
    if len(pieces) < 2:
        return [""]
    depth = count_shared([holders[id(one)] for piece in pieces for one in piece])
    return [ANY_NUMBER.sub("*", name_list(flow, holders[id(piece[0])][depth])) for piece in pieces]


def does_mix_places(layer: Layer) -> bool:
    """Whether one of its stages lets places see each other."""
    return any(name_coarse(staging.stage) != "think" for staging in layer)


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
