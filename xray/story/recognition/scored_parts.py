"""What stands between scores and softmax: scale, a bias for positions, the mask."""

from dataclasses import dataclass, replace
from typing import Literal

from xray.ir.flow.attention_sites import NO_WEIGHT, hides_places
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import read_mixing
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, LOOKUPS, MASKINGS, SCALINGS, SUMS, WRITES, ZEROS
from xray.ir.flow.projections import is_product, is_projection
from xray.ir.records import TensorRecord
from xray.story.recognition.earlier_keys import find_other_scores, keep_scored

Kind = Literal["scale", "bias", "mask", "kept", "mix", "mixed_mask", "softmax"]
"""What a part does; "kept" hides some scores by what they are themselves.

A "mix" is one of heads: what was hidden before it, by a "mixed_mask", is not known to be hidden behind it.
"""
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
SETTLING = CARRYING | DROPOUTS | frozenset(["max", "maximum", "clamp", "clamp_", "min", "minimum", "nan_to_num"])
"""What goes with the part before it."""
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


@dataclass(frozen=True)
class Operand:
    """A tensor that a scored step brings in, and the step that made it."""

    record: TensorRecord
    maker: int | None


@dataclass(frozen=True)
class Scored:
    """One part between scores and softmax: its steps, and what it brings in beside the scores."""

    kind: Kind
    nodes: tuple[int, ...]
    operand: Operand | None = None


def read_scored(flow: Flow, scored: tuple[int, ...]) -> list[Scored]:
    """The parts of the way from the scores to the softmax, in order; moves and casts go with the part before them."""
    parts: list[Scored] = []
    spine = set(scored)
    fixed: list[int] = []
    first = scored[0]
    is_added = flow.op(first) == "baddbmm" and flow.steps[first].settings.get("beta") != 0
    if is_added and not is_nothing(flow, flow.makers[first][0]):
        parts += read_addend(flow, first, Operand(flow.steps[first].inputs[0], flow.makers[first][0]))
    for node in scored[1:-1]:
        step = flow.steps[node]
        if read_mixing(flow, node) is not None or joins_mixed(flow, node, parts, spine):
            parts += join_mixes(parts, node)
            continue
        others = [
            Operand(record, maker)
            for record, maker in flow.given(node)
            if maker not in spine and record.role != "parameter" and len(record.shape) > (step.op not in MASKINGS)
        ]
        if others and all(is_nothing(flow, one.maker) for one in others) and step.op in SUMS | {"mask_scores"}:
            fixed.append(node)
            continue
        learned = [
            Operand(record, maker)
            for record, maker in flow.given(node)
            if maker not in spine and record.role == "parameter" and len(record.shape) > 1
        ]
        if step.op in MASKINGS and others:
            mask = pick_mask(others)
            if step.op == "mask_scores" and mask.record.dtype != "bool":
                parts += read_addend(flow, node, mask)
            elif made_of_scores(flow, mask.maker, spine):
                is_of_rows = mask.record.shape[-1] == 1  # such as have no visible key
                parts += [] if is_of_rows else [Scored("kept", (node,))]
                fixed += [node] if is_of_rows else []
            else:
                parts.append(peel(flow, node, mask))
        elif hides_places(flow, node):
            parts.append(Scored("mask", (node,)))
        elif step.op in WRITES and (hidden := find_hidden(flow, node, spine)) is not None:
            parts += join_masks(parts, Scored("mask", hidden[1], hidden[0]))
        elif step.op in ("sub", "sub_") and others and made_of_scores(flow, others[0].maker, spine):
            fixed.append(node)
        elif step.op in SUMS | {"sub", "sub_"} and (others or learned):
            parts += read_addend(flow, node, (others or learned)[0])
        elif step.op in SCALINGS and all(is_for_all_pairs(one.record) for one in others):
            parts.append(Scored("scale", (node,)))
        elif step.op in SCALINGS and others:
            parts.append(Scored("mask", (node,), others[0]))
        elif parts and step.op in SETTLING:
            parts[-1] = Scored(parts[-1].kind, (*parts[-1].nodes, node), parts[-1].operand)
    parts.append(Scored("softmax", (*fixed, scored[-1])))
    last = max((place for place, part in enumerate(parts) if part.kind == "mix"), default=0)
    hiding = [place for place, part in enumerate(parts[:last]) if part.kind in ("mask", "kept")]
    return [replace(part, kind="mixed_mask") if place in hiding else part for place, part in enumerate(parts)]


def joins_mixed(flow: Flow, node: int, parts: list[Scored], spine: set[int]) -> bool:
    """Whether a step adds scores that were mixed across heads to what they were."""
    is_own = all(maker in spine for maker in flow.makers[node]) and len(flow.steps[node].inputs) > 1
    return flow.op(node) in SUMS and is_own and bool(parts) and parts[-1].kind == "mix"


def join_mixes(parts: list[Scored], node: int) -> list[Scored]:
    """A step that mixes heads, or that adds what was mixed; it goes with the one before it where that does so too."""
    if not parts or parts[-1].kind != "mix":
        return [Scored("mix", (node,))]
    parts[-1] = Scored("mix", (*parts[-1].nodes, node))
    return []


def find_hidden(flow: Flow, node: int, spine: set[int]) -> tuple[Operand, tuple[int, ...]] | None:
    """The condition where some scores are written over by what hides them, and the steps that do; None if none is."""
    chosen = next((maker for maker in flow.makers[node] if maker is not None and maker not in spine), None)
    if chosen is None or flow.op(chosen) not in MASKINGS or not made_of_scores(flow, chosen, spine):
        return None
    given = [Operand(record, maker) for record, maker in flow.given(chosen) if record.dtype == "bool"]
    return (given[0], (chosen, node)) if len(given) == 1 else None


def join_masks(parts: list[Scored], mask: Scored) -> list[Scored]:
    """A mask that is written over some scores; it goes with the one before it where that hides others of them alike."""
    before = parts[-1] if parts and parts[-1].kind == "mask" else None
    shapes = [None if one is None or one.operand is None else one.operand.record.shape for one in (before, mask)]
    if before is None or shapes[0] != shapes[1]:
        return [mask]
    parts[-1] = Scored("mask", (*before.nodes, *mask.nodes), before.operand)
    return []


def is_for_all_pairs(record: TensorRecord) -> bool:
    """Whether a tensor holds one number for all queries and keys, be it another one for each head (Swin v2)."""
    return record.shape[-2:] == (1, 1)


def is_nothing(flow: Flow, maker: int | None) -> bool:
    """Whether a tensor is filled with 0 and nothing else, as what T5 adds for places where it has no table of them."""
    made = flow.carried_from(maker)
    return made is not None and flow.op(made) in ZEROS


def made_of_scores(flow: Flow, maker: int | None, spine: set[int]) -> bool:
    """Whether a mask is read off the scores themselves, as by a softmax that minds rows without any visible key."""
    todo = [] if maker is None else [maker]
    for _ in range(6):
        if not todo:
            return False
        here = todo.pop()
        if here in spine:
            return True
        todo += [one for one in flow.makers[here] if one is not None]
    return False


def peel(flow: Flow, node: int, mask: Operand) -> Scored:
    """A masking step with the negation before it: what is negated is the mask."""
    maker = mask.maker
    if maker is not None and flow.op(maker) in NEGATIONS and flow.makers[maker]:
        record, before = next(flow.given(maker))
        return Scored("mask", (maker, node), Operand(record, before))
    return Scored("mask", (node,), mask)


def read_addend(flow: Flow, node: int, operand: Operand) -> list[Scored]:
    """What is added to the scores: a mask, a bias for positions, or both in one tensor.

    A bool that is added makes 1 of yes and 0 of no: it hides nothing, be it added to a bias first (Phi-4 multimodal).
    Scores of another attention are no mask, be they masked.
    """
    operand = leave_off_bools(flow, operand)
    if is_of_bools(flow, operand) or find_other_scores(flow, keep_scored(flow).get(node), operand.maker) is not None:
        return [Scored("bias", (node,), operand)]
    behind = list_behind(flow, operand.maker)
    bias = find_bias(flow, operand, behind)
    mask = find_mask(flow, operand, behind, has_bias=bias is not None)
    parts = [] if bias is None else [Scored("bias", (node,), bias)]
    if mask is not None or bias is None:
        parts.append(Scored("mask", (node,), mask or operand))
    return parts


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
    while record.dtype != "bool" and maker is not None and flow.op(maker) in CARRYING and flow.makers[maker]:
        record, maker = next(flow.given(maker))
    return record.dtype == "bool"


def pick_mask(others: list[Operand]) -> Operand:
    """The mask among the operands of a masking step."""
    for one in others:
        if one.record.mask is not None or one.record.role == "mask" or one.record.dtype == "bool":
            return one
    return others[0]


def condition_of(flow: Flow, place: int) -> Operand | None:
    """What a mask was made from in one step: what was negated, or where a filling fills; None if it was made anew."""
    step = flow.steps[place]
    if step.op in NEGATIONS and step.inputs:
        return Operand(step.inputs[0], flow.makers[place][0])
    if step.op in ("masked_fill", "masked_fill_", "where"):
        given = [Operand(record, maker) for record, maker in flow.given(place) if record.dtype == "bool"]
        rest = [maker for record, maker in flow.given(place) if record.dtype != "bool" and maker is not None]
        if len(given) == 1 and all(flow.op(maker) in FILLINGS for maker in rest):
            return given[0]
    return None


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
    return flow.op(place) in LOOKUPS | FILLINGS or is_projection(flow, place)


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
        if is_product(flow, here) and not is_projection(flow, here) and not multiplies_itself(flow, here):
            return operand  # other scores
        if flow.op(here) in LOOKUPS or is_projection(flow, here) or reads_table(flow, here):
            return nearest_like_scores(flow, operand, here, behind)
    is_mask = operand.record.mask is not None or operand.record.role == "mask"
    hides = any(makes_mask(flow, here) or pushes_down(flow, here) for here in behind)
    if not is_mask and not hides and not is_given(flow, operand.maker):
        return operand
    parts = () if filled is None else list_unhidden(flow, filled)
    return next((found for part in parts if (found := find_bias(flow, part, list_behind(flow, part.maker)))), None)


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


def multiplies_itself(flow: Flow, product: int) -> bool:
    """Whether both sides of a product are one tensor, laid out anew: which places go together (Mllama's tiles)."""
    roots = {flow.carried_from(maker) for maker in flow.makers[product]}
    return len(roots) == 1 and None not in roots


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
        return operand if is_mask or is_given(flow, operand.maker) else None
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
