"""What comes to a stream between its layers: rows of another tower (Qwen3-VL), and what it was itself before."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SCALINGS, SIDE_BY_SIDE, SUMS
from xray.story.body.widths import end_of
from xray.story.cutting.patterns import Layer
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import is_linear
from xray.story.recognition.norms import Norm, find_norm
from xray.story.recognition.values.value_shapes import number

MOST_BEHIND = 60


MOST_OF_A_NORM = 16


@dataclass(frozen=True)
class RowsBetween:
    """Rows that are added behind a layer, from 0: the steps that work them out, of what, and the steps that add them.

    `source` is the sum of another tower that they begin at, `end` what the next layer reads; `of` is what that tower is
    called, and `behind` the one of its layers that the sum ends, if it ends one. `given` is what they read of it: that
    sum, or what a norm behind it gives (BridgeTower's text).
    """

    layer: int
    nodes: tuple[int, ...]
    source: int
    given: int
    add: int
    end: int
    of: str = ""
    behind: int | None = None


def list_added_rows(flow: Flow, layers: Sequence[Layer], theirs: Collection[int]) -> Iterator[RowsBetween]:
    """The rows that are added behind layers, and made of some of `theirs`."""
    for place, (one, following) in enumerate(pairwise(layers)):
        end, begun = end_of(one), following[0].joints[0].stream
        if begun is None or begun <= end:
            continue
        between = [node for node in flow.behind(begun, most=MOST_BEHIND) if node > end]
        ways = ((node, find_added(flow, node, end, theirs)) for node in between)
        add, way = next(((node, way) for node, way in ways if way), (end, []))
        if way:
            yield RowsBetween(place, tuple(sorted(way[:-1])), way[-1], way[-1], add, begun)


def find_added(flow: Flow, node: int, end: int, theirs: Collection[int]) -> list[int]:
    """The way of rows that a step adds to some that only were moved since a layer, and last the sum that they begin at.

    Empty where they begin at no sum of another tower.
    """
    makers = flow.makers[node]
    if flow.op(node) not in SUMS or len(makers) != 2:
        return []
    own = [flow.carried_from(maker) == end for maker in makers]
    if own.count(True) != 1:
        return []
    behind = list(flow.behind(makers[own.index(False)], most=MOST_BEHIND, ends=lambda place: place in theirs))
    source = next((one for one in behind if one in theirs), None)
    return [] if source is None else [*(one for one in behind if one not in theirs), source]


def is_worked_out(flow: Flow, rows: RowsBetween) -> bool:
    """Whether rows go through a linear layer of their own before they are added."""
    return any(is_linear(flow, node) for node in rows.nodes)


def find_earlier(flow: Flow, nodes: Collection[int], start: int, layers: Sequence[Layer]) -> dict[int, tuple[int, int]]:
    """The steps between two layers that add what an earlier one gave (Funnel), or its norm (HRM), to what it made.

    So those that put it beside what these made or the `start` gave (CANINE), be it what an earlier layer read that none
    gave (a U-Net's skips). For each the layer's number, and the step whose result it takes.
    """
    ends = {end_of(layer): number for number, layer in enumerate(layers)}
    normed = {norm.end: norm.origin for layer in ends for norm in list_closing(flow, layer)}
    ends |= {norm: ends[origin] for norm, origin in normed.items() if norm not in nodes and origin in ends}
    read = {layer[0].joints[0].stream: number for number, layer in enumerate(layers)}
    beside = {one: number for one, number in read.items() if one is not None} | ends
    found, own = dict[int, tuple[int, int]](), {*nodes, start}
    for node in sorted(nodes):
        known = ends if flow.op(node) in SUMS else beside if widens(flow, node) else {}
        made = [moved_from(flow, one) for one in flow.makers[node]]
        before = [(known[one], one) for one in made if one in known]
        if len(made) == 2 and len(before) == 1 and own.issuperset(one for one in made if one not in known):
            found[node] = before[0]
    return found


def widens(flow: Flow, node: int) -> bool:
    """Whether a step lays the numbers of rows, or the channels of maps, beside those of others."""
    axis, made = find_channels(flow, node), flow.output(node).shape
    axis = len(made) - 1 if axis is None else axis
    shapes = {(*one.shape[:axis], *one.shape[axis + 1 :]) for one in flow.steps[node].inputs}
    return flow.op(node) in SIDE_BY_SIDE and shapes == {(*made[:axis], *made[axis + 1 :])}


def moved_from(flow: Flow, place: int | None) -> int | None:
    """The step whose numbers a step only moves, or multiplies or divides by 1."""
    place = flow.carried_from(place)
    while place is not None and flow.op(place) in SCALINGS and number(flow.steps[place]) == 1:
        place = flow.carried_from(flow.makers[place][0])
    return place


def list_closing(flow: Flow, end: int) -> Iterator[Norm]:
    """The norms that read what a layer gives, as it is."""
    places = flow.ahead(*flow.readers.get(end, ()), within=lambda one: one - end <= MOST_OF_A_NORM)
    norms = (find_norm(flow, place) for place in places)
    yield from (norm for norm in norms if norm is not None and norm.origin is not None and norm.origin == end)


def renews_numbers(flow: Flow, end: int, nodes: Collection[int]) -> bool:
    """Whether others are laid beside some of the numbers of rows by steps on their way, as wide as before (FIBO)."""
    wide = flow.output(end).shape[-1:]
    for node in (one for one in nodes if flow.op(one) in SIDE_BY_SIDE and flow.output(one).shape[-1:] == wide):
        own = {maker == end or maker in nodes for _, maker in flow.given(node)}
        if own == {True, False} and all(record.shape[-1:] < wide for record, _ in flow.given(node)):
            return True
    return False
