"""Layers where blocks of the model hold them: modules that run, or members of a list whose sublayers run one by one."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from xray.ir.flow.dataflow import Flow
from xray.story.body.layers import LONGEST_PATTERN, Layer, count_learned, cut_layers, find_period, name_coarse
from xray.story.body.stages import Staging, are_added_within
from xray.story.streams.chains import is_numbered

FEWEST_BESIDE = 20
"""Where sums stand beside blocks, one of so many may do so."""


def cut_by_blocks(flow: Flow, stagings: Sequence[Staging]) -> list[Layer] | None:
    """Stages in layers as the model's own blocks hold them; None where no blocks beside each other hold all sums.

    Blocks that each mix places are layers, whatever they are; those of one class also where some only think and no
    pattern of parts comes again (Nemotron-H). What they hold is cut again into blocks of one class that each mix places
    (stages of Swin), all or none of them those of another tower, and by its pattern; but blocks of a sum each, no two
    of those alike that mix places, are sublayers of one layer (SHViT). None too where that leaves something longer than
    any pattern.
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
        if find_period(parts) is not None:
            return [*pieces] if are_added_within(flow, pieces) else None
    layers: list[Layer] = []
    while pieces:
        piece, *pieces = pieces
        inner = split_at_blocks(piece, holders)
        is_stage = len(inner) > 1 and (are_of_one_class(flow, inner, holders) or begins_alike(flow, inner, holders))
        looks = [any(name_coarse(staging.stage) == "cross" for staging in one) for one in inner]
        if is_stage and all(map(does_mix_places, inner)) and len(set(looks)) == 1 and not are_sublayers(inner):
            pieces = [*inner, *pieces]
            continue
        kinds = [(name_coarse(one.stage), count_learned(flow, one, "convolution")) for one in piece]
        comes_again = find_period(kinds) is not None
        mixing = [kind for kind in kinds if kind[0] != "think"]
        is_stage = is_stage and (any(len(one) > 1 for one in inner) or len(set(mixing)) < len(mixing))
        layers += cut_layers(piece) if is_stage or comes_again or count_maps(flow, piece) > 2 else [piece]
    return layers if all(len(layer) <= LONGEST_PATTERN for layer in layers) else None


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


def begins_alike(flow: Flow, pieces: Sequence[Layer], holders: Mapping[int, list[int]]) -> bool:
    """Whether two blocks of one class with a convolution each stand before others (SwiftFormer)."""
    first = pieces[:2]
    return all([name_coarse(staging.stage) for staging in one] == ["convolve"] for one in first) and are_of_one_class(
        flow, first, holders
    )


def does_mix_places(layer: Layer) -> bool:
    """Whether one of its stages lets places see each other."""
    return any(name_coarse(staging.stage) != "think" for staging in layer)
