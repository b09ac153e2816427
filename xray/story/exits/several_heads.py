"""Several heads of one stream: those that a model hands out beside its last one, each in a lane of its own."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.cut_rows import list_cut_makers, list_cut_parts
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    DIFFERENCES,
    DROPOUTS,
    MASKINGS,
    PLACING,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.story.body.ends import is_convolved, list_cuts
from xray.story.body.towers import Towering
from xray.story.branches.scored.caps import name_times, read_factor
from xray.story.charts.chart import Chart, Node, Place
from xray.story.charts.steps.operation_labels import label_step
from xray.story.exits.behind.last_steps import reach_behind
from xray.story.exits.behind.worked_behind import changes_all, label_behind, list_begun, list_worked_behind
from xray.story.exits.handed_rows import find_row
from xray.story.recognition.between import find_region, is_linear, list_reading_data, width_out

GOING_ON = CARRYING | CLAMPS | CURVES | DIFFERENCES | DROPOUTS | MASKINGS | PLACING | SCALINGS | SUMS | {"sum"}
"""What a head may still do with what its last linear layer made."""
MOST_LANES = 3


@dataclass(frozen=True)
class Heads:
    """The heads beside the last one: their steps, and what those are called that bend what a head gives.

    `folded` are the steps of heads alike that stand in one box each, by the last of them.
    """

    steps: frozenset[int] = frozenset()
    labels: tuple[tuple[int, str], ...] = ()
    folded: tuple[tuple[int, tuple[int, ...]], ...] = ()


def find_heads(flow: Flow, towering: Towering, top: int, inner: Collection[int], others: Collection[int]) -> Heads:
    """The heads that are worked out of a tower's end beside the one with the steps `inner`, and handed out too.

    They end with a linear layer, and read nothing that other towers end with. Where there are any, the last one's
    bends stand among them.
    """
    end, began = towering.last_layer, list_begun(flow, towering)
    reached, shared = reach_behind(flow, end, others)
    linear = [place for place in sorted(reached) if place > end and is_linear(flow, place)]
    known = {flow.steps[place].path for place in inner}  # what works again on another image is no other head
    beside = [place for place in linear if flow.steps[place].path not in known and place not in shared]
    out = flow.one_pass.results
    tops: list[int] = []
    for place in beside:
        ahead = set(flow.ahead(place, within=reached.__contains__)) - {place}
        is_last = ahead.isdisjoint(linear) and not is_convolved(flow, place)
        is_out = any(flow.steps[one].id in out for one in (place, *ahead))
        if flow.steps[place].params and is_last and is_out and reads_end(flow, place, end):
            tops.append(place)
    regions = {one: region for one in tops if (region := find_region(flow, end, one)) is not None}
    if not regions:
        return Heads()
    worked = [own for one in (*tops, top) for own in list_worked_behind(flow, one, others, began)]
    steps = {node for region in regions.values() for node in region.inner} | {node for own in worked for node in own}
    onward = list_onward(flow, {*tops, top, *(own[0] for own in worked)}, reached)
    labels = [(own[0], label_behind(flow, own, began)) for own in worked]
    labels += [(one, label_step(flow, one)) for one in onward if flow.op(one) in SUMS and len({*flow.makers[one]}) > 1]
    labels += [(one, name_times(read_factor(flow, one) or 1)) for one in onward if changes_all(flow, one)]
    own = {one: region.inner for one, region in regions.items()} | {top: frozenset(inner)}
    folded = fold_alike(flow, own) if len(own) > MOST_LANES else {}
    labels += [(one, label_alike(flow, group)) for one, group in folded.items() if is_linear(flow, one)]
    return Heads(frozenset(steps | onward), tuple(labels), tuple(folded.items()))


def fold_alike(flow: Flow, heads: Mapping[int, frozenset[int]]) -> dict[int, tuple[int, ...]]:
    """The steps of several heads that stand in one box, by the last of these: heads of several layers, all alike.

    What they give is stacked by one step, so each makes a part of one thing (SAM's masks). `heads` are the steps of
    each, by its last layer.
    """
    times = Counter(node for inner in heads.values() for node in inner)
    alike: dict[tuple[tuple[int, ...], object], list[list[int]]] = {}
    for top, inner in heads.items():
        own = [one for one in sorted(inner) if flow.is_leaf(one) and times[one] == 1 and flow.op(one) not in CARRYING]
        did = tuple((flow.op(one), flow.steps[one].params, flow.output(one).shape) for one in own)
        alike.setdefault((find_stacked(flow, top), did), []).append(own)
    found: dict[int, tuple[int, ...]] = {}
    for (stacked, _), several in alike.items():
        paths = {flow.steps[one].path for own in several for one in own if flow.steps[one].params}
        linear = [one for one in several[0] if is_linear(flow, one)]
        if stacked and len(several) > 1 < len(linear) and len(paths) == len(several) * len(linear):
            found |= {max(level): tuple(sorted(level, reverse=True)) for level in zip(*several, strict=True)}
    return found


def label_alike(flow: Flow, linear: Collection[int]) -> str:
    """What linear layers in one box are called, and whether each reads another row of the same ones (SAM's masks)."""
    cuts = [flow.makers[one][0] for one in linear]
    rows = {find_row(flow, cut) for cut in cuts if cut is not None}
    sources = {flow.makers[cut][0] for cut in cuts if cut is not None}
    is_each = len(rows - {""}) == len(cuts) and len(sources) == 1
    return f"{len(linear)} LINEAR LAYERS{', A ROW EACH' * is_each}"


def find_stacked(flow: Flow, top: int) -> tuple[int, ...]:
    """The step that stacks what a head gives with what others do, as it is, and those that cut its part out of that.

    Empty where there is none. One that is cut out without the others goes a way of its own (SAM-HQ's own mask).
    """
    readers = flow.leaf_readers(top)
    if len(readers) != 1 or flow.op(readers[0]) not in SIDE_BY_SIDE | {"stack"}:
        return ()
    moved = {readers[0], *flow.ahead(*flow.readers.get(readers[0], ()), within=lambda one: flow.op(one) in CARRYING)}
    cuts = {one: [maker for _, maker in list_cut_parts(flow, one)] for one in moved if flow.is_leaf(one)}
    return (readers[0], *sorted(one for one, parts in cuts.items() if top in parts))


def reads_end(flow: Flow, head: int, end: int) -> bool:
    """Whether a head reads a tower's end, and not what an earlier layer gave, cut out of a stack of all."""
    return end in flow.behind(head, ends=lambda here: here <= end, reads=lambda here: list_cut_makers(flow, here))


def list_alike(flow: Flow, chart: Chart) -> set[int]:
    """How many numbers those layers of an exit give of which several read the same rows: one a code (MusicGen)."""
    linear = [place for node in chart.nodes for step in node.steps if is_linear(flow, place := flow.places[step.id])]
    alike = Counter((flow.makers[place], width_out(flow, place)) for place in linear)
    return {width for (_, width), count in alike.items() if count > 1}


def find_cut_scores(flow: Flow, chart: Chart, rows: int) -> tuple[int, int] | None:
    """Of what layer of an exit the scores leave the model cut: of how many codes, each of how many ids; None of none.

    Only where all of them together are as many as a table has rows: each code has rows of its own there (Dia).
    """
    out = flow.one_pass.results
    found = set[tuple[int, int]]()
    for place in (flow.places[step.id] for node in chart.nodes for step in node.steps):
        if is_linear(flow, place) and flow.output(place).shape[-1:] == (rows,):
            moved = flow.ahead(*flow.readers.get(place, ()), within=lambda one: flow.op(one) in CARRYING)
            leaving = {flow.steps[one].id for one in moved}
            cuts = [shape for shape in list_cuts(flow, place) if prod(shape) == rows]
            found |= {(codes, ids) for codes, ids in cuts if not out.isdisjoint(leaving)}
    return found.pop() if len(found) == 1 else None


def list_onward(flow: Flow, tops: Collection[int], reached: Collection[int]) -> set[int]:
    """What is done with what heads made by no other weights: products of their own rows, sums, bends, masks.

    What was there before the tower ended may be added (the boxes that RT-DETR makes better layer by layer). What is
    made to be checked alone is none of it.
    """
    found, data = {*tops}, list_reading_data(flow)
    for place in range(min(found), len(flow.steps)):
        makers = [maker for maker in flow.makers[place] if maker is not None]
        if place in found or place not in reached or found.isdisjoint(makers):
            continue
        earlier = {maker for maker in makers if maker not in reached} if flow.op(place) in SUMS | DIFFERENCES else set()
        is_own = all(maker in found or maker not in data or maker in earlier for maker in makers)
        if is_own and (flow.op(place) in GOING_ON or is_product(flow, place)):
            found.add(place)
    return {one for one in found - {*tops} if not is_checked_alone(flow, one)}


def is_checked_alone(flow: Flow, node: int) -> bool:
    """Whether all that comes of what a step makes is whether something is so, and none of it is handed out.

    As torch's distributions try whether the numbers that they are given are allowed.
    """
    readers = flow.leaf_readers(node)
    ahead = {node, *flow.ahead(*readers)}
    ends = [one for one in ahead if flow.is_leaf(one) and not flow.leaf_readers(one)]
    is_out = any(flow.steps[one].id in flow.one_pass.results for one in ahead)
    return bool(readers) and not is_out and all(flow.output(one).dtype == "bool" for one in ends)


def place_heads(chart: Chart, most: int = MOST_LANES) -> Chart:
    """The chart with each of a few heads, `most` at most, in a lane of its own, above what all of them read.

    It stays as it is where some boxes lead to several heads, and not to all.
    """
    onward: dict[str, list[str]] = {node.key: [] for node in chart.nodes}
    for edge in chart.edges:
        onward[edge.source].append(edge.target)
    ends = [node.key for node in chart.nodes if not onward[node.key]]
    leads = {node.key: find_led(onward, node.key) & {*ends} for node in chart.nodes}
    common = [node for node in chart.nodes if len(leads[node.key]) == len(ends)]
    lanes = [[node for node in chart.nodes if leads[node.key] == {end}] for end in ends]
    if not 1 < len(ends) <= most or len(common) + sum(map(len, lanes)) < len(chart.nodes):
        return chart
    above = 1 + max((node.row for node in common), default=-1)
    if any(node.row < above for lane in lanes for node in lane):
        return chart
    placed = [node for number, lane in enumerate(lanes) for node in stack_lane(lane, above, lay_lane(number, lanes))]
    found = {node.key: node for node in (*common, *placed)}
    return replace(chart, nodes=tuple(found[node.key] for node in chart.nodes))


def find_led(onward: dict[str, list[str]], key: str) -> set[str]:
    """A box and all that it leads to."""
    found, todo = {key}, [key]
    while todo:
        ahead = [one for one in onward[todo.pop()] if one not in found]
        found.update(ahead)
        todo += ahead
    return found


def stack_lane(lane: Iterable[Node], row: int, place: Place) -> list[Node]:
    """The boxes of one head, one above the other."""
    ordered = sorted(lane, key=lambda node: node.row)
    return [replace(node, row=row + number, place=place) for number, node in enumerate(ordered)]


def lay_lane(number: int, lanes: Sequence[object]) -> Place:
    """Where the how manieth of some lanes stands."""
    return ((number + 0.5) / len(lanes), (0.84 if len(lanes) <= MOST_LANES else 0.97) / len(lanes))


def list_added_head(flow: Flow, places: Collection[int], end: int, other: int) -> set[int]:
    """The steps of a head behind another tower's end alone, where a sum adds what is behind both ends (CrossViT)."""
    mine = set(flow.ahead(end)).intersection(places)
    theirs = set(flow.ahead(other)).intersection(places) - mine
    sums = (set(flow.makers[place]) for place in places if flow.op(place) in SUMS)
    return theirs if any(theirs & makers and mine & makers for makers in sums) else set()
