"""What changes and reads a state that is a matrix for each head: queries, keys and values, each from where it is cut
into heads."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    DIFFERENCES,
    DIVISIONS,
    NORMS,
    PLACING,
    PRODUCTS,
    REPEATS,
    SCALINGS,
    SPLITS,
    SUMS,
    TURNS,
    ZEROS,
)
from xray.ir.flow.projections import is_product
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.values.value_shapes import number
from xray.story.states.fading import MAXIMA, scales_heads, weakens_first
from xray.story.streams.asides import list_carried_readers

LEAST_TURNS, MOST_BEHIND = 3, 16
SOLVES = frozenset({"linalg_solve_triangular", "solve_triangular", "triangular_solve"})
PASSING = CARRYING | REPEATS | SCALINGS | DIFFERENCES | NORMS | PRODUCTS | SOLVES | {"pad", "normalize"}
"""What rows go through that stay a sum of multiples of what they were: no decay is worked out of them."""
OF_HEADS = len(("batch", "places", "heads", "d_k"))


@dataclass(frozen=True)
class Operand:
    """A way to a state: the step that cuts rows into heads, how many these are and how wide, and the steps behind."""

    cut: int
    heads: int
    width: int
    steps: tuple[int, ...]


@dataclass(frozen=True)
class StateOperands:
    """The ways of queries, keys and values to a state.

    `corrects` tells that what the state gives for a key is taken off its value before the rest is written (the delta
    rule, Schlag et al. 2021), `in_order` that each row of a piece is worked out of those before it, `fades` that what
    was there is multiplied by exp of numbers, never above 0, that are worked out of rows before anything is written,
    `fades_alike` that it is multiplied by one number for each head, which the model holds. `writes` is the bend of the
    number of each row and head by which what is written is multiplied, and `by_keys` tells that what is read is divided
    by the size of what queries read of a state of keys alone.
    """

    query: Operand
    key: Operand
    value: Operand
    corrects: bool
    in_order: bool
    fades: bool
    fades_alike: bool
    writes: Literal["sigmoid", "exp"] | None
    by_keys: bool


def find_operands(flow: Flow, nodes: Collection[int]) -> StateOperands | None:
    """The ways of queries, keys and values to the state among steps; None where one of them is not proven.

    Keys times values are added to a state, and queries times it are what is read.
    """
    span, changes = range(min(nodes, default=0), max(nodes, default=-1) + 1), list_changes(flow, nodes)
    if not changes:
        return None
    written = next(iter(list_outer_products(flow, changes[0])))
    of_key, of_value = (reach(flow, maker) for maker in flow.makers[written][-2:])
    reads = [node for node in span if reads_state(flow, node, flow.output(changes[0]).shape, changes)]
    of_query = {one for node in reads for one in reach(flow, flow.makers[node][-2])}
    keys = list_cuts(flow, of_key)
    found = (list_cuts(flow, of_query) - keys, keys, list_cuts(flow, of_value) - keys)
    if any(len(cuts) != 1 for cuts in found) or found[0] == found[2]:
        return None
    (query,), (key,), (value,) = found
    within = {query: of_query, key: of_key | of_value, value: of_value}
    ways = {cut: describe_way(flow, cut, own) for cut, own in within.items()}
    if (ways[query].heads, ways[query].width) != (ways[key].heads, ways[key].width):
        return None
    rest = flow.makers[written][-1]
    corrects, in_order = takes_known_off(flow, rest, reads, key), goes_in_order(flow, rest, nodes, of_value)
    fades = all(weakens_first(flow, node) for node in changes)
    alike = all(scales_heads(flow, node) for node in changes)
    shares = {find_share(flow, node, value) for node in changes}
    writes = shares.pop() if len(shares) == 1 else None
    by_keys = divides_by_keys(flow, [node for node in reads if is_of_change(flow, node, changes)], query, key)
    return StateOperands(ways[query], ways[key], ways[value], corrects, in_order, fades, alike, writes, by_keys)


def list_changes(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The steps that add keys times values to a state: the last one may lead to no row.

    So they are looked for among all steps between the first and the last.
    """
    span = range(min(nodes, default=0), max(nodes, default=-1) + 1)
    return [node for node in span if sums_outer_products(flow, node, span)]


def reach(flow: Flow, start: int | None) -> set[int]:
    """The steps that lead to one through nothing that bends, as far back as the cuts into heads, these included."""
    return {
        *flow.behind(
            start,
            within=lambda node: is_cut(flow, node) or (flow.op(node) in PASSING and not is_linear(flow, node)),
            ends=lambda node: is_cut(flow, node),
        )
    }


def list_cuts(flow: Flow, nodes: Collection[int]) -> set[int]:
    """The steps among some that cut rows into heads."""
    return {node for node in nodes if is_cut(flow, node)}


def is_cut(flow: Flow, node: int) -> bool:
    """Whether a step cuts rows into heads, or takes its part out of heads that hold several things (MiniMax)."""
    return cuts_into_heads(flow, node) or parts_heads(flow, node)


def parts_heads(flow: Flow, node: int) -> bool:
    """Whether a step takes its own part of heads that are split along their last axis."""
    split = next(iter(flow.makers[node]), None)
    if split is None or flow.op(split) not in SPLITS or flow.op(node) not in CARRYING - SPLITS:
        return False
    whole, part = flow.makers[split][0], flow.output(split).shape
    return whole is not None and cuts_into_heads(flow, whole) and part[:-1] == flow.output(whole).shape[:-1]


def cuts_into_heads(flow: Flow, node: int) -> bool:
    """Whether a step cuts the last axis of rows into heads and their width, and moves nothing."""
    if flow.op(node) not in CARRYING - TURNS or not flow.steps[node].inputs or not flow.steps[node].outputs:
        return False
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    return (
        len(after) == OF_HEADS
        and before[:-1] == after[:-2]
        and min(after[-2:]) > 1
        and before[-1:] == (after[-2] * after[-1],)
    )


def reads_state(flow: Flow, node: int, shape: tuple[int, ...], changes: Collection[int]) -> bool:
    """Whether a step multiplies rows by a state: as it began, or as one of its changes left it."""
    if not is_product(flow, node) or len(flow.makers[node]) < 2:
        return False
    record, maker = list(flow.given(node))[-1]
    root = flow.carried_from(maker)
    begins = record.role != "parameter" if root is None else flow.op(root) in ZEROS
    return record.shape == shape and (begins or root in changes)


def describe_way(flow: Flow, cut: int, within: Collection[int]) -> Operand:
    """A way from where rows are cut into heads, through some steps."""
    heads, width = (flow.steps[cut].inputs[0] if parts_heads(flow, cut) else flow.output(cut)).shape[-2:]
    ahead = flow.ahead(cut, within=within.__contains__)
    return Operand(cut, heads, width, tuple(sorted(one for one in ahead if one != cut)))


def find_share(flow: Flow, change: int, value: int) -> Literal["sigmoid", "exp"] | None:
    """The bend of the number for each head by which values are multiplied before they are written, where it is known.

    Either a sigmoid of each row multiplies values, or what is left of them (Gated DeltaNet), or exp multiplies each
    product of a key and a value (xLSTM).
    """
    written, data = next(list_outer_products(flow, change)), list_reading_data(flow)
    of_rows, of_heads = flow.output(value).shape[:-1], (*flow.output(change).shape[:2], 1, 1)
    gates = [node for node in flow.makers[change] if node is not None and written in flow.makers[node]]
    scaled = [node for node in reach(flow, flow.makers[written][-1]) if node > value]
    bends = [root for node in gates for root in list_multiplying(flow, node, of_heads) if root in data]
    if any(flow.op(root) == "exp" for root in bends):
        return "exp"
    bends = [root for node in scaled for root in list_multiplying(flow, node, (*flow.output(node).shape[:-1], 1))]
    is_share = (flow.op(root) == "sigmoid" and flow.output(root).shape == of_rows for root in bends if root in data)
    return "sigmoid" if any(is_share) else None


def list_multiplying(flow: Flow, node: int, shape: tuple[int, ...]) -> Iterator[int]:
    """What made the numbers of a shape that a step multiplies by, moved or made longer by 0 as they may be."""
    for record, maker in flow.given(node) if flow.op(node) in SCALINGS else ():
        root = flow.carried_from(maker, CARRYING | {"pad"})
        if root is not None and record.shape == shape:
            yield root


def is_of_change(flow: Flow, read: int, changes: Collection[int]) -> bool:
    """Whether what rows are multiplied by is a state as one of its changes left it, and not as it began."""
    return flow.carried_from(flow.makers[read][-1]) in changes


def divides_by_keys(flow: Flow, reads: Collection[int], query: int, key: int) -> bool:
    """Whether all that queries read is divided by the size of what they read of a sum of keys, or a larger number."""
    return bool(reads) and all(
        any(
            flow.op(node) in DIVISIONS and measures_keys(flow, node, query, key)
            for node in list_carried_readers(flow, read)
        )
        for read in reads
    )


def measures_keys(flow: Flow, division: int, query: int, key: int) -> bool:
    """Whether a step divides by the larger of something and the size of what queries read of a sum of keys (xLSTM)."""
    behind = [*flow.behind(flow.makers[division][-1], most=MOST_BEHIND)]
    sizes = [node for node in behind if flow.op(node) == "abs"] if MAXIMA & set(map(flow.op, behind)) else []
    for size in sizes:
        product = flow.carried_from(flow.makers[size][0])
        if product is None or not is_product(flow, product) or len(flow.makers[product]) < 2:
            continue
        asked, held = flow.makers[product][-2], flow.carried_from(flow.makers[product][-1])
        added = () if held is None or flow.op(held) not in SUMS else flow.makers[held]
        of_keys = any(list_cuts(flow, reach(flow, one)) == {key} for one in added)
        if of_keys and list_cuts(flow, reach(flow, asked)) == {query}:
            return True
    return False


def find_filled(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """To how many pieces of how many rows steps make rows longer by rows of 0; None where there is no one answer."""
    pads = [node for node in nodes if flow.op(node) == "pad" and not number(flow.steps[node], "value")]
    found = {
        pieces
        for pad in pads
        for axis in find_longer(flow, pad)
        for node in flow.ahead(pad, within=nodes.__contains__)
        for pieces in find_pieces(flow, node, axis, flow.output(pad).shape[axis])
    }
    return found.pop() if len(found) == 1 else None


def find_longer(flow: Flow, node: int) -> list[int]:
    """The one axis that a step makes longer; none where that is the last."""
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    changed = [axis for axis, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    return changed if len(changed) == 1 and changed[0] < len(after) - 1 else []


def find_pieces(flow: Flow, node: int, axis: int, length: int) -> list[tuple[int, int]]:
    """Into how many pieces of how many rows a step cuts the axis that is of a length, if it does so."""
    if flow.op(node) not in CARRYING:
        return []
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    many, long = after[axis : axis + 2] if len(after) > axis + 1 else (0, 0)
    is_cut_here = before == (*after[:axis], length, *after[axis + 2 :]) and many * long == length
    return [(many, long)] if is_cut_here and long > 1 else []


def takes_known_off(flow: Flow, written: int | None, reads: Collection[int], key: int) -> bool:
    """Whether what is written is what is left of rows when what the state gives for keys is taken off."""
    less = flow.carried_from(written)
    if less is None or flow.op(less) not in DIFFERENCES or len(flow.makers[less]) != 2:
        return False
    known = flow.carried_from(flow.makers[less][1])
    return known is not None and known in reads and list_cuts(flow, reach(flow, flow.makers[known][-2])) == {key}


def goes_in_order(flow: Flow, written: int | None, nodes: Collection[int], of_value: Collection[int]) -> bool:
    """Whether what is written is worked out row after row: a triangular system is solved, or rows are put in in turn.

    So it is where each row that is put in is made of those that were put in before.
    """
    if any(flow.op(node) in SOLVES for node in of_value):
        return True
    puts = [node for node in flow.behind(written, within=nodes.__contains__) if flow.op(node) in PLACING]
    return sum(adds_to_itself(flow, node) for node in puts) >= LEAST_TURNS


def adds_to_itself(flow: Flow, node: int) -> bool:
    """Whether a step puts in rows that were made of what the one before it put in."""
    before = flow.carried_from(flow.makers[node][0])
    if before is None or flow.op(before) not in PLACING or len(flow.makers[node]) < 2:
        return False
    return before in flow.behind(flow.makers[node][-1], within=before.__le__)


def list_repeats(flow: Flow, way: Operand) -> Iterator[tuple[int, int]]:
    """The steps of a way that repeat its heads, and how often."""
    for node in way.steps:
        if flow.op(node) in REPEATS and flow.steps[node].inputs:
            before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
            grown = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
            if len(before) == len(after) and len(grown) == 1 and grown[0][0] > 0 and grown[0][1] % grown[0][0] == 0:
                yield node, grown[0][1] // grown[0][0]


def sums_outer_products(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether a step adds keys times values to a multiple of what was there: a matrix for each head."""
    if flow.op(node) not in SUMS or not flow.is_leaf(node) or len(flow.output(node).shape) != 4:
        return False
    shape = flow.output(node).shape
    made = [maker for maker in flow.makers[node] if maker is not None and flow.op(maker) in SCALINGS]
    kept = any(flow.output(maker).shape == shape for maker in made)  # not slopes, the same for all sequences (ALiBi)
    return kept and any(product in nodes for product in list_outer_products(flow, node))


def list_outer_products(flow: Flow, node: int) -> Iterator[int]:
    """Keys times values that a sum takes, also where one number for each head multiplies them first (xLSTM)."""
    for maker in flow.makers[node]:
        gated = maker is not None and flow.op(maker) in SCALINGS and len(flow.makers[maker]) > 1
        for one in flow.makers[maker] if maker is not None and gated else [maker]:
            is_outer = one is not None and is_product(flow, one) and not keeps_length(flow, one)
            if one is not None and is_outer and flow.output(one).shape == flow.output(node).shape:
                yield one


def keeps_length(flow: Flow, product: int) -> bool:
    """Whether the rows of a product are those of its first operand as it was made, and not those of its columns.

    One column alone is no row of its own: what is made of it is keys times values of one place (xLSTM).
    """
    first = flow.makers[product][-2]
    return first is None or (flow.op(first) not in TURNS and flow.output(first).shape[-1:] != (1,))
