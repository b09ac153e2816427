"""Where in a model something holds of its attentions: in all of them, in those of a tower or of a kind, or in some."""

from collections.abc import Callable, Iterator

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Branch, Recurrence, Unknown
from xray.story.anatomy.tree import Anatomy

SOME = " in some attentions"
PARTS = frozenset({"encoder", "decoder", "stack"})
"""Towers that are called by what they are, and not by what they read."""
Spot = tuple[str, str | None]
"""An attention by its tower and its kind, which is None where it is neither of the two that have a name."""


def tell_where(anatomy: Anatomy, holds: Callable[[Attention], object]) -> str | None:
    """Empty where something holds of all attentions, None where of none, else in which: " in cross-attention".

    They are named where all attentions of one tower are meant, or all of one kind, be it in one tower, and no others.
    Nothing is said of attention that is part of no layer, and what is not known may be one of which it does not hold.
    """
    own, others = set[Spot](), set[Spot]((tower, None) for tower in list_unknown(anatomy))
    for spot, branch in list_spots(anatomy):
        (own if holds(branch) else others).add(spot)
    if not own:
        return None
    states = {tower.name for tower in anatomy.towers if any(map(has_queries, tower.branches))}
    if not others:
        layers = " in layers" if anatomy.attends_elsewhere else ""
        return f" in softmax attention{layers.replace('in', 'of')}" if states else layers
    place = name_place(own, others)
    if place and "cross" not in place and not states.isdisjoint(tower for tower, _ in own):
        of_tower = "attention" not in place  # a state is no cross-attention, and self-attention of a kind
        place = f"softmax attention of {place}" if of_tower else place.replace("self-", "softmax self-")
    return f" in {place}" if place else SOME


def list_unknown(anatomy: Anatomy) -> set[str]:
    """The towers with layers of which it is not known whether they look: of no attention, but of what is not known."""
    found = set[str]()
    for tower in anatomy.towers:
        for group in tower.groups:
            kinds = {type(one) for stage in group.stages for one in stage.branches}
            found |= {tower.name} if Unknown in kinds and Attention not in kinds else set()
    return found


def has_queries(branch: Branch) -> bool:
    """Whether a branch changes a state by keys and values, and queries read it: what holds of softmax may not there."""
    return isinstance(branch, Recurrence) and branch.heads is not None


def list_spots(anatomy: Anatomy) -> Iterator[tuple[Spot, Attention]]:
    """Every kind of attention in a model, with where it is."""
    for tower in anatomy.towers:
        for branch in tower.branches:
            if isinstance(branch, Attention):
                yield (tower.name, name_kind(branch)), branch


def name_kind(branch: Attention) -> str | None:
    """Self-attention or cross-attention; None of one that is both, or is not known to be either."""
    if branch.beside is not None or branch.source is None:
        return None
    return "self-attention" if branch.source == "self" else "cross-attention" if branch.leaves_stream else None


def name_place(own: set[Spot], others: set[Spot]) -> str:
    """What some attentions are called together, and none of the others is; empty where they have no such name."""
    towers, kinds = {tower for tower, _ in own}, {kind for _, kind in own}
    tower, kind = (next(iter(one)) if len(one) == 1 else None for one in (towers, kinds))
    if kind is not None and {kind, None}.isdisjoint(other for _, other in others):
        return kind
    if tower is None:
        return ""
    named = name_tower(tower)
    if all(other != tower for other, _ in others):
        return named
    if kind is not None and {(tower, kind), (tower, None)}.isdisjoint(others):
        return f"{named}'s {kind}"
    return ""


def name_tower(tower: str) -> str:
    """A tower in a sentence."""
    if tower.split(" ")[0] not in PARTS:
        return f"the {tower} tower"
    return tower if " " in tower else f"the {tower}"  # "encoder 2"
