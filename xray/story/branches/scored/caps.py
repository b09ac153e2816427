"""By what scores are multiplied, which number of a value is added, and which they cannot pass: c·tanh(score / c)."""

from collections.abc import Collection, Sequence
from math import isclose, prod
from typing import Literal

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import KIND_ALIKE, Flow
from xray.ir.flow.mixed_heads import OVER_HEADS
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    CURVES,
    DIFFERENCES,
    DIVISIONS,
    DROPOUTS,
    NORMS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
)
from xray.ir.trace import Step
from xray.story.anatomy.attentions import NormKind
from xray.story.branches.operands.sides import TURNED, Side, find_norm_of
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.norms import find_norm, name_norm
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.shortcuts import find_any_norm
from xray.story.wording import spell_factor

SCALE = "SCALE"
"""What a step is called that multiplies by a number that is not recorded."""
BENDING = CURVES | {"exp", "softplus"}
MOVES = CARRYING | REPEATS | {"masked_fill", "masked_fill_"}
BETA, THRESHOLD = ("beta", "other", 1), ("threshold", "arg2", 20)
"""How torch's own softplus names its two numbers, how they are recorded without a name, and what they are mostly."""
KEEPING = TURNED | DROPOUTS | REPEATS | SIDE_BY_SIDE | NORMS
"""What may be done to queries and keys that scales none of them."""


def are_unscaled(flow: Flow, site: Site, query: Side, key: Side) -> bool:
    """Whether queries and keys meet as their linear layers made them, and no number multiplies their scores (T5).

    They may be turned by their place, or normed; False where a step stands between that is none of these.
    """
    if query.last is None or key.last is None or flow.steps[site.scores].settings.get("alpha", 1) != 1:
        return False
    ways = [
        (node, side, node > last)
        for side, last in ((query, query.last), (key, key.last))
        for node in side.nodes
        if node > last or node >= find_last_norm(flow, side, last)
    ]
    norms = [norm for side in (query, key) if (norm := find_norm_of(flow, side)) is not None]
    normed = {node for norm in norms for node in norm.nodes}
    if any(may_scale(flow, node, side, is_behind=is_behind) for node, side, is_behind in ways if node not in normed):
        return False
    return not any(flow.op(node) in CURVES or read_scaling(flow, node) != 1 for node in site.scored[1:-1])


def read_added_of_values(flow: Flow, site: Site, value: Side, heads: int | None) -> tuple[str, ...] | None:
    """What makes of each value a number for each head that is added to the scores of its key; None if nothing does.

    A linear layer, curves and learned factors, in this order: exp(A · softplus(linear of V)) in Doge.
    """
    biases = [one.operand for one in read_scored(flow, site.scored) if one.kind == "bias"]
    here = biases[0].maker if len(biases) == 1 and biases[0] is not None else None
    told: list[str] = []
    for_each_key = False
    while here is not None and not is_linear(flow, here):
        op, record = flow.op(here), next((one for one, _ in flow.given(here) if one.role != "parameter"), None)
        learned = [one.role for one in flow.steps[here].inputs].count("parameter")
        if op in BENDING or (op in SCALINGS - DIVISIONS and learned == 1):
            told.append("learned" if learned else name_bend(flow.steps[here]))
        elif op not in MOVES:
            return None
        keys = flow.output(site.scores).shape[-1:]
        for_each_key |= op in REPEATS and record is not None and record.shape[-2:] == (1, *keys)
        here = next((maker for one, maker in flow.given(here) if one.role != "parameter"), None)
    begin = None if here is None else flow.carried_from(next(iter(flow.makers[here]), None))
    is_of_value = begin in value.nodes and begin is not None and value.last is not None and begin >= value.last
    is_own = is_of_value and here is not None and flow.output(here).shape[-1] == heads
    return ("linear", *reversed(told)) if is_own and for_each_key else None


def count_sloped(flow: Flow, site: Site, heads: int | None) -> int | None:
    """To the scores of how many heads something is added, where one number is put in for the others; else None."""
    biases = [one.operand for one in read_scored(flow, site.scored) if one.kind == "bias"]
    here = biases[0].maker if len(biases) == 1 and biases[0] is not None else None
    while here is not None and flow.op(here) in CARRYING | {"pad"} and flow.makers[here]:
        step = flow.steps[here]
        before, after = step.inputs[0].shape, flow.output(here).shape
        is_of_heads = len(before) == len(after) > 2 and (*before[:-3], heads, *before[-2:]) == after != before
        if step.op == "pad" and before != after:
            return before[-3] if is_of_heads and step.settings.get("mode", "constant") == "constant" else None
        here = flow.makers[here][0]
    return None


def name_bend(step: Step) -> str:
    """What an operation is called that bends by itself, with the numbers of a softplus that are not those of most."""
    name = step.op.strip("_")
    if name == "gelu":
        return "gelu tanh" if step.settings.get("approximate") == "tanh" else name
    beta, threshold = (number(step, word) or number(step, place) or most for word, place, most in (BETA, THRESHOLD))
    told = [f"β {beta:g}"] * (beta != BETA[-1]) + [f"threshold {threshold:g}"] * (threshold != THRESHOLD[-1])
    return f"{name} ({', '.join(told)})" if name == "softplus" and told else name


def find_last_norm(flow: Flow, side: Side, last: int) -> int:
    """The last norm of a side before its linear layer, which undoes what multiplied all of a row; else its start."""
    return max((node for node in side.nodes if node < last and find_norm(flow, node) is not None), default=0)


def read_scaling(flow: Flow, node: int) -> float | None:
    """By what number a step multiplies: by one where it does not multiply; None if that is not known."""
    if flow.op(node) not in SCALINGS:
        return 1
    told = flow.steps[node].settings.get("factor")
    return float(told) if isinstance(told, int | float) else read_factor(flow, node)


def may_scale(flow: Flow, node: int, side: Side, *, is_behind: bool) -> bool:
    """Whether a step may multiply a row by one number; of what stands behind its linear layer, be that not known.

    The row itself is no such number, even where it is made of learned ones alone (DiffusionGemma's first layer).
    """
    factor = read_scaling(flow, node)
    if factor is not None and flow.op(node) in SCALINGS:
        return factor != 1
    if not is_behind or not flow.steps[node].inputs:
        return False
    if flow.op(node) not in SCALINGS:
        return flow.op(node) not in KEEPING and not is_linear(flow, node)
    given = list(flow.given(node))
    others = [(one, maker) for one, maker in given if maker not in side.nodes]
    return len(given) < 2 or any(one.shape[-1:] in ((), (1,)) or is_worked_out(flow, maker) for one, maker in others)


def is_worked_out(flow: Flow, maker: int | None) -> bool:
    """Whether learned numbers are scaled or bent before they multiply: by the root of d_k as well (TimesFM)."""
    data = list_reading_data(flow)
    if maker is None or maker in data:
        return False
    behind = list(flow.behind(maker, within=lambda node: node not in data))
    is_learned = any(one.role == "parameter" for node in behind for one in flow.steps[node].inputs)
    return is_learned and any(flow.op(node) in SCALINGS | CURVES for node in behind)


def find_cap(flow: Flow, scored: Sequence[int]) -> float | None:
    """The number that scores cannot pass: they are divided by it, bent by tanh, and multiplied by it again."""
    before, after = list_around(flow, scored)
    is_cap = bool(before and after) and isclose(before[-1] * after[0], 1, rel_tol=1e-6)
    return after[0] if is_cap else None


def name_cap(flow: Flow, scored: Sequence[int]) -> str:
    """How scores are bent that cannot pass a number, and by what else they are multiplied; empty without a cap."""
    cap, (before, after) = find_cap(flow, scored), list_around(flow, scored)
    if cap is None:
        return ""
    first, then = prod(before[:-1]), prod(after[1:])
    scaled = "" if isclose(first, 1, rel_tol=1e-6) else f" · {spell_factor(first)}"
    again = "" if isclose(then, 1, rel_tol=1e-6) else f" {name_times(then)}"
    return f"{cap:g} · TANH( EACH{scaled} / {cap:g} ){again}"


def list_around(flow: Flow, scored: Sequence[int]) -> tuple[list[float], list[float]]:
    """By what numbers scores are multiplied before they are bent by tanh, and by which behind."""
    bent = next((place for place, node in enumerate(scored) if flow.op(node) == "tanh"), None)
    ways = ((), ()) if bent is None else (scored[:bent], scored[bent:])
    before, after = ([one for node in way if (one := read_factor(flow, node)) is not None] for way in ways)
    return before, after


def list_cap(flow: Flow, scored: Sequence[int]) -> tuple[int, ...]:
    """The three steps that cap scores: these are divided by a number, bent by tanh, and multiplied by it again."""
    if find_cap(flow, scored) is None:
        return list_held_cap(flow, scored)
    bent = next(place for place, node in enumerate(scored) if flow.op(node) == "tanh")
    before, after = (
        [node for node in way if read_factor(flow, node) is not None] for way in (scored[:bent], scored[bent:])
    )
    return before[-1], scored[bent], after[0]


def list_held_cap(flow: Flow, scored: Sequence[int]) -> tuple[int, ...]:
    """The three steps that cap scores by a number that is held and not known: divided, bent by tanh, multiplied."""
    for bent in (place for place, node in enumerate(scored) if flow.op(node) == "tanh"):
        before = next((node for node in reversed(scored[:bent]) if flow.op(node) in SCALINGS), None)
        after = next((node for node in scored[bent:] if flow.op(node) in SCALINGS), None)
        if before is None or after is None or flow.op(before) not in DIVISIONS:
            continue
        held, again = (
            {maker for record, maker in flow.given(node) if prod(record.shape) == 1}  # None: not made in this pass
            for node in (before, after)
        )
        if held & again:
            return before, scored[bent], after
    return ()


def read_factor(flow: Flow, node: int) -> float | None:
    """By what number a step multiplies; None if by none that is known."""
    if flow.op(node) not in SCALINGS:
        return None
    value = number(flow.steps[node])
    makers = [maker for record, maker in flow.given(node) if record.shape == ()]
    if value is None and len(makers) == 1:
        value = read_held(flow, node if makers[0] is None else makers[0])
    if value is None or value == 0:
        return None
    return 1 / value if flow.op(node) in DIVISIONS else value


def read_held(flow: Flow, node: int) -> float | None:
    """The number that a step hands on: one of the settings, or a constant that the model holds (Gemma 2's √d_model)."""
    value = number(flow.steps[node]) if flow.op(node) in KIND_ALIKE else None
    is_handed = flow.op(node) in SCALINGS | CASTING
    return number(flow.steps[node], "constant") if value is None and is_handed else value


def name_times(factor: float) -> str:
    """What multiplies, as one writes it: divided by a whole number where it is that, else times a number."""
    parts = 1 / factor
    return (
        f"÷ {spell_factor(parts)}"
        if 0 < factor < 1 and isclose(parts, round(parts), rel_tol=1e-3)
        else f"× {spell_factor(factor)}"
    )


def label_scale(flow: Flow, *nodes: int) -> str:
    """What steps are called that multiply rows: by what number, where that is recorded."""
    scalings = [node for node in nodes if flow.op(node) in SCALINGS]
    known = [factor for node in scalings if (factor := read_factor(flow, node)) is not None]
    return name_times(prod(known)) if known and len(known) == len(scalings) else SCALE


def name_mixed_heads(site: Site) -> Literal["before", "behind", "both"] | None:
    """Where what all heads have at one pair of places is mixed: before softmax, behind it, or both; None where not."""
    sides = {node > site.softmax for node in site.mixed}
    return ("behind" if sides == {True} else "before" if sides == {False} else "both") if sides else None


def name_mixed_norm(flow: Flow, site: Site) -> NormKind | None:
    """What normalises the weights behind that, over all heads or each head by itself; None where nothing does."""
    norms = [find_any_norm(flow, node) for node in site.weighed if site.mixed and flow.op(node) in OVER_HEADS]
    return name_norm(flow, norms[0]) if len(norms) == 1 and norms[0] is not None else None


def takes_half_off(flow: Flow, node: int) -> bool:
    """Whether a step takes one half of what was cut in two off the other, times one number (DiffLlama)."""
    halves, taken = flow.makers[node] if len(flow.makers[node]) == 2 else (None, None)
    if flow.op(node) not in DIFFERENCES or halves is None or taken is None or flow.op(taken) not in SCALINGS:
        return False
    parts = [record.output for one in (node, taken) for record, maker in flow.given(one) if maker == halves]
    is_halved = len(flow.steps[halves].outputs) == 2 and set(parts) == {0, 1}
    return is_halved and any(prod(record.shape) == 1 for record in flow.steps[taken].inputs)


def list_number(flow: Flow, node: int) -> list[int]:
    """The steps that work out of learned numbers alone the one by which such a half is multiplied."""
    taken = flow.makers[node][1]
    given = [] if taken is None else flow.given(taken)
    makers = [maker for record, maker in given if maker is not None and is_of_weights(flow, record, maker)]
    return list(flow.behind(*makers))


def name_taken_off(flow: Flow, site: Site, inner: Collection[int]) -> Literal["known", "learned", "exps"] | None:
    """Whether half of what the heads found is taken off the other half, and by what number it is multiplied first.

    It is "exps" where that is the difference of two numbers e^x made of learned ones alone, and a known one added.
    """
    ahead = flow.ahead(site.weighted_sum, within=lambda one: one in inner and not is_linear(flow, one))
    node = next((one for one in sorted(ahead) if takes_half_off(flow, one)), None)
    if node is None:
        return None
    made = [one for one in sorted(list_number(flow, node)) if flow.is_leaf(one) and flow.op(one) not in CASTING]
    exps = ("mul", "sum", "exp")
    are_products = all(len(flow.steps[one].inputs) == 2 for one in made if flow.op(one) == "mul")
    is_exps = tuple(map(flow.op, made)) == (*exps, *exps, "sub", "add") and number(flow.steps[made[-1]]) is not None
    is_exps = is_exps and are_products
    return "exps" if is_exps else "learned" if made else "known"
