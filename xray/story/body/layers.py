"""Groups of layers that are alike."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DROP_PATHS, DROPOUTS, SUMS
from xray.ir.records import MaskFacts
from xray.story.anatomy.branches import Unknown
from xray.story.anatomy.tree import Group, Stage
from xray.story.body.stages import find_own_bend
from xray.story.body.widths import (
    count_learned,
    count_shared_sets,
    is_shared,
    join_parts,
    learned_paths,
    list_loose,
    list_weight_sets,
    list_works,
    shape_of,
    shares_some,
    width_of,
)
from xray.story.branches.operands.sides import read_sides
from xray.story.cutting.patterns import Layer
from xray.story.recognition.between import adds_learned_row
from xray.story.recognition.scored_parts import are_masked, read_scored
from xray.story.recognition.values.padding import read_proven

Mask = MaskFacts | Literal["unknown", "none"]
"""What is recorded of a mask; "unknown" where nothing is, "none" where scores meet no mask."""

IN_A_LIST = re.compile(r"\.\d+(?=\.)")
"""What the path of a block has for its place in a list."""


def group_layers(
    flow: Flow, layers: Sequence[Layer], breaks: Sequence[int] = (), put_back: Collection[int] = ()
) -> list[Group]:
    """Layers that are alike, each group with the numbers of its layers, in the order of their first ones.

    Layers before and behind a break are not of one group, nor are those before and behind the only others that stand
    between layers alike (NeuCodec): the frames would be led to each other in another order than the layers. Nor are
    those before which what was there earlier is `put_back` beside the stream alike to others (U-Nets).
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    alike: dict[tuple[object, ...], tuple[Stage, ...]] = {}
    widths: dict[tuple[object, ...], int | None] = {}
    held: dict[tuple[object, ...], list[frozenset[str]]] = {}
    own: dict[tuple[object, ...], list[frozenset[str]]] = {}
    loose: dict[tuple[object, ...], bool] = {}
    for number, layer in enumerate(layers):
        stages = tuple(staging.stage for staging in layer)
        width = width_of(flow, layer)
        apart = sum(one <= number for one in breaks)
        shapes = (shape_of(flow, layer), *list_reaches(flow, layer), count_added(flow, layer))
        told = tuple((blur(one.stage), count_learned(flow, one), list_works(flow, one)) for one in layer)
        key = (told, width, shapes, list_masks(flow, layer), apart, number in put_back)
        groups.setdefault(key, []).append(number)
        alike.setdefault(key, stages)
        widths[key] = width
        held.setdefault(key, []).append(learned_paths(flow, layer))
        loose[key] = bool(list_loose(flow, layer)) or loose.get(key, False)
        own.setdefault(key, []).append(learned_paths(flow, layer, list_of_places(flow, layer)))
    again = find_return(list(groups.values()))
    if again is not None:
        return group_layers(flow, layers, (*breaks, again), put_back)
    held = {key: join_parts(one) for key, one in held.items()}
    in_part = {key: (not loose[key] and shares_some(one)) or None for key, one in own.items()}
    return [
        Group(
            tuple(numbers),
            alike[key],
            widths[key],
            is_shared(held[key]) if len(numbers) > 1 else None,
            () if loose[key] else list_weight_sets(numbers, held[key]),
            *spread_dropped(flow, [layers[number] for number in numbers]),
            in_part[key],
            count_shared_sets(own[key]) if in_part[key] else None,
        )
        for key, numbers in groups.items()
    ]


def leave_bends(flow: Flow, layers: Sequence[Layer], groups: Sequence[Group]) -> list[Layer]:
    """Layers, none with a bend behind it that only some of those alike have: it is of what comes next (UnivNet).

    So it is of the last layer where of all that end as it does, this alone has one, be they otherwise no group.
    """
    ends = [blur(layer[-1].stage) for layer in layers]
    bent = {number for number, layer in enumerate(layers) if find_own_bend(flow, layer[-1]) is not None}
    alike = {number for number, end in enumerate(ends) if end == ends[-1]}
    left = {one for group in groups if not bent.issuperset(group.layers) for one in group.layers}
    left |= {len(layers) - 1} if len(alike) > 1 and len(alike & bent) == 1 else set()
    return [
        (*layer[:-1], replace(layer[-1], left=True)) if number in left & bent else layer
        for number, layer in enumerate(layers)
    ]


def find_return(groups: Sequence[Sequence[int]]) -> int | None:
    """The layer at which one of all groups is taken up again, where that happens once; None for a pattern of layers.

    One layer alone, before or behind, is told with the others.
    """
    taken_up = [
        (numbers, place)
        for numbers in groups
        for place, (before, after) in enumerate(pairwise(numbers), 1)
        if after != before + 1
    ]
    if len(taken_up) != 1:
        return None
    numbers, place = taken_up[0]
    return numbers[place] if 1 < place < len(numbers) - 1 else None


def spread_dropped(
    flow: Flow, layers: Sequence[Layer]
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """The lowest and the highest share that some layers drop of what they make, and of whole branches."""
    single = {list_shares(flow, layer, DROPOUTS - DROP_PATHS) for layer in layers}
    return spread_of(single), spread_of({list_shares(flow, layer, DROP_PATHS) for layer in layers}, of_branches=True)


def spread_of(dropped: Collection[tuple[float, ...]], *, of_branches: bool = False) -> tuple[float, float] | None:
    """The lowest and the highest share that layers drop at one place, where they differ in that; else None.

    Layers that drop at more places than others have no such places in common. Of whole branches these drop none there.
    """
    if of_branches:
        most = max(map(len, dropped))
        dropped = {(*[0.0] * (most - len(shares)), *shares) for shares in dropped}
    if len({len(one) for one in dropped}) != 1:
        return None
    differing = [shares for shares in zip(*dropped, strict=True) if len(set(shares)) > 1]
    told = [share for shares in differing for share in shares]
    return (min(told), max(told)) if told else None


def blur(stage: Stage) -> Stage:
    """A stage without what tells one layer from another by its place alone: paths."""
    branches = tuple(replace(branch, paths=()) if isinstance(branch, Unknown) else branch for branch in stage.branches)
    return replace(stage, branches=branches)


def list_masks(flow: Flow, layer: Layer) -> tuple[Mask, ...]:
    """What is recorded of the mask of each attention of a layer."""
    sites = [one.site for staging in layer for one in staging.branches if one.site is not None]
    return tuple(find_mask(flow, site) for site in sites)


def list_reaches(flow: Flow, layer: Layer) -> tuple[tuple[int, ...], ...]:
    """What shape the weights of each attention of a layer have: at how many places it looks (Mask2Former)."""
    sites = [one.site for staging in layer for one in staging.branches if one.site is not None]
    return tuple(flow.output(site.softmax).shape for site in sites)


def count_added(flow: Flow, layer: Layer) -> tuple[int, ...]:
    """How often something is added to queries, keys and values of each attention of a layer that is no bias.

    Rows of a table, say: so layers of NeoMME differ, and the first one of DAB-DETR differs from the others.
    """
    looking = [(one.site, one.region) for staging in layer for one in staging.branches if one.site is not None]
    sides = (side.nodes for site, region in looking for side in read_sides(flow, site, region))
    return tuple(sum(flow.op(node) in SUMS and not adds_learned_row(flow, node) for node in nodes) for nodes in sides)


def list_of_places(flow: Flow, layer: Layer) -> set[int]:
    """What gives a layer's rows their places, or numbers of their own: what stands beside its branches, and its sums.

    Layers share no set of weights to which one table is added in each (TransPose).
    """
    beside = {node for staging in layer for one in staging.branches for node in one.region.beside}
    return beside | {node for staging in layer for node in staging.nodes if flow.op(node) in SUMS}


def find_mask(flow: Flow, site: Site) -> Mask:
    """What is recorded of the mask that joins the scores of an attention, or that nothing is, or that none does."""
    parts = [one for one in read_scored(flow, site.scored) if one.operand is not None and one.kind != "mixed_mask"]
    known = (read_proven(flow, part.operand.record) for part in parts if part.operand is not None)
    recorded = next((mask for mask in known if mask is not None), None)
    return recorded or ("unknown" if are_masked(flow, site.scored[-2:][0]) else "none")


def list_shares(flow: Flow, layer: Layer, kinds: Collection[str]) -> tuple[float, ...]:
    """The shares that dropouts of some kinds drop in a layer, in order, be it that none of them is at work now."""
    nodes = {node for staging in layer for node in staging.nodes}
    nodes |= {one for node in nodes for one in flow.handed.get(node, ())}
    settings = [flow.steps[node].settings for node in sorted(nodes) if flow.op(node) in kinds]
    shares = (one.get("p", one.get("drop_prob")) for one in settings)
    return tuple(float(one) for one in shares if isinstance(one, int | float))


def name_in_lists(flow: Flow, node: int) -> str:
    """The name of a step without the numbers of blocks in lists: that of alike steps of other blocks too."""
    return IN_A_LIST.sub(".", flow.steps[node].id)
