"""How the steps of a state's chart stand in boxes: the gate on what was read of it, and a state changed by pieces."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, FINDINGS, PLACING, SCALINGS, SIDE_BY_SIDE, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.flow.written_bends import list_written_bend
from xray.ir.kinds import PADDINGS
from xray.story.anatomy.branches import Branch, Recurrence
from xray.story.branches.states import longest_chain
from xray.story.charts.chart import Chart, Node, Place
from xray.story.charts.steps.drawn_steps import MOST_NODES
from xray.story.charts.steps.operation_labels import label_step
from xray.story.recognition.between import is_linear, is_scale, list_reading_data
from xray.story.recognition.norms import find_norm
from xray.story.sentences.of_states import SOLVED
from xray.story.states.operand_names import name_ways
from xray.story.states.operands import list_changes
from xray.story.states.scans import find_scan

STATE_BY_PIECES = "STATE, HANDED FROM PIECE TO PIECE"
STATES_AT_ONCE = "STATES OF ALL PLACES, WORKED OUT TOGETHER"
GATE = "GATE"
READ_OF_IT = "ROWS READ OF IT"
READ_IN_TURNS = f"{READ_OF_IT}, TURN BY TURN"
READ = "what is read of it"
SUMS_SO_FAR = frozenset({"cumsum"})
"""How much of a state is left behind each row, in logarithms: what is read of it fades by that too."""
READ_AND_MET = "what rows of a piece give each other, and what is read of it"
AS_IT_BEGAN = ", as it began"


@dataclass(frozen=True)
class Named:
    """What steps are called, those that stand for several, their lanes, and how many boxes are drawn at most."""

    labels: Mapping[int, str]
    folded: Mapping[int, tuple[int, ...]]
    lanes: Mapping[int, Place] = field(default_factory=dict)
    most: int = MOST_NODES


@dataclass(frozen=True)
class StateGate:
    """The step that lets through what was read of a state, the bend of its gate, and what is let through."""

    product: int
    bend: int
    read: int


def name_state_steps(flow: Flow, branch: Branch, nodes: Collection[int], end: int) -> Named:
    """The boxes of a branch with a state that are known by what they are for; none of another branch."""
    if not isinstance(branch, Recurrence):
        return Named({}, {})
    ways = name_ways(flow, nodes)
    top = find_read(flow, nodes, end)
    gate = None if top is None else find_state_gate(flow, nodes, top)
    labels = dict(ways.labels) | ({} if gate is None else name_gate(flow, nodes, gate))
    scan = find_scan(flow, nodes) if branch.at_once else None
    if scan is not None:
        return Named({**labels, scan.steps[0]: STATES_AT_ONCE}, {scan.steps[0]: scan.steps})
    top = top if gate is None else find_read(flow, nodes, gate.read)
    if top is not None and branch.by_pieces:
        top = leave_added(flow, nodes, top)
    pieces = () if top is None or not branch.by_pieces else list_pieces(flow, nodes, top)
    if top is None or not pieces:
        return Named(labels, ways.folded, ways.lanes, MOST_NODES + ways.count)
    linear = None if gate is None else flow.carried_from(flow.makers[gate.bend][0])
    inside = {*pieces, *ways.behind}
    folded = {node: group for node, group in ways.folded.items() if node not in inside}
    boxes = part_read(flow, nodes, top, {*pieces, *ways.behind})
    folded |= boxes
    if gate is not None and linear is not None and labels.get(linear) == GATE:
        labels[linear] = f"{GATE} + {label_step(flow, gate.bend)}"
        folded[linear] = (gate.bend, linear)
    labels |= dict.fromkeys(boxes, STATE_BY_PIECES) | ({top: READ_OF_IT} if len(boxes) > 1 else {})
    drawn = {node for held in boxes.values() for node in held}
    sums = {node for node in pieces if flow.op(node) in SUMS_SO_FAR} - drawn
    return Named(labels, folded, ways.lanes, MOST_NODES + ways.count + len(sums))


def tell_read(chart: Chart, branch: Branch | None = None) -> Chart:
    """The chart with how often a state is changed in its box, or that this gives what is read of it (Qwen 3.5).

    So it is said that rows of a piece that wait for each other are worked out by a triangular system, where they are,
    and that rows which are one piece read a state as it began.

    Where there are many pieces, the state has a box of its own, and this one is no such.
    """
    is_parted = any(node.label == READ_OF_IT for node in chart.nodes)
    filled = branch.filled if isinstance(branch, Recurrence) else None
    begun = AS_IT_BEGAN * (filled is not None and filled[0] == 1)
    return replace(chart, nodes=tuple(tell_read_node(node, begun, is_parted=is_parted) for node in chart.nodes))


def tell_read_node(node: Node, begun: str = "", *, is_parted: bool) -> Node:
    """A box with these words, where it is that of such a state; rows that are read of it may be `is_parted`.

    One that stands for these rows too gives them, and not the state: it shows no shape.
    """
    if node.label == READ_OF_IT and any(step.op in SUMS for step in node.steps):
        return replace(node, told=(*node.told, READ_AND_MET + begun))
    if node.label != STATE_BY_PIECES or node.key.startswith("state") or node.record is None:
        return node
    shapes = [record.shape for step in node.steps if step.op in SUMS for record in step.outputs]
    changes = shapes.count(node.record.shape)
    read = (READ_AND_MET if name_made(node) in SUMS else READ) + begun
    told = read if not is_parted else "changed once" if changes == 1 else f"changed {changes} times"
    solved = SOLVED.tell({step.op for step in node.steps})
    record = node.record if is_parted else None
    return replace(node, record=record, told=(told, solved) if solved else (told,))


def name_made(node: Node) -> str:
    """By what operation the numbers of a box are made, be they moved or put beside others of the box then (MiniMax)."""
    step, own = node.steps[0], {one.id: one for one in node.steps}
    while step.op in CARRYING | SIDE_BY_SIDE | PLACING and step.inputs and step.inputs[-1].source in own:
        step = own[step.inputs[-1].source]
    return step.op


def find_read(flow: Flow, nodes: Collection[int], here: int | None) -> int | None:
    """The step that ends the work on a state: behind it rows are moved, scaled, normed, and led back to the stream."""
    while here is not None and here in nodes:
        norm = find_norm(flow, here)
        if norm is not None:
            here = norm.origin
        elif flow.op(here) in CARRYING | {"group_norm"} or is_linear(flow, here) or is_scale(flow, here):
            here = flow.makers[here][0]
        else:
            return here
    return None


def find_state_gate(flow: Flow, nodes: Collection[int], product: int) -> StateGate | None:
    """The gate, where a step multiplies what was read of a state by bent rows of its shape; None where it does not."""
    makers = flow.makers[product]
    if flow.op(product) not in SCALINGS or len(makers) != 2:
        return None
    roots = [flow.carried_from(maker) for maker in makers]
    inside = [root for root in roots if root is not None and root in nodes]
    bends = [root for root in inside if flow.op(root) in CURVES or list_written_bend(flow, root)]
    if len(bends) != 1 or len({record.shape for record in flow.steps[product].inputs}) != 1:
        return None
    read = roots[1 - roots.index(bends[0])]
    return None if read is None or read not in nodes else StateGate(product, bends[0], read)


def name_gate(flow: Flow, nodes: Collection[int], gate: StateGate) -> dict[int, str]:
    """What is called after a gate: where it meets what was read, and its linear layer if this makes nothing else."""
    linear = flow.makers[gate.bend][0]
    while linear is not None and flow.op(linear) in CARRYING and is_read_once(flow, linear):
        linear = flow.makers[linear][0]
    names = linear is not None and linear in nodes and is_linear(flow, linear) and is_read_once(flow, linear)
    return {gate.product: f"× {GATE}"} | ({linear: GATE} if linear is not None and names else {})


def is_read_once(flow: Flow, node: int) -> bool:
    """Whether one step alone works on what a step gives."""
    return len(flow.leaf_readers(node)) == 1


def part_read(flow: Flow, nodes: Collection[int], top: int, inside: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The boxes of all that rows do with a state of few pieces: its last change, and what is read of it behind.

    One box is enough where what is read needs nothing that changes the state (MiniMax). The last change may lead to no
    row.
    """
    whole = {top: (top, *sorted({*inside} - {top}, reverse=True))}
    changes, first = list_changes(flow, nodes), min(inside)
    if not changes:
        return whole
    outside = {node for node in nodes if flow.op(node) not in CARRYING}.difference(inside)
    own = {*flow.behind(changes[-1], within=lambda node: node >= first and node not in outside)}
    read = {*inside} - own
    if top not in read or own.isdisjoint(maker for node in read for maker in flow.makers[node] if maker is not None):
        return whole
    shared = {flow.carried_from(maker) for node in read for maker in flow.makers[node]}
    both = {node for node in own if flow.op(node) in SUMS_SO_FAR and node in shared}
    own = {node for node in own if flow.op(node) not in CARRYING | PADDINGS} - both  # moved keys are read of both, too
    return {one: (one, *sorted(held - {one}, reverse=True)) for one, held in ((changes[-1], own), (top, read))}


def list_pieces(flow: Flow, nodes: Collection[int], top: int) -> tuple[int, ...]:
    """The steps by which all places of a piece meet each other and the state, the last first; none if layers are there.

    That is all between the first running sum of decays or product of rows and what is read of the state.
    """
    if longest_chain(flow, nodes) is not None:
        return ()
    reached = list_met(flow, nodes, top)
    if any(is_linear(flow, node) or flow.op(node) in FINDINGS for node in reached):
        return ()
    return tuple(sorted(reached, reverse=True))


def list_met(flow: Flow, nodes: Collection[int], top: int) -> set[int]:
    """The steps that lead to one in which places meet each other, and all that read what these make."""
    reached: set[int] = set()
    for node in sorted({top, *flow.behind(top, within=nodes.__contains__)}):
        if meets_others(flow, node) or not reached.isdisjoint(
            maker for maker in flow.makers[node] if maker is not None
        ):
            reached.add(node)
    return reached


def leave_added(flow: Flow, nodes: Collection[int], top: int) -> int:
    """The step that ends the work on a state, before rows are added to it that met no others (D·x of Mamba 2)."""
    makers = [flow.carried_from(maker) for maker in flow.makers[top]]
    if flow.op(top) not in SUMS or len(makers) != 2:
        return top
    met = list_met(flow, nodes, top).intersection(nodes)
    own = [maker for maker in makers if maker is not None and maker in met]
    return own[0] if len(own) == 1 else top


def part_written(flow: Flow, nodes: Collection[int], loop: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """A loop without what each turn reads of the state and puts beside what others read, and these, the last first.

    No turn reads them again: they are no part of the state (Qwen 3.5).
    """
    writes: list[int] = []
    here = max((node for node in nodes if flow.op(node) in PLACING), default=None) if loop else None
    while here is not None and here in nodes and flow.op(here) in PLACING:
        if writes and not is_read_once(flow, here):
            return list(loop), ()
        writes.append(here)
        here = flow.makers[here][0]
    if len(writes) < 2 or set(loop).isdisjoint(writes):
        return list(loop), ()
    own = list_changing(flow, loop)
    read = {node for node in loop if node not in own}.union(writes)
    return sorted(own), (writes[0], *sorted(read - {writes[0]}, reverse=True))


def list_changing(flow: Flow, loop: Sequence[int]) -> set[int]:
    """The steps of a loop by which a state is changed, and all of it that they need.

    The last change may be for a cache alone, and lead nowhere.
    """
    last = longest_chain(flow, loop)
    if last is None:
        return set(loop)
    kept = flow.ahead(last, within=lambda node: flow.output(node).shape == flow.output(last).shape)
    return set(loop).intersection(flow.behind(*kept, within=loop[0].__le__))


def meets_others(flow: Flow, node: int) -> bool:
    """Whether rows of several places meet in a step: a running sum, a product, or one written out, each with each."""
    step = flow.steps[node]
    if flow.op(node) == "cumsum" or (is_product(flow, node) and not is_linear(flow, node)):
        return True
    data = [prod(record.shape) for record, maker in flow.given(node) if maker in list_reading_data(flow)]
    return (
        flow.op(node) in SCALINGS and len(data) == len(step.inputs) == 2 and max(data) < prod(flow.output(node).shape)
    )
