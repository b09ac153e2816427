"""An anatomy in words: a head line, the lines of each tower, and what ends the network. None is silence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose, pi

from xray.story.anatomy.branches import (
    Attention,
    Branch,
    ChannelAttention,
    Context,
    Convolution,
    CurvedAttention,
    DeformableAttention,
    Experts,
    FeedForward,
    FourierMixing,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    StateHeads,
    StreamMixing,
    Unknown,
)
from xray.story.anatomy.tree import Anatomy, Bridge, EntrancePart, Group, Norm, Tower

NORMS = {
    "rms": "RMS norm",
    "layer": "layer norm",
    "batch": "batch norm",
    "group": "group norm",
    "instance": "instance norm",
}
LINKS = {
    "memory": "is the memory of",
    "joined": "is joined into",
    "compared": "is compared with",
    "multiplied": "is multiplied with",
    "chosen": "gives ids to",
    "scored": "adds its scores to those of",
    "met": "is put together with what leaves",
}
OVER = {"head": ", head by head", "width": ", over all heads"}
SCALES = {
    "learned": "scaled by channel",
    "number": "scaled by a number",
    "tanh": "scaled by tanh of a learned number",
    "gates": "weighed against the stream by gates",
}
STREAM_SCALES = {
    "before": "the stream times a number before the sum",
    "learned": "the stream times learned numbers before the sum",
    "after": "the stream times a number after the sum",
    "learned after": "the stream times learned numbers after the sum",
}
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
PER_PLACE = "used for each place"
MOST_UNTOLD = 8
BETWEEN = {"add": "+", "sub": "−", "mul": "×", "div": "/"}
SUM, FACTOR, WHOLE = range(3)
"""How tightly the parts of a formula hold together."""
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Line:
    """One line of a tower: which layers, what part, its sizes, what is special to it, its norm."""

    layers: str
    part: str
    sizes: str
    traits: str
    norm: str


def label_activation(name: str) -> str:
    """What an activation is called in a box: as it is spelled (SiLU), or a plain word in capitals (SIGMOID)."""
    told = ACTIVATIONS.get(name, name.replace("_", " "))
    return told.upper() if told == told.lower() else told


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


def enclose(text: str, is_apart: bool) -> str:
    """A part of a formula, in brackets where it must be."""
    return f"({text})" if is_apart else text


def describe_network(anatomy: Anatomy) -> str:
    """How many parameters there are, and how many of them work on each place."""
    words = [] if anatomy.params is None else [count(anatomy.params, "parameter")]
    if anatomy.active_params is not None and anatomy.active_params != anatomy.params:
        words.append(f"{anatomy.active_params:,} of them {name_active(anatomy)}")
    return join(*words)


def name_active(anatomy: Anatomy) -> str:
    """What the parameters are called that are used: a place of one tower does not go through another one.

    Where no experts are chosen, some places may use what others do not: a row of a class is learned at one (DINOv2).
    """
    branches = (branch for tower in anatomy.towers for branch in tower.branches)
    if not any(isinstance(branch, Experts) for branch in branches):
        return "used"
    return PER_PLACE if len(anatomy.towers) == 1 else "used with chosen experts"


def counts_whole_table(anatomy: Anatomy) -> bool:
    """Whether a table of words, of which a place looks up one row, is among what is used for each place."""
    head, has_words = anatomy.head, any(tower.vocab for tower in anatomy.towers)
    return has_words and name_active(anatomy) == PER_PLACE and (head is None or head.tied is False)


def describe_tower(tower: Tower) -> str:
    """A tower in one line: what it reads, how wide and deep it is, and which way it looks."""
    causal = {True: "causal", False: "sees both ways", None: ""}[tower.causal]
    return join(
        tower.reads and f"reads {' and '.join(filter(None, (tower.reads, tower.also, tower.among)))}",
        tower.vocab and count(tower.vocab, "word"),
        tower.d_model and f"d_model {tower.d_model:,}",
        tower.streams and f"{tower.streams} streams side by side",
        count(tower.layers, "layer"),
        causal,
        tower.final_norm and f"{NORMS[tower.final_norm]} at the end",
    )


def list_lines(tower: Tower) -> Iterator[Line]:
    """The entrance of a tower, and the branches of each kind of its layers."""
    if tower.entrance:
        yield Line("", "entrance", join(*(describe_entrance(part) for part in tower.entrance)), "", "")
    if tower.conditions:
        yield Line("", "condition", f"of {', '.join(tower.conditions)}", "scales, shifts or gates", "")
    bridges = {bridge.before: bridge for bridge in tower.bridges}
    for group in tower.groups:
        bridge = bridges.get(group.layers[0])
        if bridge is not None:
            where = "within the layer" if bridge.within else "between layers"
            yield Line(f"→ {bridge.before}", where, describe_bridge(bridge), "", "")
        layers = describe_layers(group)
        for stage in group.stages:
            for number, branch in enumerate(stage.branches):
                part = describe_part(branch)
                beside = number > 0 and ("∥ " if stage.is_beside(number) else "then ")
                since = stage.since and f"begun {stage.since} sums before"
                scaled = (SCALES.get(stage.scale or ""), STREAM_SCALES.get(stage.stream_scale or ""), since)
                norm = join(describe_norm(stage.norm), *scaled) if number == 0 else ""
                yield Line(layers, f"{beside or ''}{part}", describe_sizes(branch), describe_traits(branch), norm)
                layers = ""
            for branch in stage.others or ():
                yield Line(
                    "", f"∥ {describe_part(branch)} of other rows", describe_sizes(branch), describe_traits(branch), ""
                )


def list_ends(anatomy: Anatomy) -> Iterator[tuple[str, str]]:
    """What ends the network: links between towers, the head, what nobody could place."""
    for link in anatomy.links:
        layers = f", behind layer{'s' * (len(link.behind) > 1)} {str([*link.behind])[1:-1]}" if link.behind else ""
        yield "link", f"{link.source} {LINKS[link.kind]} {link.target}{layers}"
    head = anatomy.head
    if head is not None and head.kind != "none":
        tied = {True: "uses the table of the words", False: "weights of its own", None: ""}[head.tied]
        what = f"{head.kind}{f' {head.size:,}' if head.size else ''}"
        rows = head.rows_scale and f"rows times {head.rows_scale:.4g}"
        scaled = head.scale and f"times {head.scale:.4g}"
        capped = head.cap and f"capped at {head.cap:g}"
        yield "head", join(f"{what} for each place" if head.kind == "numbers" else what, tied, rows, scaled, capped)
    for what, parts in (("not placed", anatomy.untold), ("unused", anatomy.unused)):
        for part in parts[:MOST_UNTOLD]:
            yield what, f"{part.path}, {count(part.params, 'parameter')}"
        rest = parts[MOST_UNTOLD:]
        if rest:
            yield what, f"{len(rest)} more, {count(sum(one.params for one in rest), 'parameter')}"


def describe_bridge(bridge: Bridge) -> str:
    """What becomes of the stream between two layers."""
    wider = f"{bridge.d_in:,} → {bridge.d_out:,}" if bridge.d_in != bridge.d_out else ""
    heads = bridge.heads and f"attention of {bridge.heads} head{'s' * (bridge.heads > 1)}"
    added = bridge.added and "added to the stream"
    beside = bridge.beside and f"{bridge.beside} row{'s' * (bridge.beside > 1)} put beside"
    counted = bridge.counted is not None and "each row repeated as often as is worked out"
    return join(bridge.joined and f"{bridge.joined} places to 1", wider, heads, added, beside, counted)


def describe_layers(group: Group) -> str:
    """Which layers a group holds, counted from 0, and whether they share their weights."""
    numbers = group.layers
    first, last = numbers[0], numbers[-1]
    if first == last:
        return str(first)
    steps = {after - before for before, after in pairwise(numbers)}
    every = f" every {steps.copy().pop()}" if len(steps) == 1 and steps != {1} else ""
    dots = "–" if steps == {1} or every else "…"
    sets = f", {group.weight_sets} sets of weights" if group.weight_sets else ", shared" if group.shared else ""
    dropped = f", dropout {group.dropouts[0]:.3g}–{group.dropouts[1]:.3g}" if group.dropouts else ""
    return f"{first}{dots}{last}{every} ×{group.count}{sets}{dropped}"


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
        points = f"points {few}" if few else branch.levels and count(branch.levels, "map")
        return join(branch.heads and count(branch.heads, "head"), branch.d_v and f"d_v {branch.d_v:,}", points)
    if isinstance(branch, CurvedAttention):
        return join(branch.heads and count(branch.heads, "head"), branch.d_k and f"d_k {branch.d_k:,}")
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
        return count(branch.streams, "stream")
    if isinstance(branch, Context):
        return f"{branch.places:,} places in one" if branch.places else ""
    if isinstance(branch, ChannelAttention):
        return join(count(branch.groups, "group"), count(branch.channels, "channel"))
    if isinstance(branch, PlaceMixing):
        return join(count(branch.places, "place"), branch.wide and f"out to {branch.wide:,}")
    if isinstance(branch, FourierMixing):
        return count(branch.places, "place")
    if isinstance(branch, PoolMixing):
        return spell_pool(branch)
    if isinstance(branch, Projection):
        layers = count(branch.layers, "layer") if branch.layers > 1 else ""
        return join(layers, "" if branch.d_out is None else f"to {branch.d_out:,}")
    return ""


def describe_heads(branch: Attention) -> str:
    """How many heads there are, and how wide they are."""
    keys = branch.kv_heads if branch.kv_heads != branch.heads else None
    values = branch.d_v if branch.d_v != branch.d_k else None
    return join(
        branch.heads and count(branch.heads, "head"),
        keys and f"{keys} of keys",
        branch.d_k and f"d_k {branch.d_k:,}",
        values and f"d_v {values:,}",
        branch.window and f"window {branch.window:,}{', rolled' if branch.rolled else ''}",
        branch.pooled and f"queries pooled {branch.pooled} to 1",
        branch.gathered and spell_gathered(branch.gathered),
        branch.pieces and not branch.window and f"within {branch.pieces} pieces",
        branch.coarse and f"{branch.coarse} places to a row",
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
    return join(count(heads.value_heads, "head"), of_keys, f"d_k {heads.d_k:,}", values)


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
        branch.turned and f"{branch.turned:,} numbers of a head {'so changed' if is_wavy else 'turned'}",
        branch.rotary_base and f"base {spell_base(branch.rotary_base)}",
        branch.rotary_slowed and f"the slowest {branch.rotary_slowed:g} times slower",
        branch.rotary_all_slowed and f"all {branch.rotary_all_slowed:g} times slower",
        branch.turn_length and f"turned to {branch.turn_length:.4g} times the length",
        branch.turned_pairs and not is_wavy and f"turned in pairs of {branch.turned_pairs}",
        branch.values_turned and "values turned too",
        branch.turned_by_head and "turned by head",
        branch.queries_by_place and f"queries times a number of each {branch.queries_by_place}",
        branch.beside_unturned and "keys beside not turned",
        branch.place_numbers
        and f"places of {branch.place_numbers} numbers{', here all the same' * bool(branch.numbers_alike)}",
        branch.qk_norm
        and f"{NORMS.get(branch.qk_norm_kind or '', 'norm')}s on q and k{OVER.get(branch.qk_norm_over or '', '')}",
        waist,
        kept,
        branch.unscaled and "scores not scaled",
        branch.convolved and f"values convolved over {branch.convolved:,} places, and added",
        branch.cap and f"scores capped at {branch.cap:g}",
        branch.other_rows and "other rows among the keys",
        branch.chosen_keys and ("keys chosen by an earlier layer" if branch.chosen_earlier else "chosen keys"),
        branch.listed and f"{branch.listed:,} keys at most, by a list",
        branch.chosen_together and f"{branch.chosen_together:,} at once",
        branch.chosen_kept and f"{branch.chosen_kept:,} more kept for the choice",
        branch.query_experts and f"queries of {branch.query_chosen or 'some'} of {branch.query_experts:,} experts",
        branch.earlier_keys and "keys and values of an earlier layer",
        branch.longer_keys and "keys of the rows before they became fewer",
        branch.sinks and "sinks",
        branch.gate and f"gated{f' by {branch.gate_curve}' * bool(branch.gate_curve)}",
        branch.fused and f"{branch.fused} in one",
        branch.inner_norm and f"{NORMS[branch.inner_norm]} inside",
    )


def spell_gathered(places: int) -> str:
    """Of how many places each key is, where several become one."""
    return f"keys of {places:,} places each"


def spell_base(base: float) -> str:
    """The base of rotary angles, written out."""
    return f"{base:,.15g}"


def describe_norm(norm: Norm) -> str:
    """Which norm a stage has, and where."""
    if norm.place in ("none", None):
        return norm.place or ""
    kind = NORMS[norm.kind] if norm.kind is not None else "norm"
    on = " the sum" if norm.on == "stream" and norm.place == "after" else ""
    adaptive = "adaptive " if norm.adaptive else ""
    place = "before and after" if norm.place == "both" else norm.place
    times = f", {norm.times} times" if norm.times else ""
    return f"{adaptive}{kind} {place}{on}{times}"


def describe_entrance(part: EntrancePart) -> str:
    """A thing that stands before the first layer."""
    size = "" if part.size is None or part.part == "class token" else f" {part.size:,}"
    return f"{'added ' * part.added}{part.part}{size}"


def count(number: int, word: str) -> str:
    """A number with its word."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def times(sizes: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in sizes)


def join(*words: object) -> str:
    """The words that there are, side by side."""
    return " · ".join(str(word) for word in words if word)
