"""What the card says of feed-forwards and of experts in their place."""

from collections.abc import Iterator, Sequence

from xray.story.anatomy.branch_words import ACTIVATIONS, describe_choice, describe_weights
from xray.story.anatomy.branches import Experts, FeedForward, Held
from xray.story.anatomy.tree import Anatomy, Group
from xray.story.sentences.where import branches, of_some_layers
from xray.story.wording import join_words, spell_held, spell_layers


def forwards(anatomy: Anatomy) -> Iterator[FeedForward | Experts]:
    """Every kind of feed-forward and of experts in it."""
    return (one for one in branches(anatomy) if isinstance(one, FeedForward | Experts) and not gates_beside(one))


def gates_beside(branch: object) -> bool:
    """Whether a branch gates rows that are made beside the stream."""
    return isinstance(branch, FeedForward) and bool(branch.gates_beside)


def describe_gate(anatomy: Anatomy) -> str:
    found = {(branch.activation, branch.gated) for branch in forwards(anatomy)}
    if not any(gated for _, gated in found):
        return ""
    names = {activation for activation, gated in found if gated}
    name = ACTIVATIONS.get(next(iter(names)) or "", "a bend") if len(names) == 1 else "a bend"
    some = ""
    if any(not gated for _, gated in found):
        some = of_some_layers(anatomy, lambda one: isinstance(one, FeedForward | Experts) and one.gated)
        some += tell_ungated_beside(anatomy)
    held = {list_held(branch) for branch in forwards(anatomy) if branch.gated}
    ways = held.pop() if len(held) == 1 else ((), (), ())
    gate, bent, up = (f" ({spell_held(steps)})" if steps else "" for steps in ways)
    more = describe_held(anatomy) if held else ""
    return f"Gated feed-forward{some}: {name}{bent} of one projection{gate}, times another{up}, then back.{more}"


def list_held(branch: FeedForward | Experts) -> tuple[Held, Held, Held]:
    """What is done to the factors of a gate: to the one before it is bent and behind, and to the other."""
    return branch.held_gate, branch.held_bent, branch.held_up


def tell_ungated_beside(anatomy: Anatomy) -> str:
    """That layers with a gated feed-forward have one without a gate too: all of these (Gemma 3n), or some (Evolla)."""
    layers = (
        {one.gated for stage in group.stages for one in stage.branches if isinstance(one, FeedForward)}
        for tower in anatomy.towers
        for group in tower.groups
    )
    are_beside = {False in gates for gates in layers if True in gates}
    some = ", in some layers beside one without a gate" if False in are_beside else ", beside one without a gate"
    return some if True in are_beside else ""


def describe_held(anatomy: Anatomy) -> str:
    """What is done to the factors of gates before they meet, where it is not the same of all; only what is found."""
    gated = [one for one in forwards(anatomy) if one.gated]
    own, others = ([one for one in gated if any(list_held(one)) == is_held] for is_held in (True, False))
    kinds, others_kinds = {one.part for one in own}, {one.part for one in others}
    some = "In chosen experts" if kinds == {"experts"} and kinds.isdisjoint(others_kinds) else "In some layers"
    ways = {list_held(one) for one in own}
    if len(ways) == 1:
        told = zip(("the one", "the bent one", "the other"), ways.pop(), strict=True)
        held = [f"{name} {{}}{spell_held(steps)}" for name, steps in told if steps]
        return f" {some} {', '.join(held).replace('{}', 'is ', 1).replace('{}', '')}."
    names = {name for way in ways for steps in way for name, _ in steps}
    bounds, added = "is held between bounds before" * bool(names - {"plus"}), "has a number added" * ("plus" in names)
    return f" {some} what is multiplied {', or '.join(filter(None, (bounds, added)))}."


def describe_threshold(anatomy: Anatomy) -> str:
    gated = [one for one in forwards(anatomy) if isinstance(one, FeedForward) and one.gated]
    if not any(one.threshold for one in gated):
        return ""
    layers = [layer for group in list_groups(anatomy) if cuts_gates(group) for layer in group.layers]
    where = f"layers {spell_layers(sorted(layers))}" if len(anatomy.towers) == 1 else "some layers"
    start = f"In {where} of" if len({bool(one.threshold) for one in gated}) > 1 else "Of"
    return (
        f"{start} each of a gate's numbers only what lies above a cut goes on; the cut is the mean of its row and so"
        " many times its spread."
    )


def list_groups(anatomy: Anatomy) -> list[Group]:
    """The groups of layers of all towers."""
    return [group for tower in anatomy.towers for group in tower.groups]


def cuts_gates(group: Group) -> bool:
    """Whether gates in layers of a group take what is above a threshold alone."""
    found = (one for stage in group.stages for one in stage.branches)
    return any(isinstance(one, FeedForward) and one.threshold for one in found)


def describe_joined(anatomy: Anatomy) -> str:
    counts = sorted({one.joined for one in forwards(anatomy) if isinstance(one, FeedForward) and one.joined})
    told = " or ".join(map(str, counts))
    return f"In some layers the feed-forward reads {told} rows side by side, and makes one of them." if counts else ""


def describe_experts(anatomy: Anatomy) -> str:
    """How many experts each place goes through; nothing where that is known of some of them alone."""
    found = [one for one in forwards(anatomy) if isinstance(one, Experts)]
    if not found or not all(one.experts and count_chosen(one) for one in found):
        return ""
    counts: dict[int, set[int]] = {}
    for one in found:
        counts.setdefault(count_chosen(one), set()).add(one.experts or 0)
    few = " or ".join(
        f"{chosen} of {' to '.join(map(str, dict.fromkeys((min(counted), max(counted)))))}"
        for chosen, counted in sorted(counts.items())
    )
    beside = {one.shared or 0 for one in found}
    some = "in some layers " if 0 in beside and len(beside) > 1 else ""
    many = " or ".join("a feed-forward" if one == 1 else f"{one} feed-forwards" for one in sorted(beside - {0}))
    shared = f", {some}beside {many} that every place goes through" if many else ""
    parted = describe_sets(found) if any(one.others for one in found) else ""
    few_on = {(one.handing_on, one.experts) for one in found}
    handing, whole = few_on.pop() if len(few_on) == 1 else (None, None)
    on = f" {handing} of the {whole} hand it on as it is." if handing else ""
    most = {one.capacity for one in found}
    capacity = most.pop() if len(most) == 1 else None
    is_one = [*counts] == [1]
    few = few if is_one or not any(one.capacity for one in found) else f"at most {few}"
    if capacity:
        beyond = "those beyond go through none" if is_one else "it leaves out those beyond"
        on += f" An expert takes {capacity:,} places of a sequence at most; {beyond}."
    if all(one.on_all for one in found):
        empty = all(one.routing is not None and one.routing.enters for one in found)
        rows = ": rows of 0 where it was not chosen" * empty
        on += f" Here each expert works on all places, and FLOPs count that{rows}."
    where = of_some_layers(anatomy, lambda one: one in found)
    few += ", or to none: one score more is for none of them" * all(one.chosen_or_none for one in found)
    return f"Experts{where}: {name_choosing(anatomy)} sends each place to {few}{shared}.{on}{parted}"


def describe_sets(found: Sequence[Experts]) -> str:
    """That some experts are one set of several, of which each place goes through one alone."""
    sets = {tuple((one.experts, count_chosen(one)) for one in each.sets) for each in found}
    wide = {tuple(one.d_ff for one in each.sets) for each in found}
    alike = sets.pop() if len(sets) == 1 else ()
    if len(set(alike)) != 1:
        return " Some places go through others, which a router of their own scores."
    widths = wide.pop() if len(wide) == 1 else ()
    told = [f"{one:,}" for one in widths if one is not None]
    of = f", {join_words(told)} wide" if len(told) == len(alike) and len(set(told)) > 1 else ""
    return f" There are {len(alike)} such sets{of}, each with a router of its own; a place goes through one set alone."


def count_chosen(one: Experts) -> int:
    """How many are chosen for a place, be it that it may go through none."""
    return one.chosen or one.chosen_or_none or 0


def describe_earlier_router(anatomy: Anatomy) -> str:
    found = {one.earlier_router for one in forwards(anatomy) if isinstance(one, Experts)}
    start = "In some layers a router" if len(found) > 1 else "Each router"
    return f"{start} adds what the router before it worked out of its rows." if True in found else ""


def describe_routing(anatomy: Anatomy) -> str:
    every = [branch for branch in forwards(anatomy) if isinstance(branch, Experts)]
    routed = [branch for branch in every if branch.chosen_by != "table"]
    weights, choices = {*map(describe_weights, every)}, {*map(describe_choice, routed)}
    weight = weights.pop() if len(weights) == 1 else ""
    choice = choices.pop() if len(choices) == 1 else ""
    some = len(routed) < len(every)
    if weight:
        where = "where a router chooses, it does so" if some else "chosen"
        return f"Weights of experts: {'; '.join(filter(None, (weight, choice and f'{where} {choice}')))}."
    where = "Where a router chooses experts, it does so" if some else "Experts are chosen"
    return f"{where} {choice}." if choice else ""


def name_choosing(anatomy: Anatomy) -> str:
    ways = {branch.chosen_by for branch in forwards(anatomy) if isinstance(branch, Experts)}
    names = [name for way, name in (("router", "a router"), ("table", "a table of words")) if way in ways]
    return "a router, in some layers a table of words," if len(names) > 1 else next(iter(names), "what chooses them")
