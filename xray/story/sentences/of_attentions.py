"""What the card says of the attentions of a model: of all of them, or of some."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import isfinite
from typing import TypeVar

from xray.story.anatomy.attentions import Attention, DeformableAttention, Positions
from xray.story.anatomy.branch_words import (
    ACTIVATIONS,
    EARLIER_SCORES,
    NORMS,
    describe_points,
    spell_base,
    spell_of_values,
)
from xray.story.anatomy.branches import Branch, Convolution, Experts, FeedForward, Recurrence
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.where import SOME, list_spots, list_unknown, name_tower, tell_where
from xray.story.wording import join_words, spell_factor

Value = TypeVar("Value", int, float, str)
TAKEN_OFF = {
    "exps": ": e to a sum of products of learned numbers, less another such, plus one that is not learned",
    "learned": ", which is made of learned ones",
}
"""What is said of the number by which a half is multiplied."""
BARE = frozenset({"words", "norm", "scale"})
"""What may stand before the layers of a tower that tells nothing of places."""


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
    some, many = tell_where_places(anatomy, "waves"), spell_turned(found)
    part = f" It is done to {many} numbers of each head, not to the others." if many else ""
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
    return "" if some is None else f"ALiBi{some}: a slope for {which} makes what is far away count less."


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
    """In which attentions places are known so; of no tower or kind alone where another one may know them so too."""
    where = tell_where(anatomy, lambda branch: branch.positions == positions)
    return SOME if where and any(branch.positions is None for branch in attentions(anatomy)) else where


def describe_added(anatomy: Anatomy) -> str:
    where = tell_where_places(anatomy, "added")
    return "" if where is None else f"Places are added to queries and keys{where or ' in all attentions'}."


def describe_no_places(anatomy: Anatomy) -> str:
    """That nothing tells one tower of words where each stands but what hides the future, and what goes row by row."""
    tower, found = anatomy.towers[0], list(attentions(anatomy))
    kinds, parts = {type(one) for one in branches(anatomy)}, {part.part for part in tower.entrance}
    is_known = kinds <= {Attention, FeedForward, Experts, Recurrence, Convolution} and parts <= BARE
    is_one = len(anatomy.towers) == 1 and tower.reads == "ids" and not tower.bridges
    if not is_one or not found or not is_known or not all(hides_the_future_alone(one) for one in found):
        return ""
    has_convolutions = any(lets_neighbours_in(one) for one in branches(anatomy))
    more = [name for name, holds in (("states", Recurrence in kinds), ("convolutions", has_convolutions)) if holds]
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


def describe_chosen_heads(anatomy: Anatomy) -> str:
    found = {(one.query_chosen, one.query_experts) for one in attentions(anatomy) if one.query_experts}
    if not found:
        return ""
    chosen, experts = found.pop() if len(found) == 1 else (None, None)
    some = f"{chosen or 'some'} of {experts or 'several'} experts"
    return f"Heads are chosen: for each place a router takes {some}, and these make its queries."


def describe_chosen_keys(anatomy: Anatomy) -> str:
    some = tell_where(anatomy, lambda branch: branch.chosen_keys)
    if some is None:
        return ""
    choosing = [branch for branch in attentions(anatomy) if branch.chosen_keys]
    many = find_one(branch.chosen_together for branch in choosing)
    told = f"Keys are chosen{some}{f', {many} places at once' if many else ''}"
    few = find_one(branch.chosen_most for branch in choosing)
    told = f"{told}: other scores, made for this alone, say which of them each place looks at"
    told += f", {few:,} at most" if few else ""
    numbers = find_one(branch.chosen_kept for branch in choosing if not branch.chosen_earlier)
    more = f"; a cache keeps {numbers:,} numbers of each place for them" if numbers else ""
    here = " Here all were chosen: no row of this pass has more." * all(branch.all_chosen for branch in choosing)
    return f"{told}{more}.{here}"


def find_one(values: Iterable[Value | None]) -> Value | None:
    """The one value that all of some have."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def describe_none_chosen(anatomy: Anatomy) -> str:
    choosing = [branch for branch in attentions(anatomy) if branch.chosen_keys]
    many = find_one(branch.chosen_together for branch in choosing if branch.none_chosen)
    if many is None or not all(branch.none_chosen for branch in choosing):
        return ""
    return f"Here no score chose any: the rows of this pass do not fill {many} places."


def describe_turned(anatomy: Anatomy) -> str:
    many = spell_turned([branch for branch in attentions(anatomy) if branch.positions != "waves"])
    some = tell_where(anatomy, lambda branch: branch.positions != "waves" and branch.turned and branch.d_k) or ""
    return f"Partly turned{some}: {many} numbers of each head are turned, not the others." if many else ""


def spell_turned(found: Iterable[Attention]) -> str:
    """How many numbers of a head are turned, and of how many; empty where all are."""
    told = sorted({(one.turned, one.d_k) for one in found if one.turned and one.d_k})
    return " or ".join(f"{turned} of the {d_k}" for turned, d_k in told)


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


def describe_heads(anatomy: Anatomy) -> str:
    shared = [count_sharing(branch) for branch in attentions(anatomy)]
    grouped = sorted({one for one in shared if one is not None and one[1] > 1})
    if not grouped:
        return ""
    some = tell_where(anatomy, lambda branch: (count_sharing(branch) or (0, 0))[1] > 1) or ""
    several = sorted({times for _, times in grouped})
    if len(several) > 1:
        return f"Grouped queries{some}: a key head serves {' or '.join(map(str, several))} query heads."
    keys, times = grouped[0]
    many = "a key head serves" if len(grouped) > 1 else f"each of the {keys} key heads serves"
    many = "one key head serves" if (keys, len(grouped)) == (1, 1) else many
    return f"Grouped queries{some}: {many} {times} query heads."


def count_sharing(branch: Attention) -> tuple[int, int] | None:
    """How many key heads there are, and how many query heads each serves; None where that is not known."""
    heads, keys = branch.heads, branch.kv_heads
    return (keys, heads // keys) if heads and keys and heads % keys == 0 else None


def describe_latent(anatomy: Anatomy) -> str:
    own = [branch for branch in attentions(anatomy) if branch.latent is not None and branch.latent.kv]
    if not own:
        return ""
    some = tell_where(anatomy, lambda branch: branch.latent is not None and branch.latent.kv) or ""
    found = {(branch.latent.kv or 0, branch.latent.kept) for branch in own if branch.latent is not None}
    widths = " or ".join(map(str, sorted({waist for waist, _ in found})))
    told = f"Latent attention{some}: keys and values are made from a waist of {widths} numbers"
    beside = {-1 if kept is None else kept - waist for waist, kept in found}
    if min(beside) < 0 or len(beside - {0}) > 1:
        return f"{told}."
    if beside == {0}:
        return f"{told}; a cache keeps this waist in place of keys and values."
    which = "some keys" if 0 in beside else "keys"
    return f"{told}, {which} from {max(beside)} beside it too; a cache keeps these in place of keys and values."


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


def describe_sinks(anatomy: Anatomy) -> str:
    words = "a learned score stands beside the keys and takes a share of the weights."
    return of_some(anatomy, lambda branch: branch.sinks, words, "Sinks: ")


def describe_output_gate(anatomy: Anatomy) -> str:
    curves = {one.gate_curve for one in branches(anatomy) if isinstance(one, Attention) and one.gate}
    (curve,) = curves if len(curves) == 1 else (None,)
    gate = f"the {ACTIVATIONS.get(curve, curve)} of a gate" if curve else "a gate"
    words = f"{gate} decides how much of what the heads found goes on."
    return of_some(anatomy, lambda branch: branch.gate, words)


def describe_taken_off(anatomy: Anatomy) -> str:
    found = {one.taken_off for one in attentions(anatomy) if one.taken_off}
    number = TAKEN_OFF.get(found.pop(), "") if len(found) == 1 else ""
    words = f"half of what the heads found is taken off the other half, times one number{number}."
    return of_some(anatomy, lambda branch: branch.taken_off, words, "Differential attention: ")


def describe_fused(anatomy: Anatomy) -> str:
    orders = {one.fused_by for one in attentions(anatomy) if one.fused == "qkv"}
    order = orders.pop() if len(orders) == 1 else None
    slices = f", {order} by {order}; each takes its slice of every {order}." if order else "; each takes its slice."
    words = f"one linear layer makes Q, K and V at once{slices}"
    return of_some(anatomy, lambda branch: branch.fused == "qkv", words)


def describe_head_norm(anatomy: Anatomy) -> str:
    own = [branch for branch in attentions(anatomy) if branch.qk_norm]
    over = {branch.qk_norm_over for branch in own}
    ways = {"head": ", head by head", "width": ", all heads of a row at once"}
    how = ways.get(over.pop() or "", "") if len(over) == 1 else ""
    some = tell_where(anatomy, lambda branch: branch.qk_norm) or ""
    kinds = {branch.qk_norm_kind for branch in own}
    by = f" by {NORMS[kind]}s" if len(kinds) == 1 and (kind := kinds.pop()) is not None else ""
    values = {branch.v_norm for branch in own}
    beside = ", and so are values" if values == {True} else ", in some layers values too" * (True in values)
    return f"Queries and keys are normalised{some}{by} before they meet{how}{beside}." if own else ""


def describe_beside(anatomy: Anatomy) -> str:
    words = "keys and values of another stream stand beside the stream's own."
    return of_some(anatomy, lambda branch: branch.beside, words, "Joint attention: ")


def describe_other_rows(anatomy: Anatomy) -> str:
    words = "beside the keys and values of the places stand others that the stream makes too."
    return of_some(anatomy, lambda branch: branch.other_rows, words)


def describe_kernel(anatomy: Anatomy) -> str:
    found = [branch.kernel not in (None, "plain") for branch in attentions(anatomy)]
    start = "Attention runs" if all(found) and not list_unknown(anatomy) else "Some attentions run"
    inside = "what is marked “derived” happens inside; its shape follows from Q, K, V"
    return f"{start} in one kernel: {inside}. Only what comes out is stored." if any(found) else ""


def describe_unscaled(anatomy: Anatomy) -> str:
    return of_some(anatomy, lambda branch: branch.unscaled, "scores are not divided by √d_k.")


def describe_added_of_values(anatomy: Anatomy) -> str:
    made = {branch.added_of_values for branch in attentions(anatomy)} - {None}
    steps = made.pop() if len(made) == 1 else None
    formula = f": {spell_of_values(steps)}{', where A is learned' * ('learned' in steps)}" if steps else ""
    return of_some(
        anatomy,
        lambda branch: branch.added_of_values,
        f"a number for each head, made of a key's value, is added to its scores{formula}.",
    )


def describe_earlier_scores(anatomy: Anatomy) -> str:
    found = sorted({branch.earlier_scores for branch in attentions(anatomy) if branch.earlier_scores})
    told = " or ".join(EARLIER_SCORES[one] for one in found)
    return of_some(anatomy, lambda branch: branch.earlier_scores, f"{told} are added to the own ones.")


def describe_mixed_scores(anatomy: Anatomy) -> str:
    words = "a learned table mixes the scores of all heads at each pair of places, before softmax."
    return of_some(anatomy, lambda branch: branch.mixed_heads in ("before", "both"), words, "Talking heads: ")


def describe_mixed_weights(anatomy: Anatomy) -> str:
    mixed = [branch for branch in attentions(anatomy) if mixes_weights(branch)]
    norms = {branch.mixed_norm for branch in mixed}
    norm = norms.pop() if len(norms) == 1 else None
    over = "each head by itself" if norm == "batch" else "all heads"
    behind = f"; a {NORMS[norm]} over {over} follows" if norm else ""
    words = (
        f"a learned table mixes the weights of all heads at each pair of places, behind softmax{behind}. Then a row of"
        " them need not sum to 1."
    )
    is_named = any(branch.mixed_heads in ("before", "both") for branch in attentions(anatomy))
    return of_some(anatomy, mixes_weights, words, "" if is_named else "Talking heads: ")


def mixes_weights(branch: Attention) -> bool:
    """Whether what softmax gives is mixed across heads."""
    return branch.mixed_heads in ("behind", "both")


def describe_kept_scores(anatomy: Anatomy) -> str:
    many, _ = tell_counts(anatomy, lambda branch: branch.kept_scores)
    words = f"each place keeps the {many} highest of its scores in each head; the others are hidden before softmax."
    return of_some(anatomy, lambda branch: branch.kept_scores, words)


def describe_convolved(anatomy: Anatomy) -> str:
    many, _ = tell_counts(anatomy, lambda branch: branch.convolved)
    told = f"a convolution over {many} places mixes the values of each head too"
    return of_some(
        anatomy, lambda branch: branch.convolved, f"{told}, and what it gives is added to what the head found."
    )


def describe_mixed_anew(anatomy: Anatomy) -> str:
    many, _ = tell_counts(anatomy, lambda branch: branch.mixed_anew)
    return of_some(
        anatomy,
        lambda branch: branch.mixed_anew,
        f"beside the heads, {many} places are mixed, as by a convolution, but by weights that are worked out anew for"
        " each place, and sum to 1.",
    )


def describe_cap(anatomy: Anatomy) -> str:
    caps = sorted({branch.cap for branch in attentions(anatomy) if branch.cap})
    if not caps:
        return ""
    where = (tell_where(anatomy, lambda branch: branch.cap) or "").replace(" in ", " of ")
    numbers = " or ".join(f"{cap:g}" for cap in caps)
    return f"Scores{where} are capped before softmax: none passes {numbers}, by tanh."


def tell_counts(anatomy: Anatomy, read: Callable[[Attention], int | None]) -> tuple[str, str]:
    """What attentions have of something, "64 or 128", and in which where others have none of it."""
    counts = [read(branch) for branch in attentions(anatomy)]
    told = " or ".join(f"{count:,}" for count in sorted({count for count in counts if count}))
    return told, tell_where(anatomy, read) or ""


def describe_window(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.window)
    where = f"Windows{some}: there" if some else "Windows:"
    return f"{where} each place sees at most {told} places." if told else ""


def describe_spread_windows(anatomy: Anatomy) -> str:
    words = "the places of a window lie spread over all."
    return of_some(anatomy, lambda branch: branch.spread, words)


def describe_set_window(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.sliding_window)
    if not told:
        return ""
    rows = "none of their rows" if some else "no row"  # those of other attentions may be longer (PE-Video)
    return (
        f"A window is set{some} (sliding_window = {told}), and not seen at work here, where {rows} has so many places."
    )


def describe_kept_last(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.kept_last)
    if not told:
        return ""
    size = find_one(branch.chunk_size for branch in attentions(anatomy) if branch.kept_last)
    if size is None:
        return f"A cache keeps only the keys of the last {told} places{some}: later places look no further back."
    return (
        f"Pieces are set{some} (attention_chunk_size = {size:,}), and not seen at work here, where no row has so many"
        f" places; a cache keeps only the keys of the last {told}."
    )


def describe_rolled(anatomy: Anatomy) -> str:
    some = tell_where(anatomy, lambda branch: branch.rolled)
    taken = {branch.kept_apart for branch in attentions(anatomy) if branch.rolled}
    by = taken.pop() if len(taken) == 1 else None
    how = f"takes {by:g} off" if by is not None and isfinite(by) else "hides"
    apart = f" A mask {how} the scores of places that the roll alone brings into one window." if by else ""
    return "" if some is None else f"Windows are cut elsewhere{some}: places are rolled before, and back behind.{apart}"


def describe_gathered(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.gathered)
    apart, where = tell_counts(anatomy, lambda branch: branch.ungathered)
    own = f" {'The row' if apart == '1' else f'Each of {apart} rows'} beside these has its own{where}." if apart else ""
    return f"Gathered keys{some}: one key and one value for every {told} places.{own}" if told else ""


def describe_pooled(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.pooled)
    return f"Queries are pooled{some}, {told} places to one: behind them the stream is shorter." if told else ""


def describe_sampled(anatomy: Anatomy) -> str:
    found = [branch for branch in branches(anatomy) if isinstance(branch, DeformableAttention)]
    if not found:
        return ""
    first, *others = {describe_points(branch) for branch in found}
    few = f", {first}" if first and not others else ""
    return f"Deformable attention: queries say where values are sampled{few}, and how much each counts; no keys."


def describe_coarse(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.coarse)
    if not told:
        return ""
    return f"Coarse attention{some}: {told} places become one row before it, and what it finds is spread over them."
