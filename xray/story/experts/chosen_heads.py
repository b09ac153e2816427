"""Heads that are chosen: for each place a router takes the experts that make its queries (JetMoe)."""

from collections.abc import Collection
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SCALINGS, SOFTMAXES
from xray.ir.records import TensorRecord
from xray.story.branches.operands.sides import Side
from xray.story.charts.chart import Chart, Edge, Node, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.experts.choice import count_chosen, find_choice
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import Region, is_linear, width_out

MAKING, WEIGHED = "EXPERTS MAKE", "× SOFTMAX OF THE CHOSEN SCORES"


def count_query_experts(flow: Flow, query: Side, region: Region) -> tuple[int, int] | None:
    """How many experts a router chooses that make the queries of a place, and among how many; None where none does."""
    if not query.nodes:
        return None
    return count_chosen_in(flow, set(flow.behind(max(query.nodes), within=region.inner.__contains__)))


def count_chosen_in(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """The same of steps that hold the router with its experts."""
    stacks = [stack for node in nodes if (stack := find_stack(flow, node)) is not None]
    choice = find_choice(flow, nodes) if len(stacks) > 1 else None
    if choice is None or any(stack.shape[0] != width_out(flow, choice[1]) for stack in stacks):
        return None
    return count_chosen(flow, choice[0]), width_out(flow, choice[1])


def find_stack(flow: Flow, node: int) -> TensorRecord | None:
    """The weights of all experts of which a linear layer multiplies by those of one; None where it is no such one."""
    if flow.op(node) != "linear" or not is_linear(flow, node):
        return None
    sources = (learned_source(flow, record, maker) for record, maker in flow.given(node) if maker is not None)
    return next((one for one in sources if one is not None and len(one.shape) == len(("experts", "out", "in"))), None)


def find_gathering(flow: Flow, node: int | None) -> int | None:
    """The step that has together what the layers of several experts made; None where a layer is none of theirs."""
    if node is None or find_stack(flow, node) is None:
        return None
    for reader in flow.readers.get(node, ()):
        makers = [maker for maker in flow.makers[reader] if maker is not None]
        if flow.op(reader) == "cat" and len(makers) > 1 and all(find_stack(flow, one) is not None for one in makers):
            return reader
    return None


def add_router(flow: Flow, chart: Chart) -> Chart:
    """The chart with a box for the router of the experts that make queries, which was in theirs, and ways from it.

    What these experts give back is multiplied by the softmax of its chosen scores.
    """
    box = next((node for node in chart.nodes if node.told and node.label.startswith(MAKING)), None)
    places = [] if box is None else [flow.places[step.id] for step in box.steps]
    choice = find_choice(flow, places) if places else None
    if box is None or choice is None:
        return chart
    chosen, router = choice
    own = Node("router", "ROUTER", box.row, box.place, steps_at(flow, router, chosen), flow.output(router))
    own = replace(own, extra=describe_params(flow, router))
    rest = [place for place in places if place not in choice]
    made = replace(box, steps=steps_at(flow, *rest), extra=describe_params(flow, *rest))
    nodes = [made if node is box else weigh_back(flow, node, chosen) for node in chart.nodes]
    raised = [replace(node, row=node.row + (node.row >= box.row)) for node in nodes]
    ways = [Edge(edge.source, own.key) for edge in chart.edges if edge.target == box.key]
    ways += [Edge(own.key, box.key), *(Edge(own.key, node.key) for node in nodes if node.label == WEIGHED)]
    feet = (*chart.feet, own.key) if box.key in chart.feet else chart.feet
    return replace(chart, nodes=(own, *raised), edges=(*chart.edges, *ways), feet=feet)


def weigh_back(flow: Flow, node: Node, chosen: int) -> Node:
    """A box that says so where it multiplies by the softmax of the scores that a router chose."""
    places = [flow.places[step.id] for step in node.steps]
    if len(places) != 1 or flow.op(places[0]) not in SCALINGS or len(flow.makers[places[0]]) != 2:
        return node
    bends = [flow.carried_from(maker, CARRYING | {"index"}) for maker in flow.makers[places[0]]]
    shares = [one for one in bends if one is not None and flow.op(one) in SOFTMAXES and chosen in flow.makers[one]]
    return replace(node, label=WEIGHED, steps=(*node.steps, *steps_at(flow, *shares))) if shares else node
