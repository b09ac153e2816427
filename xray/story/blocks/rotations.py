"""Rotary positions wherever they stand: two products with tables that no data made, and their sum."""

from collections.abc import Collection, Iterable, Iterator

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SUMS
from xray.story.recognition.turning import is_cut, is_table_product, moves_itself

MOVES = CARRYING | {"neg", "cat", "stack", "roll", "flip"}
ENDS = SUMS | {"sub", "sub_", "view_as_real"}
JOINTS = frozenset({"stack", "cat"})
BEHIND = frozenset({"flatten", "view", "reshape", "type_as", "to", "float"})
MOST = 24
"""More steps than this are no single turn."""


def list_rotations(flow: Flow, data: Collection[int]) -> list[tuple[int, ...]]:
    """The steps of every turn of queries or keys by their places; `data` are the steps that depend on data.

    A turn is known as by `is_rotary`: one product with a table, one product of its own numbers moved with another.
    """
    found: list[set[int]] = []
    for place, step in enumerate(flow.steps):
        if step.op in ENDS and place in data:
            turn = seek_turn(flow, place, data)
            if turn:
                merge(found, turn)
    for turn in found:
        turn |= set(list_behind(flow, turn))
    return [tuple(sorted(turn)) for turn in found if len(turn) <= MOST]


def seek_turn(flow: Flow, place: int, data: Collection[int]) -> set[int]:
    """The steps of the turn that ends at a step; none if it ends none."""
    if flow.op(place) == "view_as_real":
        return seek_complex(flow, place, data)
    makers = [maker for maker in flow.makers[place] if maker is not None and maker in data]
    factors = [maker for maker in makers if is_table_product(flow, maker, data)]
    if len(set(factors)) != 2 or not any(moves_itself(flow, factor, data) for factor in factors):
        return set()
    return {place, *factors, *list_inner(flow, factors, data)}


def seek_complex(flow: Flow, place: int, data: Collection[int]) -> set[int]:
    """A turn written as a product of complex numbers."""
    product = flow.makers[place][0]
    if product is None or flow.op(product) not in SCALINGS:
        return set()
    for maker in flow.makers[product]:
        if maker is not None and maker in data and flow.op(maker) == "view_as_complex":
            return {place, product, maker}
    return set()


def list_inner(flow: Flow, factors: Iterable[int], data: Collection[int]) -> set[int]:
    """The moves between a row and both products: those behind the step where their ways part."""
    ways = [list(follow(flow, factor, data)) for factor in factors]
    common = set(ways[0]).intersection(*ways[1:])
    start = max(common, default=-1)
    return {node for way in ways for node in way if node > start or (node not in common and is_cut(flow, node))}


def follow(flow: Flow, factor: int, data: Collection[int]) -> Iterator[int]:
    """The moves that a product's data comes through, backwards, all ways where one joins several."""
    first = (maker for maker in flow.makers[factor] if maker in data)
    return flow.behind(*first, most=MOST, within=data.__contains__, ends=lambda here: flow.op(here) not in MOVES)


def list_behind(flow: Flow, turn: Collection[int]) -> Iterator[int]:
    """What lays both halves of a turn side by side again, with the moves right behind it."""
    here = max(turn)
    readers = flow.readers.get(here, ())
    if len(readers) == 1 and flow.op(readers[0]) in JOINTS:
        if all(maker in turn for maker in flow.makers[readers[0]]):
            here = readers[0]
            yield here
    elif flow.op(here) != "view_as_real":
        return
    while len(onward := flow.readers.get(here, ())) == 1 and flow.op(onward[0]) in BEHIND:
        here = onward[0]
        yield here


def merge(found: list[set[int]], turn: set[int]) -> None:
    """Add a turn; two that share steps are the two halves of one."""
    for known in found[-2:]:
        if known & turn:
            known |= turn
            return
    found.append(turn)
