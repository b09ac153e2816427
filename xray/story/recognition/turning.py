"""Turns: queries and keys turned by their place, pair of numbers by pair (rotary places, Su et al. 2021)."""

from collections.abc import Collection
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    LOOKUPS,
    SCALINGS,
    SHAPING,
    SIDE_BY_SIDE,
    SUMS,
    WAVES,
)
from xray.ir.records import TensorRecord
from xray.story.recognition.between import is_linear, is_times_one

Pairs = Literal["neighbours", "halves"]
"""Which two numbers of a head are turned together."""
MOST_BEHIND_PLACES = 24
MOST_TO_PAIRS = 12
"""So many steps lie at most between a turn and where its pairs are taken apart."""
MOST_TO_WAVES = 12
"""So many steps lie at most between a turn and the cosines or sines that it is by."""


def is_rotary(flow: Flow, own: Collection[int]) -> bool:
    """Whether steps turn rows: one product with a table, and a product of their own numbers moved with another.

    Both tables come from beside the branch. The sum of both products is the turn (Su et al. 2021, section 3.4). Or each
    pair of numbers is multiplied by a table of 2 × 2, and added up.
    """
    for node in own:
        if turns_pairs(flow, node) and is_table_product(flow, flow.makers[node][0] or 0, own):
            return True
        if flow.op(node) == "view_as_complex" and any(
            flow.op(reader) in SCALINGS for reader in flow.readers.get(node, ())
        ):
            return True
    return bool(list_turned(flow, own))


def list_turned(flow: Flow, own: Collection[int]) -> list[int]:
    """The products with tables whose sums turn rows, two for each turn."""
    found = []
    for node in own:
        if flow.op(node) in SUMS | {"sub", "sub_"}:
            makers = [past_one(flow, maker) for maker in flow.makers[node] if maker is not None and maker in own]
            factors = [maker for maker in past_scale(flow, makers, own) if is_table_product(flow, maker, own)]
            if len(factors) == 2 and any(moves_itself(flow, factor, own) for factor in factors):
                found += factors
    return found


def past_one(flow: Flow, node: int) -> int:
    """The step before multiplications by 1 that end at a step."""
    before = flow.makers[node][0] if is_times_one(flow, node) and len(flow.makers[node]) == 1 else None
    return node if before is None else past_one(flow, before)


def past_scale(flow: Flow, makers: Collection[int], own: Collection[int]) -> Collection[int]:
    """What products with one and the same table scale, so that what is turned is scaled by its place (xPos); else them.

    See "A Length-Extrapolatable Transformer", Sun et al. 2022, section 2.2.
    """
    ways = [flow.makers[maker] for maker in makers if is_table_product(flow, maker, own)]
    rows = [one for way in ways for one in way if one is not None and one in own]
    tables = {one for way in ways for one in way if one not in own}
    is_scaled = len(ways) == len(rows) == len(makers) == 2 and len(tables) == 1
    return rows if is_scaled and all(is_table_product(flow, one, own) for one in rows) else makers


def list_products(flow: Flow, own: Collection[int]) -> list[int]:
    """The products with tables that turn rows in any way: by sums, as complex numbers, or by a matrix for each pair."""
    pairs = [flow.makers[node][0] for node in own if turns_pairs(flow, node)]
    return [*list_turned(flow, own), *list_complex(flow, own), *(one for one in pairs if one is not None)]


def list_complex(flow: Flow, own: Collection[int]) -> list[int]:
    """The products of complex numbers, each of them a pair of a row, with a table: these turn rows too (Llama 4)."""
    found = []
    for node in own:
        makers = [flow.carried_from(maker) for maker in flow.makers[node]] if flow.op(node) in SCALINGS else []
        pairs = [maker is not None and flow.op(maker) == "view_as_complex" and maker in own for maker in makers]
        found += [node] * (len(makers) == 2 and pairs.count(True) == 1 and is_table_product(flow, node, own))
    return found


def name_pairs(flow: Flow, own: Collection[int]) -> Pairs | None:
    """Which two numbers are turned together: neighbours, or one from each half of what is turned; None if not known.

    Neighbours are taken apart by every other number, or by an axis of two; halves are cut in the middle, and change
    places. What first brings neighbours into two halves turns neighbours (DeepSeek-V3). Where parts of a row are turned
    each by itself, a pair is of two halves of a part, and none of these (Gemma 4's images).
    """
    turned = list_turned(flow, own)
    near = {one for node in turned for one in flow.behind(node, most=MOST_TO_PAIRS, within=own.__contains__)}
    numbers = {name_complex(flow, node) for node in own if flow.op(node) == "view_as_complex"}
    if numbers:
        return numbers.pop() if len(numbers) == 1 else None
    if any(turns_pairs(flow, node) for node in own):
        return "neighbours"
    if any(takes_every_other(flow, node) or has_pairs_last(flow, node) for node in near):
        return "neighbours"
    halves = [node for node in near if takes_half(flow, node)]
    return "halves" if turned and halves and not are_of_parts(flow, halves, own) else None


def name_complex(flow: Flow, node: int) -> Pairs | None:
    """Which two numbers of a row become one complex number: laid out two by two, or stacked (Gemma's own code)."""
    here = flow.makers[node][0]
    while here is not None and flow.makers[here]:
        if has_pairs_last(flow, here):
            return "neighbours"
        if flow.op(here) == "stack":
            ways = [one for one in flow.makers[here] if one is not None]
            if len(ways) == 2 and all(takes_every_other(flow, one) for one in ways):
                return "neighbours"
            return "halves" if len(ways) == 2 and all(takes_half(flow, one) for one in ways) else None
        if flow.op(here) not in CARRYING or flow.steps[here].inputs[0].shape[-2:] != flow.output(here).shape[-2:]:
            return None
        here = flow.makers[here][0]
    return None


def are_of_parts(flow: Flow, halves: Collection[int], own: Collection[int]) -> bool:
    """Whether parts of rows that are turned each by itself, by its own halves, are laid side by side again."""
    wide = {flow.steps[node].inputs[0].shape[-1] for node in halves}
    joins = (node for node in own if flow.op(node) in SIDE_BY_SIDE and node not in halves)
    return any(
        len(turned := [maker for maker in flow.makers[node] if maker is not None and flow.op(maker) in SUMS]) > 1
        and {flow.output(maker).shape[-1] for maker in turned} <= wide
        for node in joins
    )


def has_unlike_angles(flow: Flow, own: Collection[int]) -> bool:
    """Whether the two numbers of all pairs have unlike angles, so that no pair is turned (V-JEPA 2).

    A pair is as the product of moved numbers takes it apart; angles are laid out for it in the same way, or are not.
    """
    turned = list_turned(flow, own)
    found = [name_mismatch(flow, pair, own) for pair in zip(turned[::2], turned[1::2], strict=True)]
    return bool(found) and all(found)


def name_mismatch(flow: Flow, factors: tuple[int, int], own: Collection[int]) -> bool:
    """Whether the cosines and sines of a turn are known to be laid out otherwise than its pairs are taken apart."""
    laid = {
        name_layout(flow, maker, own)
        for node in factors
        for maker in flow.makers[node]
        if maker is not None and maker not in own
    }
    pairs = {name_moved(flow, *way, own) for way in (factors, factors[::-1])} - {None}
    return len(laid) == len(pairs) == 1 and None not in laid and laid != pairs


def name_moved(flow: Flow, moved: int, kept: int, own: Collection[int]) -> Pairs | None:
    """How a product's own numbers were brought in the places of those that another product reads; None if not known."""
    start = next((maker for maker in flow.makers[kept] if maker in own), None)
    way = list(flow.behind(moved, most=MOST_TO_PAIRS, within=own.__contains__, ends=lambda here: here == start))
    if start is None or start not in way or way[-1] != start:
        return None
    if any(takes_every_other(flow, node) or has_pairs_last(flow, node) for node in way[:-1]):
        return "neighbours"
    return "halves" if any(takes_half(flow, node) for node in way[:-1]) else None


def name_layout(flow: Flow, table: int, own: Collection[int]) -> Pairs | None:
    """Which two numbers of each row of cosines or sines are of one angle; None if that is not known."""
    here: int | None = table
    is_wave = False
    for _ in range(MOST_TO_WAVES):
        if here is None or here in own or not flow.makers[here]:
            return None
        if flow.op(here) == "identity":  # worked out as in a layer before
            here = flow.makers[here][0]
            continue
        is_wave = is_wave or flow.op(here) in WAVES
        if flow.output(here).shape[-1:] != flow.steps[here].inputs[0].shape[-1:]:
            waves = is_wave or any(flow.op(one) in WAVES for one in flow.behind(here, most=MOST_TO_WAVES))
            return name_doubling(flow, here) if waves else None
        if flow.op(here) not in CASTING | SHAPING | SCALINGS | WAVES:
            return None
        here = flow.makers[here][0]
    return None


def name_doubling(flow: Flow, node: int) -> Pairs | None:
    """How a step writes each number of a row twice: side by side, or all of them again behind them."""
    given = flow.steps[node].inputs[0].shape
    if given[-1] == 1 or flow.output(node).shape[-1] != 2 * given[-1]:
        return None
    if flow.op(node) in SIDE_BY_SIDE:
        first, *others = flow.makers[node]
        is_twice = others == [first] and first is not None and len(flow.steps[first].outputs) == 1
        return "halves" if is_twice else None
    if flow.op(node) in ("repeat", "tile"):
        return "halves"
    return "neighbours" if flow.op(node) == "repeat_interleave" else None


def takes_every_other(flow: Flow, node: int) -> bool:
    """Whether a step takes every other number of each row."""
    index = flow.steps[node].settings.get("index")
    return flow.op(node) == "index" and isinstance(index, str) and index.endswith("::2")


def has_pairs_last(flow: Flow, node: int) -> bool:
    """Whether a step lays the numbers of each row out two by two."""
    given, made = flow.steps[node].inputs[:1], flow.output(node).shape
    return bool(given) and flow.op(node) in CARRYING and given[0].shape[-1] % 2 == 0 and is_split(given[0].shape, made)


def is_split(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether the last axis became two, the last of them of two, be an axis of 1 put between them (Flux)."""
    pairs = after[:-2] if after[-2:-1] == (1,) else after[:-1]
    return after[-1:] == (2,) and before[-1:] == (2 * prod(pairs[-1:]),) and len(pairs) >= len(before) > 0


def takes_half(flow: Flow, node: int) -> bool:
    """Whether a step takes the one half of each row, or both."""
    given, made = flow.steps[node].inputs[:1], flow.output(node).shape
    is_cutting = is_cut(flow, node) or flow.op(node) in ("chunk", "split", "tensor_split")
    is_other = takes_every_other(flow, node) or picks_of_pairs(flow, node)
    return bool(given) and is_cutting and given[0].shape[-1:] == (2 * made[-1],) and not is_other


def find_learned_turns(flow: Flow, own: Collection[int]) -> tuple[int, int | None] | None:
    """How many rows are turned by learned angles in front of those that their place turns, and by how many of them.

    Each of the tables that turn is put together of both. None where that is not so, or the tables do not agree.
    """
    makers = {maker for node in list_turned(flow, own) for maker in flow.makers[node] if maker not in own}
    tables = {flow.carried_from(maker) for maker in makers}
    found = {None if table is None else read_learned_turn(flow, table) for table in tables}
    return found.pop() if len(found) == 1 else None


def read_learned_turn(flow: Flow, table: int) -> tuple[int, int | None] | None:
    """Of how many rows of a table the first are cosines or sines of parameters alone, and how many numbers these are.

    That is told where their block has no other parameters of its own.
    """
    if flow.op(table) not in SIDE_BY_SIDE or len(flow.makers[table]) != 2:
        return None
    (first, wave), (rest, other) = flow.given(table)
    axis = flow.steps[table].settings.get("dim", 0)
    if not isinstance(axis, int) or axis % max(1, len(first.shape)) != len(first.shape) - 2:
        return None
    if None in (wave, other) or first.shape[-1:] != rest.shape[-1:] or len(first.shape) < len(("row", "width")):
        return None
    front, behind = ([*flow.behind(one, most=MOST_BEHIND_PLACES)] for one in (wave, other))
    outer = [record for here in front for record, maker in flow.given(here) if maker is None]
    is_learned = (
        bool(outer) and all(one.role == "parameter" for one in outer) and all(flow.makers[here] for here in front)
    )
    are_waves = all(any(flow.op(here) in WAVES for here in way) for way in (front, behind))
    if not is_learned or not are_waves or first.shape[:-2] != rest.shape[:-2]:
        return None
    parent = next(flow.parents(front[0]), None)
    inside = {
        step.path: step.params for step in flow.steps if parent is not None and step.parent == flow.steps[parent].id
    }
    sizes = {prod(one.shape) for one in outer}
    is_whole = parent is not None and sizes == {flow.steps[parent].params - sum(inside.values())}
    return first.shape[-2], sizes.pop() if is_whole else None


def turns_by_head(flow: Flow, own: Collection[int], heads: int | None) -> bool:
    """Whether the tables that turn rows differ from head to head, and are the same at every place (NeuCodec)."""
    tables = [
        (record, flow.output(node))
        for node in list_turned(flow, own)
        for record, maker in flow.given(node)
        if maker not in own
    ]
    return bool(tables) and all(differs_by_head(table, turned, heads) for table, turned in tables)


def differs_by_head(table: TensorRecord, turned: TensorRecord, heads: int | None) -> bool:
    """Whether a table has one row for each head, and no other axis along which rows differ that are turned by it."""
    offset = len(turned.shape) - len(table.shape)
    along = [axis + offset for axis, size in enumerate(table.shape[:-1]) if size > 1]
    if len(along) != 1 or along[0] < 0 or turned.shape[along[0]] != heads:
        return False
    word = turned.axes[along[0]] or table.axes[along[0] - offset]
    return word in ("heads", "kv_heads") if word else turned.shape.count(heads) == 1


def turns_pairs(flow: Flow, node: int) -> bool:
    """Whether a step adds up products of pairs of numbers with tables of 2 × 2: the turn of each pair, as a matrix."""
    maker = flow.makers[node][0] if flow.op(node) == "sum" and flow.makers[node] else None
    if maker is None or flow.op(maker) not in SCALINGS:
        return False
    shapes = [one.shape[-2:] for one in flow.steps[maker].inputs]
    return sorted(shapes) == [(1, 2), (2, 2)] and flow.output(node).shape == flow.output(maker).shape[:-1]


def is_table_product(flow: Flow, place: int, own: Collection[int]) -> bool:
    """Whether a step multiplies a side's numbers by a table that is not worked out of them, and not learned."""
    step = flow.steps[place]
    if step.op not in SCALINGS or len(step.inputs) != 2:
        return False
    tables = [
        record
        for record, maker in flow.given(place)
        if maker not in own and record.role != "parameter" and record.shape
    ]
    return len(tables) == 1 and tables[0].shape[-1] > 1


def moves_itself(flow: Flow, factor: int, own: Collection[int]) -> bool:
    """Whether what a product multiplies was cut or turned round first: a half of a row, or one number of each pair."""
    for _, maker in flow.given(factor):
        here = maker
        for _ in range(8):
            if here is None or here not in own:
                break
            if flow.op(here) in {"neg", "cat", "stack", "roll", "flip", "chunk", "split", "unbind"}:
                return True
            if is_cut(flow, here) or picks_of_pairs(flow, here):
                return True
            if flow.op(here) not in CARRYING or not flow.makers[here]:
                break
            here = flow.makers[here][0]
    return False


def is_cut(flow: Flow, place: int) -> bool:
    """Whether a step takes a part of each row."""
    step = flow.steps[place]
    return (
        step.op in ("index", "slice", "narrow", "select")
        and bool(step.inputs)
        and bool(step.outputs)
        and bool(step.outputs[0].shape)
        and step.outputs[0].shape[-1] < step.inputs[0].shape[-1]
    )


def takes_pairs_apart(flow: Flow, place: int) -> bool:
    """Whether a step makes of rows laid out in pairs complex numbers, or the first and the second numbers of these."""
    return flow.op(place) == "view_as_complex" or parts_pairs(flow, place) or picks_of_pairs(flow, place)


def parts_pairs(flow: Flow, node: int) -> bool:
    """Whether a step gives the first number of each pair, and the second."""
    step = flow.steps[node]
    return len(step.outputs) == 2 and [one.shape for one in step.inputs] == [(*step.outputs[0].shape, 2)]


def picks_of_pairs(flow: Flow, place: int) -> bool:
    """Whether a step takes one number of each pair, where these have an axis of two (torchtune)."""
    given = flow.steps[place].inputs[:1]
    is_pick = flow.op(place) in ("index", "select") and bool(given)
    return is_pick and given[0].shape[-1:] == (2,) and flow.output(place).shape == given[0].shape[:-1]


def is_by_place(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows by a number for each place that is worked out of the place alone (Llama 4)."""
    shape = flow.output(node).shape
    others = [(record, maker) for record, maker in flow.given(node) if record.shape != shape]
    if flow.op(node) not in SCALINGS or len(others) != 1 or others[0][1] is None:
        return False
    record, maker = others[0]
    behind = list(flow.behind(maker, most=MOST_BEHIND_PLACES))
    outer = [one for here in behind for one, before in flow.given(here) if before is None and one.role != "parameter"]
    is_data = any(flow.op(here) in LOOKUPS or flow.steps[here].params or is_linear(flow, here) for here in behind)
    is_own = len(behind) < MOST_BEHIND_PLACES and not is_data and not any(one.is_float for one in outer)
    is_counted = any(flow.op(here) in ("arange", "cumsum") for here in behind) or bool(outer)
    return is_own and is_counted and record.shape[-1:] == (1,) and prod(record.shape) > 1 and record.is_float


def name_factor_by_place(flow: Flow, own: Collection[int]) -> Literal["place", "head"] | None:
    """For what a number worked out of each place alone multiplies rows: each place, or each head too; None for none."""
    for node in sorted(own):
        if is_by_place(flow, node):
            made, factor = flow.output(node), next(one for one, _ in flow.given(node) if one.shape[-1:] == (1,))
            sizes = zip(reversed(made.axes), reversed(factor.shape), strict=False)
            return "head" if any(word == "heads" and size > 1 for word, size in sizes) else "place"
    return None
