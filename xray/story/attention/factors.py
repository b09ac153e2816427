"""By what queries, keys and scores are multiplied, as it is written."""

from collections.abc import Sequence
from math import isclose, isfinite, prod, sqrt

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIVISIONS, SCALINGS
from xray.story.recognition.between import works_on_weights
from xray.story.recognition.known_values import values_of
from xray.story.recognition.scored_parts import Scored

UNKNOWN_FACTOR = "· scaled"
LEARNED_FACTOR = "· learned"
LEARNED_BY_HEAD = f"{LEARNED_FACTOR} by head"
"""Of scores that are multiplied by what learned numbers alone make: one, or one for each head (Swin V2)."""
ROOT_OF_ROOT = "÷ √√d_k"
"""Of queries and of keys, as torch scales both where it works its attention out: together the root."""


def name_factors(flow: Flow, site: Site, scales: Sequence[Scored], *, own: float = 1) -> str:
    """By what scores are multiplied, and by `own` where they are made; of several factors that they are."""
    step = flow.steps[site.scores]
    width = step.inputs[-2].shape[-1] if len(step.inputs) > 1 and step.inputs[-2].shape else 0
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
    """That scores are multiplied by learned numbers, be they bent first: by one, or by one for each head."""
    shape = flow.output(node).shape
    made = [
        record.shape
        for record, maker in flow.taken(node)
        if (record.role == "parameter" if maker is None else works_on_weights(flow, maker))
    ]
    if len(made) != 1 or flow.op(node) in DIVISIONS:
        return UNKNOWN_FACTOR
    if prod(made[0]) == 1:
        return LEARNED_FACTOR
    is_by_head = len(shape) > len("hqk") and made[0][-3:] == (shape[-3], 1, 1) and prod(made[0]) == shape[-3]
    return LEARNED_BY_HEAD if is_by_head else UNKNOWN_FACTOR


def name_number(factor: float, width: int) -> str:
    """A factor as it is written; nothing for one."""
    if factor == 1:
        return ""
    if width and isclose(factor, 1 / sqrt(width), rel_tol=1e-3):
        return "÷ √d_k"
    return ROOT_OF_ROOT if width and isclose(factor, width**-0.25, rel_tol=1e-3) else f"· {factor:.4g}"


def read_number(flow: Flow, node: int) -> float | None:
    """The one number that a scaling is given as a tensor, where it follows from the steps (DeBERTa's root)."""
    given = [maker for record, maker in flow.given(node) if record.shape == () and record.role != "parameter"]
    found = values_of(flow, given[0]) if len(given) == 1 and len(flow.steps[node].inputs) == 2 else None
    return None if found is None or not isfinite(float(found)) else float(found)
