"""What leaves a tower before its end: rows that a layer gives, as they are or worked on (DeepStack)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SIDE_BY_SIDE
from xray.story.recognition.between import list_reading_data

PICKING = frozenset({"index", "narrow", "slice", "select"})


@dataclass(frozen=True)
class Tap:
    """A layer, from 0, of which something is handed out before the last: the step of its rows, and those behind it.

    There are none behind it where the rows leave as they are; `end` is the step that hands out.
    """

    layer: int
    source: int
    nodes: frozenset[int]
    end: int


def list_taps(flow: Flow, given: Sequence[Collection[int]], taken: Collection[int]) -> tuple[Tap, ...]:
    """What is handed out of a tower's layers but the last.

    `given` are the steps that each layer ends with, its sum and the norms behind it, `taken` those of all towers.
    Nothing but the rows of that layer may go into it: what brings several together is another thing. The block that
    hands out holds the last layer too, and is no layer that was called by itself. What runs in the block of a later
    layer is that layer's own (Anomaly Transformer).
    """
    taps = (follow_out(flow, number, ends, taken) for number, ends in enumerate(given[:-1]))
    whole = [] if not given else [*flow.parents(max(given[-1]))][-1:]
    found = [tap for tap in taps if tap is not None and [*flow.parents(tap.end)][-1:] == whole != []]
    return tuple(tap for tap in found if not runs_in_later(flow, tap, given))


def runs_in_later(flow: Flow, tap: Tap, given: Sequence[Collection[int]]) -> bool:
    """Whether what hands out runs in a block of a later layer, or of several such."""
    ends = {max(one) for one in given[tap.layer + 1 :]}
    blocks = (range(one, flow.ends[one]) for one in flow.parents(tap.end) if one > max(given[tap.layer]))
    return any(not ends.isdisjoint(block) for block in blocks)


def leaves_last(flow: Flow, given: Collection[int], taken: Collection[int]) -> bool:
    """Whether what the last layer gives is handed out, moved at most, beside what learned steps behind make of it.

    `given` are the steps that it ends with, `taken` those of all towers.
    """
    out, free = flow.one_pass.results, [one for place in given for one in flow.readers.get(place, ())]
    moved = {*given, *flow.ahead(*free, within=lambda one: flow.op(one) in CARRYING and one not in taken)}
    joined = [one for place in moved for one in flow.readers.get(place, ()) if joins_none_made(flow, one)]
    moved |= {*flow.ahead(*joined, within=lambda one: one in joined or flow.op(one) in CARRYING | PICKING)}
    onward = {one for place in moved for one in flow.readers.get(place, ())} - moved
    made = [one for one in flow.ahead(*onward, within=lambda one: one not in taken) if flow.is_leaf(one)]
    is_handed = not out.isdisjoint(flow.steps[one].id for one in moved if flow.is_leaf(one))
    is_learned = any(flow.steps[one].is_learned for one in made)
    is_made = is_learned and not out.isdisjoint(flow.steps[one].id for one in made)
    return is_handed and is_made


def joins_none_made(flow: Flow, node: int) -> bool:
    """Whether a step puts nothing but rows that no step made beside those of one (Transformer-XL's next memory)."""
    return flow.op(node) in SIDE_BY_SIDE and sum(maker is not None for maker in flow.makers[node]) == 1


def follow_out(flow: Flow, number: int, given: Collection[int], taken: Collection[int]) -> Tap | None:
    """What is handed out of one layer; None where nothing is, or several things are."""
    data, found = list_reading_data(flow), {one: one for one in given}
    free = {one for place in given for one in flow.readers.get(place, ()) if one not in taken and flow.is_leaf(one)}
    for place in sorted({*free, *flow.ahead(*free, within=lambda one: one not in taken)} - {*given} if free else ()):
        sources = {found.get(maker) for maker in flow.makers[place] if maker in data and maker is not None}
        (source,) = sources if len(sources) == 1 else (None,)
        if source is not None:
            found[place] = source
    ends = [place for place in found if flow.is_leaf(place) and flow.steps[place].id in flow.one_pass.results]
    if len(ends) != 1:
        return None
    (end,) = ends
    behind = {one for one in flow.behind(end, within=found.__contains__) if one not in given}
    return Tap(number, found[end], frozenset(behind), end)
