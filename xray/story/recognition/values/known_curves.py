"""Which curve steps make of numbers, proven by working them out at a few points: a GELU may be written in many ways."""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from math import erf, isfinite, pi, sqrt

import numpy as np

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CURVES, DROPOUTS
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_rules import RULES, SAME, Rule, pair, single
from xray.story.recognition.values.value_shapes import Values, number

POINTS = np.asarray((-2.3, -1.1, -0.4, 0.3, 0.9, 2.1))
CLOSE = 3e-5
"""So near is what steps make to a known curve; both GELUs are further from each other."""
BENDING = CURVES | frozenset(("pow", "exp", "expm1", "abs", "sin", "cos", "maximum", "minimum", "max", "min", "where"))


def sigmoid(at: Values) -> Values:
    made: Values = 1 / (1 + np.exp(-at))
    return made


def gelu(at: Values) -> Values:
    made: Values = at * np.asarray([0.5 * (1 + erf(one / sqrt(2))) for one in at])
    return made


def gelu_tanh(at: Values) -> Values:
    made: Values = at * 0.5 * (1 + np.tanh(sqrt(2 / pi) * (at + 0.044715 * at**3)))
    return made


KNOWN: dict[str, Callable[[Values], Values]] = {
    "relu": lambda at: np.maximum(at, 0),
    "relu squared": lambda at: np.maximum(at, 0) ** 2,
    "gelu": gelu,
    "gelu tanh": gelu_tanh,
    "quick gelu": lambda at: at * sigmoid(1.702 * at),
    "silu": lambda at: at * sigmoid(at),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}
"""The curves that have names, whatever they are written with."""
CURVE_RULES: dict[str, Rule] = {
    **{name: RULES[name] for name in ("add", "sub", "rsub", "mul", "multiply", "div", "neg", "exp")},
    **{name: RULES[name] for name in ("reciprocal", "abs", "sqrt", "maximum", "minimum", "gt", "ge", "lt", "le")},
    **{name: single(KNOWN[name]) for name in ("relu", "silu", "sigmoid", "tanh")},
    "where": RULES["where"],
    **dict.fromkeys(SAME | DROPOUTS, single(lambda at: at)),
    "true_divide": lambda step, given: np.divide(*pair(step, given)),
    "pow": lambda step, given: np.power(given[0], read_exponent(step)) if len(given) == 1 else None,
    "erf": single(lambda at: np.asarray([erf(one) for one in at])),
    "square": single(np.square),
    "gelu": lambda step, given: (gelu_tanh if step.settings.get("approximate") == "tanh" else gelu)(given[0]),
}


def read_exponent(step: Step) -> float:
    """To which power a step raises numbers; NaN if it is not known."""
    told = number(step, "exponent", "arg1", "other")
    return np.nan if told is None else told


@dataclass(frozen=True)
class Bent:
    """What a step makes of numbers alone that one origin has: at the `POINTS`, by which steps."""

    origin: Hashable
    values: Values
    nodes: frozenset[int]


@dataclass(frozen=True)
class Curve:
    """A known curve, and the steps that it is written with."""

    name: str
    nodes: frozenset[int]


def find_curves(flow: Flow, inner: Collection[int]) -> tuple[list[Curve], list[int]]:
    """The known curves among steps, be they times one number; and the steps that bend numbers and are of none."""
    made: dict[int, Bent] = {}
    for node in sorted(inner):
        if flow.is_leaf(node):
            made[node] = work_out(flow, node, made)
    used = frozenset[int]().union(*(one.nodes - {node} for node, one in made.items()))
    curves = [
        Curve(name, one.nodes)
        for node, one in made.items()
        if node not in used and one.nodes and (name := name_curve(one.values)) is not None
    ]
    known = frozenset[int]().union(*(one.nodes for one in curves))
    return curves, [node for node in made if node not in known and flow.op(node).rstrip("_") in BENDING]


def work_out(flow: Flow, node: int, made: dict[int, Bent]) -> Bent:
    """What a step makes of what its operands are made of, if that is one thing; else it begins anew with it."""
    fresh = Bent((node, None), POINTS, frozenset())
    rule = CURVE_RULES.get(flow.op(node).rstrip("_"))
    whole = flow.output(node).shape
    operands = [read_operand(flow, node, record, maker, whole, made) for record, maker in flow.given(node)]
    begun = [one for one in operands if isinstance(one, Bent)]
    if rule is None or None in operands or len({one.origin for one in begun}) != 1:
        return fresh
    with np.errstate(all="ignore"):
        found = rule(flow.steps[node], [one.values if isinstance(one, Bent) else np.asarray(one) for one in operands])
    if found is None or np.shape(found) != POINTS.shape or not all(map(isfinite, found)):
        return fresh
    return Bent(begun[0].origin, found, frozenset({node}).union(*(one.nodes for one in begun)))


def read_operand(
    flow: Flow, node: int, record: TensorRecord, maker: int | None, whole: tuple[int, ...], made: dict[int, Bent]
) -> Bent | float | None:
    """What a step reads: numbers of an origin, or one number that is known; None for anything else."""
    if record.shape == whole != ():
        if maker in made and len(flow.steps[maker].outputs) == 1:
            return made[maker]
        return (
            None
            if record.role == "parameter"
            else Bent((maker, record.output or record.name * (maker is None)), POINTS, frozenset())
        )
    told = number(flow.steps[node if maker is None else maker], "constant")
    known = values_of(flow, maker) if told is None and record.shape == () else None
    return told if known is None else None if np.isnan(known) else float(known)


def name_curve(values: Values) -> str | None:
    """The known curve that numbers lie on, be it times one number; None if on none."""
    return next((name for name, curve in KNOWN.items() if is_times(values, curve(POINTS))), None)


def is_times(values: Values, known: Values) -> bool:
    """Whether numbers are those that are known, times one number."""
    factor = values @ known / (known @ known)
    return bool(abs(factor) > CLOSE and np.allclose(values, factor * known, rtol=0, atol=CLOSE * abs(factor)))


def is_scaled(values: Values, known: Values, close: float = CLOSE) -> bool:
    """Whether numbers are those that are known, times one number and plus another."""
    sides = np.stack((known.ravel(), np.ones(known.size)), axis=-1)
    (factor, added), *_ = np.linalg.lstsq(sides, values.ravel(), rcond=None)
    return bool(abs(factor) > close and np.allclose(values, factor * known + added, rtol=0, atol=close * abs(factor)))
