"""A branch in words: its part, its sizes, and what is special to it. None is silence."""

from collections.abc import Sequence
from math import isclose, pi

from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branches import (
    Branch,
    ChannelAttention,
    Context,
    Convolution,
    CurvedAttention,
    Experts,
    FeedForward,
    FourierMixing,
    LinearAttention,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    StateHeads,
    StreamMixing,
    Unknown,
)
from xray.story.wording import plural, spell_factor

NORMS = {
    "rms": "RMS norm",
    "layer": "layer norm",
    "batch": "batch norm",
    "group": "group norm",
    "instance": "instance norm",
}
OVER = {"head": ", head by head", "width": ", over all heads"}
EARLIER_SCORES = {"before": "scores of the attention before", "earlier": "scores of an earlier attention"}
MIXED_HEADS = {"before": "scores", "behind": "weights", "both": "scores and weights"}
ACTIVATIONS = {
    "relu": "ReLU",
    "relu squared": "ReLU²",
    "gelu": "GELU",
    "gelu tanh": "GELU (tanh)",
    "quick gelu": "QuickGELU",
    "silu": "SiLU",
    "snake": "snake",
    "xielu": "xIELU",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu6": "ReLU6",
    "leaky_relu": "LeakyReLU",
    "prelu": "PReLU",
    "elu": "ELU",
    "selu": "SELU",
    "celu": "CELU",
}
BETWEEN = {"add": "+", "sub": "−", "mul": "×", "div": "/"}
SUM, FACTOR, WHOLE = range(3)
"""How tightly the parts of a formula hold together."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def label_activation(name: str) -> str:
    """What an activation is called in a box: as it is spelled (SiLU), or a plain word in capitals (SIGMOID)."""
    told = ACTIVATIONS.get(name, name.replace("_", " "))
    word, mark, numbers = told.partition(" (")
    return f"{word.upper()}{mark}{numbers}" if told == told.lower() else told


def spell_curve(curve: Sequence[tuple[str, float | None]]) -> str:
    """What a curve makes of a score, as a formula: (1 − acos(score) / π)⁹."""
    text, binds = "score", WHOLE
    for op, number in curve:
        told = "" if number is None else "π" if isclose(number, pi, rel_tol=1e-6) else f"{number:g}"
        if op in ("add", "sub") and told:
            text, binds = f"{text} {BETWEEN[op]} {told}", SUM
        elif op in ("mul", "div") and told:
            text, binds = f"{enclose(text, binds < FACTOR)} {BETWEEN[op]} {told}", FACTOR
        elif op == "rsub" and told:
            text, binds = f"{told} − {enclose(text, binds < FACTOR)}", SUM
        elif op in ("pow", "square") and (told or op == "square"):
            power = (told or "2").translate(RAISED) if (told or "2").isdecimal() else f" to the power {told}"
            text, binds = f"{enclose(text, text != 'score')}{power}", WHOLE
        else:
            text, binds = f"{op.replace('_', ' ')}({text})", WHOLE
    return text


def spell_of_values(steps: Sequence[str]) -> str:
    """What is made of a value, as a formula in which A is learned: exp(A · softplus(linear of V))."""
    text, is_plain = f"{steps[0]} of V", False
    for op in steps[1:]:
        told = text if is_plain or op != "learned" else f"({text})"
        text, is_plain = (f"A · {told}", False) if op == "learned" else (f"{op.strip('_')}({text})", True)
    return text


def enclose(text: str, is_apart: bool) -> str:
    """A part of a formula, in brackets where it must be."""
    return f"({text})" if is_apart else text


def describe_part(branch: Branch) -> str:
    """What a branch is, in a word or two."""
    if isinstance(branch, Attention):
        if branch.beside:
            return f"attention, with {branch.beside} beside it"
        return "attention" if branch.source in ("self", None) else f"attention to {branch.source}"
    if isinstance(branch, DeformableAttention):
        return "deformable attention" + (f" to {branch.source}" if branch.source not in ("self", None) else "")
    return branch.part.replace("_", "-")


def describe_sizes(branch: Branch) -> str:
    """The sizes of a branch."""
    if isinstance(branch, Attention):
        return describe_heads(branch)
    if isinstance(branch, DeformableAttention):
        few = describe_points(branch)
        points = f"points {few}" if few else branch.levels and plural(branch.levels, "map")
        return join(branch.heads and plural(branch.heads, "head"), branch.d_v and f"d_v {branch.d_v:,}", points)
    if isinstance(branch, CurvedAttention):
        return join(branch.heads and plural(branch.heads, "head"), branch.d_k and f"d_k {branch.d_k:,}")
    if isinstance(branch, FeedForward):
        wide = branch.d_ff and f"{'' if branch.gates_beside else 'd_ff '}{branch.d_ff:,}"
        return join(wide, branch.joined and f"{branch.joined} rows to 1")
    if isinstance(branch, Experts):
        few = f"{branch.chosen} of " if branch.chosen else ""
        few = f"{branch.chosen_or_none} or none of " if branch.chosen_or_none else few
        chosen = f"{few}{branch.experts:,} experts" if branch.experts else ""
        shared = f"{branch.shared} for all" if branch.shared else ""
        chosen += " by a table" if chosen and branch.chosen_by == "table" else ""
        others = branch.others and f"others with a router of their own: {describe_sizes(branch.others)}"
        return join(chosen, shared, branch.d_ff and f"d_ff {branch.d_ff:,}", others)
    if isinstance(branch, Recurrence):
        state = "" if branch.state is None else f"state {times(branch.state)}"
        return join(state, describe_state_heads(branch.heads), branch.kernel and f"kernel {times(branch.kernel)}")
    if isinstance(branch, Convolution):
        kernel = "" if branch.kernel is None else f"kernel {times(branch.kernel)}"
        return join(kernel, branch.groups and branch.groups > 1 and f"{branch.groups:,} groups")
    if isinstance(branch, StreamMixing):
        return plural(branch.streams, "stream")
    if isinstance(branch, Context):
        return f"{branch.places:,} places in one" if branch.places else ""
    if isinstance(branch, ChannelAttention):
        return join(plural(branch.groups, "group"), plural(branch.channels, "channel"))
    if isinstance(branch, PlaceMixing):
        return join(plural(branch.places, "place"), branch.wide and f"out to {branch.wide:,}")
    if isinstance(branch, FourierMixing):
        return plural(branch.places, "place")
    if isinstance(branch, PoolMixing):
        return spell_pool(branch)
    if isinstance(branch, Projection):
        layers = plural(branch.layers, "layer") if branch.layers > 1 else ""
        return join(layers, "" if branch.d_out is None else f"to {branch.d_out:,}")
    return ""


def describe_heads(branch: Attention) -> str:
    """How many heads there are, and how wide they are."""
    keys = branch.kv_heads if branch.kv_heads != branch.heads else None
    values = branch.d_v if branch.d_v != branch.d_k else None
    return join(
        branch.heads and plural(branch.heads, "head"),
        keys and f"{keys} of keys",
        branch.d_k and f"d_k {branch.d_k:,}",
        values and f"d_v {values:,}",
        branch.window and f"window {branch.window:,}",
        branch.rolled and "rolled",
        branch.spread and "spread",
        branch.pooled and f"queries pooled {branch.pooled} to 1",
        branch.gathered and spell_gathered(branch.gathered),
        branch.fewer_keys and f"{branch.fewer_keys:,} keys of several places each",
        branch.pieces and not branch.window and f"within {branch.pieces} pieces",
        branch.coarse and f"{branch.coarse} places to a row",
        branch.keys_alone and "keys alone",
        branch.foreign_queries and "queries from beside",
        branch.sliding_window and f"sliding_window {branch.sliding_window:,} set, not seen at work",
        branch.chunk_size and f"pieces of {branch.chunk_size:,} set",
        branch.kept_last and f"a cache keeps the last {branch.kept_last:,} keys",
    )


def describe_state_heads(heads: StateHeads | None) -> str:
    """How many heads read and change a state, and how wide they are; empty where it is not known."""
    if heads is None:
        return ""
    of_keys = heads.key_heads != heads.value_heads and f"{heads.key_heads} of keys"
    values = heads.d_v != heads.d_k and f"d_v {heads.d_v:,}"
    return join(plural(heads.value_heads, "head"), of_keys, f"d_k {heads.d_k:,}", values)


def describe_points(branch: DeformableAttention) -> str:
    """How many points each head samples, and in how many maps; empty where it is not known."""
    if not branch.points or not branch.levels:
        return ""
    return f"{branch.points} a head" + (f" in each of {branch.levels} maps" if branch.levels > 1 else "")


def describe_traits(branch: Branch) -> str:
    """What is special to a branch."""
    if isinstance(branch, Attention):
        return describe_attention(branch)
    if isinstance(branch, CurvedAttention):
        return join(spell_curve(branch.curve), "no softmax", branch.is_masked and "masked")
    if isinstance(branch, FeedForward):
        inside = branch.inner_norm and f"{NORMS[branch.inner_norm]} inside"
        beside = "" if branch.kernel is None else f"convolution {times(branch.kernel)} inside"
        others = branch.gates_beside and "times rows made beside the stream"
        fused = branch.fused and "gate and up in one"
        above = branch.threshold and "above a threshold alone"
        return join(branch.activation, branch.gated and "gated", above, fused, beside, inside, others)
    if isinstance(branch, Experts):
        return join(branch.activation, branch.gated and "gated", describe_weights(branch), describe_choice(branch))
    if isinstance(branch, Recurrence):
        heads = branch.heads
        unit, delta = (
            heads and heads.by_length and "queries and keys ÷ length",
            heads and heads.corrects and ("gated delta rule" if heads.fades else "delta rule"),
        )
        return join(branch.kind, unit, delta, heads and heads.fades_alike and "one factor for each head")
    if isinstance(branch, PlaceMixing):
        return branch.activation or ""
    if isinstance(branch, FourierMixing):
        return join("real part", branch.features and "along features too")
    if isinstance(branch, LinearAttention):
        return join("keys times values first", *branch.paths)
    if isinstance(branch, Unknown):
        return ", ".join(branch.paths)
    return ""


def spell_pool(branch: PoolMixing) -> str:
    """What each place becomes: "mean of the 3×3 places around it, less itself"."""
    return f"{branch.of} of the {times(branch.kernel)} places around it{', less itself' if branch.less_itself else ''}"


IN_TURN = (
    "one is chosen after the other, the best of those left each time; its weight is its part of a softmax over those"
    " scores left that lie below it by no more than"
)
"""What is said of experts that are chosen in turn (Phi-3.5-MoE), before how near the others lie that count."""


def describe_weights(branch: Experts) -> str:
    """What scores of a router become before they weigh what the chosen experts give; empty where that is not known."""
    routing = branch.routing
    if routing is None or routing.bend is None:
        return ""
    if routing.within is not None:
        return f"{IN_TURN} {routing.within:g} of the larger of the two"
    over = {"all": "softmax over all scores", "chosen": "softmax over the chosen scores"}.get(routing.over or "", "")
    bend = over or ("" if routing.bend == "softmax" else f"{routing.bend} of each score")
    bend = "scores as they are" if routing.bend == "none" else bend
    bend = f"scores times {routing.scaled:g}, then {bend}" if bend and routing.scaled else bend
    shared = routing.with_shared
    beside = f" and of the {f'{shared} shared' if shared > 1 else 'shared one'}, which it weighs too" if shared else ""
    divided = f", divided by the sum of the chosen{beside}" if routing.divided_by_sum else ""
    factor = f", times {routing.factor:g}" if routing.factor else ""
    times = f"{factor}{', times a learned number' * routing.learned}"
    return bend and f"{bend}{divided}{times}{', by which what goes in is multiplied' * routing.enters}"


def describe_choice(branch: Experts) -> str:
    """From where a router chooses, and what counts for its choice alone; empty where it chooses from all scores."""
    routing = branch.routing
    if routing is None:
        return ""
    groups = "" if routing.groups is None else f"within {routing.groups[0]} of {routing.groups[1]} groups"
    bias = "by scores with a bias that counts for the choice alone" if routing.biased else ""
    return ", ".join(filter(None, (groups, bias)))


POSITIONS = {
    "rotary": "rotary",
    "waves": "times cosines and sines of places, which turn no pair",
    "alibi": "ALiBi",
    "relative": "relative positions",
    "added": "added positions",
}
"""How an attention knows places, in a few words."""


def describe_attention(branch: Attention) -> str:
    """What is special to an attention."""
    is_wavy = branch.positions == "waves"
    latent = branch.latent
    waist = (
        "" if latent is None else f"latent {join(latent.q and f'q {latent.q:,}', latent.kv and f'kv {latent.kv:,}')}"
    )
    kept = latent.kept and f"{latent.kept:,} kept of each place" if latent is not None else ""
    return join(
        {True: "causal", False: "sees both ways", None: ""}[branch.causal],
        POSITIONS.get(branch.positions or ""),
        branch.within_a_kind and "of places of one kind",
        branch.turned
        and f"{branch.turned:,} numbers of {'all heads' if branch.turned_of else 'a head'} "
        f"{'so changed' if is_wavy else 'turned'}",
        branch.rotary_base and f"base {spell_base(branch.rotary_base)}",
        branch.rotary_slowed and f"the slowest {branch.rotary_slowed:g} times slower",
        branch.rotary_all_slowed and f"all {branch.rotary_all_slowed:g} times slower",
        branch.turn_length and f"turned to {spell_factor(branch.turn_length)} times the length",
        branch.turned_pairs and not is_wavy and f"turned in pairs of {branch.turned_pairs}",
        branch.values_turned and "values turned too",
        branch.turned_by_head and "turned by head",
        branch.turned_by_learned and "the first rows turned by learned angles",
        branch.queries_by_place and f"queries times a number of each {branch.queries_by_place}",
        branch.beside_unturned and "keys beside not turned",
        branch.sloped and f"slopes in {branch.sloped} heads alone",
        branch.place_numbers
        and f"places of {branch.place_numbers} numbers{', here all the same' * bool(branch.numbers_alike)}",
        branch.numbers_unlike and "unlike ones for the two of a pair",
        branch.qk_norm
        and f"{NORMS.get(branch.qk_norm_kind or '', 'norm')}s on q and k{OVER.get(branch.qk_norm_over or '', '')}",
        waist,
        kept,
        branch.unscaled and "scores not scaled",
        branch.added_of_values and f"{spell_of_values(branch.added_of_values)} added",
        branch.taken_off and "half of what the heads found taken off the other",
        branch.convolved and f"values convolved over {branch.convolved:,} places, and added",
        branch.mixed_anew and f"{branch.mixed_anew:,} places mixed beside the heads, by weights made of each",
        branch.cap and f"scores capped at {branch.cap:g}",
        branch.kept_scores and f"the {branch.kept_scores:,} highest scores of each row kept",
        branch.mixed_heads and f"{MIXED_HEADS[branch.mixed_heads]} mixed across heads",
        branch.mixed_norm and f"{NORMS[branch.mixed_norm]} of mixed weights",
        branch.kept_apart and f"scores of what the roll brought together less {branch.kept_apart:g}",
        branch.other_rows and "other rows among the keys",
        branch.chosen_keys and ("keys chosen by an earlier layer" if branch.chosen_earlier else "chosen keys"),
        branch.listed and f"{branch.listed:,} keys at most, by a list",
        branch.chosen_together and f"{branch.chosen_together:,} at once",
        branch.chosen_kept and f"{branch.chosen_kept:,} more kept for the choice",
        branch.query_experts and f"queries of {branch.query_chosen or 'some'} of {branch.query_experts:,} experts",
        branch.earlier_keys and "keys and values of an earlier layer",
        branch.earlier_scores and f"{EARLIER_SCORES[branch.earlier_scores]} added",
        branch.longer_keys and "keys of the rows before they became fewer",
        branch.sinks and "sinks",
        branch.gate and f"gated{f' by {branch.gate_curve}' * bool(branch.gate_curve)}",
        branch.fused and f"{branch.fused} in one",
        branch.inner_norm and f"{NORMS[branch.inner_norm]} inside",
    )


def spell_gathered(places: int) -> str:
    """For how many places there is one key, where each has none of its own."""
    return f"one key for every {places:,} places"


def spell_base(base: float) -> str:
    """The base of rotary angles, written out."""
    return f"{base:,.15g}"


def times(sizes: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in sizes)


def join(*words: object) -> str:
    """The words that there are, side by side."""
    return " · ".join(str(word) for word in words if word)
