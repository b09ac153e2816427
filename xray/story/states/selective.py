"""What the parts of a split are to a state that chooses what it keeps: Δ, B, C (Mamba, Gu and Dao 2023, section 3)."""

from collections.abc import Collection, Mapping

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, NORMS, PRODUCTS, REPEATS, SCALINGS, SUMS
from xray.story.branches.others import longest_chain
from xray.story.recognition.between import is_linear
from xray.story.states.operands import PASSING

STEP, WRITTEN, READ, ROWS = "Δ", "B", "C", "x"
BENT = "softplus"
TO_BEND = CARRYING | REPEATS | SCALINGS | SUMS | NORMS | {"pow", "mean", "rsqrt"}
"""What a part goes through before the softplus that makes of it how far a place moves the state."""
MET = SCALINGS | PRODUCTS
KEEPING_APART = PASSING | SUMS
Parts = frozenset[int]


def name_parts(flow: Flow, split: int) -> Mapping[int, str]:
    """What each output of a split is called by what becomes of it, as far as that is proven.

    Δ goes to a softplus alone, where B and C are parts beside it. B is multiplied into what the state takes up, C meets
    the state as it is read and never changes it. Where both come with the rows themselves out of one split, B is what
    meets both others, which never meet each other, and C is as wide as it (Mamba 2).
    """
    firsts = list_firsts(flow, split)
    if None in firsts:
        return {}
    end = find_end(flow, split)
    steps = {part for part, own in enumerate(firsts) if own and leads_to_bend(flow, own, end)}
    rest = {part: own for part, own in enumerate(firsts) if part not in steps}
    found = follow_parts(flow, split, rest, end)
    named = name_by_loop(flow, found) or name_by_meeting(flow, split, found)
    return dict.fromkeys(steps, STEP) | named if named else {}


def list_firsts(flow: Flow, split: int) -> list[list[int] | None]:
    """For each output of a split the innermost steps that read it; None where the record does not tell that."""
    found: list[list[int] | None] = [[] for _ in flow.steps[split].outputs]
    for reader in flow.leaf_readers(split):
        for record, maker in flow.given(reader):
            own = None if maker != split or record.output is None else found[record.output]
            if maker == split and own is None:
                return [None]
            if own is not None:
                own.append(reader)
    return found


def find_end(flow: Flow, split: int) -> int:
    """The place behind the innermost block that holds a split."""
    return flow.ends[next(flow.parents(split), 0)]


def leads_to_bend(flow: Flow, firsts: Collection[int], end: int) -> bool:
    """Whether all that reads a part leads to a softplus."""

    def leads(node: int) -> bool:
        if flow.op(node) == BENT:
            return True
        if node >= end or not (flow.op(node) in TO_BEND or is_linear(flow, node)):
            return False
        readers = flow.leaf_readers(node)
        return bool(readers) and all(map(leads, readers))

    return all(map(leads, firsts))


def follow_parts(flow: Flow, split: int, firsts: Mapping[int, Collection[int] | None], end: int) -> dict[int, Parts]:
    """Of each step behind a split the parts that it is a sum of multiples of, each by what the others are."""
    found: dict[int, Parts] = {}
    for node in range(split + 1, end):
        if not flow.is_leaf(node) or is_linear(flow, node) or flow.op(node) not in KEEPING_APART:
            continue
        own = {part for part, readers in firsts.items() if readers and node in readers}
        found[node] = frozenset(own).union(*(found.get(maker, ()) for maker in flow.makers[node] if maker is not None))
    return found


def list_meetings(flow: Flow, found: Mapping[int, Parts]) -> set[Parts]:
    """Which two parts are multiplied with each other, and nothing else of the split with them."""
    met: set[Parts] = set()
    for node, parts in found.items():
        own = [found.get(maker, frozenset()) for maker in flow.makers[node] if maker is not None]
        if flow.op(node) in MET and len(parts) == 2 and sorted(map(len, own)) == [1, 1]:
            met.add(parts)
    return met


def name_by_loop(flow: Flow, found: Mapping[int, Parts]) -> dict[int, str]:
    """B and C, where a state is changed turn by turn: what one part alone changes, and the other alone meets."""
    chain = longest_chain(flow, [node for node in found if found[node]])
    written = frozenset[int]() if chain is None else found[chain]
    met = [parts - written for parts in list_meetings(flow, found) if len(parts & written) == 1]
    if len(written) != 1 or len(met) != 1:
        return {}
    return dict.fromkeys(written, WRITTEN) | dict.fromkeys(met[0], READ)


def name_by_meeting(flow: Flow, split: int, found: Mapping[int, Parts]) -> dict[int, str]:
    """B, C and the rows, where pieces of them meet each other and the state."""
    met = list_meetings(flow, found)
    if len(met) != 2 or len(frozenset.union(*met)) != 3:
        return {}
    (both,) = frozenset.intersection(*met)
    width = {part: flow.steps[split].outputs[part].shape for part in frozenset.union(*met)}
    others = sorted(frozenset.union(*met) - {both}, key=lambda part: width[part] == width[both])
    if [width[part] == width[both] for part in others] != [False, True]:
        return {}
    return {both: WRITTEN, others[0]: ROWS, others[1]: READ}
