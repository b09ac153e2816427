"""Layers as the model's own blocks hold them."""

from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.weights import list_common
from xray.story.body.stages import Staging
from xray.story.body.widths import count_learned
from xray.story.cutting.blocks import (
    Holders,
    are_of_one_class,
    count_shared,
    list_first_blocks,
    name_lists,
    read_holders,
    split_at_blocks,
)
from xray.story.cutting.patterns import LONGEST_PATTERN, Layer, cut_by_pattern, find_period, name_coarse, runs_on
from xray.story.recognition.between import weights_of


def cut_listed(flow: Flow, stagings: Sequence[Staging]) -> list[Layer] | None:
    """Stages in layers as the model's own blocks hold them; None where no blocks beside each other hold all sums.

    Blocks that each mix places are layers, whatever they are; those of one class also where some only think and no
    pattern of parts comes again (Nemotron-H). None too where that leaves something longer than any pattern.
    """
    holders = read_holders(flow, stagings)
    pieces = split_at_blocks(stagings, holders)
    if is_one_block(pieces, holders):
        return [tuple(stagings)]
    if len(pieces) < 2:
        return None
    if not all(map(does_mix_places, pieces)):
        parts = [branch.part for one in stagings for branch in one.stage.branches]
        if not are_of_one_class(pieces, holders):
            return None
        lists = [name_lists(split_at_blocks(piece, holders), holders) for piece in pieces]
        if find_period(parts) is not None and not any(map(any, lists)):
            return [*pieces] if are_added_within(pieces, holders) else None
    if in_turn := list_in_turn(pieces, holders):
        return in_turn
    return None if runs_on(stagings, pieces, found := cut_pieces(flow, pieces, holders) or []) else found or None


def cut_pieces(flow: Flow, pieces: Sequence[Layer], holders: Holders) -> list[Layer] | None:
    """The layers that blocks hold, those cut again that are stages; None where one of them is longer than any pattern.

    Stages hold blocks of one class (Swin) or list, two of these alike in a row, that each mix places or are all alike
    (CAFormer). Blocks of a sum each, none of them alike that mix places, are sublayers (SHViT) unless of a known list.
    """
    layers: list[Layer] = []
    lists = set[str]()
    while pieces:
        piece, *pieces = pieces
        inner = split_at_blocks(piece, holders)
        if joined := list_in_turn(inner, holders) or cut_by_classes(inner, holders):
            layers += joined
            continue
        names = name_lists(inner, holders)
        name = names[0] if len(set(names)) == 1 else ""
        told = [tuple(tell_kind(flow, staging) for staging in one) for one in inner]
        alike = (one[0] if one == other else "" for one, other in pairwise(zip(names, told, strict=True)))
        is_listed = name in lists or any(alike)
        is_stage = len(inner) > 1 and are_of_one_class(inner, holders)
        looks = {any(kind == "cross" for kind, _ in kinds) for kinds in told if len(kinds) == 1}
        are_blocks = all(map(does_mix_places, inner)) or (is_listed and len(set(told)) == 1)
        are_apart = name in lists or not are_sublayers(inner) or (is_stage and is_stage_of_none(piece, holders))
        if (is_listed or is_stage) and are_blocks and len(looks) < 2 and are_apart:
            pieces = [*inner, *pieces]
            lists |= {name} - {""}
            continue
        kinds = tell_kinds(flow, piece, inner, holders)
        mixing = [kind for kind in kinds if kind[0] != "think"]
        comes_again = bool(mixing) and find_period(kinds) is not None
        is_stage = is_stage or (is_listed and told[0] == told[1])
        is_stage = is_stage and (any(len(one) > 1 for one in inner) or (bool(name) and len(set(mixing)) < len(mixing)))
        is_cut = is_stage or comes_again or count_maps(flow, piece) > 2
        layers += cut_by_pattern(piece) if is_cut else cut_by_numbers(flow, piece, holders)
    return layers if all(len(layer) <= LONGEST_PATTERN for layer in layers) else None


def cut_by_classes(pieces: Sequence[Layer], holders: Holders) -> list[Layer]:
    """Blocks of a sum each of one list, as patterns of their classes come again one behind the other (iFormer).

    None where one pattern goes through all, or each mixes places, or a layer would mix none.
    """
    are_of_one_list = len(pieces) > 1 and len({*name_lists(pieces, holders)} | {""}) == 2
    kinds = [name_coarse(one.stage) for piece in pieces for one in piece]
    if not are_of_one_list or len(kinds) > len(pieces) or find_period(kinds) or "think" not in kinds:
        return []
    classes = [block.module for block in list_first_blocks(pieces, holders)]
    layers: list[Layer] = []
    while len(classes) > (first := sum(map(len, layers))):
        counts = {length: count_times(classes[first:], length) for length in range(1, LONGEST_PATTERN + 1)}
        length = max(counts, key=lambda one: counts[one] * one * (counts[one] > 1))
        ends = range(first, first + counts[length] * length + 1, length) if counts[length] > 1 else (first, first + 1)
        layers += [tuple(staging for one in pieces[start:end] for staging in one) for start, end in pairwise(ends)]
    return layers if len({*map(len, layers)}) > 1 and all(map(does_mix_places, layers)) else []


def count_times(names: Sequence[str], length: int) -> int:
    """How often some names stand one behind the other that begin with so many."""
    times = 1
    while names[times * length : (times + 1) * length] == names[:length]:
        times += 1
    return times


def cut_by_numbers(flow: Flow, piece: Layer, holders: Holders) -> list[Layer]:
    """The layers of a piece that is no block of a list, where its sublayers' weights are those of one, in its order.

    So a block adds up what the elements of a list of lists give, not all alike (OmniTokenizer). The piece itself where
    sublayers are of no such list, or an element is more or less than a layer: it mixes places first, and thinks last.
    """
    names = [weights_of(flow, [*one.joints[0].region.inner]).keys() for one in piece]
    paths = [[name.split(".") for name in own] for own in names]
    depth = len(list_common(path for own in paths for path in own))
    held = [{".".join(path[depth : depth + 1]) for path in own} for own in paths]
    numbers = ["".join(own) if len(own) == 1 else "" for own in held]
    runs = [[*run] for _, run in groupby(zip(numbers, piece, strict=True), lambda one: one[0])]
    layers = [tuple(one for _, one in run) for run in runs]
    is_listed = [run[0][0] for run in runs] == [str(number) for number in range(len(runs))]
    kinds = [[name_coarse(one.stage) for one in layer] for layer in layers]
    are_layers = all("think" not in own[:-1] and len(own) > 1 and own[-1] == "think" for own in kinds)
    is_numbered = holders[id(piece[0])][-1].is_numbered
    return layers if is_listed and are_layers and not is_numbered else [piece]


def list_in_turn(pieces: Sequence[Layer], holders: Holders) -> list[Layer]:
    """Pieces, joined where lists side by side give one each in turn, by its number (3-D U-Nets, STTR).

    One list's have a sum each (Grounding DINO's fusions). None where they are anything else.
    """
    if len(pieces) < 2:
        return []
    blocks = list_first_blocks(pieces, holders)
    runs = [[*run] for _, run in groupby(zip(blocks, pieces, strict=True), lambda one: one[0].path.rpartition(".")[2])]
    lists = {tuple(block.list for block, _ in run) for run in runs}
    are_several = len(lists) == 1 and all(len(own) == len({*own}) > 1 and all(own) for own in lists)
    are_several = are_several and all(any(len(piece) == 1 for _, piece in run) for run in runs)
    return [tuple(one for _, piece in run for one in piece) for run in runs] if are_several and len(runs) > 1 else []


def tell_kind(flow: Flow, staging: Staging) -> tuple[str, Collection[tuple[str, int]]]:
    """What a stage is for a layer, and what its convolutions are made of."""
    return name_coarse(staging.stage), count_learned(flow, staging, "convolution")


def tell_kinds(
    flow: Flow, piece: Layer, inner: Sequence[Layer], holders: Holders
) -> list[tuple[str, Collection[tuple[str, int]]]]:
    """What the stages of a piece are for a layer: those in blocks of their own that are not known by their classes."""
    kinds = [tell_kind(flow, one) for one in piece]
    if len(inner) < max(len(piece), 2):
        return kinds
    classes = [block.module for block in list_first_blocks(inner, holders)]
    return [(own if kind == "unknown" else kind, made) for own, (kind, made) in zip(classes, kinds, strict=True)]


def is_one_block(pieces: Sequence[Layer], holders: Holders) -> bool:
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
        return all(held == shared for held in own) and bool(shared) and shared[-1].is_numbered
    return are_sublayers(pieces) and "think" in kinds and any(one.is_numbered for one in shared)


def are_sublayers(pieces: Sequence[Layer]) -> bool:
    """Whether blocks hold a sum each, and no two of them that mix places do so alike."""
    kinds = [name_coarse(one.stage) for piece in pieces for one in piece]
    mixing = [kind for kind in kinds if kind != "think"]
    return len(kinds) == len(pieces) and len({*mixing}) == len(mixing)


def is_stage_of_none(piece: Layer, holders: Holders) -> bool:
    """Whether no stage of a piece mixes places, and what holds them all is no block of a list: AST's encoder."""
    own = [holders[id(one)] for one in piece]
    shared = own[0][: count_shared(own)]
    return not does_mix_places(piece) and bool(shared) and not shared[-1].is_numbered


def count_maps(flow: Flow, piece: Layer) -> int:
    """How many sizes of map the sums of a piece have: more than a layer has, be it that it makes one smaller (Emu3)."""
    shapes = [flow.output(one.joints[0].add).shape for one in piece]
    return len({shape[2:] for shape in shapes if len(shape) == len(("batch", "channels", "height", "width"))})


def does_mix_places(layer: Layer) -> bool:
    """Whether one of its stages lets places see each other."""
    return any(name_coarse(staging.stage) != "think" for staging in layer)


def are_added_within(pieces: Sequence[Layer], holders: Holders) -> bool:
    """Whether the blocks of a list add up several sublayers themselves, as many in each: they are layers (DiGress)."""
    blocks = [{tuple(holders[id(one)][-1:]) for one in piece} for piece in pieces]
    are_alike = len({*map(len, pieces)}) == 1 < len(pieces[0])
    return are_alike and all(
        len(own) == 1 and all(block.is_numbered for held in own for block in held) for own in blocks
    )
