"""What the card says of a model as a whole."""

from collections import Counter
from collections.abc import Iterator, Sequence

from xray.story.anatomy.branches import Convolution, Experts, FeedForward, Recurrence, StreamMixing, Unknown
from xray.story.anatomy.tree import Anatomy, Group, Norm, Stage
from xray.story.anatomy.wording import ACTIVATIONS, describe_choice, describe_weights
from xray.story.sentences.of_attentions import (
    attentions,
    branches,
    describe_cap,
    describe_coarse,
    describe_fused,
    describe_gathered,
    describe_head_norm,
    describe_heads,
    describe_latent,
    describe_output_gate,
    describe_pieces,
    describe_pooled,
    describe_positions,
    describe_rolled,
    describe_sampled,
    describe_set_window,
    describe_sinks,
    describe_turned,
    describe_turned_by_head,
    describe_window,
)
from xray.story.sentences.sentence import Sentence, fixed

MOST_UNSAID = 3
MOST_NUMBERS = 6
"""More numbers of layers than these are shortened in the middle."""


def list_sentences(anatomy: Anatomy) -> list[str]:
    """All that can be said of a model, in the order in which it is printed."""
    told = (sentence.tell(anatomy) for sentence in OF_MODELS)
    return list(dict.fromkeys(text for text in told if text))


def forwards(anatomy: Anatomy) -> Iterator[FeedForward | Experts]:
    """Every kind of feed-forward and of experts in it."""
    return (one for one in branches(anatomy) if isinstance(one, FeedForward | Experts) and not gates_beside(one))


def gates_beside(branch: object) -> bool:
    """Whether a branch gates rows that are made beside the stream."""
    return isinstance(branch, FeedForward) and bool(branch.gates_beside)


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
    many = describe_many_normed(anatomy)
    ending, they, give = ("", "it", "gives") if many == "each" else ("s", "they", "give")
    where = {
        "before": f"before {many} sublayer{ending}",
        "both": f"before {many} sublayer{ending}, and again on what {they} {give}",
        "after": f"after {many} sum{ending}"
        if on == "stream"
        else f"on what {many} sublayer{ending} {give}, before it is added",
    }
    why = ": divided by the root mean square; no mean is taken away" if kind == "RMS norm" else ""
    return f"{kind} {where[place]}{why}."


def describe_adaptive(anatomy: Anatomy) -> str:
    if not any(norm.adaptive for norm in norms(anatomy)):
        return ""
    names = dict.fromkeys(name for tower in anatomy.towers for name in tower.conditions)
    told = f", made of {' and '.join(names)}," if names else ""
    return f"Adaptive norms: what stands beside the stream{told} says how much each is scaled or shifted."


def describe_many_normed(anatomy: Anatomy) -> str:
    """Whether each sublayer is known to have a norm, or most of them, or some."""
    found = [
        (group.count, stage.norm.place not in ("none", None))
        for tower in anatomy.towers
        for group in tower.groups
        for stage in group.stages
    ]
    share = sum(count for count, is_normed in found if is_normed) / sum(count for count, _ in found)
    return "each" if share == 1 else "most" if share > 1 / 2 else "some"


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


def describe_stream_scale(anatomy: Anatomy) -> str:
    ways = {stage.stream_scale for stage in stages(anatomy)} - {None}
    way = ways.pop() if len(ways) == 1 else None
    what = "learned numbers" if way in ("learned", "learned after") else "a number"
    is_behind = way in ("after", "learned after")
    where = "behind some of its sums" if is_behind else "before what sublayers give is added to it"
    return "" if way is None else f"The stream itself is multiplied by {what} {where}."


def describe_rows_added(anatomy: Anatomy) -> str:
    return " ".join(
        f"Behind {spell_numbers(tower.rows_added)} of the {tower.name} tower, rows that another tower made are added "
        "to some of its rows."
        for tower in anatomy.towers
        if tower.rows_added
    )


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


def describe_joined(anatomy: Anatomy) -> str:
    counts = sorted({one.joined for one in forwards(anatomy) if isinstance(one, FeedForward) and one.joined})
    told = " or ".join(map(str, counts))
    return f"In some layers the feed-forward reads {told} rows side by side, and makes one of them." if counts else ""


def describe_chosen_keys(anatomy: Anatomy) -> str:
    found = [branch.chosen_keys for branch in attentions(anatomy)]
    some = "" if all(found) else " in some attentions"
    told = f"Keys are chosen{some}: other scores, made for this alone, say which of them each place looks at."
    return told if any(found) else ""


def describe_experts(anatomy: Anatomy) -> str:
    found = [one for one in forwards(anatomy) if isinstance(one, Experts) and one.experts and one.chosen]
    if not found:
        return ""
    counts: dict[int, set[int]] = {}
    for one in found:
        counts.setdefault(one.chosen or 0, set()).add(one.experts or 0)
    few = " or ".join(
        f"{chosen} of {' to '.join(map(str, dict.fromkeys((min(counted), max(counted)))))}"
        for chosen, counted in sorted(counts.items())
    )
    beside = {bool(one.shared) for one in found}
    some = "in some layers " if len(beside) > 1 else ""
    shared = f", {some}beside one that every place goes through" if any(beside) else ""
    parted = (
        " Some places go through others, which a router of their own scores."
        if any(one.others for one in found)
        else ""
    )
    return f"Experts: {name_choosing(anatomy)} sends each place to {few}{shared}.{parted}"


def describe_routing(anatomy: Anatomy) -> str:
    weights = {describe_weights(branch) for branch in forwards(anatomy) if isinstance(branch, Experts)}
    choices = {describe_choice(branch) for branch in forwards(anatomy) if isinstance(branch, Experts)}
    weight = weights.pop() if len(weights) == 1 else ""
    choice = choices.pop() if len(choices) == 1 else ""
    told = "; ".join(filter(None, (weight, choice and f"chosen {choice}")))
    return f"Weights of experts: {told}." if weight else f"Experts are chosen {choice}." if choice else ""


def name_choosing(anatomy: Anatomy) -> str:
    ways = {branch.chosen_by for branch in forwards(anatomy) if isinstance(branch, Experts)}
    names = [name for way, name in (("router", "a router"), ("table", "a table of words")) if way in ways]
    return "a router, in some layers a table of words," if len(names) > 1 else next(iter(names), "what chooses them")


def describe_shared(anatomy: Anatomy) -> str:
    groups = [group for tower in anatomy.towers for group in tower.groups]
    if groups and all(group.shared for group in groups) and len(groups) == len(anatomy.towers):
        return "All layers use one and the same set of weights."
    return ""


def describe_streams(anatomy: Anatomy) -> str:
    counts = sorted({tower.streams for tower in anatomy.towers if tower.streams})
    if not counts:
        return ""
    many = " or ".join(map(str, counts))
    if any(isinstance(one, StreamMixing) for one in branches(anatomy)):
        return f"{many} streams side by side, mixed by a matrix that is worked out of them."
    return f"{many} streams side by side: a sublayer reads a weighted sum of them, and gives to each its share."


def describe_bending(anatomy: Anatomy) -> str:
    head = anatomy.head
    if head is None or not (head.scale or head.cap):
        return ""
    capped = f"cannot pass {head.cap:g}, by tanh" if head.cap else ""
    scaled = f"are multiplied by {head.scale:.4g}" if head.scale else ""
    return f"The scores of the words {' and '.join(filter(None, (scaled, capped)))}."


def describe_links(anatomy: Anatomy) -> str:
    given: dict[str, list[str]] = {}
    for link in anatomy.links:
        if link.kind == "joined":
            given.setdefault(link.target, []).append(link.source)
    if not given:
        return ""
    (first, sources), *rest = given.items()
    more = "".join(f"; what {name_givers(others)}, into that of the {target} tower" for target, others in rest)
    return f"What {name_givers(sources)} is put into the {first} tower's stream{more}."


def name_givers(sources: Sequence[str]) -> str:
    """The towers that give something, and that they do."""
    return f"the {' and '.join(sources)} {'towers give' if len(sources) > 1 else 'tower gives'}"


def describe_earlier(anatomy: Anatomy) -> str:
    told = []
    for link in anatomy.links:
        source = anatomy.tower(link.source)
        if not link.behind or source is None:
            continue
        layers = f"{spell_numbers(link.behind)} of {source.layers}"
        is_before = link.behind == (source.layers - 1,) and source.final_norm is not None
        ending = ", before its last norm" if is_before else ""
        told.append(f"The {link.target} tower reads the {link.source} tower behind {layers}{ending}.")
    return " ".join(told)


def spell_numbers(layers: Sequence[int]) -> str:
    """Numbers of layers, which are from 0, as they are told: from 1, a long list shortened in the middle."""
    numbers = [number + 1 for number in layers]
    listed = f"{numbers[0]}, {numbers[1]} … {numbers[-1]}" if len(numbers) > MOST_NUMBERS else str(numbers)[1:-1]
    return f"layer{'s' * (len(numbers) > 1)} {listed}"


def describe_comparison(anatomy: Anatomy) -> str:
    compared = [link for link in anatomy.links if link.kind == "compared"]
    told: list[str] = []
    for target in dict.fromkeys(link.target for link in compared):
        sources = [link.source for link in compared if link.target == target]
        given = f"{sources[0]} tower gives is" if len(sources) == 1 else f"{' and '.join(sources)} towers give is"
        told.append(f"What the {given} compared with what the {target} tower gives.")
    return " ".join(told)


def describe_untold(anatomy: Anatomy) -> str:
    untold = [one for one in anatomy.untold if one.params]
    names = ", ".join(f"{one.path} ({one.params:,})" for one in untold[:2])
    more = f", and {len(untold) - 2} more" if len(untold) > 2 else ""
    return f"Not drawn, with parameters: {names}{more}." if untold else ""


def describe_unsaid(unsaid: Sequence[tuple[str, Counter[str]]]) -> str:
    """What is worked out and stands in no box, by part: the operations that are most often."""
    if not unsaid:
        return ""
    parts = sorted(unsaid, key=lambda one: -one[1].total())
    told = [f"{describe_ops(ops)} ({name})" for name, ops in parts[:MOST_UNSAID]]
    left = len(parts) - MOST_UNSAID
    more = [f"and in {left} more part{'s' if left > 1 else ''}"] if left > 0 else []
    return f"Worked out, and in no box: {'; '.join([*told, *more])}."


def describe_ops(ops: Counter[str]) -> str:
    """Operations, each with how often it is."""
    told = [f"{op} × {many}" if many > 1 else op for op, many in ops.most_common(MOST_UNSAID)]
    more = ops.total() - sum(many for _, many in ops.most_common(MOST_UNSAID))
    return ", ".join([*told, *([f"{more} more"] if more else [])])


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
    Sentence("streams", describe_streams),
    fixed(
        "other rows",
        "Beside the keys and values of the places stand others that the stream makes too.",
        lambda whole: any(branch.other_rows for branch in attentions(whole)),
    ),
    fixed(
        "earlier keys",
        "Keys and values are, in some layers, those that an earlier layer made.",
        lambda whole: any(branch.earlier_keys for branch in attentions(whole)),
    ),
    fixed(
        "chosen heads",
        "Heads are chosen: for each place a router takes some of several experts, and these make its queries.",
        lambda whole: any(branch.query_experts for branch in attentions(whole)),
    ),
    Sentence("chosen keys", describe_chosen_keys),
    Sentence("positions", describe_positions),
    Sentence("numbers that are turned", describe_turned),
    Sentence("turned by heads", describe_turned_by_head),
    Sentence("grouped queries", describe_heads),
    Sentence("latent", describe_latent),
    Sentence("norm of queries and keys", describe_head_norm),
    Sentence("score cap", describe_cap),
    Sentence("inner norms", describe_inner_norm),
    Sentence("layer scale", describe_scale),
    Sentence("stream scale", describe_stream_scale),
    fixed(
        "gates by tanh",
        "Gates by tanh: what some sublayers give is multiplied by tanh of a learned number, then added.",
        lambda whole: any(stage.scale == "tanh" for stage in stages(whole)),
    ),
    fixed(
        "weighed sums",
        "Gated sums: what some sublayers give and the stream are each multiplied by a gate made of both, then added.",
        lambda whole: any(stage.scale == "gates" for stage in stages(whole)),
    ),
    fixed(
        "no sum",
        "In some layers nothing is added: what a sublayer gives takes the stream's place.",
        lambda whole: any(stage.replaces for stage in stages(whole)),
    ),
    Sentence("sinks", describe_sinks),
    Sentence("rows to one within", describe_joined),
    fixed(
        "rows from beside",
        "Rows from beside: made once for all layers, each has its part; what the stream's gate leaves of it is added.",
        lambda whole: any(map(gates_beside, branches(whole))),
    ),
    Sentence("gate of the output", describe_output_gate),
    Sentence("fused projection", describe_fused),
    Sentence("sampled points", describe_sampled),
    Sentence("windows", describe_window),
    Sentence("rolled windows", describe_rolled),
    Sentence("windows that are set", describe_set_window),
    Sentence("pooled queries", describe_pooled),
    Sentence("gathered keys", describe_gathered),
    Sentence("packed rows", describe_pieces),
    Sentence("coarse rows", describe_coarse),
    Sentence("stages", describe_bridges),
    Sentence("rows added", describe_rows_added),
    Sentence("gate", describe_gate),
    Sentence("experts", describe_experts),
    Sentence("routing", describe_routing),
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
    Sentence("scores that are bent", describe_bending),
    Sentence("links", describe_links),
    Sentence("links behind layers", describe_earlier),
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
UNSAID: Sentence[Sequence[tuple[str, Counter[str]]]] = Sentence("in no box", describe_unsaid)
"""What is said of steps that are not drawn."""
OF_GROUPS: tuple[Sentence[Group], ...] = (
    fixed("shared group", "one set of weights", lambda group: group.shared),
    Sentence("sets of weights", describe_weight_sets),
    Sentence("dropouts that differ", describe_dropouts),
)
"""What is said above the frame of a group of layers."""
