"""What is added to scores: which part of it is a bias for positions, and which hides."""

import numpy as np

from xray.ir.flow.attention_sites import NO_WEIGHT
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, LOOKUPS, MASKINGS, SCALINGS, SUMS
from xray.ir.flow.projections import is_product, is_projection
from xray.story.recognition.earlier_keys import find_other_scores, keep_scored
from xray.story.recognition.score_operands import Kind, Operand, Scored
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_rules import LOW, LOWEST

MOST_BEHIND = 40
FILLINGS = frozenset(
    [
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones_like",
        "new_ones",
        "new_full",
        "full",
        "full_like",
        "tensor",
        "ones",
        "empty",
        "scalar_tensor",
        "empty_like",
        "new_empty",
    ]
)
FILLS = frozenset({"masked_fill", "masked_fill_"})
TURNS = frozenset({"t", "transpose", "permute"})
NEGATIONS = frozenset({"invert", "logical_not", "bitwise_not", "not"})
MASK_MAKERS = frozenset(
    [
        "tril",
        "triu",
        "tril_",
        "triu_",
        "le",
        "lt",
        "ge",
        "gt",
        "eq",
        "ne",
        "logical_and",
        "logical_or",
        "logical_not",
        "and",
        "or",
        "not",
        "invert",
        "full",
    ]
)


def read_addend(flow: Flow, node: int, operand: Operand) -> list[Scored]:
    """What is added to the scores: a mask, a bias for positions, or both in one tensor.

    A bool that is added makes 1 of yes and 0 of no: it hides nothing, be it added to a bias first (Phi-4 multimodal).
    Nor do numbers of which it is known that none is low.
    Scores of another attention are no mask, be they masked.
    """
    operand = leave_off_bools(flow, operand)
    is_other = find_other_scores(flow, keep_scored(flow).get(node), operand.maker) is not None
    if is_other or is_of_bools(flow, operand) or is_never_low(flow, node, operand.maker):
        return [Scored("bias", (node,), operand)]
    behind = list_behind(flow, operand.maker)
    bias = find_bias(flow, operand, behind)
    mask = find_mask(flow, operand, behind, has_bias=bias is not None)
    parts = [] if bias is None else [Scored("bias", (node,), bias)]
    if mask is not None or bias is None:
        kind: Kind = "bias" if mask is None and is_held_number(operand) else "mask"
        parts.append(Scored(kind, (node,), mask or operand))
    return parts


def is_held_number(operand: Operand) -> bool:
    """Whether a model holds numbers of which it is not known that they hide anything (TinyViT's relative places)."""
    record = operand.record
    is_given = record.argument is not None or record.given is not None
    return operand.maker is None and record.is_float and record.mask is None and not is_given


def is_never_low(flow: Flow, node: int, maker: int | None) -> bool:
    """Whether all numbers that a step adds are known, some are not 0, and none is low enough to hide."""
    values = None if flow.op(node) in ("sub", "sub_") else values_of(flow, maker)
    return values is not None and bool((values > LOWEST).all() and values.any())


def leave_off_bools(flow: Flow, operand: Operand) -> Operand:
    """What is added to scores, without a bool that was added to it before."""
    made = flow.carried_from(operand.maker)
    while made is not None and flow.op(made) in SUMS and len(flow.steps[made].inputs) == 2:
        left = [one for one in (Operand(*given) for given in flow.given(made)) if not is_of_bools(flow, one)]
        if len(left) != 1:
            break
        operand, made = left[0], flow.carried_from(left[0].maker)
    return operand


def is_of_bools(flow: Flow, operand: Operand) -> bool:
    """Whether a tensor is a bool, moved or made a number at most."""
    record, maker = operand.record, operand.maker
    moving = CARRYING | {"int", "long"}
    while record.dtype != "bool" and maker is not None and flow.op(maker) in moving and flow.makers[maker]:
        record, maker = next(flow.given(maker))
    return record.dtype == "bool"


def condition_of(flow: Flow, place: int) -> Operand | None:
    """What a mask was made from in one step: what was negated, or where a filling fills; None if it was made anew."""
    step = flow.steps[place]
    if step.op in NEGATIONS and step.inputs:
        return Operand(step.inputs[0], flow.makers[place][0])
    if step.op in ("masked_fill", "masked_fill_", "where"):
        given = [Operand(record, maker) for record, maker in flow.given(place) if record.dtype == "bool"]
        rest = [maker for record, maker in flow.given(place) if record.dtype != "bool" and maker is not None]
        if len(given) == 1 and all(flow.op(maker) in FILLINGS or fills_itself(flow, place) for maker in rest):
            return given[0]
    return None


def fills_itself(flow: Flow, place: int) -> bool:
    """Whether a step fills what is not 0, so that nothing else is left of what it fills (Bart's mask of padding)."""
    roots = {flow.carried_from(maker) for maker in flow.makers[place]}
    return flow.op(place) in FILLS and len(roots) == 1 and None not in roots


def fills_mask(flow: Flow, place: int) -> bool:
    """Whether a step hides more in a mask, and brings in no numbers but one (HY 4)."""
    if flow.op(place) not in FILLS:
        return False
    record, *others = flow.steps[place].inputs
    return (record.role == "mask" or record.mask is not None) and all(one.dtype == "bool" for one in others)


def list_behind(flow: Flow, maker: int | None) -> list[int]:
    """The steps behind one, the nearest first, at most `MOST_BEHIND`."""
    return list(flow.behind(maker, most=MOST_BEHIND, ends=lambda here: is_source(flow, here)))


def is_source(flow: Flow, place: int) -> bool:
    """Whether a step makes numbers that are not worked out of a mask: looked up, filled in, projected."""
    return flow.op(place) in LOOKUPS | FILLINGS or is_weighed(flow, place)


def is_weighed(flow: Flow, place: int) -> bool:
    """Whether a step multiplies numbers by learned ones, be it as a convolution (CoMER's coverage)."""
    return is_projection(flow, place) or (flow.op(place) in FINDINGS and bool(flow.steps[place].params))


def fills_in_nothing(flow: Flow, place: int) -> bool:
    """Whether a step fills in a number that hides nothing, as a zero does where something may be seen (Swin)."""
    value = flow.steps[place].settings.get("value")
    return flow.op(place) in FILLS and isinstance(value, int | float) and value >= 0


def takes_one_of_two(flow: Flow, place: int) -> bool:
    """Whether a step takes one of two worked out numbers everywhere, as for pairs of one sentence or two (Funnel)."""
    makers = [maker for record, maker in flow.given(place) if record.dtype != "bool"]
    return flow.op(place) == "where" and len(makers) == 2 and all(is_worked_out(flow, maker) for maker in makers)


def is_worked_out(flow: Flow, maker: int | None) -> bool:
    """Whether a tensor is made of others, and not filled with one number."""
    made = flow.carried_from(maker)
    return made is not None and flow.op(made) not in FILLINGS and bool(flow.makers[made])


def counts(flow: Flow, place: int) -> bool:
    """Whether a step makes whole numbers: which row to look into, as distances say, and nothing that hides."""
    made = flow.output(place)
    return not made.is_float and made.dtype != "bool"


def find_bias(flow: Flow, operand: Operand, behind: list[int]) -> Operand | None:
    """The part of an addend that is learned, or is worked out from distances without hiding anything."""
    if operand.record.role == "parameter":
        return operand
    filled = flow.carried_from(operand.maker)
    if filled is not None and (condition_of(flow, filled) is not None or fills_mask(flow, filled)):
        return None  # every number of it was filled in where a condition holds, be that worked out of learned ones
    for here in behind:
        if spreads_mask(flow, here):
            return None
        if is_product(flow, here) and not is_projection(flow, here) and not is_of_places(flow, here):
            return operand  # other scores
        if flow.op(here) in LOOKUPS or is_weighed(flow, here) or reads_table(flow, here):
            return nearest_like_scores(flow, operand, here, behind)
    facts = operand.record.mask
    is_bare = facts is not None and facts.kind == "none" and is_worked_out(flow, operand.maker)  # slopes, say
    is_mask = (facts is not None or operand.record.role == "mask") and not is_bare
    hides = any(makes_mask(flow, here) or pushes_down(flow, here) for here in behind)
    if not is_mask and not is_given(flow, operand.maker) and (not hides or adds_many(flow, operand.maker)):
        return operand
    parts = () if filled is None else list_unhidden(flow, filled)
    return next((found for part in parts if (found := find_bias(flow, part, list_behind(flow, part.maker)))), None)


def adds_many(flow: Flow, maker: int | None) -> bool:
    """Whether numbers that are added are known, several, and none so low that it hides: slopes (ALiBi).

    Or the ones of a mask that was to be made low before (a learner's).
    """
    values = values_of(flow, maker)
    if values is None:
        return False
    few, is_small = len(np.unique(values)), bool((abs(values) < -LOWEST).all())
    return (few > 1 and is_small) or (few > len(("seen", "hidden")) and bool((values > LOW).all()))


def list_unhidden(flow: Flow, place: int) -> list[Operand]:
    """What is worked out, and not filled in, in which a step fills what hides, or to which it adds that (ALiBi)."""
    given = [Operand(record, maker) for record, maker in flow.given(place) if record.is_float]
    if flow.op(place) in FILLS:
        given = given[:1] if not fills_in_nothing(flow, place) else []
    elif flow.op(place) not in SUMS | {"where"}:
        return []
    return [one for one in given if is_worked_out(flow, one.maker)]


def makes_mask(flow: Flow, place: int) -> bool:
    """Whether a step may begin a mask, or applies one; what is full of a fraction, the base of slopes, is none."""
    step = flow.steps[place]
    fill = next((step.settings[name] for name in ("fill_value", "other", "arg2") if name in step.settings), None)
    is_fraction = step.op == "full" and isinstance(fill, float) and fill > NO_WEIGHT and fill % 1 > 0
    return step.op in MASK_MAKERS | MASKINGS and not is_fraction


def pushes_down(flow: Flow, place: int) -> bool:
    """Whether a step multiplies by a number so far from nothing that what it meets has no weight: it hides.

    The number is far above nothing where it is taken away (Funnel).
    """
    factor = flow.steps[place].settings.get("other")
    return flow.op(place) in SCALINGS and isinstance(factor, int | float) and abs(factor) >= -NO_WEIGHT


def is_of_places(flow: Flow, product: int) -> bool:
    """Whether a product says which places go together: both sides are one tensor, laid out anew (Mllama's tiles).

    Or one of them is a bool (Chronos-2's groups of series).
    """
    roots = {flow.carried_from(maker) for maker in flow.makers[product]}
    is_one = len(roots) == 1 and None not in roots
    return is_one or any(is_of_bools(flow, Operand(*given)) for given in flow.given(product))


def spreads_mask(flow: Flow, product: int) -> bool:
    """Whether a product only repeats what hides keys for every query: the one side is full of one number (Longformer).

    The other has one number for each key, filled in where a mask says so.
    """
    sides = [record.shape[-1:] for record in flow.steps[product].inputs[-2:]]
    if not is_product(flow, product) or flow.op(product) != "einsum" or sides != [(1,), (1,)]:
        return False
    roots = [flow.carried_from(maker) for maker in flow.makers[product][-2:]]
    ops = [None if root is None else flow.op(root) for root in roots]
    return any(op in FILLINGS for op in ops) and any(op in FILLS for op in ops)


def is_given(flow: Flow, maker: int | None) -> bool:
    """Whether a tensor came from outside, and was at most laid out anew on its way."""
    while maker is not None and flow.op(maker) in CARRYING and len(flow.steps[maker].inputs) == 1:
        maker = flow.makers[maker][0]
    return maker is None


def reads_table(flow: Flow, place: int) -> bool:
    """Whether a step picks rows of a learned table."""
    step = flow.steps[place]
    if step.op not in ("index", "index_select", "gather") or not step.inputs:
        return False
    table, maker = next(flow.given(place))
    while maker is not None and table.role != "parameter" and flow.op(maker) in TURNS and flow.makers[maker]:
        table, maker = next(flow.given(maker))  # the weight of a linear layer, on its side (LayoutLMv3)
    return table.role == "parameter"


def nearest_like_scores(flow: Flow, operand: Operand, table: int, behind: list[int]) -> Operand:
    """The last step on the way from a learned table to the scores that nothing else has joined.

    Where other numbers multiply what the table gave, all that is added is the bias (WavLM's gate for each place).
    """
    here = table
    while True:
        onward = [
            reader
            for reader in flow.readers.get(here, ())
            if flow.op(reader) in CARRYING | SCALINGS
            and len(flow.steps[reader].inputs) == 1
            and flow.steps[reader].outputs
        ]
        if not onward or here == operand.maker:
            return operand if is_gated(flow, here, behind) else Operand(flow.output(here), here)
        here = onward[0]


def is_gated(flow: Flow, start: int, way: list[int]) -> bool:
    """Whether a step of a way multiplies what another one gave by other numbers than one."""
    reached = {start}
    for node in sorted(way):
        if not reached.isdisjoint(flow.makers[node]):
            reached.add(node)
            if flow.op(node) in SCALINGS and sum(1 for one in flow.steps[node].inputs if one.shape) > 1:
                return True
    return False


def find_mask(flow: Flow, operand: Operand, behind: list[int], *, has_bias: bool) -> Operand | None:
    """The part of an addend that hides."""
    facts = operand.record.mask
    if not has_bias:
        is_mask = facts is not None or operand.record.role == "mask"
        return operand if is_mask or (is_given(flow, operand.maker) and not is_held_number(operand)) else None
    for here in behind:
        if flow.op(here) not in MASKINGS | SUMS or fills_in_nothing(flow, here) or counts(flow, here):
            continue
        if takes_one_of_two(flow, here):
            continue
        for record, maker in flow.given(here):
            if record.mask is not None or record.dtype == "bool" or record.role == "mask":
                return Operand(record, maker)
    hides = facts is not None and facts.hidden_share > 0
    return operand if hides else None
