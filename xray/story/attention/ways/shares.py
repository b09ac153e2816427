"""What is said in boxes that hold more than their way, or a share of it: the gate made with the queries, one piece.

And the boxes of weights that are mixed across heads.
"""

from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import ORDER, OVER_HEADS, follow_axes, read_mixing
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, MASKINGS, SCALINGS, SHAPING, SUMS
from xray.ir.flow.projections import is_projection
from xray.ir.flow.weights import gather_weights
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention
from xray.story.attention.factors import MULTIPLIED, SQUARE
from xray.story.attention.ways.part_names import AND_MORE
from xray.story.attention.zeroed import find_zeroing
from xray.story.branches.scored.caps import SCALE, label_scale
from xray.story.charts.chart import Edge, Node, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.dropouts import describe_dropout, list_dropouts
from xray.story.facts.unsaid import comes_in, works_out
from xray.story.recognition.norms import name_norm
from xray.story.streams.shortcuts import find_any_norm

CHANGED = "A NUMBER WHERE A MASK SAYS SO"


def tell_shares(flow: Flow, site: Site, nodes: Sequence[Node], branch: Attention) -> list[Node]:
    """The boxes of an attention, with words in those that cut a packed row, and in one that makes the gate too.

    What that one makes stands in it alone, and in no box of the gate.
    """
    gates = {step.id for node in nodes if node.key == "gate" for step in node.steps if makes_rows(flow, step)}
    gates &= {step.id for node in nodes if node.key.startswith("linear") for step in node.steps}
    asking = list_queries_elsewhere(flow, site)
    found = []
    for node in nodes:
        if node.key == "gate":
            node = replace(node, steps=tuple(step for step in node.steps if step.id not in gates))
        told: tuple[str, ...] = ()
        if node.key.startswith("linear") and any(step.id in gates for step in node.steps):
            node, told = replace(node, label=node.label.removesuffix(AND_MORE)), ("and the gate",)
        if node.key.startswith("linear") and any(step.id in asking for step in node.steps):
            told = (*told, "the other Q")
        if branch.pieces and any(cuts_pieces(flow, site, step, branch.pieces) for step in node.steps):
            told = (f"1 of {branch.pieces:,} pieces",)
        found.append(replace(node, told=(*node.told, *told)) if told else node)
    return found


def mix_node(flow: Flow, nodes: Sequence[int], what: str, key: str, row: int) -> Node:
    """What heads have at each pair of places, mixed by a learned table, be it added to what it was."""
    mixing, dropped = [node for node in nodes if read_mixing(flow, node) is not None], list_dropouts(flow, *nodes)
    told = (describe_params(flow, *mixing), describe_dropout(flow, dropped))
    steps = (*steps_at(flow, *reversed(nodes)), *dropped)
    are_added = any(flow.op(node) in SUMS for node in nodes)
    label = f"{'+ ' * are_added}MIX HEADS' {what}"
    return Node(key, label, row, SQUARE, steps, flow.output(nodes[-1]), ", ".join(filter(None, told)))


def draw_mixed(flow: Flow, site: Site, last: str, row: int, nodes: list[Node], edges: list[Edge]) -> tuple[str, int]:
    """The weights mixed across heads, scaled and normalised behind softmax, as the steps do it."""
    for number, (kind, steps) in enumerate(group_weighed(flow, site)):
        key = f"{kind}_weights{number}"
        if kind == "mixed":
            nodes.append(mix_node(flow, steps, "WEIGHTS", key, row))
        else:
            label = label_norm(flow, steps) if kind == "normed" else label_scaled(flow, site, steps)
            label = CHANGED if kind == "changed" else label
            record, own = flow.output(steps[-1]), [*reversed(steps), *list_learned_beside(flow, site, steps)]
            nodes.append(Node(key, label, row, SQUARE, steps_at(flow, *own), record, describe_params(flow, *own)))
        edges.append(Edge(last, key))
        last, row = key, row + 1
    return last, row


def list_learned_beside(flow: Flow, site: Site, steps: Sequence[int]) -> list[int]:
    """The steps that make what weights are multiplied by out of learned numbers, where nothing that came in does."""
    own = {site.softmax, *site.weighed}
    starts = (maker for node in steps for maker in flow.makers[node] if maker not in own)
    made = sorted(flow.behind(*starts), reverse=True)
    given = {(one.shape, one.dtype) for one in flow.one_pass.arguments}
    held = [record for node in made for record, maker in flow.taken(node) if maker is None]
    is_given = any(record.role != "parameter" and comes_in(record, given) for record in held)
    return [] if is_given or not gather_weights(flow, made) else [node for node in made if works_out(flow, node)]


def name_change(op: str) -> str:
    """What scores are called that numbers of pairs, queries or keys change."""
    done = "DIVIDED" if op in DIVISIONS else MULTIPLIED
    return f"SCORES {done}" if op in SCALINGS else CHANGED


def label_scaled(flow: Flow, site: Site, steps: Sequence[int]) -> str:
    """What weights behind softmax are multiplied by: one number, or what is not known."""
    scale = label_scale(flow, *steps)
    done = "DIVIDED" if all(flow.op(node) in DIVISIONS for node in steps if flow.op(node) in SCALINGS) else MULTIPLIED
    return f"WEIGHTS {done if scale == SCALE else scale}"


def group_weighed(flow: Flow, site: Site) -> list[tuple[str, list[int]]]:
    """What is done to weights, each with its steps: where they are mixed, what lays axes anew before goes with it, too.

    What multiplies them is told of all weights: their rows come to 1 no more.
    """
    groups, opening = list[tuple[str, list[int]]](), list[int]()
    if site.mixed[-1:] < (site.softmax,):
        kinds = [(name_weighed(flow, site, node), [node]) for node in site.weighed]
        return [one for one in kinds if one[0] in ("scaled", "changed")]
    lies = follow_axes(flow, site.softmax, site.weighed, site.scores, is_weighed=True)
    for node in site.weighed:
        kind = name_weighed(flow, site, node)
        is_open = bool(groups) and lies[groups[-1][1][-1]] != ORDER
        if kind and (not groups or groups[-1][0] != kind):
            groups.append((kind, [*opening, node]))
        elif kind or is_open:
            groups[-1][1].extend([*opening, node])
        opening = [*opening, node] * (not kind and not is_open and flow.op(node) in SHAPING)
    return groups


def name_weighed(flow: Flow, site: Site, node: int) -> str:
    """What a step does to weights: it mixes, norms or scales them, or changes some and is not what makes these 0."""
    if flow.op(node) in MASKINGS:
        return "" if node == find_zeroing(flow, site) else "changed"
    kind = "mixed" if node in site.mixed or flow.op(node) in SUMS else ""
    return "normed" if flow.op(node) in OVER_HEADS else "scaled" if flow.op(node) in SCALINGS else kind


def label_norm(flow: Flow, steps: Sequence[int]) -> str:
    """What a norm of weights that were mixed is called: over the numbers of all heads, or of each head by itself."""
    norm = next(find_any_norm(flow, node) for node in steps if flow.op(node) in OVER_HEADS)
    kind = None if norm is None else name_norm(flow, norm)
    return f"{(kind or '').upper()} NORM {'OF EACH HEAD' if kind == 'batch' else 'OVER HEADS'}".strip()


def list_queries_elsewhere(flow: Flow, site: Site) -> set[str]:
    """The steps that make the keys of an attention, and the queries of one the other way round (Grounding DINO)."""
    asks, offers = set(site.query.nodes), set(site.key.nodes)
    turned = (
        one for one in list_sites(flow) if one.weighted_sum != site.weighted_sum and asks.intersection(one.key.nodes)
    )
    return {flow.steps[node].id for one in turned for node in offers.intersection(one.query.nodes) - asks}


def makes_rows(flow: Flow, step: Step) -> bool:
    """Whether a step is a linear layer."""
    return is_projection(flow, flow.places[step.id])


def cuts_pieces(flow: Flow, site: Site, step: Step, pieces: int) -> bool:
    """Whether a step cuts places into so many pieces, of which the first are those that ask."""
    if flow.op(flow.places[step.id]) not in CARRYING or len(step.outputs) != pieces or len(step.inputs) != 1:
        return False
    before, after = step.inputs[0].shape, step.outputs[0].shape
    cut = [size for size, whole in zip(after, before, strict=False) if size != whole]
    return len(before) == len(after) and before[-1:] == after[-1:] and cut == [flow.output(site.scores).shape[-2]]
