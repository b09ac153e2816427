"""What the card says of heads, and of how attentions make queries, keys and values, and what they give."""

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branch_words import (
    ACTIVATIONS,
    NORMS,
    spell_of_values,
)
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.where import (
    attentions,
    branches,
    of_some,
    tell_counts,
    tell_where,
)

TAKEN_OFF = {
    "exps": ": e to a sum of products of learned numbers, less another such, plus one that is not learned",
    "learned": ", which is made of learned ones",
}
"""What is said of the number by which a half is multiplied."""


def describe_chosen_heads(anatomy: Anatomy) -> str:
    found = {(one.query_chosen, one.query_experts) for one in attentions(anatomy) if one.query_experts}
    if not found:
        return ""
    chosen, experts = found.pop() if len(found) == 1 else (None, None)
    some = f"{chosen or 'some'} of {experts or 'several'} experts"
    return f"Heads are chosen: for each place a router takes {some}, and these make its queries."


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


def describe_added_of_values(anatomy: Anatomy) -> str:
    made = {branch.added_of_values for branch in attentions(anatomy)} - {None}
    steps = made.pop() if len(made) == 1 else None
    formula = f": {spell_of_values(steps)}{', where A is learned' * ('learned' in steps)}" if steps else ""
    return of_some(
        anatomy,
        lambda branch: branch.added_of_values,
        f"a number for each head, made of a key's value, is added to its scores{formula}.",
    )


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
