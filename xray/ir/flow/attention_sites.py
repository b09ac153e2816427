"""Attention wherever it stands: softmax over a product of two tensors, and its sum with a third."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import OVER_HEADS, add_sides, keeps_pairs, read_mixing
from xray.ir.flow.operand_ways import Way, find_way
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    CLAMPS,
    DROPOUTS,
    MASKINGS,
    NORMS,
    SCALINGS,
    SCORING,
    SHAPING,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SUMS,
    TURNS,
    WRITES,
)
from xray.ir.flow.projections import data_input, is_product, is_projection
from xray.ir.flow.remembering import once
from xray.ir.flow.softmax_axis import operand_of_axis, read_axis, read_equation, read_pair
from xray.ir.records import TensorRecord
from xray.ir.turns import TURNED, read_turn, swaps_last_two

STRETCHES = frozenset({"index", "slice", "narrow", "split", "split_with_sizes", "chunk", "tensor_split"})
"""They take some of the places of an axis."""
FARTHEST = 24
"""How many steps there may be between scores and softmax, or between softmax and the weighted sum."""
NO_WEIGHT = -1e4
"""A score for a key that is not to be seen, or less."""
WEIGHING = CARRYING | DROPOUTS | SCALINGS | MASKINGS | {"nan_to_num"}
"""What may stand between softmax and the weighted sum."""
LAYING = WRITES | {"pad"}
"""What lays the diagonals of a square out as columns, and columns as diagonals: rows are made longer, and cut anew."""


@dataclass(frozen=True)
class Site:
    """One attention: its steps by their places in the pass.

    `scored` are the steps from the product of queries and keys to the softmax, both included; `weighed` those from
    there to the weighted sum, without softmax. `concat` and `output` are the way from the weighted sum to the output
    projection, and that; None where there is none. `mixed` are those of the scored and the weighed that mix what all
    heads have at one pair of places.
    """

    scores: int
    scored: tuple[int, ...]
    softmax: int
    weighed: tuple[int, ...]
    weighted_sum: int
    query: Way
    key: Way
    value: Way
    concat: tuple[int, ...]
    output: int | None
    kind: Literal["self", "cross"]
    mixed: tuple[int, ...] = ()

    @property
    def first(self) -> int:
        """The place of its first step."""
        ways = (self.query, self.key, self.value)
        return min(self.scores, *(way.nodes[0] for way in ways if way.nodes))

    @property
    def last(self) -> int:
        """The place of its last step."""
        return self.weighted_sum if self.output is None else self.output


@once
def list_sites(flow: Flow) -> tuple[Site, ...]:
    """Every attention in a pass, found once."""
    return tuple(find_sites(flow))


def find_sites(flow: Flow) -> Iterator[Site]:
    """Every attention in a pass, in order."""
    taken: set[tuple[int, TensorRecord]] = set()
    for place, step in enumerate(flow.steps):
        if step.op in SOFTMAXES and step.outputs and step.outputs[0].source == step.id:
            site = read_site(flow, place)
            if site is not None and (site.scores, site.key.end) not in taken:
                taken.add((site.scores, site.key.end))
                yield site


def read_site(flow: Flow, softmax: int) -> Site | None:
    """The attention around a softmax; None if what it reads is no product, or nothing is weighed by it."""
    scored, weighed = seek_scores(flow, softmax), seek_weighted_sum(flow, softmax)
    mixed = seek_mixed(flow, softmax, scored, weighed)
    if mixed is not None:
        scored, weighed = mixed
    elif scored is None and weighed is None:
        scored, weighed = seek_columns(flow, softmax)
    if scored is None or weighed is None:
        return None
    scores, weighted_sum = scored[0], weighed[-1]
    key_place = find_keys(flow, scored)
    value_place = other_operand(flow, weighted_sum, {softmax, *weighed[:-1]})
    if key_place is None or value_place is None or (mixed is None and not sums_weights(flow, softmax, weighed)):
        return None
    operands = operand_places(flow, scores)
    query_place = operands[0] if operands[1] == key_place else operands[1]
    query = find_way(flow, scores, query_place)
    key = find_way(flow, scores, key_place)
    value = find_way(flow, weighted_sum, value_place)
    concat, output = seek_output(flow, weighted_sum)
    return Site(
        scores=scores,
        scored=tuple(scored),
        softmax=softmax,
        weighed=tuple(weighed[:-1]),
        weighted_sum=weighted_sum,
        query=query,
        key=key,
        value=value,
        concat=concat,
        output=output,
        kind="self" if is_self(query, key, value) else "cross",
        mixed=() if mixed is None else tuple(one for one in (*scored, *weighed) if read_mixing(flow, one) is not None),
    )


def sums_weights(flow: Flow, softmax: int, weighed: Sequence[int]) -> bool:
    """Whether a product sums along the axis on which the weights sum to 1, or may where this was laid out anew before.

    They are the weights of no attention where it sums along another, as where the softmax of a learner's runs over
    queries.
    """
    axis, before = len(flow.output(softmax).shape) + read_axis(flow.steps[softmax]), softmax
    *moves, product = weighed
    for node in moves:
        turn = read_turn(flow.steps[node]) if flow.op(node) in TURNED else None
        if turn is None and flow.output(node).shape != flow.output(before).shape:
            if cuts_axis(flow, node, axis):
                before = node  # a sink stands there no more
                continue
            return flow.output(before).shape[axis] in flow.output(node).shape
        axis, before = axis if turn is None else turn.index(axis), node
    number, letters = flow.makers[product].index(before), read_equation(flow.steps[product])
    if letters is not None and number < 2:
        return len(letters[number]) <= axis or letters[number][axis] not in letters[2]
    is_first = number == len(flow.makers[product]) - 2
    return axis == len(flow.output(before).shape) - (1 if is_first else 2)


def cuts_axis(flow: Flow, node: int, axis: int) -> bool:
    """Whether a step only takes a stretch of an axis, and leaves the others as they were."""
    (given, *_), made = flow.steps[node].inputs, flow.output(node)
    return flow.op(node) in STRETCHES and made.shape == (
        *given.shape[:axis],
        made.shape[axis],
        *given.shape[axis + 1 :],
    )


def find_keys(flow: Flow, scored: Sequence[int]) -> int | None:
    """Which input of the product the keys are, be it turned before the softmax; None where that is not known.

    Two may look at each other by one product: the softmax of the one runs over its rows, of the other over its columns.
    """
    product, softmax = flow.steps[scored[0]], flow.steps[scored[-1]]
    place, (first, second) = operand_of_axis(product, softmax), operand_places(flow, scored[0])
    return first + second - place if place is not None and len(list_turns(flow, scored)) % 2 else place


def list_turns(flow: Flow, scored: Sequence[int]) -> list[int]:
    """The steps behind the product that turn scores: rows are columns then. An axis of 1 put among them turns none."""
    is_row = 1 in flow.output(scored[0]).shape[-2:]  # then the turn itself is of one query, or of one key
    turns = [node for node in scored[1:-1] if flow.op(node) in TURNS and swaps_last_two(flow.steps[node])]
    return [node for node in turns if is_row or 1 not in flow.output(node).shape[-2:]]


def has_keys_first(flow: Flow, site: Site) -> bool:
    """Whether keys are multiplied with queries, and not queries with keys: then each row of the scores is of a key."""
    return flow.op(site.scores) != "einsum" and site.key.end is flow.steps[site.scores].inputs[-2]


def count_pairs(flow: Flow, site: Site) -> tuple[int, int]:
    """How many queries meet how many keys in the scores."""
    shape = flow.output(site.scores).shape
    rows, columns = (shape[one] for one in read_pair(flow.steps[site.scores], flow.steps[site.softmax]))
    return (columns, rows) if has_keys_first(flow, site) else (rows, columns)


def is_self(query: Way, key: Way, value: Way) -> bool:
    """Whether keys and values come from the tensor that the queries come from."""
    if query.projection is not None and query.projection == key.projection:
        return True
    if key.projection is None and key.is_foreign:
        return False
    same = query.origin == key.origin == value.origin
    if same and query.origin is None and query.entry is not None and key.entry is not None:
        return query.entry.shape == key.entry.shape and query.entry.source == key.entry.source
    return same


def operand_places(flow: Flow, product: int) -> tuple[int, int]:
    """Which two inputs a product multiplies."""
    count = len(flow.steps[product].inputs)
    return count - 2, count - 1


def other_operand(flow: Flow, product: int, known: set[int]) -> int | None:
    """The operand of a product that does not come from the given steps."""
    first, second = operand_places(flow, product)
    makers = flow.makers[product]
    if makers[first] in known:
        return second
    return first if makers[second] in known else None


def seek_scores(flow: Flow, softmax: int, ops: frozenset[str] = SCORING, *, may_mix: bool = False) -> list[int] | None:
    """The steps from a product of two data tensors to the softmax; None if there is no such product behind it.

    Where they may, steps that may mix heads stand between as well.
    """
    seen: set[int] = set()

    def climb(place: int, left: int) -> list[int] | None:
        if place in seen or left == 0:
            return None
        seen.add(place)
        if place != softmax:
            if is_product(flow, place):
                return [place]
            goes_on = flow.op(place) in ops or hides_places(flow, place)
            if not goes_on and not (may_mix and read_mixing(flow, place) is not None):
                return None
        for maker in flow.makers[place]:
            if maker is not None:
                found = climb(maker, left - 1)
                if found is not None:
                    return [*found, place]
        return None

    return climb(softmax, FARTHEST)


def hides_places(flow: Flow, place: int) -> bool:
    """Whether a step writes one number, so low that softmax makes nothing of it, over some of those that it is given.

    So pairs of places are named of which the one is not to see the other.
    """
    step = flow.steps[place]
    value = step.settings.get("values") if step.op in ("index_put", "index_put_") and step.inputs else None
    is_low = value == "-inf" or (isinstance(value, int | float) and value <= NO_WEIGHT)
    return is_low and step.inputs[0].is_float and not any(one.is_float for one in step.inputs[1:])


def seek_mixed(
    flow: Flow, softmax: int, scored: list[int] | None, weighed: list[int] | None
) -> tuple[list[int], list[int]] | None:
    """Both ways where what all heads have at one pair of places is mixed on one of them; None where that is not so.

    What is mixed may be added to what it was.
    """
    before = scored or seek_scores(flow, softmax, may_mix=True)
    behind = weighed or seek_weighted_sum(flow, softmax, WEIGHING | SUMS | OVER_HEADS, may_mix=True)
    if before is None or behind is None:
        return None
    before, within = add_sides(flow, before, before[0]), add_sides(flow, behind[:-1], softmax)
    if not any(read_mixing(flow, node) is not None for node in (*before, *within)):
        return None
    return (before, [*within, behind[-1]]) if keeps_pairs(flow, before, within, behind[-1]) else None


def seek_columns(flow: Flow, softmax: int) -> tuple[list[int] | None, list[int] | None]:
    """Both ways where scores lie in columns, one for each distance: they are laid out so before, and laid back behind.

    No way where one of the two is not, as where some places are looked at by all beside those around (Longformer).
    """
    scored = seek_scores(flow, softmax, SCORING | LAYING)
    weighed = seek_weighted_sum(flow, softmax, WEIGHING | LAYING)
    are_laid = all(way is not None and any(flow.op(node) == "pad" for node in way) for way in (scored, weighed))
    return (scored, weighed) if are_laid else (None, None)


def lies_in_columns(flow: Flow, site: Site) -> bool:
    """Whether scores of an attention lie in columns, and not each query's beside those of all keys."""
    return any(flow.op(node) == "pad" for node in site.weighed) and any(flow.op(node) == "pad" for node in site.scored)


def seek_weighted_sum(
    flow: Flow, softmax: int, ops: frozenset[str] = WEIGHING, *, may_mix: bool = False
) -> list[int] | None:
    """The steps after a softmax up to the product that reads its weights, that product last."""
    todo: list[tuple[int, list[int]]] = [(softmax, [])]
    seen = {softmax}
    while todo:
        place, way = todo.pop(0)
        for reader in flow.readers.get(place, ()):
            if reader in seen or len(way) > FARTHEST:
                continue
            seen.add(reader)
            if is_product(flow, reader):
                return [*way, reader]
            if flow.op(reader) in ops or (may_mix and read_mixing(flow, reader) is not None):
                todo.append((reader, [*way, reader]))
    return None


def end_within(flow: Flow, site: Site, nodes: Collection[int]) -> Site:
    """The attention with the end that it has among some steps: two streams may each take rows of one result (SD3).

    Another may read what the heads found beside the sum (the tempo of Beat Transformer).
    """
    if site.output in nodes:
        return site
    concat, output = seek_output(flow, site.weighted_sum, nodes)
    return site if output is None and site.output is not None else replace(site, concat=concat, output=output)


def seek_output(
    flow: Flow, weighted_sum: int, within: Collection[int] | None = None
) -> tuple[tuple[int, ...], int | None]:
    """The steps that join the heads again, be it through a norm (Kosmos-2), and the projection that reads them.

    One may cut the axis of the batch into heads, and the next lay these side by side. Windows may be rolled back. Of
    several ends, that `within` some steps may be of rows to which those that did not attend are added (Mochi).
    """
    todo: list[tuple[int, tuple[int, ...]]] = [(weighted_sum, ())]
    seen = {weighted_sum}
    carried: tuple[int, ...] = ()
    while todo:
        place, way = todo.pop(0)
        for reader in flow.readers.get(place, ()):
            if reader in seen or len(way) > FARTHEST or not flow.steps[reader].outputs:
                continue
            if within is not None and reader not in within:
                continue
            seen.add(reader)
            data = data_input(flow, reader)
            if is_projection(flow, reader) and data is not None and flow.makers[reader][data] == place:
                return way, reader
            is_whole = {*flow.makers[reader]} == {place} and flow.output(place).shape[1:] == flow.steps[place].inputs[
                0
            ].shape[1:]
            rejoins = flow.op(reader) in SIDE_BY_SIDE and is_whole
            rejoins = rejoins or (within is not None and flow.op(reader) == "pad")
            if rejoins or flow.op(reader) in SHAPING | {"roll"} | CASTING | CLAMPS | DROPOUTS | SCALINGS | NORMS:
                todo.append((reader, (*way, reader)))
                carried = (*way, reader) if flow.op(reader) in SHAPING else carried
    return carried, None
