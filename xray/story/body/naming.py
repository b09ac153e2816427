"""Naming: what the towers of a pass are called, and whose keys each attention looks at."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.remembering import once
from xray.story.anatomy.attentions import Attention, Looking
from xray.story.anatomy.branches import Branch
from xray.story.anatomy.tree import Group, Tower
from xray.story.body.stages import Branching, Staging, change_branches
from xray.story.body.towers import Towering, list_results
from xray.story.body.widths import find_lender
from xray.story.branches.operands.given_rows import read_towers
from xray.story.entrance.given import find_input
from xray.story.entrance.inputs import SOUND, is_named_sound, name_argument
from xray.story.passages.conditions import name_source

NAMES = {"ids": "tokens", "image": "vision", "video": "vision", "audio": "audio"}
"""What a tower is called by what it reads."""
WRITTEN = ("input_ids", "text", "word", "caption", "prompt", "sentence", "question")
"""What the name of an argument holds whose ids are those of a text: others may be of notes, atoms or codes."""
SAID = "input_modalities"
BOX = "box"
"""The name of an argument holds it that says where on a page each place stands: a tower of its ids is of the layout."""
WHOSE_IDS = re.compile(r"([a-z]+)_input_ids")
"""How a model names ids that it is given beside its own, the decoder's or a protein's."""
UNNAMED = "#"
"""Stands before the number of a tower that has no name yet."""
MOST_BEHIND = 400


def name_towers(flow: Flow, towers: Sequence[Towering]) -> list[Towering]:
    """The same towers, named, and by their names in the attentions that look at them."""
    names: list[str] = []
    crossing = [number for number, one in enumerate(towers) if asks_alone(flow, towers, number)]
    memories = {asked for number in crossing for asked in list_asked(towers[number].tower)}
    crossing = [number for number in crossing if not is_asked_on(flow, towers, number, crossing)]
    pairs = list_pairs(flow, towers)
    crossing += pairs
    memories |= {*pairs.values()}
    several = sum(one.tower.reads == "ids" for one in towers) > 1
    for number, one in enumerate(towers):
        name = name_tower(one, number in memories, number in crossing)
        name = name_by_ids(flow, one) or name if name == NAMES["ids"] and several else name
        name = name_by_model(flow, one) or name if name == NAMES["ids"] and len(towers) == 1 else name
        name = "text" if name == NAMES["ids"] and is_written(flow, one) else name
        name = "signal" if name == NAMES["audio"] and not is_heard(flow, one) else name
        used = 1 + sum(known.split(" ")[0] == name for known in names)
        names.append(name if used == 1 else f"{name} {used}")
    return [
        tell_names(replace(one, tower=replace(one.tower, name=name)), names)
        for one, name in zip(towers, names, strict=True)
    ]


@once
def goes_on(flow: Flow) -> bool:
    """Whether a pass reads what an earlier one made."""
    given = (record.source for step in flow.steps for record in step.inputs if record.source is not None)
    return any(source not in flow.places for source in given)


def asks_alone(flow: Flow, towers: Sequence[Towering], number: int) -> bool:
    """Whether a tower looks at others, none of these looks back, and none works with the very weights of its layers.

    One that hides no future and asks rows which no tower made may as well encode these (Perceiver), but for those of
    another pass, where one place alone may ask, as an answer goes on. So does one of words that all see each other, and
    ask what is no text (BLIP, which tells whether a text fits an image).
    """
    tower = towers[number].tower
    asked = {towers[other].tower.reads for other in list_asked(tower)}
    sees_all = tower.causal is False or (tower.causal is None and not goes_on(flow))
    if not asked and sees_all:
        return False
    if tower.causal is False and tower.reads == "ids" and asked.isdisjoint({"ids", None}):
        return False
    if find_lender(flow, towers[number].layers, [towers[other].layers for other in list_asked(tower)]) is not None:
        return False
    back = (list_sources(towers[other].tower) for other in list_asked(tower))
    return any_cross(tower) and all(f"{UNNAMED}{number}" not in sources for sources in back)


def is_asked_on(flow: Flow, towers: Sequence[Towering], number: int, crossing: Sequence[int]) -> bool:
    """Whether a tower that looks at another is itself one that a third looks at: it encodes for that (SAM 3).

    Not one that hides the future, nor one of two that look at each other (SAM), nor one whose own layers run again and
    look at what they gave (ABINet).
    """
    own = list_asked(towers[number].tower)
    readers = [one for one in crossing if number in list_asked(towers[one].tower)]
    readers = [one for one in readers if find_lender(flow, towers[one].layers, [towers[number].layers]) is None]
    return not towers[number].tower.causal and any(one not in own for one in readers)


def list_pairs(flow: Flow, towers: Sequence[Towering]) -> dict[int, int]:
    """The towers of words that look, in every attention, at what another one of words ends with beside themselves.

    Each with that other one, which looks at itself alone (T5Gemma 2).
    """
    found: dict[int, int] = {}
    beside = [
        {getattr(branch, "beside", None) for branch in one.tower.branches if isinstance(branch, Looking)}
        for one in towers
    ]
    for number, one in enumerate(towers):
        asked = next(iter(beside[number]), None)
        if len(beside[number]) != 1 or asked is None or not asked.startswith(UNNAMED):
            continue
        other = int(asked.removeprefix(UNNAMED))
        reads = {(tower.reads, tower.also) for tower in (one.tower, towers[other].tower)}
        if reads == {("ids", None)} and beside[other] == {None} and looks_beside(flow, one, towers[other], asked):
            found[number] = other
    return found


def list_sources(tower: Tower) -> set[str]:
    """What the attentions of a tower look at."""
    looking = [branch for branch in tower.branches if isinstance(branch, Looking) and branch.source is not None]
    return {source for one in looking for source in (one.source, *getattr(one, "with_others", ())) if source}


def list_asked(tower: Tower) -> list[int]:
    """The numbers of the towers that a tower without a name looks at."""
    return [int(one.removeprefix(UNNAMED)) for one in list_sources(tower) if one.startswith(UNNAMED)]


def tell_names(towering: Towering, names: Sequence[str]) -> Towering:
    """A tower whose attentions tell other towers by their names."""

    def settle_name(told: str) -> str:
        return names[int(told.removeprefix(UNNAMED))] if told.startswith(UNNAMED) else told

    def settle(branch: Branch) -> Branch:
        if not isinstance(branch, Looking):
            return branch
        branch = replace(branch, source=branch.source and settle_name(branch.source))
        if not isinstance(branch, Attention):
            return branch
        others = tuple(map(settle_name, branch.with_others))
        return replace(branch, beside=branch.beside and settle_name(branch.beside), with_others=others)

    return change_all(towering, settle)


def change_all(towering: Towering, change: Callable[[Branch], Branch]) -> Towering:
    """A tower with other facts of all its branches."""
    told = replace(towering, tower=change_tower(towering.tower, change))
    return change_stagings(told, lambda staging: change_branches(staging, lambda found: change(found.branch)))


def change_tower(tower: Tower, change: Callable[[Branch], Branch]) -> Tower:
    """What is told of a tower, with other facts of all its branches."""
    groups = tuple(
        replace(group, stages=tuple(replace(one, branches=tuple(map(change, one.branches))) for one in group.stages))
        for group in tower.groups
    )
    return replace(tower, groups=groups)


def change_stagings(towering: Towering, change: Callable[[Staging], Staging]) -> Towering:
    """A tower with other stages, each changed once."""
    changed = {id(one): change(one) for layer in (towering.stagings, *towering.layers) for one in layer}
    return replace(
        towering,
        stagings=tuple(changed[id(one)] for one in towering.stagings),
        layers=tuple(tuple(changed[id(one)] for one in layer) for layer in towering.layers),
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
    if one.tower.also or one.is_told:
        return "stack"
    boxed = one.tower.reads is None and any(BOX in part.argument for part in one.tower.entrance)
    return "layout" if boxed else NAMES.get(one.tower.reads or "", "stack")


def name_by_ids(flow: Flow, one: Towering) -> str:
    """What a tower is called by the ids that the model is given for it, among others: those of a protein (Evolla)."""
    given = find_input(flow, one, "ids")
    if given is None:
        return ""
    behind = flow.behind(given[2], most=MOST_BEHIND)
    outside = ((node, record) for node in behind for record, maker in flow.taken(node) if maker is None)
    names = {name_source(flow, node, record) for node, record in outside if record.role == "ids"}
    told = {found[1] for name in names if (found := WHOSE_IDS.fullmatch(name or "")) is not None}
    return told.pop() if len(told) == 1 else ""


def name_by_model(flow: Flow, one: Towering) -> str:
    """What the only tower of ids is called by what its model says that it reads, if that is one thing, and no text.

    So ids of pixels' colours are an image (ImageGPT).
    """
    return NAMES.get(say_modalities(flow, one), "")


def say_modalities(flow: Flow, one: Towering) -> str:
    """What the model around a tower of ids says that it reads; nothing where that is text alone, or not said."""
    given = find_input(flow, one, "ids")
    holders = (flow.steps[place] for place in (() if given is None else flow.parents(given[2])))
    return next((str(step.settings[SAID]) for step in holders if SAID in step.settings), "")


def is_written(flow: Flow, one: Towering) -> bool:
    """Whether the ids that a tower reads are those of a text, by what the argument is called, or the model says.

    As many rows as columns of ids for each sequence are the codes of an image (UViT).
    """
    given = find_input(flow, one, "ids")
    behind = () if given is None else (given[2], *flow.behind(given[2], most=MOST_BEHIND))
    outside = [record for node in behind for record, maker in flow.taken(node) if maker is None]
    names = [name_argument(flow, record) for record in outside if len({*record.shape[1:]}) == len(record.shape) - 1]
    return "text" in say_modalities(flow, one) or any(word in name for name in names for word in WRITTEN)


def is_heard(flow: Flow, one: Towering) -> bool:
    """Whether a signal that a tower reads is one of sound, by its axes or its name: a series may be of anything."""
    given = (record for node in one.entrance for record, maker in flow.taken(node) if maker is None)
    return any(SOUND & {*one.axes} or is_named_sound(name_argument(flow, one)) for one in given)


def looks_beside(flow: Flow, one: Towering, other: Towering, name: str) -> bool:
    """Whether the keys that a tower has beside its own are made of what another one ends with, not of its layers.

    `name` is what its attentions call the other.
    """
    last = max(other.sums)
    if last > min(one.sums):
        return False
    joined = [
        branching.site
        for branching in list_branchings(one)
        if isinstance(branching.branch, Attention) and branching.branch.beside == name
    ]
    inside, own = other.nodes, one.sums
    for site in joined:
        keys = () if site is None else (flow.makers[site.scores][-1], *site.key.nodes)
        behind = flow.behind(*keys, most=MOST_BEHIND, ends=lambda place: place in inside or place in own)
        reached = [place for place in behind if place in inside]
        if not reached or min(reached) < last:
            return False
    return bool(joined)


def list_branchings(one: Towering) -> Iterator[Branching]:
    """The branches of every layer of a tower."""
    return (branching for staging in one.stagings for branching in staging.branches)


def tell_beginnings(flow: Flow, towers: Sequence[Towering]) -> list[Towering]:
    """The same towers, told where keys and values are what another stream begins with, before its first layer (SAM).

    There they are no end of a tower: more has been done to it on the way. Of layers that are drawn as one, all do so.
    """
    ends = frozenset[int]().union(*(list_results(flow, one) for one in towers))
    starts = {start: one.tower.name for one in towers if (start := flow.carried_from(one.start)) is not None}
    starts = {start: name for start, name in starts.items() if start not in ends}
    return [tell_begun(flow, one, starts, ends) for one in towers] if len(towers) > 1 else [*towers]


def tell_begun(flow: Flow, one: Towering, starts: Mapping[int, str], ends: Collection[int]) -> Towering:
    """A tower whose attentions tell in which other stream's beginning their keys and values were made."""
    others = {start: name for start, name in starts.items() if name != one.tower.name}
    told: dict[int, tuple[str | None, ...]] = {}
    groups: list[Group] = []
    for group in one.tower.groups:
        stages = list(group.stages)
        for number, stage in enumerate(stages):
            alike = [one.layers[layer][number] for layer in group.layers if number < len(one.layers[layer])]
            found = {tuple(find_begun(flow, branching, others, ends) for branching in own.branches) for own in alike}
            names = found.pop() if len(found) == 1 else ()
            if any(names) and len(names) == len(stage.branches):
                told |= dict.fromkeys(map(id, alike), names)
                stages[number] = replace(stage, branches=tuple(map(begin_at, stage.branches, names)))
        groups.append(replace(group, stages=tuple(stages)))

    def settle(staging: Staging) -> Staging:
        names = dict(zip(map(id, staging.branches), told.get(id(staging), ()), strict=False))
        return (
            change_branches(staging, lambda found: begin_at(found.branch, names.get(id(found)))) if names else staging
        )

    return change_stagings(replace(one, tower=replace(one.tower, groups=tuple(groups))), settle)


def begin_at(branch: Branch, name: str | None) -> Branch:
    """A branch that tells where what it looks at begins, if that is known."""
    return replace(branch, beginning=name) if name and isinstance(branch, Attention) else branch


def find_begun(flow: Flow, found: Branching, starts: Mapping[int, str], ends: Collection[int]) -> str | None:
    """The tower whose stream begins with what all values of an attention are made of; None where they are not.

    Nor where its end is what they are known to come from.
    """
    branch, site = found.branch, found.site
    if site is None or not isinstance(branch, Attention) or not branch.leaves_stream or branch.source is None:
        return None
    own = {**dict.fromkeys(ends, ""), **starts}
    reached = read_towers(flow, flow.makers[site.weighted_sum][-1], own) or ()
    name = next(iter(reached)) if len(reached) == 1 else None
    return name if name and name != branch.source else None
