"""The roles of an attention's steps: projections, heads, scores, mask, softmax, the weighted sum, and back."""

from collections.abc import Collection, Sequence

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DROPOUTS, SCALINGS, TURNS
from xray.ir.turns import swaps_last_two
from xray.story.anatomy.attentions import Attention
from xray.story.attention.factors import name_factor, name_number, read_alpha
from xray.story.attention.ways.lanes import Part
from xray.story.attention.ways.shares import group_weighed
from xray.story.attention.ways.ways import read_attention_lanes
from xray.story.body.stages import Branching
from xray.story.branches.before_last import find_inner_norm
from xray.story.branches.heads import count_d_k
from xray.story.recognition.between import is_linear
from xray.story.recognition.score_operands import Scored
from xray.story.recognition.scored_parts import read_scored
from xray.story.roles.giving import Given

OPERANDS = {
    "q": "queries",
    "k": "keys",
    "v": "values",
    "qkv": "queries, keys and values",
    "kv": "keys and values",
    "qk": "queries and keys",
}
CROSSING = {
    "q": "cross-attention: queries from the decoder",
    "k": "cross-attention: keys from the encoder",
    "v": "cross-attention: values from the encoder",
    "kv": "cross-attention: keys and values from the encoder",
}
TURNED = "turn the keys: rows become columns"
ROOT = "scale by 1/sqrt(d_k)"
WEIGHED = {
    "mixed": "mix the weights of all heads",
    "normed": "norm of the weights that were mixed",
    "scaled": "scale the weights",
    "changed": "put a number where a mask says so",
}
BIASES = {
    "alibi": "add slopes by distance to the scores",
    "relative": "add relative positions to the scores",
}


def give_attention(given: Given, found: Branching, words: str, apart: Collection[int] = ()) -> None:
    """The block of an attention with all its parts; `apart` are steps that do not belong to it."""
    site, branch = found.site, found.branch
    if site is None or not isinstance(branch, Attention):
        return
    lanes = read_attention_lanes(given.flow, found)
    given.block(list_core(site), words, apart)
    for letters, parts in zip(("qkv", "kv", "qk"), lanes.shared, strict=True):
        give_way(given, parts, letters, branch)
    for lane in lanes.own:
        give_way(given, lane.parts, lane.letter, branch)
    if lanes.turn is not None:
        given.part(lanes.turn.nodes, TURNED)
    give_scores(given, site, branch)
    give_result(given, site, branch)


def list_core(site: Site) -> set[int]:
    """The steps that every attention has."""
    projections = (site.query.projection, site.key.projection, site.value.projection, site.output)
    return {site.scores, site.softmax, site.weighted_sum, *(node for node in projections if node is not None)}


def give_way(given: Given, parts: Sequence[Part], letters: str, branch: Attention) -> None:
    """The parts of the way of queries, keys or values, or of what several of them share."""
    flow, what = given.flow, OPERANDS[letters]
    linears = [place for place, part in enumerate(parts) if part.kind == "linear"]
    for place, part in enumerate(parts):
        if part.kind == "linear":
            crosses = branch.leaves_stream and letters in CROSSING
            words = CROSSING[letters] if crosses else f"projection to {what}"
            if len(linears) > 1 and place == linears[0]:
                words = f"projection to a waist for {what}"
            for node in part.nodes:
                if is_linear(flow, node):
                    given.linear(node, words)
            given.part(part.nodes, words)
        elif part.kind in ("lay", "heads"):
            if place > max(linears, default=-1):
                give_heads(given, part, letters)
        else:
            given.part(part.nodes, describe_part(flow, part, what, branch))


def give_heads(given: Given, part: Part, letters: str) -> None:
    """The moves behind a projection: several operands are cut apart, one is cut into heads."""
    flow, what = given.flow, OPERANDS[letters]
    if len(letters) > 1:
        given.part(part.nodes, f"cut apart: {what}")
        return
    if puts_in_axes(flow, part):
        given.part(part.nodes, f"an axis of 1 put in: {what}")
        return
    turns = [node for node in part.nodes if flow.op(node) in TURNS]
    if letters == "k" and len(turns) > 1 and swaps_last_two(flow.steps[turns[-1]]):
        given.name(turns[-1], TURNED)
    cut = "split heads: d_model into heads x d_k"
    given.moves(part.nodes, f"split heads: {what}", cut, "split heads: heads before length")


def puts_in_axes(flow: Flow, part: Part) -> bool:
    """Whether moves put in axes of length 1 and do nothing else: what is one head already is not split (TACTiS)."""
    before, after = flow.steps[part.nodes[0]].inputs[0].shape, flow.output(part.nodes[-1]).shape
    is_alike = [size for size in before if size > 1] == [size for size in after if size > 1]
    return is_alike and len(before) < len(after) and not any(flow.op(node) in TURNS for node in part.nodes)


def describe_part(flow: Flow, part: Part, what: str, branch: Attention) -> str:
    """The words for what is done to queries, keys or values between their projection and the scores."""
    turns = {
        "rotary": f"rotary positions: turn the {what}",
        "waves": f"positions: multiply the {what} by cosines and sines",
    }
    if part.kind == "scale" and is_root(flow, part.nodes, part.record.shape[-1]):
        return ROOT
    return {
        "norm": f"normalise the {what}",
        "rotate": turns.get(branch.positions or "", f"bring numbers of the {what} together"),
        "cache": f"cache: earlier {what} and the new ones",
        "kept": f"cache: the new {what} written, and read back",
        "repeat": f"grouped queries: repeat the {what} for each head",
        "scale": f"scale the {what}",
        "bend": f"bend the {what}",
        "turn": f"turn the {what}",
    }.get(part.kind, "")


def give_scores(given: Given, site: Site, branch: Attention) -> None:
    """From the scores to the weights."""
    flow = given.flow
    given.linear(site.scores, "scores: query times key")
    parts = read_scored(flow, site.scored)
    told = {
        part.nodes: [describe_scored(flow, one, site, branch) for one in parts if one.nodes == part.nodes]
        for part in parts
    }
    for part in parts:
        given.part(
            part.nodes,
            ", ".join(dict.fromkeys(told[part.nodes])),
            main=site.softmax if part.kind == "softmax" else None,
        )
    for kind, nodes in group_weighed(flow, site):
        given.part(nodes, WEIGHED[kind])
    given.dropouts([site.softmax, *site.weighed], "dropout of weights")


def describe_scored(flow: Flow, part: Scored, site: Site, branch: Attention) -> str:
    """The words for what happens to scores before the softmax."""
    if part.kind == "softmax":
        return "softmax: scores become weights"
    if part.kind == "mask":
        return "hide what may not be seen"
    if part.kind == "mix":
        return "mix the scores of all heads"
    if part.kind == "changed":
        return "put a number where a mask says so, too high to hide"
    if part.kind == "mixed_mask":
        return "change scores where a mask says so, before heads are mixed"
    if part.kind == "kept":
        return (
            f"hide all but the {branch.kept_scores:,} highest" if branch.kept_scores else "put others for some scores"
        )
    if part.kind == "bias":
        return BIASES.get(branch.positions or "", "add a bias to the scores")
    if is_root(flow, part.nodes, count_d_k(flow, site) or 0):
        return ROOT
    idle = all(flow.steps[node].settings.get("factor") == 1 for node in part.nodes)
    return "scale by 1: the scores stay" if idle else "scale the scores"


def is_scaled_by_root(flow: Flow, site: Site) -> bool:
    """Whether the scores of an attention are divided by the root of the width of a head."""
    width = count_d_k(flow, site) or 0
    parts = (part for part in read_scored(flow, site.scored) if part.kind == "scale")
    is_own = name_number(read_alpha(flow, site), width) == "÷ √d_k"
    return is_own or any(is_root(flow, part.nodes, width) for part in parts)


def is_root(flow: Flow, nodes: Collection[int], width: int) -> bool:
    """Whether steps scale by the root of the width of a head."""
    told = {name_factor(flow, node, width) for node in nodes if flow.op(node) in SCALINGS}
    return told == {"÷ √d_k"}


def give_result(given: Given, site: Site, branch: Attention) -> None:
    """The weighted sum, the heads side by side again, where there are several, a norm, a gate, and the way back."""
    flow = given.flow
    given.part([site.weighted_sum], "weighted sum of the values")
    worked_out = {site.weighted_sum, *site.concat}
    norm = None if site.output is None else find_inner_norm(flow, site.output, worked_out, is_gated=True)
    moves = [node for node in site.concat if norm is None or node not in norm.nodes]
    gates = [node for node in moves if flow.op(node) in SCALINGS and len(flow.steps[node].inputs) == 2]
    concat = [node for node in moves if node not in gates and flow.op(node) not in DROPOUTS]
    if (branch.heads or 0) > 1:
        given.moves(
            concat,
            "concat: heads side by side again",
            "concat: heads x d_k into d_model",
            "concat: length before heads",
        )
    if norm is not None:
        given.part(norm.nodes, "norm of what the heads found", main=norm.end)
    given.part(gates, "gate: how much of what the heads found goes on")
    if site.output is not None:
        given.linear(site.output, "output projection")
