"""What the parts of a split are to a state that chooses what it keeps: Δ, B, C (Mamba, Gu and Dao 2023, section 3)."""

from collections.abc import Collection, Iterator, Mapping

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, NORMS, PRODUCTS, REPEATS, SCALINGS, SUMS
from xray.ir.flow.remembering import once_each
from xray.story.branches.states import longest_chain
from xray.story.recognition.between import is_linear
from xray.story.states.operands import PASSING
from xray.story.states.scans import find_scan

STEP, WRITTEN, READ, ROWS = "Δ", "B", "C", "x"
BENT = "softplus"
TO_BEND = CARRYING | REPEATS | SCALINGS | SUMS | NORMS | {"pow", "mean", "rsqrt"}
"""What a part goes through before the softplus that makes of it how far a place moves the state."""
TO_ROWS = CARRYING | REPEATS | CLAMPS | SCALINGS
MET = SCALINGS | PRODUCTS
KEEPING_APART = PASSING | SUMS
Parts = frozenset[int]


@once_each
def name_parts(flow: Flow, split: int) -> Mapping[int, str]:
    """What each output of a split is called by what becomes of it, as far as that is proven.

    B or the rows are multiplied by what a softplus gives, as no queries, keys and values are: how far a place moves the
    state. What leads to it alone is Δ. B is multiplied into what the state takes up, C meets the state as it is read
    and never changes it. Where both come with the rows themselves out of one split, B is what meets both others, which
    never meet each other, and C is as wide as it (Mamba 2).
    """
    firsts = list_firsts(flow, split)
    if firsts is None:
        return {}
    end = find_end(flow, split)
    steps = [part for part, own in enumerate(firsts) if own and leads_to_bend(flow, own, end)]
    found = follow_parts(flow, split, {*range(len(firsts))}.difference(steps), end)
    named = name_by_loop(flow, split, found) or name_by_meeting(flow, split, found)
    moved = {part for part, name in named.items() if name in (WRITTEN, ROWS)}
    return dict.fromkeys(steps, STEP) | named if any(is_stepped(flow, node, found, moved) for node in found) else {}


def list_firsts(flow: Flow, split: int) -> list[list[int]] | None:
    """For each output of a split the innermost steps that read it; None where the record does not tell that."""
    found: list[list[int]] = [[] for _ in flow.steps[split].outputs]
    for reader in flow.leaf_readers(split):
        for record, maker in flow.given(reader):
            if maker == split and (record.output is None or record.output >= len(found)):
                return None
            if maker == split and record.output is not None:
                found[record.output].append(reader)
    return found


def is_stepped(flow: Flow, node: int, found: Mapping[int, Parts], moved: Collection[int]) -> bool:
    """Whether a step multiplies a part that changes the state, and no other, by a multiple of what a softplus gives."""
    if flow.op(node) not in SCALINGS or not found[node] or not found[node] <= {*moved}:
        return False
    factors = [maker for maker in flow.makers[node] if maker is not None and not found.get(maker)]
    behind = flow.behind(*factors, within=lambda one: flow.op(one) in {*TO_ROWS, BENT})
    return any(flow.op(one) == BENT for one in behind)


def find_end(flow: Flow, split: int) -> int:
    """The place behind the innermost block that holds a split."""
    return flow.ends[next(flow.parents(split), 0)]


def leads_to_bend(flow: Flow, firsts: Collection[int], end: int) -> bool:
    """Whether all that reads a part leads to a softplus."""

    def passes(node: int) -> bool:
        return node < end and (flow.op(node) in TO_BEND or is_linear(flow, node))

    passed = {*flow.ahead(*firsts, within=passes)}
    readers = {*firsts}.union(*map(flow.leaf_readers, passed)) - passed
    return bool(readers) and all(flow.op(node) == BENT for node in readers)


def follow_parts(flow: Flow, split: int, parts: Collection[int], end: int) -> dict[int, Parts]:
    """Of each step behind a split which of its parts it is a sum of multiples of, each by what the others are."""
    found: dict[int, Parts] = {}
    for node in range(split + 1, end):
        if flow.is_leaf(node) and not is_linear(flow, node) and flow.op(node) in KEEPING_APART:
            found[node] = frozenset().union(*list_operands(flow, split, found, node)).intersection(parts)
    return found


def list_operands(flow: Flow, split: int, found: Mapping[int, Parts], node: int) -> Iterator[Parts]:
    """Of each tensor that a step reads the parts that it is made of."""
    for record, maker in flow.given(node):
        if maker == split and record.output is not None:
            yield frozenset([record.output])
        elif maker is not None:
            yield found.get(maker, frozenset())


def list_meetings(flow: Flow, split: int, found: Mapping[int, Parts]) -> set[Parts]:
    """Which two parts are multiplied with each other, and nothing else of the split with them."""
    return {
        parts
        for node, parts in found.items()
        if flow.op(node) in MET
        and len(parts) == 2
        and sorted(map(len, list_operands(flow, split, found, node))) == [1, 1]
    }


def name_by_loop(flow: Flow, split: int, found: Mapping[int, Parts]) -> dict[int, str]:
    """B and C, where a state is changed turn by turn: what one part alone changes, and the other alone meets."""
    changing = [node for node in found if found[node]]
    chain, scan = longest_chain(flow, changing), find_scan(flow, changing)
    end = scan.end if chain is None and scan is not None else chain
    written = frozenset[int]() if end is None else found[end]
    met = [parts - written for parts in list_meetings(flow, split, found) if len(parts & written) == 1]
    if len(written) != 1 or len(met) != 1:
        return {}
    return dict.fromkeys(written, WRITTEN) | dict.fromkeys(met[0], READ)


def name_by_meeting(flow: Flow, split: int, found: Mapping[int, Parts]) -> dict[int, str]:
    """B, C and the rows, where pieces of them meet each other and the state."""
    met = list_meetings(flow, split, found)
    if len(met) != 2 or len(frozenset.union(*met)) != 3:
        return {}
    (both,) = frozenset.intersection(*met)
    width = {part: flow.steps[split].outputs[part].shape for part in frozenset.union(*met)}
    others = sorted(frozenset.union(*met) - {both}, key=lambda part: width[part] == width[both])
    if [width[part] == width[both] for part in others] != [False, True]:
        return {}
    return {both: WRITTEN, others[0]: ROWS, others[1]: READ}
