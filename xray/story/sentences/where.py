"""Where in a model something holds of its attentions: in all of them, in those of a tower or of a kind, or in some."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branches import Branch, Recurrence, Unknown
from xray.story.anatomy.tree import Anatomy

SOME = " in some attentions"
PARTS = frozenset({"encoder", "decoder", "stack"})
"""Towers that are called by what they are, and not by what they read."""
Spot = tuple[str, str | None]
"""An attention by its tower and its kind, which is None where it is neither of the two that have a name."""
Value = TypeVar("Value", int, float, str)


def tell_where(anatomy: Anatomy, holds: Callable[[Attention], object]) -> str | None:
    """Empty where something holds of all attentions, None where of none, else in which: " in cross-attention".

    They are named where all attentions of one tower are meant, or all of one kind, be it in one tower, and no others.
    Nothing is said of attention that is part of no layer, and what is not known may be one of which it does not hold;
    nor is it of points that are sampled, which have no keys.
    """
    own, others = set[Spot](), set[Spot]((tower, None) for tower in list_unknown(anatomy))
    for spot, branch in list_spots(anatomy):
        (own if holds(branch) else others).add(spot)
    if not own:
        return None
    states = {tower.name for tower in anatomy.towers if any(map(has_queries, tower.branches))}
    if not others:
        layers = " in the layers" if anatomy.attends_elsewhere else ""
        has_points = any(isinstance(branch, DeformableAttention) for branch in branches(anatomy))
        kind = "softmax attention" if states else "attention with keys" if has_points else ""
        return f" in {kind}{layers.replace('in', 'of')}" if kind else layers
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
            own = [one for stage in group.stages for one in stage.branches]
            looks = any(isinstance(one, Attention) for one in own)
            found |= {tower.name} if not looks and any(isinstance(one, Unknown) for one in own) else set()
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


def branches(anatomy: Anatomy) -> Iterator[Branch]:
    """Every kind of branch in it."""
    return (branch for tower in anatomy.towers for branch in tower.branches)


def attentions(anatomy: Anatomy) -> Iterator[Attention]:
    """Every kind of attention in it."""
    return (branch for branch in branches(anatomy) if isinstance(branch, Attention))


def of_some_layers(anatomy: Anatomy, holds: Callable[[Branch], object]) -> str:
    """Empty where every layer has a branch of a kind, else in which: " in the text tower", " in some layers"."""
    found = {
        tower.name: {any(holds(one) for stage in group.stages for one in stage.branches) for group in tower.groups}
        for tower in anatomy.towers
    }
    if set().union(*found.values()) <= {True}:
        return ""
    own = [name for name, has in found.items() if True in has]
    if len(own) != 1 or len(found) == 1:
        return " in some layers"
    return f" in {'' if found[own[0]] == {True} else 'some layers of '}{name_tower(own[0])}"


def find_one(values: Iterable[Value | None]) -> Value | None:
    """The one value that all of some have."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def of_some(anatomy: Anatomy, holds: Callable[[Attention], object], words: str, start: str = "") -> str:
    """Words that are true of attentions, said of some where they are not true of all.

    A layer may have several attentions, of which one is such: so nothing is said of layers.
    """
    where = tell_where(anatomy, holds)
    if where is None:
        return ""
    if not where:
        return start + (words if start else words[0].upper() + words[1:])
    place = where.strip()
    return f"{start.rstrip(': ')}{where}: there {words}" if start else f"{place[0].upper()}{place[1:]}, {words}"


def tell_counts(anatomy: Anatomy, read: Callable[[Attention], int | None]) -> tuple[str, str]:
    """What attentions have of something, "64 or 128", and in which where others have none of it."""
    counts = [read(branch) for branch in attentions(anatomy)]
    told = " or ".join(f"{count:,}" for count in sorted({count for count in counts if count}))
    return told, tell_where(anatomy, read) or ""
