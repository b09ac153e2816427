"""What the card says of how attentions know places: turned, by slopes, by what is added, by distance, or not at all."""

from collections.abc import Callable, Collection, Iterable, Mapping

from xray.story.anatomy.attentions import Attention, Positions
from xray.story.anatomy.branch_words import (
    spell_base,
)
from xray.story.anatomy.branches import Branch, Convolution, Experts, FeedForward, Recurrence
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.where import (
    SOME,
    Value,
    attentions,
    branches,
    list_spots,
    name_tower,
    of_some,
    tell_where,
)
from xray.story.wording import join_words, spell_factor


def describe_rotary(anatomy: Anatomy) -> str:
    some = tell_where_places(anatomy, "rotary")
    there = "there " if some else ""
    joint = [one.beside_unturned for one in attentions(anatomy) if one.positions == "rotary" and one.beside]
    but = f", but not {'' if all(joint) else 'all '}keys of another stream" if any(joint) else ""
    ways = ", ".join(filter(None, (tell_pairs(anatomy), tell_bases(anatomy))))
    how = f" They turn {ways}.{tell_slowed(anatomy) if tell_bases(anatomy) else ''}" if ways else ""
    lengths = list_rotary(anatomy, lambda branch: branch.turn_length)
    long = spell_values({spell_factor(length): lengths[length] for length in sorted(lengths)})
    how += f" What is turned becomes {long} times as long." if long else ""
    by = f"by their place{tell_learned_turns(anatomy)}{but}"
    return "" if some is None else f"Rotary places{some}: {there}{tell_what_turns(anatomy)} {by}.{how}"


def tell_learned_turns(anatomy: Anatomy) -> str:
    """Which rows learned angles turn in place of their place, be it in some attentions with rotary places alone."""
    found = {branch.turned_by_learned for branch in attentions(anatomy) if branch.positions == "rotary"}
    known = [one for one in found if one is not None]
    if not known:
        return ""
    rows, angles = known[0] if len(known) == 1 else (None, None)
    which = "first row" if rows == 1 else f"first {rows:,} rows" if rows else "first rows"
    some = "in some attentions " * (None in found)
    return f", {some}those of the {which} by {f'{angles:,} ' if angles else ''}learned angles"


def tell_what_turns(anatomy: Anatomy) -> str:
    """Whether values are turned as queries and keys are, be it in all attentions with rotary places or in some."""
    values = {bool(branch.values_turned) for branch in attentions(anatomy) if branch.positions == "rotary"}
    told = {frozenset({True}): "queries, keys and values are turned", frozenset({False}): "queries and keys are turned"}
    return told.get(frozenset(values), "queries and keys, in some of them values too, are turned")


def describe_waves(anatomy: Anatomy) -> str:
    found = [branch for branch in attentions(anatomy) if branch.positions == "waves"]
    if not found:
        return ""
    other = "its neighbour" if {branch.turned_pairs for branch in found} == {"neighbours"} else "another"
    some, many = tell_where_places(anatomy, "waves"), spell_turned(found) if all(one.turned for one in found) else ""
    part = f" It is done to {many}, not to the others." if many else ""
    return (
        f"Places by cosines and sines{some}: to each number of queries and keys, times a cosine by its place, {other},"
        " times a sine, is added or subtracted. Such two have angles of their own: this turns no pair, as rotary places"
        f" would.{part}"
    )


def tell_pairs(anatomy: Anatomy) -> str:
    """Which two numbers are turned together, where it is known of all rotary places."""
    pairs = list_rotary(anatomy, lambda branch: branch.turned_pairs)
    half = "one number from each half" + " of what is turned" * any(one.turned for one in attentions(anatomy))
    told = {"neighbours": "neighbouring numbers", "halves": half}
    return f"in pairs of {spell_values({told[pair]: towers for pair, towers in pairs.items()})}" if pairs else ""


def tell_bases(anatomy: Anatomy) -> str:
    """Of which bases the angles are by which rotary places turn, of the towers where that is known of all of them."""
    bases = list_rotary(anatomy, lambda branch: branch.rotary_base)
    if bases:
        return f"with base {spell_values({spell_base(base): bases[base] for base in sorted(bases)})}"
    found: dict[str, set[float | None]] = {}
    for (tower, _), branch in list_spots(anatomy):
        if branch.positions == "rotary":
            found.setdefault(tower, set()).add(branch.rotary_base)
    known = {tower: sorted(one for one in own if one is not None) for tower, own in found.items() if None not in own}
    told = {tower: join_words([*map(spell_base, own)], "or") for tower, own in known.items()}
    return join_words([f"with base {base} in {name_tower(tower)}" for tower, base in told.items()])


def tell_slowed(anatomy: Anatomy) -> str:
    """How many times slower than their base says the slowest turn, or all do."""
    turned = [branch for branch in attentions(anatomy) if branch.positions == "rotary"]
    slow = {branch.rotary_slowed for branch in turned}, {branch.rotary_all_slowed for branch in turned}
    return "".join(map(spell_slowed, slow, ("those that turn slowest turn", "all turn")))


def spell_slowed(found: Collection[float | None], which: str) -> str:
    factors = [f"{factor:g}" for factor in sorted(one for one in found if one is not None)]
    told = f"{'in some attentions ' * (None in found)}{which} {join_words(factors, 'or')} times slower than that."
    return f" {told[0].upper()}{told[1:]}" if factors else ""


def list_rotary(anatomy: Anatomy, read: Callable[[Attention], Value | None]) -> dict[Value, set[str]]:
    """What is read of attentions with rotary places, and in which towers; empty where it is not known of all."""
    found: dict[Value | None, set[str]] = {}
    for (tower, _), branch in list_spots(anatomy):
        if branch.positions == "rotary":
            found.setdefault(read(branch), set()).add(tower)
    return {} if None in found else {value: towers for value, towers in found.items() if value is not None}


def spell_values(found: Mapping[str, Collection[str]]) -> str:
    """Values in a row, each with the tower in which it is, where every tower has one of its own."""
    towers = [tower for own in found.values() for tower in own]
    is_parted = len(found) > 1 and len(set(towers)) == len(towers)
    told = [f"{value} ({join_words(sorted(own))})" if is_parted else value for value, own in found.items()]
    return join_words(told, "or")


def describe_alibi(anatomy: Anatomy) -> str:
    some = tell_where_places(anatomy, "alibi")
    found = {(one.sloped, one.heads) for one in attentions(anatomy) if one.positions == "alibi"}
    sloped, heads = found.pop() if len(found) == 1 else (None, None)
    which = (
        f"{sloped} of the {heads} heads" if sloped else "some heads" if any(one for one, _ in found) else "each head"
    )
    return (
        "" if some is None else f"ALiBi{some}: a slope for {which}, times how far apart two are, counts in their score."
    )


def describe_relative(anatomy: Anatomy) -> str:
    some = tell_where_places(anatomy, "relative")
    found = [one for one in attentions(anatomy) if one.positions == "relative"]
    kinds, by_rows = {one.within_a_kind for one in found}, {one.places_by_rows for one in found}
    far = "how far apart two are, or on their kinds," if True in kinds else "how far apart two are"
    far = "how far apart two of one kind are" if kinds == {True} else far
    of = {one.places_of for one in found}
    far += f" in {next(iter(of))}" if len(of) == 1 and None not in of and not kinds & {True} else ""
    apart = "; for two of different kinds, one that depends on the kinds alone" * (kinds == {True})
    held = f", {'in some also' if by_rows == {True, None} else 'and'} on what one or both of them hold,"
    far = far if True not in by_rows else f"{far.removesuffix(',')}{held}"
    return (
        "" if some is None else f"Relative places{some}: a number that depends on {far} is added to their score{apart}."
    )


def tell_where_places(anatomy: Anatomy, positions: Positions) -> str | None:
    """In which attentions places are known so: in some at least where another one may know them so too."""
    where = tell_where(anatomy, lambda branch: branch.positions == positions)
    return f"{SOME} at least" if where and any(one.positions is None for one in attentions(anatomy)) else where


def describe_added(anatomy: Anatomy) -> str:
    where = tell_where_places(anatomy, "added")
    return "" if where is None else f"Places are added to queries and keys{where or ' in all attentions'}."


def describe_no_places(anatomy: Anatomy) -> str:
    """That nothing tells one tower of words where each stands but what hides the future, and what goes row by row."""
    tower, found = anatomy.towers[0], list(attentions(anatomy))
    kinds = {type(one) for one in branches(anatomy)}
    is_known = kinds <= {Attention, FeedForward, Experts, Recurrence, Convolution}
    is_one = len(anatomy.towers) == 1 and tower.words_alone and not tower.bridges
    if not is_one or not found or not is_known or not all(hides_the_future_alone(one) for one in found):
        return ""
    every = [*branches(anatomy)]
    has_convolutions = any(lets_neighbours_in(one) and not mixes_with_before(one) for one in every)
    ways = {
        "states": Recurrence in kinds,
        "convolutions": has_convolutions,
        "rows of the place before": any(map(mixes_with_before, every)),
    }
    more = [name for name, holds in ways.items() if holds]
    tell = {0: " alone tells", 1: f", and {' '.join(more)}, tell"}.get(len(more), f", {' and '.join(more)} tell")
    return f"No places are added or turned in: the mask that hides the future{tell} the order."


def hides_the_future_alone(branch: Attention) -> bool:
    """Whether an attention looks at all of the past, and nothing tells it places: none is chosen, or cut."""
    is_cut = branch.window or branch.pieces or branch.partial or branch.chosen_keys or branch.other_rows
    is_own = branch.source == "self" and branch.beside is None
    return bool(is_own and branch.positions == "none" and branch.causal and not is_cut)


def lets_neighbours_in(branch: Branch) -> bool:
    """Whether a branch is a convolution, or has one, so that it tells what stands next to what."""
    has_one = isinstance(branch, FeedForward | Recurrence) and branch.kernel is not None
    return isinstance(branch, Convolution) or has_one or (isinstance(branch, Experts) and branch.neighbours)


def mixes_with_before(branch: Branch) -> bool:
    """Whether a branch reads numbers of the place before beside those of each place."""
    is_mixed = isinstance(branch, FeedForward) and branch.kernel == (2,)
    return is_mixed or (isinstance(branch, Attention) and branch.shifted is not None)


def describe_turned(anatomy: Anatomy) -> str:
    many = spell_turned([branch for branch in attentions(anatomy) if branch.positions != "waves"])
    some = tell_where(anatomy, lambda branch: branch.positions != "waves" and branch.turned and branch.d_k) or ""
    return f"Partly turned{some}: {many} are turned, not the others." if many else ""


def spell_turned(found: Iterable[Attention]) -> str:
    """How many numbers of a head, or of all heads side by side, are turned, and of how many; empty where all are."""
    partly = [one for one in found if one.turned and one.d_k]
    told = []
    for are_all, which in ((False, "each head"), (True, "all heads")):
        alike = [one for one in partly if bool(one.turned_of) is are_all]
        counts = sorted({(one.turned or 0, one.turned_of or one.d_k) for one in alike})
        some = " or ".join(f"{turned} of the {width}" for turned, width in counts)
        told += [f"{some} numbers of {which}"] * bool(some)
    return " or ".join(told)


def describe_place_numbers(anatomy: Anatomy) -> str:
    found: dict[int, set[str]] = {}
    for (tower, _), branch in list_spots(anatomy):
        if branch.place_numbers:
            found.setdefault(branch.place_numbers, set()).add(tower)
    told = spell_values({str(count): found[count] for count in sorted(found)})
    some = tell_where(anatomy, lambda branch: branch.place_numbers) or ""
    of_several = [branch for branch in attentions(anatomy) if branch.place_numbers]
    alike = " Here all numbers of a place are the same." if all(branch.numbers_alike for branch in of_several) else ""
    unlike = {bool(branch.numbers_unlike) for branch in of_several}
    how = "the two of a pair go by unlike ones of them, and are turned where both say the same"
    how = (
        f"{'in some attentions ' * (len(unlike) > 1)}{how}"
        if True in unlike
        else "each number turns its own part of a head"
    )
    return f"Rotary places of {told} numbers{some}: {how}.{alike}" if told else ""


def describe_turned_by_head(anatomy: Anatomy) -> str:
    words = "queries and keys are turned by an angle of each head's own, the same at every place."
    return of_some(anatomy, lambda branch: branch.turned_by_head, words)
