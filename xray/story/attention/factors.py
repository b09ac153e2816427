"""By what queries, keys, scores and what the heads found are multiplied, as it is written."""

from collections.abc import Collection, Sequence
from math import isclose, isfinite, prod, sqrt

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIFFERENCES, DIVISIONS, SCALINGS
from xray.story.anatomy.branch_words import label_activation
from xray.story.body.scale import is_tanh_of_learned
from xray.story.branches.before_last import list_gate, name_gate_curve
from xray.story.branches.heads import count_d_k
from xray.story.charts.chart import Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.passages.learned_steps import are_fixed
from xray.story.recognition.between import is_linear, works_on_weights
from xray.story.recognition.score_operands import Scored
from xray.story.recognition.values.known_values import values_of
from xray.story.wording import spell_factor

MOST_BEHIND = 300
SQUARE: Place = (0.46, 0.9)
"""Where the boxes of scores stand."""
HIGHEST = frozenset({"max", "amax"})
MULTIPLIED = "MULTIPLIED"
UNKNOWN_FACTOR = "· scaled"
LEARNED_FACTOR, FIXED_FACTOR = "· learned", "· fixed"
"""Of scores that are multiplied by what one parameter alone makes, be it learned or fixed (PatchTST)."""
BY_HEAD = "{} by head"
"""The same where each head has one (Swin V2)."""
ROOT_OF_ROOT = "÷ √√d_k"
"""Of queries and of keys, as torch scales both where it works its attention out: together the root."""


def name_factors(flow: Flow, site: Site, scales: Sequence[Scored], *, own: float = 1) -> str:
    """By what scores are multiplied, and by `own` where they are made; of several factors that they are."""
    width = count_d_k(flow, site) or 0
    nodes = [node for part in scales for node in part.nodes if flow.op(node) in SCALINGS]
    found = [(node, name_factor(flow, node, width)) for node in nodes]
    told = [name_learned(flow, node) if one == UNKNOWN_FACTOR else one for node, one in found]
    told = [one for one in (name_number(own, width), *told) if one]
    return told[0] if len(told) == 1 else UNKNOWN_FACTOR if told else ""


def read_alpha(flow: Flow, site: Site) -> float:
    """By what the product that makes the scores is itself multiplied, before something is added to it (BLOOM)."""
    alpha = flow.steps[site.scores].settings.get("alpha") if flow.op(site.scores) == "baddbmm" else None
    return float(alpha) if isinstance(alpha, int | float) else 1


def name_factor(flow: Flow, node: int, width: int) -> str:
    """A scaling as it is written: by the root of the head's width or the root of this, else by the number."""
    step = flow.steps[node]
    value = step.settings.get("factor", step.settings.get("other", read_number(flow, node)))
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return UNKNOWN_FACTOR
    return name_number(1 / value if step.op in DIVISIONS else float(value), width)


def name_learned(flow: Flow, node: int) -> str:
    """That scores are multiplied by learned or fixed numbers, be they bent first: by one, or by one for each head."""
    shape = flow.output(node).shape
    made = [
        record.shape
        for record, maker in flow.taken(node)
        if (record.role == "parameter" if maker is None else works_on_weights(flow, maker))
    ]
    if len(made) != 1 or flow.op(node) in DIVISIONS:
        return UNKNOWN_FACTOR
    told = FIXED_FACTOR if are_fixed(flow, node) else LEARNED_FACTOR
    if prod(made[0]) == 1:
        return told
    is_by_head = len(shape) > len("hqk") and made[0][-3:] == (shape[-3], 1, 1) and prod(made[0]) == shape[-3]
    return BY_HEAD.format(told) if is_by_head else UNKNOWN_FACTOR


def name_number(factor: float, width: int) -> str:
    """A factor as it is written; nothing for one."""
    if factor == 1:
        return ""
    if width and isclose(factor, 1 / sqrt(width), rel_tol=1e-3):
        return "÷ √d_k"
    return ROOT_OF_ROOT if width and isclose(factor, width**-0.25, rel_tol=1e-3) else f"· {spell_factor(factor)}"


def read_number(flow: Flow, node: int) -> float | None:
    """The one number that a scaling is given as a tensor, where it follows from the steps (DeBERTa's root)."""
    given = [maker for record, maker in flow.given(node) if record.shape == () and record.role != "parameter"]
    found = values_of(flow, given[0]) if len(given) == 1 and len(flow.steps[node].inputs) == 2 else None
    return None if found is None or not isfinite(float(found)) else float(found)


def is_factor(flow: Flow, part: Scored, site: Site, capped: Collection[int]) -> bool:
    """Whether a part multiplies all scores by a number that is not one, and caps nothing."""
    return part.kind == "scale" and set(capped).isdisjoint(part.nodes) and bool(name_factors(flow, site, [part]))


def factor_node(flow: Flow, part: Scored, site: Site, *, key: str, row: int) -> Node:
    """A factor behind what is added to the scores (XLNet)."""
    before = flow.carried_from(flow.makers[part.nodes[0]][0])
    is_less = before is not None and flow.op(before) in DIFFERENCES
    taken = flow.carried_from(flow.makers[before][-1]) if before is not None and is_less else None
    less = " − THEIR HIGHEST," if taken is not None and flow.op(taken) in HIGHEST else ""
    label = f"SCORES{less} {name_factors(flow, site, [part])}"
    return Node(key, label, row, SQUARE, steps_at(flow, *reversed(part.nodes)), flow.output(part.nodes[-1]))


def name_gate(flow: Flow, site: Site, gate: int) -> str:
    """What a step is called that multiplies by a gate, with the curve by which this is bent at last, where one is."""
    made = list_gate(flow, site, gate)
    if not made:
        return "DIVIDED" if flow.op(gate) in DIVISIONS else MULTIPLIED
    curve = name_gate_curve(flow, made[0])
    return f"× {label_activation(curve)} OF GATE" if curve else "× GATE"


def describe_gate(flow: Flow, site: Site, gate: int) -> str:
    """The parameters by which a gate is made alone: none of a linear layer of which the queries are a part.

    What is added to what the layer makes is among them, as one learned number for each head (Beam).
    """
    made = list_gate(flow, site, gate)
    return describe_params(flow, *(made if find_layer_of_both(flow, site, gate) is None else made[:-1]))


def find_layer_of_both(flow: Flow, site: Site, gate: int) -> int | None:
    """The linear layer of which a part is the gate, and the other part leads to what the heads find (Qwen3-Next)."""
    made = list_gate(flow, site, gate)[-1:]
    ways = flow.behind(site.weighted_sum, most=MOST_BEHIND, ends=lambda one: is_linear(flow, one))
    return made[0] if made and made[0] in set(ways) else None


def find_apart_gate(flow: Flow, site: Site, nodes: Collection[int]) -> int | None:
    """The step, of some behind the heads, that multiplies by a gate which is made of none of what these found.

    (NeoMME.)
    """
    for node in nodes:
        made = list_gate(flow, site, node)
        if made and site.weighted_sum not in flow.behind(*made, within=lambda one: one >= site.weighted_sum):
            return node
    return None


def list_tanh(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The steps that bend learned numbers by tanh, by which some others multiply."""
    bent = (maker for node in nodes for maker in flow.makers[node] if is_tanh_of_learned(flow, maker))
    return [one for maker in bent if (one := flow.carried_from(maker)) is not None]
