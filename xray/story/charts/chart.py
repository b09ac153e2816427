"""A chart: nodes in rows from the bottom up, in lanes from left to right, and the ways that data takes between them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.records import TensorRecord
from xray.ir.trace import Step, name_weights
from xray.story.passages.added_places import count_learned, count_repeats, count_whole, learned_source
from xray.story.sentences.of_parts import Part, describe_box, kind_of
from xray.story.wording import plural

Place = tuple[float, float]
"""Where a lane stands: its centre and its width, in shares of the chart's width."""
WHOLE: Place = (0.5, 0.98)
BROAD: Place = (0.5, 0.86)
MIDDLE: Place = (0.5, 0.62)
LEFT, CENTRE, RIGHT = (1 / 6, 0.315), (0.5, 0.315), (5 / 6, 0.315)
LEFT_HALF, RIGHT_HALF = (0.25, 0.46), (0.75, 0.46)
LEFT_TWO, RIGHT_TWO = (1 / 3, 0.645), (2 / 3, 0.645)
Surface = Literal["own", "mask", "memory", "phase", "ghost", "condition"]
"""What a node is filled with: the colour of its tower, of a mask, of the tower it comes from, of its phase, of what
stands beside the stream, or none."""


@dataclass(frozen=True)
class Node:
    """One box: what it is called, what comes out of it, and the steps that it stands for.

    `record` is printed as its shape, or `value` in its place; `steps` are the recorded steps, the one that gives the
    record first. `extra` stands beside the label, with the shape of what is read `beside` the data, a mask. `remark`
    tells what happens there in plain words, `told` what has to be said in the node itself. `row` counts from 0 at the
    bottom. A "sign" is a circle with nothing but its label, "bars" stand beside each other under theirs,
    as high as their numbers. `joins` is the tower whose rows it puts beside those of its own.
    """

    key: str
    label: str
    row: int
    place: Place
    steps: tuple[Step, ...] = ()
    record: TensorRecord | None = None
    extra: str = ""
    remark: str = ""
    surface: Surface = "own"
    outline: str | None = None
    beside: TensorRecord | None = None
    value: str = ""
    told: tuple[str, ...] = ()
    form: Literal["box", "sign", "bars"] = "box"
    bars: tuple[int, ...] = ()
    joins: str | None = None

    @property
    def is_derived(self) -> bool:
        """Whether it stands for what one kernel does inside, of which only the end is stored."""
        return bool(self.steps) and bool(self.steps[0].settings.get("derived"))

    @property
    def is_given(self) -> bool:
        """Whether it is what comes in, and its steps are those that read it."""
        return self.key.rpartition(":")[2].startswith(("given", "also"))


@dataclass(frozen=True)
class Edge:
    """A way of data from one node to another, drawn as so many arrows side by side."""

    source: str
    target: str
    fan: int = 1


@dataclass(frozen=True)
class Chart:
    """The nodes of a part with the edges between them.

    `feet` are the nodes that read what goes in, `memory` those that read another tower, `head` the one whose result
    goes on; several that stand beside each other have spaces between them.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    feet: tuple[str, ...]
    head: str
    memory: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return 1 + max((node.row for node in self.nodes), default=-1)

    @property
    def is_one_lane(self) -> bool:
        """Whether none of its boxes stand side by side."""
        return all(len(list(self.in_row(row))) == 1 for row in range(self.rows))

    @property
    def heads(self) -> list[str]:
        """The keys of the nodes whose results go on."""
        return self.head.split(" ")

    def node(self, key: str) -> Node:
        """The node of a key."""
        return next(node for node in self.nodes if node.key == key)

    def in_row(self, row: int) -> Iterator[Node]:
        """The nodes of a row."""
        return (node for node in self.nodes if node.row == row)

    def raised(self, rows: int) -> "Chart":
        """The same so many rows higher."""
        return replace(self, nodes=tuple(replace(node, row=node.row + rows) for node in self.nodes))

    def marked(self, mark: str) -> "Chart":
        """The same with a mark before every key, so that it may stand beside others."""
        return Chart(
            tuple(replace(node, key=mark + node.key) for node in self.nodes),
            tuple(Edge(mark + one.source, mark + one.target, one.fan) for one in self.edges),
            tuple(mark + key for key in self.feet),
            " ".join(mark + key for key in self.heads),
            tuple(mark + key for key in self.memory),
        )


def uncross(nodes: Sequence[Node], edges: Collection[Edge], held: Collection[str] = ()) -> list[Node]:
    """The nodes, those of a row in the places between which the fewest lines to other rows cross; some are `held`.

    All orders of a row are tried: charts of operations have at most three boxes in one.
    """
    found = {node.key: node for node in nodes}
    for row in sorted({node.row for node in nodes}):
        keys = [node.key for node in nodes if node.row == row]
        places = [found[key].place for key in keys]
        if len({wide for _, wide in places}) > 1 or not {*held}.isdisjoint(keys):
            continue
        near = [edge for edge in edges if (edge.source in keys) != (edge.target in keys)]
        orders = (
            found | {key: replace(found[key], place=place) for key, place in zip(keys, order, strict=True)}
            for order in permutations(places)
        )
        found = min(orders, key=lambda order: count_crossed(order, near))
    return [found[node.key] for node in nodes]


def count_crossed(nodes: Mapping[str, Node], edges: Collection[Edge]) -> int:
    """How many pairs of lines between the same rows change sides."""
    ends = [(nodes[edge.source], nodes[edge.target]) for edge in edges]
    return sum(
        (low.row, high.row) == (below.row, above.row)
        and (low.place[0] - below.place[0]) * (high.place[0] - above.place[0]) < 0
        for (low, high), (below, above) in combinations(ends, 2)
    )


def chart_alone(node: Node) -> Chart:
    """One node as a chart."""
    return Chart((node,), (), (node.key,), node.key)


def chart_learned(flow: Flow, start: int) -> Chart | None:
    """The learned rows that a stream begins as, if it begins as nothing else (Perceiver)."""
    made = flow.output(start)
    if learned_source(flow, made, start) is None or len(made.shape) < len(("rows", "width")):
        return None
    return chart_rows(flow, start, start)


def name_learned(count: int) -> str:
    """What so many learned rows are called."""
    return "ONE LEARNED ROW" if count == 1 else f"{count:,} LEARNED ROWS"


def chart_rows(flow: Flow, start: int, source: int) -> Chart:
    """The learned rows that a stream begins as, which a step takes where they are held."""
    made = flow.output(start)
    count, table = count_learned(flow, start), learned_source(flow, made, start)
    numbers = prod(table.shape) if table is not None and count_whole(flow, start) else count * made.shape[-1]
    params = flow.steps[source].params or numbers
    held = table.shape[0] if table is not None and table.shape[1:] == made.shape[-1:] else count
    label = f"{count:,} OF {held:,} LEARNED ROWS" if held > count else name_learned(count)
    label += f", {times:,} TIMES" if (times := count_repeats(flow, start)) > 1 else ""
    told = plural(params, "parameter") if params else ""
    places = dict.fromkeys([start, source])
    return chart_alone(Node("learned", label, 0, MIDDLE, steps_at(flow, *places), made, told))


def steps_at(flow: Flow, *places: int) -> tuple[Step, ...]:
    """The steps at some places of a pass, and of a softmax that is written out all of them."""
    return tuple(flow.steps[one] for place in places for one in (place, *flow.written.get(place, ())))


def with_remarks(chart: Chart, part: Part) -> Chart:
    """The chart with what can be said beside its boxes, as far as the facts of its part prove it.

    Where one layer works for two of queries, keys and values, or two layers for one, they are no views of their own.
    """
    views = [node for node in chart.nodes if kind_of(node.key) == "linear"]
    known = {name_layer(node) for node in views}
    are_apart = len(known) == len(views) == len({node.key[-1] for node in views})
    remarks = [describe_box(node.key, part) if are_apart or node not in views else "" for node in chart.nodes]
    return replace(
        chart, nodes=tuple(replace(node, remark=told) for node, told in zip(chart.nodes, remarks, strict=True))
    )


def name_layer(node: Node) -> str:
    """By what the layer of a box is known; weights that are no module's are taken for others each time."""
    made = next((step for step in node.steps if step.module or any(one.weight for one in step.inputs)), None)
    return "".join(step.id for step in node.steps) if made is None else name_weights(made)


def stack_charts(lower: Chart, upper: Chart) -> Chart:
    """One chart above another: what the lower one gives goes into the upper one's feet."""
    raised = upper.raised(lower.rows)
    joints = tuple(Edge(head, foot) for head in lower.heads for foot in raised.feet)
    return Chart(
        (*lower.nodes, *raised.nodes),
        (*lower.edges, *joints, *raised.edges),
        lower.feet,
        raised.head,
        (*lower.memory, *raised.memory),
    )


def add_above(chart: Chart, node: Node) -> Chart:
    """The chart with one node more on top of its head."""
    raised = replace(node, row=chart.rows)
    return Chart((*chart.nodes, raised), (*chart.edges, Edge(chart.head, node.key)), chart.feet, node.key, chart.memory)


def join_beside(charts: list[Chart]) -> Chart:
    """Charts side by side, each in its share of the width, their keys kept apart."""
    count = len(charts)
    nodes: list[Node] = []
    marked = [chart.marked(f"{number}:") for number, chart in enumerate(charts)]
    for number, chart in enumerate(marked):
        for node in chart.nodes:
            centre, width = node.place
            place = ((number + 0.02 + centre * 0.96) / count, width * 0.96 / count)
            nodes.append(replace(node, place=place, remark=""))
    return share_boxes(
        Chart(
            tuple(nodes),
            tuple(edge for chart in marked for edge in chart.edges),
            tuple(key for chart in marked for key in chart.feet),
            " ".join(chart.head for chart in marked),
            tuple(key for chart in marked for key in chart.memory),
        )
    )


def share_boxes(chart: Chart) -> Chart:
    """The chart with one box for steps that several of its branches go through, the first that stands for them all."""
    kept: dict[str, str] = {}
    for number, node in enumerate(chart.nodes):
        own = {step.id for step in node.steps}
        others = (one for one in chart.nodes[:number] if own and own <= {step.id for step in one.steps})
        first = next((one.key for one in others if one.key.split(":")[0] != node.key.split(":")[0]), None)
        if first is not None and node.key not in chart.memory and first not in chart.heads:
            kept[node.key] = first
    edges = dict.fromkeys(
        Edge(kept.get(one.source, one.source), one.target, one.fan if one.source not in kept else 1)
        for one in chart.edges
        if one.target not in kept
    )
    nodes = tuple(node for node in chart.nodes if node.key not in kept)
    feet = tuple(key for key in chart.feet if key not in kept)
    head = " ".join(kept.get(key, key) for key in chart.heads)
    return replace(chart, nodes=nodes, edges=tuple(edges), feet=feet, head=head)
