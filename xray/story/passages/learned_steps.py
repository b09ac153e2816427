"""Learned numbers that rows meet outside of linear layers: factors and shifts, one for each channel or head."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, FINDINGS, SCALINGS, SUMS
from xray.ir.flow.remembering import once, once_each
from xray.story.branches.scored.caps import find_cap, name_bend, name_times, read_factor
from xray.story.entrance.tables import trains
from xray.story.passages.held_factors import list_fed
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.value_shapes import number
from xray.story.wording import spell_factor

LEARNED, FIXED = "LEARNED NUMBERS", "FIXED NUMBERS"
WORKED_OUT = {
    (): "{}",
    ("exp",): "EXP OF {}",
    ("exp", "neg"): "−EXP OF {}",
    ("rsub",): "(1 − {})",
    ("softplus",): "SOFTPLUS OF {}",
}
"""What learned numbers are called that were worked out anew before rows meet them, by which steps did that."""
ALONE = WORKED_OUT | {("tanh",): "TANH OF {}", ("sigmoid",): "SIGMOID OF {}"}
"""The same of one number alone, which has no box of its own where it is bent."""


def meets_learned(flow: Flow, node: int, drawn: Collection[int] = ()) -> bool:
    """Whether a step multiplies rows by several learned numbers, or adds such to them and is no bias of a layer.

    Not such as a box of their own, among all that are `drawn`, looks up or works out, with its count (BART's places).
    """
    if flow.op(node) not in SUMS | SCALINGS or not flow.is_leaf(node) or node not in list_fed(flow):
        return False
    if not holds_learned(flow, node) or find_biased(flow, node) is not None:
        return False
    behind = {one for maker in list_held(flow, node) for one in flow.behind(maker)}
    return behind.isdisjoint(drawn)


def label_learned(flow: Flow, node: int) -> str:
    """What a step is called that multiplies rows by learned numbers, divides by them, or adds them, be these fixed."""
    numbers = FIXED if are_fixed(flow, node) else LEARNED
    told = name_worked_out(flow, flow.behind(*list_held(flow, node)), WORKED_OUT).format(numbers)
    if flow.op(node) in DIVISIONS:
        record, maker = list(flow.given(node))[-1]
        return f"÷ {told}" if is_of_weights(flow, record, maker) else f"{told}, DIVIDED"
    return f"{told} ADDED" if flow.op(node) in SUMS else f"× {told}"


def are_fixed(flow: Flow, node: int) -> bool:
    """Whether the parameters that rows meet at a step require no gradient, while most others of the model do.

    Where most are frozen, who runs the model may have frozen what was learned before.
    """
    held = [one for maker in list_held(flow, node) for one in flow.behind(maker)]
    given = (record for one in (node, *held) for record in flow.steps[one].inputs if record.role == "parameter")
    return {record.trained for record in given} == {False} and trains_most(flow)


@once
def trains_most(flow: Flow) -> bool:
    """Whether more of the parameters of all leaves require a gradient than do not."""
    leaves = [step for place, step in enumerate(flow.steps) if flow.is_leaf(place) and step.trained is not None]
    return 2 * sum(step.trained or 0 for step in leaves) > sum(step.params for step in leaves)


def name_worked_out(flow: Flow, steps: Iterable[int], names: Mapping[tuple[str, ...], str]) -> str:
    """By which of some names that is known which some steps make of learned numbers."""
    worked = [one for one in sorted(steps) if flow.op(one) not in CARRYING]
    factor = read_factor(flow, worked.pop()) if len(worked) > 1 and flow.op(worked[-1]) in SCALINGS else 1
    is_known = all(flow.op(one) != "rsub" or number(flow.steps[one]) == 1 for one in worked)
    told = names.get(tuple(name_bend(flow.steps[one]) for one in worked)) if is_known and factor is not None else None
    more = "" if factor is None or factor == 1 else f" · {spell_factor(factor)}"
    return f"{told}{more}" if told else "WHAT IS MADE OF {}"


def list_held(flow: Flow, node: int) -> list[int]:
    """The steps that work out of parameters alone what a step is given."""
    return [one for record, one in flow.given(node) if one is not None and is_of_weights(flow, record, one)]


@once_each
def list_of_one_number(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that work out of one learned number alone what data are multiplied by, as its exp; none for others."""
    held = list_held(flow, node) if flow.op(node) in SCALINGS and node in list_reading_data(flow) else []
    numbers = [prod(flow.output(one).shape) for one in held]
    return tuple(flow.behind(*held)) if numbers == [1] and prod(flow.output(node).shape) > 1 else ()


def label_of_one_number(flow: Flow, node: int) -> str:
    """What a step is called that multiplies data by what such steps work out."""
    return f"× {name_worked_out(flow, list_of_one_number(flow, node), ALONE).format('A LEARNED NUMBER')}"


def holds_learned(flow: Flow, node: int) -> bool:
    """Whether the one operand of a step is several learned numbers, or worked out of such alone, as exp(A) is."""
    given = list(flow.given(node))
    held = [record for record, maker in given if is_of_weights(flow, record, maker)]
    return len(given) == 2 and len(held) == 1 and prod(held[0].shape) > 1


def find_biased(flow: Flow, node: int) -> int | None:
    """The layer whose bias a step adds, be it moved in between; None where it adds none, or to a part of its rows.

    A bias is the same row for all: places, of which each has its own, are none (RADIO).
    """
    if flow.op(node) not in SUMS or not holds_learned(flow, node):
        return None
    ((held, _), (_, maker)) = sorted(flow.given(node), key=lambda one: not is_of_weights(flow, *one))
    layer = flow.carried_from(maker)
    if layer is None or not is_linear(flow, layer):
        return None
    made = flow.output(layer).shape
    is_row = is_one_row(held.shape, made[1 if flow.op(layer) in FINDINGS else -1])
    return layer if is_row and prod(made) == prod(flow.output(node).shape) else None


def is_one_row(shape: Sequence[int], width: int) -> bool:
    """Whether numbers lie along one axis alone, be it a column (Mamba), or are as many as a row is wide."""
    return prod(shape) in (width, max(shape))


def list_bias(flow: Flow, layer: int) -> tuple[int, ...]:
    """The sum that adds the bias of a layer which was not given it, as Mamba's is; empty where there is none."""
    if not is_linear(flow, layer):
        return ()
    moved = {layer, *flow.ahead(*flow.readers.get(layer, ()), within=lambda one: flow.op(one) in CARRYING)}
    readers = {one for place in moved for one in flow.leaf_readers(place)} - moved
    found = [one for one in readers if find_biased(flow, one) == layer]
    return tuple(found) if len(found) == len(readers) == 1 else ()


def list_times(flow: Flow, bend: int) -> tuple[int, ...]:
    """The step that alone reads what a bend gives, if it multiplies that by one known number, as by −5.

    Of a cap by tanh the step before it too, which divides by the same number.
    """
    readers = flow.leaf_readers(bend)
    factor = read_factor(flow, readers[0]) if len(readers) == 1 and flow.op(readers[0]) in SCALINGS else None
    if factor in (None, 1):
        return ()
    before = next(iter(flow.makers[bend]), None)
    is_capped = before is not None and find_cap(flow, (before, bend, readers[0])) is not None
    return (readers[0], before) if before is not None and is_capped else (readers[0],)


def label_times(flow: Flow, steps: tuple[int, ...]) -> str:
    """By what number such a step multiplies, to stand behind the name of a bend."""
    factor = read_factor(flow, steps[0]) if steps else None
    return "" if factor is None else f" {name_times(factor)}".replace("-", "−")


def name_learned_addend(flow: Flow, node: int) -> str:
    """What is added that a step holds itself: a number, a row of them, or many, which may be known as not learned."""
    held = [one.shape for one in flow.steps[node].inputs if one.role == "parameter"]
    learned = "" if trains(flow, node) is False else "LEARNED "
    if any(prod(shape) > max(shape, default=1) for shape in held):
        return f"{learned}NUMBERS"
    return f"A {learned}{'NUMBER' if is_one_number(flow, node) else 'ROW'}"


def is_one_number(flow: Flow, node: int) -> bool:
    """Whether what a step multiplies rows or maps by, or adds, is one number that is learned (DeepSeek-VL's hybrid)."""
    learned = [prod(record.shape) for record in flow.steps[node].inputs if record.role == "parameter"]
    return learned == [1] and prod(flow.output(node).shape) > 1
