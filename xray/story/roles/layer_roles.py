"""The roles of the steps of a tower's layers: sublayers, their norms, their sums."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS
from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branches import Branch, Experts, FeedForward, LinearAttention, Recurrence
from xray.story.body.stages import Branching, Staging, find_ending
from xray.story.body.towers import Towering
from xray.story.branches.feed_forward import is_gate
from xray.story.branches.sampled import Sampling
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.experts.choice import find_choice
from xray.story.experts.experts import count_places
from xray.story.recognition.between import PLAIN, projections_in, strip_plain, width_out
from xray.story.roles.attention_roles import give_attention
from xray.story.roles.giving import Given
from xray.story.sentences.of_parts import describe_load

OTHERS = {
    "feed_forward": "feed-forward",
    "experts": "experts",
    "convolution": "convolution",
    "place_mixing": "mixing of places",
    "fourier_mixing": "Fourier mixing",
    "pool_mixing": "mixing by pooling",
}
"""What sublayers are called in a sentence whose kind alone decides."""


def give_layers(given: Given, towering: Towering, side: str, others: Collection[int]) -> None:
    """Every layer of a tower with its sublayers; `side` says which tower it is, where there are several.

    A block is no sublayer that works on the streams of `others`, the steps of these, too (DiGress).
    """
    before = towering.entrance | list_opening(given.flow, towering)
    spans = [set().union(*(list_nodes(staging) for staging in layer)) - before for layer in towering.layers]
    last = set() if towering.final is None else {towering.final.end}
    for number, layer in enumerate(towering.layers):
        neighbours = spans[max(0, number - 1) : number] + spans[number + 1 : number + 2]
        given.block(spans[number], f"{side}layer {number + 1}", last.union(*neighbours) - spans[number])
        for staging in layer:
            give_stage(given, staging, side, before, others)


def list_opening(flow: Flow, towering: Towering) -> set[int]:
    """The steps that the stream goes through between the entrance and the first sum, such as a dropout."""
    joint = towering.chains[0].joints[0]
    here = next((one for one in flow.makers[joint.add] if strip_plain(flow, one) == joint.stream), None)
    found: set[int] = set()
    while here is not None and here != joint.stream:
        found.add(here)
        here = next((one for one in flow.makers[here] if strip_plain(flow, one) == joint.stream), None)
    return found


def list_nodes(staging: Staging) -> set[int]:
    """The steps that a layer's block must hold: sums, branches, norms."""
    inner = {node for joint in staging.joints for node in (joint.add, *joint.region.inner)}
    return inner.union(*(norm.nodes for norm in staging.norms))


def name_branch(branch: Branch) -> str:
    """What a sublayer is called in a sentence."""
    if isinstance(branch, Attention):
        return "self-attention" if branch.source == "self" else "cross-attention"
    if isinstance(branch, DeformableAttention):
        return "deformable cross-attention" if branch.leaves_stream else "deformable attention"
    if isinstance(branch, Recurrence):
        return branch.kind if branch.kind in ("state space", "linear attention") else "recurrence"
    if isinstance(branch, LinearAttention):
        return "linear attention"
    return OTHERS.get(branch.part, "")


def give_stage(given: Given, staging: Staging, side: str, before: Collection[int], others: Collection[int]) -> None:
    """The branches of a stage, the norms around them, the sum that ends it; `before` is what stands before all.

    `others` are the steps of other towers.
    """
    names = [name for name in dict.fromkeys(name_branch(one.branch) for one in staging.branches) if name]
    whole = " and ".join(names)
    sums = {joint.add for joint in staging.joints}
    norms = {node for norm in staging.norms for node in norm.nodes}
    every = set().union(*(one.region.inner for one in staging.branches)).difference(before)
    for one in staging.branches:
        apart = sums | norms | (every.union(others) - one.region.inner)
        give_branch(given, one, side, apart - nodes_within(one))
    if not whole:
        return
    for norm in staging.norms:
        is_opening = norm.end < min(sums) and not any(
            (closing := find_ending(given.flow, one.region)) is not None and closing.end == norm.end
            for one in staging.branches
        )
        given.part(norm.nodes, f"norm {'before' if is_opening else 'after'} {whole}", main=norm.end)
    for add in () if staging.stage.replaces else sums:
        given.name(add, f"residual sum after {whole}")
    given.dropouts(every, f"dropout after {whole}")


def nodes_within(found: Branching) -> set[int]:
    """The norms of queries and keys: they belong to the attention."""
    site = found.site
    if site is None:
        return set()
    return {node for node in found.region.inner if node > (site.query.projection or site.scores)}


def give_branch(given: Given, found: Branching, side: str, apart: set[int]) -> None:
    """What is known of a branch."""
    branch = found.branch
    name = name_branch(branch)
    words = f"{side}{name}"
    if isinstance(branch, Attention):
        give_attention(given, found, words, apart)
    elif found.sampling is not None:
        give_sampling(given, found.sampling, words, apart)
    elif isinstance(branch, FeedForward):
        give_forward(given, found, words, apart)
    elif isinstance(branch, Experts):
        give_experts(given, found, words, apart)
    elif name:
        give_operations(given, found, words, apart)


def give_sampling(given: Given, found: Sampling, words: str, apart: set[int]) -> None:
    """A deformable attention: where to look, how much each sample counts, what is there, and back."""
    given.block(set(found.nodes), words, apart)
    given.linear(found.offsets, "offsets: how far off each point lies")
    given.linear(found.scores, "scores: how much each sample counts")
    given.part([found.softmax], "softmax: scores become weights")
    if found.projection is not None:
        given.linear(found.projection, "projection to values")
    for node in found.samples:
        given.part([node], "sample the values at the points")
    given.part([found.weighted], "samples times weights")
    given.part([found.weighted_sum], "weighted sum of the samples")
    if found.output is not None:
        given.linear(found.output, "output projection")


def give_forward(given: Given, found: Branching, words: str, apart: set[int]) -> None:
    """A feed-forward: out to d_ff, bent, perhaps gated, and back."""
    flow, nodes = given.flow, found.region.inner
    d_ff = found.branch.d_ff if isinstance(found.branch, FeedForward) else None
    projections = projections_in(flow, nodes)
    last = projections[-1]
    wide = [node for node in projections[:-1] if width_out(flow, node) in (d_ff, 2 * (d_ff or 0))]
    if len(projections) != len(wide) + 1 or len(wide) not in (1, 2):
        give_operations(given, found, words, apart)
        return
    given.block({*wide, last}, words, apart)
    between = [node for node in sorted(nodes) if wide[0] < node < last and node not in wide and flow.is_leaf(node)]
    gate = next((node for node in reversed(between) if is_gate(flow, node, set(nodes), wide)), None)
    gating = None
    if gate is not None and len(wide) == 2:
        straight = [flow.carried_from(maker) for maker in flow.makers[gate]]
        gating = next((one for one in wide if one not in straight), wide[0])
    for one in wide:
        fused = "feed-forward: gate, and widen" if gate is not None and len(wide) == 1 else "feed-forward: widen"
        given.linear(one, "feed-forward: gate" if one == gating else fused)
    given.linear(last, "feed-forward: narrow")
    if gate is not None:
        given.part([gate], "feed-forward: multiply by the gate")
    given.dropouts([*between, *wide], "feed-forward: dropout")
    bends = [node for node in between if node != gate and flow.op(node) not in CARRYING | DROPOUTS]
    given.part(bends, "feed-forward: activation")


def give_experts(given: Given, found: Branching, words: str, apart: set[int]) -> None:
    """Experts: the router, its choice, what each expert does, and their sum."""
    flow, nodes = given.flow, found.region.inner
    choice = find_choice(flow, nodes)
    if choice is None:
        return
    given.block(nodes - apart, words, apart)
    given.linear(choice[1], "experts: router, a score for each")
    load = describe_load(count_places(flow, nodes))
    given.part([choice[0]], f"experts: the highest scores are chosen{'; ' if load else ''}{load}")
    for node in projections_in(flow, nodes):
        given.linear(node, "experts: a projection of the chosen")
    if flow.op(found.region.end) not in PLAIN | CARRYING:
        given.part([found.region.end], "experts: what the chosen ones give")


def give_operations(given: Given, found: Branching, words: str, apart: set[int]) -> None:
    """A part of which the operations are told."""
    given.block(found.region.inner - apart, words, apart)
    chart = chart_operations(given.flow, found.region.inner - apart, found.region.end)
    for node in () if chart is None else chart.nodes:
        places = [given.flow.places[step.id] for step in node.steps]
        given.part(places, f"{name_branch(found.branch)}: {node.label.lower()}", main=places[0])
