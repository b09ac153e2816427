"""Naming: what the towers of a pass are called, and whose keys each attention looks at."""

from collections.abc import Sequence
from dataclasses import replace

from xray.story.anatomy.branches import Attention, Branch, DeformableAttention, Looking
from xray.story.anatomy.tree import Stage, Tower
from xray.story.body.stages import change_branches
from xray.story.body.towers import Towering

NAMES = {"ids": "text", "image": "vision", "video": "vision", "audio": "audio"}
"""What a tower is called by what it reads."""
UNNAMED = "#"
"""Stands before the number of a tower that has no name yet."""


def name_towers(towers: Sequence[Towering]) -> list[Towering]:
    """The same towers, named, and by their names in the attentions that look at them."""
    names: list[str] = []
    crossing = [number for number, one in enumerate(towers) if asks_alone(towers, number)]
    memories = {asked for number in crossing for asked in list_asked(towers[number].tower)}
    for number, one in enumerate(towers):
        name = name_tower(one, number in memories, number in crossing)
        used = 1 + sum(known.split(" ")[0] == name for known in names)
        names.append(name if used == 1 else f"{name} {used}")
    return [
        tell_names(replace(one, tower=replace(one.tower, name=name)), names)
        for one, name in zip(towers, names, strict=True)
    ]


def asks_alone(towers: Sequence[Towering], number: int) -> bool:
    """Whether a tower looks at others and none of these looks back."""
    tower = towers[number].tower
    back = (list_sources(towers[other].tower) for other in list_asked(tower))
    return any_cross(tower) and all(f"{UNNAMED}{number}" not in sources for sources in back)


def list_sources(tower: Tower) -> set[str]:
    """What the attentions of a tower look at."""
    return {branch.source for branch in tower.branches if isinstance(branch, Looking) and branch.source is not None}


def list_asked(tower: Tower) -> list[int]:
    """The numbers of the towers that a tower without a name looks at."""
    return [int(one.removeprefix(UNNAMED)) for one in list_sources(tower) if one.startswith(UNNAMED)]


def tell_names(towering: Towering, names: Sequence[str]) -> Towering:
    """A tower whose attentions tell other towers by their names."""

    def settle_name(told: str | None) -> str | None:
        return names[int(told.removeprefix(UNNAMED))] if told is not None and told.startswith(UNNAMED) else told

    def settle(branch: Branch) -> Branch:
        if isinstance(branch, Attention):
            return replace(branch, source=settle_name(branch.source), beside=settle_name(branch.beside))
        return replace(branch, source=settle_name(branch.source)) if isinstance(branch, DeformableAttention) else branch

    def settle_stage(stage: Stage) -> Stage:
        return replace(stage, branches=tuple(map(settle, stage.branches)))

    tower = towering.tower
    groups = tuple(replace(group, stages=tuple(map(settle_stage, group.stages))) for group in tower.groups)
    settled = {
        id(one): change_branches(one, lambda found: settle(found.branch))
        for layer in (towering.stagings, *towering.layers)
        for one in layer
    }
    return replace(
        towering,
        tower=replace(tower, groups=groups),
        stagings=tuple(settled[id(one)] for one in towering.stagings),
        layers=tuple(tuple(settled[id(one)] for one in layer) for layer in towering.layers),
    )


def any_cross(tower: Tower) -> bool:
    """Whether a tower looks at anything but itself."""
    return any(isinstance(branch, Looking) and branch.leaves_stream for branch in tower.branches)


def name_tower(one: Towering, is_memory: bool, crosses: bool) -> str:
    """What a tower is called: by its part in a pair, else by what it reads."""
    if crosses:
        return "decoder"
    if is_memory:
        return "encoder"
    return "stack" if one.tower.also or one.is_told else NAMES.get(one.tower.reads or "", "stack")
