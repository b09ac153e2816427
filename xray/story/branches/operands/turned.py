"""How queries and keys are turned by places: how many of their numbers, by which angles, and how long they get."""

from collections.abc import Collection, Iterator, Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import DIFFERENCES, SCALINGS, SIDE_BY_SIDE, SUMS, WAVES
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.branches.operands.sides import MOST_BEHIND, Side
from xray.story.branches.operands.turn_bases import list_worked_out, read_height
from xray.story.entrance.tables import says_places
from xray.story.recognition.between import is_linear
from xray.story.recognition.turning import MOST_TO_WAVES, Pairs, is_rotary, list_products, list_turned, name_pairs
from xray.story.recognition.values.known_values import values_of

MOST_TO_ANGLES = 24
"""So many steps lie at most between a turn and the frequencies of its angles."""


def goes_by_place(flow: Flow, own: Collection[int]) -> bool:
    """Whether steps turn rows, and each by its place: tables are worked out of places, and differ along these.

    Where they are seen to be made of waves, there are cosines and sines, and something is taken off or made negative.
    """
    products = list_products(flow, own)
    tables = [(node, *given) for node in products for given in flow.given(node) if given[1] not in own]
    readers = [one for node, _, maker in tables for one in (node, *flow.behind(maker, most=MOST_TO_WAVES))]
    is_still = any(flow.steps[one].settings.get("still") for one in readers)
    if is_still or any(is_alike(flow, flow.output(node), record, maker) for node, record, maker in tables):
        return False
    if not are_of_places(flow, [maker for *_, maker in tables]):
        return False
    ways = [{*flow.behind(maker, most=MOST_TO_WAVES, ends=lambda one: flow.op(one) in WAVES)} for _, _, maker in tables]
    waves = [{flow.op(one) for one in way} & WAVES for way in ways]
    if not all(waves) or not list_turned(flow, own):
        return True
    way = set(own).union(*ways)
    return set().union(*waves) == WAVES and any(may_take_off(flow, one) for one in way)


def are_of_places(flow: Flow, makers: Collection[int | None]) -> bool:
    """Whether tables are worked out of places: of no layer, and of no numbers that came in.

    Whole numbers may be places, or say where these begin; others are none that are not called so.
    """
    ways = {*flow.behind(*makers)}
    outer = [record for one in ways for record, maker in flow.given(one) if maker is None]
    others = [one for one in outer if one.is_float and one.argument is not None and not says_places(one.argument)]
    return not others and not any(is_linear(flow, one) for one in ways)


def turn_alike(flow: Flow, query: Side, key: Side) -> bool:
    """Whether queries and keys are turned equally often, and both the same way round: else no distance is told."""
    products = [list_products(flow, side.nodes) for side in (query, key)]
    ways = [
        {maker is not None and flow.op(maker) == "neg" for node in own for maker in set(flow.makers[node]) - side.nodes}
        for own, side in zip(products, (query, key), strict=True)
    ]
    return len(products[0]) == len(products[1]) and ways[0] == ways[1]


def is_alike(flow: Flow, turned: TensorRecord, table: TensorRecord, maker: int | None) -> bool:
    """Whether what rows are multiplied by is the same at all places of a sequence, or a number known to be."""
    laid = (1,) * (len(turned.shape) - len(table.shape)) + tuple(table.shape)
    first = 1 if turned.axes[:1] == ("batch",) else 0
    values = values_of(flow, maker)
    is_one = values is not None and bool((values == values.flat[0]).all())
    return is_one or (prod(laid[first:-1]) == 1 and 1 not in turned.shape[first:-1])  # else there may be one place


def may_take_off(flow: Flow, node: int) -> bool:
    """Whether a step makes numbers negative, takes some off others, or is given a number below 0."""
    settings = flow.steps[node].settings.values()
    return flow.op(node) in DIFFERENCES | {"neg", "neg_", "view_as_complex"} or any(
        isinstance(one, int | float) and one < 0 and flow.op(node) in SCALINGS | SUMS for one in settings
    )


def count_turned(flow: Flow, query: Side, key: Side, d_k: int | None) -> tuple[int | None, int | None]:
    """How many numbers of each head are turned, where others stand beside them that are not; None where all are.

    With it how wide rows are that were not cut into heads yet. Keys may be written into a tensor that is there
    (DeepSeek-V3); they are turned as the queries are that meet them.
    """
    sides = (query, key)
    found = {counts for side in sides if (counts := count_turned_beside(flow, side)) is not None}
    found = found or {counts for side in sides if (counts := count_turned_at_all(flow, side)) is not None}
    told = {(count, width if d_k is not None and width > d_k else None) for count, width in found}
    return told.pop() if len(told) == 1 else (None, None)


def count_turned_at_all(flow: Flow, side: Side) -> tuple[int, int] | None:
    """How many numbers of a row are turned by an angle that is not 0 at all places (Gemma 4); None where all are."""
    for table, step in list_angles(flow, side):
        still, counts = step.settings.get("zeros"), {one.shape[0] for one in step.inputs if len(one.shape) == 1}
        times = {table.shape[-1] // count for count in counts if table.shape[-1] in (count, 2 * count)}
        if type(still) is int and len(times) == 1:
            return table.shape[-1] - still * times.pop(), table.shape[-1]
    return None


def read_rotary(flow: Flow, query: Side, key: Side, setting: str) -> float | None:
    """A setting of the angles by which queries and keys are turned; None where there are several, or none is known.

    A base may follow from the steps that make the angles (frequencies that are worked out while the model runs).
    """
    steps = [step for side in (query, key) for _, step in list_made(flow, side, list_products(flow, side.nodes))]
    told = (step.settings.get(setting) for step in steps)
    found: set[float | None] = {float(value) for value in told if isinstance(value, int | float)}
    if setting == "base":
        found.update(list_worked_out(flow, {flow.places[step.id] for step in steps}))
    return found.pop() if len(found) == 1 else None


def read_turn_length(flow: Flow, query: Side, key: Side) -> float | None:
    """How many times as long turning makes queries and keys, by a number that multiplies all cosines and sines (YaRN).

    None where they stay as long, or it is not known.
    """
    found = {
        None if maker is None else read_height(flow, maker)
        for side in (query, key)
        for node in list_turned(flow, side.nodes)
        for maker in flow.makers[node]
        if maker not in side.nodes
    }
    (height,) = found if len(found) == 1 else (None,)
    return None if height == 1 else height


def name_turned_pairs(flow: Flow, query: Side, key: Side) -> Pairs | None:
    """Which two numbers are turned together, of queries as of keys."""
    found = {name_pairs(flow, side.nodes) for side in (query, key)}
    return found.pop() if len(found) == 1 else None


def list_angles(flow: Flow, side: Side) -> Iterator[tuple[TensorRecord, Step]]:
    """The tables by which a side's rows are turned, each with every step that it was made in."""
    yield from list_made(flow, side, list_turned(flow, side.nodes))


def list_made(flow: Flow, side: Side, turned: Sequence[int]) -> Iterator[tuple[TensorRecord, Step]]:
    """The tables with which some steps multiply a side's rows, each with every step that it was made in."""
    for node in turned:
        for table, maker in flow.given(node):
            behind = () if maker is None or maker in side.nodes else flow.behind(maker, most=MOST_TO_ANGLES)
            yield from ((table, flow.steps[one]) for one in behind)


def count_turned_beside(flow: Flow, side: Side) -> tuple[int, int] | None:
    """How many turned numbers of a side are laid beside others, and how many all are; None where none are.

    Rows may come by ways of their own: None too where it is another count in some, or all is turned (V-JEPA 2-AC).
    """
    counts, whole = set[tuple[int, int]](), set(list_products(flow, side.nodes))
    for node in sorted(side.nodes, reverse=True):
        given = [(record, maker) for record, maker in flow.given(node) if 0 not in record.shape]
        if flow.op(node) not in SIDE_BY_SIDE or not given or flow.output(node).shape[-1] == given[0][0].shape[-1]:
            continue
        own = [set(flow.behind(maker, most=MOST_BEHIND, within=side.nodes.__contains__)) for _, maker in given]
        turned = [record.shape[-1] for (record, _), nodes in zip(given, own, strict=True) if is_rotary(flow, nodes)]
        if 0 < len(turned) < len(given) and not whole.isdisjoint(held := set[int]().union(*own)):
            counts.add((sum(turned), flow.output(node).shape[-1]))
            whole -= held
    return counts.pop() if len(counts) == 1 and not whole else None
