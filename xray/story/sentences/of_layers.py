"""What the card says of layers: what they share and drop, what stands between them, what is side by side in them."""

from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Anatomy, Group, Stage, Tower
from xray.story.sentences.of_norms import (
    stages,
)

ADDED_TOGETHER = "are added together"
MERGED = "one linear layer leads what they give, laid end to end, back to it"
"""What becomes of what sublayers side by side give."""


def describe_bridges(anatomy: Anatomy) -> str:
    """How many places become one between stages, of the first tower of which that is known.

    It is not where rows become wider more often than stages begin: maps may be joined there (FoundationPose).
    """
    for tower in anatomy.towers:
        between = [bridge for bridge in tower.bridges if not bridge.beside]
        joined = {bridge.joined for bridge in between}
        rows = list_widths(tower) if between else ()
        times = joined.pop() if len(joined) == 1 and len(rows) <= len(between) + 1 else None
        if times is not None:
            own = f" of the {tower.name} tower" if len(anatomy.towers) > 1 else ""
            wider = f", and rows are {', '.join(map(str, rows))} numbers wide" if len(rows) > 1 else ""
            return f"Stages{own}: between them {times} places become one{wider}."
    return ""


def list_widths(tower: Tower) -> tuple[int | None, ...]:
    """How wide the rows of a tower are, from its first stage on; sublayers may make them wider, too (Emu3)."""
    bridges = dict.fromkeys([tower.bridges[0].d_in, *(bridge.d_out for bridge in tower.bridges)])
    groups = dict.fromkeys(one.d_model for one in sorted(tower.groups, key=lambda one: one.layers) if one.d_model)
    return tuple(bridges if bridges.keys() >= groups.keys() else groups)


def describe_shared(anatomy: Anatomy) -> str:
    groups = [group for tower in anatomy.towers for group in tower.groups]
    alone = len(groups) == 1 and groups[0].shared  # those of two towers have a set each
    return "All layers use one and the same set of weights." if alone else ""


def describe_shared_in_part(anatomy: Anatomy) -> str:
    several = len(anatomy.towers) > 1
    groups = [(tower, group) for tower in anatomy.towers for group in tower.groups if group.shared_in_part]
    told = [
        f"{group.count} layers{f' of the {tower.name} tower' if several else ''} share {spell_sets(group)}"
        for tower, group in groups
    ]
    return f"{'; '.join(told)}." if told else ""


def spell_sets(group: Group) -> str:
    """How many sets of weights layers share of which each has others of its own."""
    if group.shared_sets == 1:
        return "one set of weights, and each has others of its own beside it"
    return f"{group.shared_sets or 'several'} sets of weights, and each has others of its own beside one of these"


def describe_weight_sets(group: Group) -> str:
    sets = group.weight_sets or 0
    return f"{sets} sets of weights" if sets > 1 else "one set of weights" * sets


def describe_again(group: Group) -> str:
    if not group.weights_of:
        return ""
    first, last = group.weights_of[0] + 1, group.weights_of[-1] + 1
    return f"the weights of layers {first}–{last}"


def describe_spread(what: str, shares: tuple[float, float] | None) -> str:
    if shares is None:
        return ""
    low, high = shares
    return f"{what} {low:.3g} to {high:.3g}" if low < high else f"{what} not alike"


def describe_parallel(anatomy: Anatomy) -> str:
    found = [reads_one_point(stage) for stage in stages(anatomy)]
    merged = [stage.merged is True for stage in stages(anatomy) if reads_one_point(stage)]
    layers = [group.stages for tower in anatomy.towers for group in tower.groups]
    some = "Some sublayers" if all(any(map(reads_one_point, own)) for own in layers) else "In some layers sublayers"
    where = "Sublayers side by side" if all(found) else f"{some} stand side by side"
    ends = ", or ".join([ADDED_TOGETHER] * (not all(merged)) + [MERGED] * any(merged))
    return f"{where}: they read the same point of the stream, and {ends}." if any(found) else ""


def reads_one_point(stage: Stage) -> bool:
    """Whether sublayers side by side are known to read one point: a convolution may read an attention's values."""
    return stage.parallel and not any(isinstance(branch, Convolution) for branch in stage.branches)
