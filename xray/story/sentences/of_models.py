"""What the card says of a model as a whole."""

from collections.abc import Callable, Iterator

from xray.story.anatomy.tree import (
    Anatomy,
    Attention,
    Branch,
    Convolution,
    Experts,
    FeedForward,
    Group,
    Norm,
    Recurrence,
    Stage,
    Unknown,
)
from xray.story.anatomy.wording import ACTIVATIONS
from xray.story.sentences.sentence import Sentence, fixed


def list_sentences(anatomy: Anatomy) -> list[str]:
    """All that can be said of a model, in the order in which it is printed."""
    told = (sentence.tell(anatomy) for sentence in OF_MODELS)
    return list(dict.fromkeys(text for text in told if text))


def branches(anatomy: Anatomy) -> Iterator[Branch]:
    """Every kind of branch in it."""
    return (branch for tower in anatomy.towers for branch in tower.branches)


def attentions(anatomy: Anatomy) -> Iterator[Attention]:
    """Every kind of attention in it."""
    return (branch for branch in branches(anatomy) if isinstance(branch, Attention))


def forwards(anatomy: Anatomy) -> Iterator[FeedForward | Experts]:
    """Every kind of feed-forward and of experts in it."""
    return (branch for branch in branches(anatomy) if isinstance(branch, FeedForward | Experts))


def stages(anatomy: Anatomy) -> Iterator[Stage]:
    """Every kind of stage in it."""
    return (stage for tower in anatomy.towers for group in tower.groups for stage in group.stages)


def norms(anatomy: Anatomy) -> Iterator[Norm]:
    """The norms of its stages."""
    return (stage.norm for stage in stages(anatomy))


def describe_norm(anatomy: Anatomy) -> str:
    kinds = {norm.kind for norm in norms(anatomy) if norm.place not in ("none", None)}
    places = {(norm.place, norm.on) for norm in norms(anatomy) if norm.place not in ("none", None)}
    if len(places) != 1:
        return ""
    place, on = places.pop()
    name = {"rms": "RMS norm", "layer": "Layer norm", "batch": "Batch norm", "group": "Group norm"}
    kind = name.get(kinds.pop() or "", "A norm") if len(kinds) == 1 else "A norm"
    where = {
        "before": "before each sublayer",
        "both": "before each sublayer, and again on what it gives",
        "after": "after each sum" if on == "stream" else "on what each sublayer gives, before it is added",
    }
    why = ": divided by the root mean square; no mean is taken away" if kind == "RMS norm" else ""
    return f"{kind} {where[place]}{why}."


def describe_adaptive(anatomy: Anatomy) -> str:
    if not any(norm.adaptive for norm in norms(anatomy)):
        return ""
    names = dict.fromkeys(name for tower in anatomy.towers for name in tower.conditions)
    told = f", made of {' and '.join(names)}," if names else ""
    return f"Adaptive norms: what stands beside the stream{told} says how much each is scaled or shifted."


def looking(anatomy: Anatomy) -> list[Attention]:
    """Every kind of attention of a stream to itself."""
    return [branch for branch in attentions(anatomy) if branch.source in ("self", None)]


def describe_positions(anatomy: Anatomy) -> str:
    kinds = [branch.positions for branch in looking(anatomy)]
    told = next((kind for kind in ("rotary", "alibi", "relative") if kind in kinds), "")
    some, there = (" in some attentions", "there ") if any(kind != told for kind in kinds) else ("", "")
    return {
        "rotary": f"Rotary places{some}: {there}queries and keys are turned by their place.",
        "alibi": f"ALiBi{some}: a slope for each head makes what is far away count less.",
        "relative": f"Relative places{some}: how far apart two are is added to their score.",
        "": "",
    }[told]


def describe_heads(anatomy: Anatomy) -> str:
    shared = [count_sharing(branch) for branch in attentions(anatomy)]
    grouped = sorted({one for one in shared if one is not None and one[1] > 1})
    if not grouped:
        return ""
    some = " in some attentions" if any(one is None or one[1] == 1 for one in shared) else ""
    if len(grouped) > 1:
        return (
            f"Grouped queries{some}: a key head serves {' or '.join(str(times) for _, times in grouped)} query heads."
        )
    keys, times = grouped[0]
    many = f"each of the {keys} key heads serves" if keys > 1 else "one key head serves"
    return f"Grouped queries{some}: {many} {times} query heads."


def count_sharing(branch: Attention) -> tuple[int, int] | None:
    """How many key heads there are, and how many query heads each serves; None where that is not known."""
    heads, keys = branch.heads, branch.kv_heads
    return (keys, heads // keys) if heads and keys and heads % keys == 0 else None


def describe_latent(anatomy: Anatomy) -> str:
    waists = {None if branch.latent is None else (branch.latent.kv, branch.latent.kept) for branch in looking(anatomy)}
    found = {one for one in waists if one is not None and one[0]}
    if not found:
        return ""
    some = " in some attentions" if len(found) < len(waists) else ""
    widths = " or ".join(map(str, sorted({waist for waist, _ in found if waist is not None})))
    told = f"Latent attention{some}: keys and values are made from a waist of {widths} numbers"
    waist, kept = found.pop()
    if found or waist is None or kept is None or kept < waist:
        return f"{told}."
    more = f", and {kept - waist} beside it" if kept > waist else ""
    return f"{told}; a cache keeps this waist{more}, and no keys or values."


def some_layers(anatomy: Anatomy, holds: Callable[[Attention], object], words: str, start: str = "") -> str:
    """Words that are true of attentions, said of some layers where they are not true of all that look at themselves."""
    found = [bool(holds(branch)) for branch in attentions(anatomy)]
    own = [bool(holds(branch)) for branch in looking(anatomy)]
    if not any(found):
        return ""
    if all(own):
        return start + (words if start else words[0].upper() + words[1:])
    return f"{start.rstrip(': ')} in some layers: there {words}" if start else f"In some layers {words}"


def describe_sinks(anatomy: Anatomy) -> str:
    words = "a learned score stands beside the keys and takes a share of the weights."
    return some_layers(anatomy, lambda branch: branch.sinks, words, "Sinks: ")


def describe_output_gate(anatomy: Anatomy) -> str:
    return some_layers(anatomy, lambda branch: branch.gate, "a gate decides how much of what the heads found goes on.")


def describe_fused(anatomy: Anatomy) -> str:
    words = "one linear layer makes Q, K and V at once; each takes its slice."
    return some_layers(anatomy, lambda branch: branch.fused == "qkv", words)


def describe_head_norm(anatomy: Anatomy) -> str:
    own = [branch for branch in attentions(anatomy) if branch.qk_norm]
    over = {branch.qk_norm_over for branch in own}
    how = (
        {"head": ", head by head", "width": ", all heads of a row at once"}.get(over.pop() or "")
        if len(over) == 1
        else ""
    )
    some = " in some attentions" if len(own) < len(list(attentions(anatomy))) else ""
    return f"Queries and keys are normalised{some} before they meet{how or ''}." if own else ""


def describe_cap(anatomy: Anatomy) -> str:
    caps = sorted({branch.cap for branch in attentions(anatomy) if branch.cap})
    if not caps:
        return ""
    some = "in some layers " if any(branch.cap is None for branch in attentions(anatomy)) else ""
    return f"Scores are capped {some}before softmax: none passes {' or '.join(f'{cap:g}' for cap in caps)}, by tanh."


def describe_inner_norm(anatomy: Anatomy) -> str:
    inner = {"attention": any(branch.inner_norm for branch in attentions(anatomy))}
    inner["feed-forward"] = any(isinstance(one, FeedForward) and one.inner_norm for one in forwards(anatomy))
    where = " and ".join(name for name, is_there in inner.items() if is_there)
    return f"Inner norms: in {where}, rows are normalised before the last linear layer." if where else ""


def describe_scale(anatomy: Anatomy) -> str:
    scales = {stage.scale for stage in stages(anatomy)}
    if "learned" in scales:
        return "Layer scale: what a sublayer gives is multiplied by a learned number for each channel, then added."
    what = "a sublayer gives" if None not in scales else "some sublayers give"
    return f"What {what} is multiplied by a number before it is added." if "number" in scales else ""


def describe_window(anatomy: Anatomy) -> str:
    sizes = sorted({branch.window for branch in attentions(anatomy) if branch.window})
    if not sizes:
        return ""
    some = any(branch.window is None for branch in attentions(anatomy))
    where = "Windows in some layers: there" if some else "Windows:"
    return f"{where} each place sees at most {' or '.join(map(str, sizes))} places."


def describe_rolled(anatomy: Anatomy) -> str:
    found = {branch.rolled for branch in attentions(anatomy)}
    some = " in some layers" if False in found or None in found else ""
    return f"Windows are cut elsewhere{some}: places are rolled before, and back behind." if True in found else ""


def describe_pooled(anatomy: Anatomy) -> str:
    times = sorted({branch.pooled for branch in attentions(anatomy) if branch.pooled})
    if not times:
        return ""
    return f"Queries are pooled, {' or '.join(map(str, times))} places to one: behind them the stream is shorter."


def describe_bridges(anatomy: Anatomy) -> str:
    for tower in anatomy.towers:
        joined = {bridge.joined for bridge in tower.bridges}
        if len(joined) == 1 and (times := joined.pop()) is not None:
            rows = dict.fromkeys([tower.bridges[0].d_in, *(bridge.d_out for bridge in tower.bridges)])
            wider = f", and rows are {', '.join(map(str, rows))} numbers wide" if len(rows) > 1 else ""
            return f"Stages: between them {times} places become one{wider}."
    return ""


def describe_gate(anatomy: Anatomy) -> str:
    found = {(branch.activation, branch.gated) for branch in forwards(anatomy)}
    if not any(gated for _, gated in found):
        return ""
    names = {activation for activation, gated in found if gated}
    name = ACTIVATIONS.get(next(iter(names)) or "", "a bend") if len(names) == 1 else "a bend"
    some = " in some layers" if any(not gated for _, gated in found) else ""
    return f"Gated feed-forward{some}: {name} of one projection, times another, then back."


def describe_experts(anatomy: Anatomy) -> str:
    for branch in forwards(anatomy):
        if isinstance(branch, Experts) and branch.experts and branch.chosen:
            shared = ", beside one that every place goes through" if branch.shared else ""
            return f"Experts: a router sends each place to {branch.chosen} of {branch.experts}{shared}."
    return ""


def describe_shared(anatomy: Anatomy) -> str:
    groups = [group for tower in anatomy.towers for group in tower.groups]
    if groups and all(group.shared for group in groups) and len(groups) == len(anatomy.towers):
        return "All layers use one and the same set of weights."
    return ""


def describe_links(anatomy: Anatomy) -> str:
    joined = [link for link in anatomy.links if link.kind == "joined"]
    return (
        f"What the {joined[0].source} tower gives is put into the {joined[0].target} tower's stream." if joined else ""
    )


def describe_comparison(anatomy: Anatomy) -> str:
    compared = [link for link in anatomy.links if link.kind == "compared"]
    if not compared:
        return ""
    return f"What the {compared[0].source} tower gives is compared with what the {compared[0].target} tower gives."


def describe_untold(anatomy: Anatomy) -> str:
    untold = [one for one in anatomy.untold if one.params]
    names = ", ".join(f"{one.path} ({one.params:,})" for one in untold[:2])
    more = f", and {len(untold) - 2} more" if len(untold) > 2 else ""
    return f"Not drawn, with parameters: {names}{more}." if untold else ""


def describe_weight_sets(group: Group) -> str:
    return f"{group.weight_sets} sets of weights" if group.weight_sets else ""


def describe_dropouts(group: Group) -> str:
    if group.dropouts is None:
        return ""
    low, high = group.dropouts
    return f"dropout {low:.3g} to {high:.3g}" if low < high else "dropout not alike"


OF_MODELS: tuple[Sentence[Anatomy], ...] = (
    Sentence("norm", describe_norm),
    Sentence("adaptive norm", describe_adaptive),
    fixed(
        "parallel",
        "Sublayers side by side: they read the same point of the stream, and are added together.",
        lambda whole: any(stage.parallel for stage in stages(whole)),
    ),
    fixed(
        "joint attention",
        "Joint attention: keys and values of another stream stand beside the stream's own.",
        lambda whole: any(branch.beside for branch in attentions(whole)),
    ),
    Sentence("positions", describe_positions),
    Sentence("grouped queries", describe_heads),
    Sentence("latent", describe_latent),
    Sentence("norm of queries and keys", describe_head_norm),
    Sentence("score cap", describe_cap),
    Sentence("inner norms", describe_inner_norm),
    Sentence("layer scale", describe_scale),
    Sentence("sinks", describe_sinks),
    Sentence("gate of the output", describe_output_gate),
    Sentence("fused projection", describe_fused),
    Sentence("windows", describe_window),
    Sentence("rolled windows", describe_rolled),
    Sentence("pooled queries", describe_pooled),
    Sentence("stages", describe_bridges),
    Sentence("gate", describe_gate),
    Sentence("experts", describe_experts),
    fixed(
        "recurrence",
        "A state is changed and handed on from place to place: it does not grow with the length.",
        lambda whole: any(isinstance(one, Recurrence) for one in branches(whole)),
    ),
    fixed(
        "convolution",
        "Convolutions mix neighbouring places.",
        lambda whole: any(isinstance(one, Convolution) for one in branches(whole)),
    ),
    Sentence("shared layers", describe_shared),
    fixed(
        "tied",
        "The table of the words is also the last layer: one set of numbers for both.",
        lambda whole: whole.head is not None and whole.head.tied,
    ),
    Sentence("links", describe_links),
    Sentence("compared", describe_comparison),
    fixed(
        "kernel",
        "Attention runs in one kernel: what is marked “derived” is never stored; its shape follows from Q, K, V.",
        lambda whole: any(branch.kernel not in (None, "plain") for branch in attentions(whole)),
    ),
    fixed(
        "unknown",
        "Some sublayers are drawn by their operations: what they are is not known.",
        lambda whole: any(isinstance(one, Unknown) for one in branches(whole)),
    ),
    Sentence("not drawn", describe_untold),
)
"""Every sentence of the card, in the order in which they are printed."""
OF_GROUPS: tuple[Sentence[Group], ...] = (
    fixed("shared group", "one set of weights", lambda group: group.shared),
    Sentence("sets of weights", describe_weight_sets),
    Sentence("dropouts that differ", describe_dropouts),
)
"""What is said above the frame of a group of layers."""
