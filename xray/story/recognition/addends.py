"""What is added to scores: which part of it is a bias for positions, and which hides."""

from collections.abc import Sequence

import numpy as np

from xray.ir.flow.attention_sites import NO_WEIGHT
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, LOOKUPS, MASKINGS, SCALINGS, SUMS
from xray.ir.flow.projections import is_product, is_projection
from xray.ir.records import TensorRecord
from xray.story.recognition.earlier_keys import find_other_scores, keep_scored
from xray.story.recognition.score_operands import Operand, Scored
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_rules import LOW, LOWEST
from xray.story.recognition.values.value_shapes import number

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


def read_addend(flow: Flow, node: int, operand: Operand) -> list[Scored]:
    """What is added to the scores: a mask, a bias for positions, or both in one tensor.

    A bool that is added makes 1 of yes and 0 of no: it hides nothing, be it added to a bias first (Phi-4 multimodal).
    Scores of another attention are no mask, be they masked. What is not proven to hide is called a bias.
    """
    operand = leave_off_bools(flow, operand)
    is_other = find_other_scores(flow, keep_scored(flow).get(node), operand.maker) is not None
    if is_other or is_of_bools(flow, operand):
        return [Scored("bias", (node,), operand)]
    behind = list_behind(flow, operand.maker)
    bias = find_bias(flow, operand, behind)
    if bias is None:
        return [Scored("mask" if hides(flow, operand, behind) else "bias", (node,), operand)]
    mask = find_mask(flow, operand, behind)
    return [Scored("bias", (node,), bias), *([] if mask is None else [Scored("mask", (node,), mask)])]


def hides(flow: Flow, operand: Operand, behind: Sequence[int]) -> bool:
    """Whether what is added to scores is proven to hide, be it nowhere here: by its cells, its numbers, or its steps.

    A step fills in a number so low that what it meets has no weight, or multiplies by one. Many numbers of which none
    is lower than scores may ever be are slopes (ALiBi). What is far above others hides these, as what is taken off.
    """
    facts, values = operand.record.mask, values_of(flow, operand.maker)
    if find_named_mask(flow, operand) is not None:
        return True
    if any(one.mask is not None and one.mask.hidden_share > 0 for one, _ in list_moved(flow, operand)):
        return True
    if values is not None and values.any() and not np.isnan(values).any():
        few = len(np.unique(values)) <= len(("seen", "hidden"))
        return bool((-abs(values) <= (LOWEST if few else LOW)).any())
    is_weighing = facts is not None and facts.weighs
    return not is_weighing and any(fills_low(flow, here) or pushes_down(flow, here) for here in behind)


def find_named_mask(flow: Flow, operand: Operand) -> TensorRecord | None:
    """The tensor that an operand is, but for moves, if no step made it and the code calls it a mask."""
    *_, (record, maker) = list_moved(flow, operand)
    return record if maker is None and record.role == "mask" else None


def list_moved(flow: Flow, operand: Operand) -> list[tuple[TensorRecord, int | None]]:
    """An operand and what it was before each move, each with its maker, the first one last."""
    found = [(operand.record, operand.maker)]
    while (maker := found[-1][1]) is not None and flow.op(maker) in CARRYING and len(flow.steps[maker].inputs) == 1:
        found.append(next(flow.given(maker)))
    return found


def is_only_named(flow: Flow, operand: Operand) -> bool:
    """Whether a tensor that is called a mask is added, of which it is not known that it hides anything."""
    named = find_named_mask(flow, operand)
    return named is not None and named.is_float and not (named.mask and named.mask.hidden_share)


def fills_low(flow: Flow, place: int) -> bool:
    """Whether a step fills in a number that is known to hide, as itself or as a tensor of it."""
    if flow.op(place) not in MASKINGS | FILLINGS:
        return False
    told = [number(flow.steps[place], name) for name in ("input", "value", "other", "arg2", "fill_value")]
    given = [*flow.given(place)][flow.op(place) in FILLS :]
    told += [read_lowest(flow, record, maker) for record, maker in given if record.dtype != "bool"]
    return min((one for one in told if one is not None), default=0.0) <= LOWEST


def read_lowest(flow: Flow, record: TensorRecord, maker: int | None) -> float | None:
    """The lowest number of a tensor that is known; None of whole ones that differ: so distances are (ProphetNet)."""
    values = values_of(flow, maker)
    if values is None or np.isnan(values).all() or not (record.is_float or len(np.unique(values)) == 1):
        return None
    return float(np.nanmin(values))


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


def takes_one_of_two(flow: Flow, place: int) -> bool:
    """Whether a step takes one of two worked out numbers everywhere, as for pairs of one sentence or two (Funnel)."""
    makers = [maker for record, maker in flow.given(place) if record.dtype != "bool"]
    return flow.op(place) == "where" and len(makers) == 2 and all(is_worked_out(flow, maker) for maker in makers)


def is_worked_out(flow: Flow, maker: int | None) -> bool:
    """Whether a tensor is made of others, and not filled with one number."""
    made = flow.carried_from(maker)
    return made is not None and flow.op(made) not in FILLINGS and bool(flow.makers[made])


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
    if not hides(flow, operand, behind):
        return operand
    parts = () if filled is None else list_unhidden(flow, filled)
    return next((found for part in parts if (found := find_bias(flow, part, list_behind(flow, part.maker)))), None)


def list_unhidden(flow: Flow, place: int) -> list[Operand]:
    """What is worked out, and not filled in, in which a step fills what hides, or to which it adds that (ALiBi)."""
    given = [Operand(record, maker) for record, maker in flow.given(place) if record.is_float]
    if flow.op(place) in FILLS:
        given = given[:1] if fills_low(flow, place) else []
    elif flow.op(place) not in SUMS | {"where"}:
        return []
    return [one for one in given if is_worked_out(flow, one.maker)]


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

    Where other numbers multiply what the table gave, or others of a table are added, all that is added is the bias.
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
            is_whole = is_gated(flow, here, behind) or meets_tables(flow, here)
            return operand if is_whole else Operand(flow.output(here), here)
        here = onward[0]


def meets_tables(flow: Flow, place: int) -> bool:
    """Whether what a step gives is added to something else that is learned, too."""
    sums = (reader for reader in flow.readers.get(place, ()) if flow.op(reader) in SUMS)
    others = {maker for one in sums for maker in flow.makers[one] if maker not in (None, place)}
    ways = (here for maker in others for here in (maker, *list_behind(flow, maker)))
    return any(flow.op(here) in LOOKUPS or reads_table(flow, here) for here in ways)


def is_gated(flow: Flow, start: int, way: list[int]) -> bool:
    """Whether a step of a way multiplies what another one gave by other numbers than one."""
    reached = {start}
    for node in sorted(way):
        if not reached.isdisjoint(flow.makers[node]):
            reached.add(node)
            if flow.op(node) in SCALINGS and sum(1 for one in flow.steps[node].inputs if one.shape) > 1:
                return True
    return False


def find_mask(flow: Flow, operand: Operand, behind: list[int]) -> Operand | None:
    """The part of an addend that hides, where another one is a bias."""
    facts, made = operand.record.mask, flow.carried_from(operand.maker)
    is_hiding = facts is not None and facts.hidden_share > 0
    for here in behind:
        fills = flow.op(here) in MASKINGS and (fills_low(flow, here) or (is_hiding and here == made))
        for given in [Operand(*given) for given in flow.given(here) if fills or flow.op(here) in SUMS]:
            is_mask = given.record.mask is not None or given.record.role == "mask"
            if (fills and given.record.dtype == "bool") or (is_mask and hides(flow, given, [])):
                return given
    return operand if is_hiding else None
