"""The chart of a deformable attention: weights, points and values side by side, what is sampled, and back."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import MASKINGS, SIDE_BY_SIDE, SUMS
from xray.story.anatomy.attentions import DeformableAttention
from xray.story.attention.square import label_softmax
from xray.story.attention.ways.lanes import Part, cut_way, lay_out, list_opening
from xray.story.attention.ways.part_names import name_part
from xray.story.attention.ways.ways import MOST_ARROWS, Lane, lane_node
from xray.story.body.stages import Branching
from xray.story.branches.operands.sides import Side
from xray.story.branches.sampled import Sampling
from xray.story.charts.chart import BROAD, CENTRE, LEFT, RIGHT, RIGHT_TWO, WHOLE, Chart, Edge, Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params, steps_with_block
from xray.story.charts.dropouts import describe_dropout, list_dropouts
from xray.story.passages.added_places import list_of_sines, name_addition
from xray.story.sentences.of_parts import FROM_BOX
from xray.story.streams.corrected import is_measured

LEFT_TWO: Place = (1 / 3, 0.645)


def chart_sampling(flow: Flow, found: Branching) -> Chart:
    """The chart of a branch that is a deformable attention."""
    sampling, branch = found.sampling, found.branch
    if sampling is None or not isinstance(branch, DeformableAttention):
        raise ValueError("only a deformable attention has this chart")
    nodes: list[Node] = []
    edges: list[Edge] = []
    asking = find_asking(flow, found, sampling)
    if asking is not None:
        label, record = f"{name_addition(flow, asking, found.region.start)} Q", flow.output(asking)
        own = steps_at(flow, asking, *list_of_sines(flow, asking, found.region.start))
        nodes.append(Node("asking", label, 0, LEFT_TWO, own, record))
    first = len(nodes)
    for key, label, place, step in (
        ("counts", "LINEAR WEIGHTS", LEFT, sampling.scores),
        ("offsets", "LINEAR OFFSETS", CENTRE, sampling.offsets),
    ):
        nodes.append(Node(key, label, first, place, steps_at(flow, step), flow.output(step)))
    edges += [Edge("asking", key) for key in ("counts", "offsets") if first]
    nodes.append(draw_softmax(flow, sampling, first + 1))
    edges.append(Edge("counts", "softmax"))
    points = find_points(flow, found, sampling)
    if points is not None:
        own, told = steps_at(flow, points), (FROM_BOX,) if is_measured(flow, points) else ()
        nodes.append(Node("points", "POINTS", first + 1, CENTRE, own, flow.output(points), told=told))
        edges.append(Edge("offsets", "points"))
    values = list(draw_values(flow, sampling, branch, first))
    edges += [Edge(one.key, other.key) for one, other in pairwise(values)]
    nodes += values
    row = 1 + max(node.row for node in nodes)
    nodes.append(draw_samples(flow, sampling, branch, row))
    tops = ["offsets" if points is None else "points", *(node.key for node in values[-1:])]
    edges += [Edge(top, "sampled") for top in tops]
    steps = steps_at(flow, sampling.weighted_sum, sampling.weighted)
    nodes.append(Node("values", "WEIGHTS · SAMPLES", row + 1, WHOLE, steps, flow.output(sampling.weighted_sum)))
    edges += [Edge("softmax", "values"), Edge("sampled", "values")]
    head = draw_end(flow, sampling, branch, nodes, edges)
    feet = ["asking"] if first else ["counts", "offsets"]
    foot = [node.key for node in values[:1]] or ["sampled"]
    crosses = branch.leaves_stream
    return Chart(tuple(nodes), tuple(edges), tuple(feet if crosses else [*feet, *foot]), head, tuple(foot * crosses))


def find_asking(flow: Flow, found: Branching, sampling: Sampling) -> int | None:
    """The sum of the stream and what tells places that both linear layers of the query read; None if there is none."""
    inside = found.region.inner - list_opening(flow, found)
    made = {flow.carried_from(flow.makers[node][0]) for node in (sampling.offsets, sampling.scores)}
    here = made.pop()
    return here if not made and here in inside and here is not None and flow.op(here) in SUMS else None


def find_points(flow: Flow, found: Branching, sampling: Sampling) -> int | None:
    """The sum of offsets and what they are measured from; None if there is none."""
    grids = [flow.makers[node][1] for node in sampling.samples]
    behind = flow.behind(*grids, within=found.region.inner.__contains__, ends=lambda here: here == sampling.offsets)
    return max((node for node in behind if flow.op(node) in SUMS), default=None)


def draw_softmax(flow: Flow, sampling: Sampling, row: int) -> Node:
    """The weights of the samples."""
    dropped = list_dropouts(flow, sampling.softmax)
    steps = (*steps_at(flow, sampling.softmax), *dropped)
    label, record = label_softmax(flow.steps[sampling.softmax]), flow.output(sampling.softmax)
    return Node("softmax", label, row, LEFT, steps, record, describe_dropout(flow, dropped))


def draw_values(flow: Flow, sampling: Sampling, branch: DeformableAttention, row: int) -> Iterator[Node]:
    """The way of the values to the maps that are sampled, as far as they go there together."""
    nodes = find_shared(flow, sampling)
    end = flow.output(max(nodes, default=sampling.samples[0]))
    side = Side(end, nodes, (), not branch.leaves_stream)
    parts = lay_out(cut_way(flow, nodes, None))
    lane = Lane("v", RIGHT, side, tuple(parts))
    for number, part in enumerate(parts):
        node = lane_node(flow, lane, part, name_part(flow, part, "v"), row + number, is_waist=False)
        label = "MASK V" if hides(flow, part) else node.label
        outline = "ribbon" if branch.leaves_stream else None
        yield replace(node, label=label, surface="memory" if branch.leaves_stream else "own", outline=outline)


def find_shared(flow: Flow, sampling: Sampling) -> frozenset[int]:
    """The steps that lead to every map that is sampled, before they are cut apart."""
    inside = sampling.values.union(sampling.samples)
    ways = [set(flow.behind(one, within=inside.__contains__)) for one in sampling.samples]
    shared = sampling.values.intersection(*ways)
    return frozenset(node for node in shared if len(flow.steps[node].outputs) == 1)


def hides(flow: Flow, part: Part) -> bool:
    """Whether a part writes one number where a mask says."""
    return any(flow.op(node) in MASKINGS for node in part.nodes)


def draw_samples(flow: Flow, sampling: Sampling, branch: DeformableAttention, row: int) -> Node:
    """What lies at the points, from all maps together."""
    readers = flow.readers.get(sampling.samples[-1], ())
    joined = [one for one in readers if flow.op(one) in SIDE_BY_SIDE | {"stack"}][:1]
    steps = steps_at(flow, *joined, *sampling.samples)
    record = flow.output(joined[0] if joined else sampling.samples[-1])
    points = f" {branch.points} POINTS" if branch.points else ""
    maps = f" × {branch.levels} MAPS" if (branch.levels or 0) > 1 else ""
    return Node("sampled", f"SAMPLE{points or ' POINTS'}{maps}", row, RIGHT_TWO, steps, record)


def draw_end(flow: Flow, sampling: Sampling, branch: DeformableAttention, nodes: list[Node], edges: list[Edge]) -> str:
    """Heads joined and led back to the stream; gives the last node."""
    last, row = "values", nodes[-1].row + 1
    if sampling.concat:
        steps = steps_with_block(flow, *reversed(sampling.concat))
        nodes.append(Node("concat", "CONCAT HEADS", row, BROAD, steps, flow.output(sampling.concat[-1])))
        edges.append(Edge(last, "concat", min(branch.heads or 1, MOST_ARROWS)))
        last, row = "concat", row + 1
    if sampling.output is not None:
        extra, steps = describe_params(flow, sampling.output), steps_at(flow, sampling.output)
        nodes.append(Node("output", "LINEAR O", row, BROAD, steps, flow.output(sampling.output), extra))
        edges.append(Edge(last, "output"))
        last = "output"
    return last
