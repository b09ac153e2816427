"""Steps that stand in another box than they would: norms at the foot of a branch, and moves of a linear layer's own.

And rows of another tower that are put beside those of the stream before the norm of a branch.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, COPIES, JOINS, TURNS
from xray.ir.flow.projections import data_input
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention
from xray.story.attention.ways.runs import joins_given_rows, label_given_rows
from xray.story.body.stages import Staging
from xray.story.branches.joint import ANOTHER
from xray.story.charts.chart import BROAD, MIDDLE, Chart, Edge, Node, chart_alone, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.steps.operations_chart import spread
from xray.story.passages.learned_steps import list_bias
from xray.story.passages.ordered_rows import RESHAPES
from xray.story.recognition.between import find_region, is_linear, strip_plain
from xray.story.recognition.norms import Norm
from xray.story.streams.joints import Joint

CUT_ANEW, AXES_SWAPPED = "CUT ANEW", "AXES SWAPPED"


def lead_norms(flow: Flow, norms: Sequence[Norm], drawn: Sequence[Node], chart: Chart) -> Chart:
    """A branch above the boxes of its norms: what chooses experts, and these, may have one each (Gemma 4)."""
    taken = {flow.steps[node].id for norm in norms for node in norm.nodes}
    nodes = [without(flow, one, taken) for one in chart.nodes]
    chart = replace(chart, nodes=tuple(nodes)).raised(1)
    led = {box.key: list_readers(flow, chart, norm.end) for box, norm in zip(drawn, norms, strict=True)}
    in_order = sorted(drawn, key=lambda box: min((chart.node(key).place for key in led[box.key]), default=BROAD))
    below = (replace(box, place=spread(number, len(drawn))) for number, box in enumerate(in_order))
    edges = [Edge(key, reader) for key, readers in led.items() for reader in readers]
    fed = {edge.target for edge in edges}
    fed |= {edge.target for edge in chart.edges if edge.source in fed and not chart.node(edge.source).steps}
    bare = [foot for foot in chart.feet if foot not in fed]
    return replace(chart, nodes=(*below, *chart.nodes), edges=(*edges, *chart.edges), feet=(*led, *bare))


def without(flow: Flow, node: Node, taken: Collection[str]) -> Node:
    """A box without some of its steps, and without their parameters: these stand in a box of their own."""
    steps = tuple(step for step in node.steps if step.id not in taken)
    if len(steps) == len(node.steps):
        return node
    before, after = (describe_params(flow, *(flow.places[one.id] for one in some)) for some in (node.steps, steps))
    told = tuple(after if one == before else one for one in node.told)
    return replace(node, steps=steps, extra=after if node.extra == before else node.extra, told=told)


def list_readers(flow: Flow, chart: Chart, made: int) -> list[str]:
    """The boxes that a step's result goes into; of those that stand above boxes without steps, these."""
    own = {node.key: {flow.places[step.id] for step in node.steps} for node in chart.nodes}
    held = set[int]().union(*own.values())
    found: list[str] = []
    for key, steps in own.items():
        makers = (maker for step in steps for maker in flow.makers[step] if maker not in steps)
        if made in flow.behind(*makers, within=lambda place: place not in held):
            below = [edge.source for edge in chart.edges if edge.target == key]
            found += [one for one in below if not own[one]] or [key]
    return found


def hold_moves(flow: Flow, chart: Chart) -> Chart:
    """The chart in which linear layers stand for the moves that lay all rows in one and out again (GPT-2)."""
    for key in [node.key for node in chart.nodes if node.steps]:
        node = next((node for node in chart.nodes if node.key == key), None)
        linear = None if node is None else find_layer(flow, node)
        moves = find_moves(flow, linear)
        if node is None or linear is None or moves is None:
            continue
        taken = {flow.steps[move].id for move in moves}
        gone = {one.key for one in chart.nodes if one.steps and {step.id for step in one.steps} <= taken}
        own = tuple(step for step in node.steps if step.id not in taken)
        before, behind = moves
        held = replace(node, steps=(flow.steps[behind], *own, flow.steps[before]), record=flow.output(behind))
        if own[0] is not flow.steps[linear]:  # but its bias, that is added behind the moves
            held = replace(
                held, steps=tuple(sorted(held.steps, key=lambda step: -flow.places[step.id])), record=node.record
            )
        nodes = (held if one.key == key else before_move(flow, one, before, taken) for one in chart.nodes)
        chart = without_boxes(replace(chart, nodes=tuple(nodes)), gone)
    return chart


def find_layer(flow: Flow, node: Node) -> int | None:
    """The linear layer that a box ends with, be it that its bias is added behind it."""
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    biased = [place for place in places if is_linear(flow, place) and list_bias(flow, place) == (*places[:1],)]
    return next(iter(biased or places), None)


def find_moves(flow: Flow, linear: int | None) -> tuple[int, int] | None:
    """The moves before and behind a linear layer of which one undoes the other, and that nothing else reads."""
    number = data_input(flow, linear) if linear is not None and is_linear(flow, linear) else None
    before = None if number is None or linear is None else flow.makers[linear][number]
    behind = flow.leaf_readers(linear) if linear is not None else []
    if before is None or linear is None or len(behind) != 1 or not {flow.op(before), flow.op(behind[0])} <= RESHAPES:
        return None
    if flow.leaf_readers(before) != [linear]:
        return None
    rows, flat, out = flow.steps[before].inputs[0].shape, flow.output(before).shape, flow.output(behind[0]).shape
    is_flat = len(rows) > len(flat) == len(("row", "number")) and rows[-1] == flat[-1]
    return (before, behind[0]) if is_flat and out == (*rows[:-1], flow.output(linear).shape[-1]) else None


def before_move(flow: Flow, node: Node, move: int, taken: Collection[str]) -> Node:
    """A box without moves that another one stands for; where it ended with one, it shows what that read.

    Where nothing that cuts is left in it, it is called after what is (torch's attention, batch first).
    """
    steps = tuple(step for step in node.steps if step.id not in taken)
    if not steps or len(steps) == len(node.steps):
        return node
    ends = node.steps[0] is flow.steps[move]
    only_swaps = node.label == CUT_ANEW and all(flow.op(flow.places[step.id]) in TURNS | COPIES for step in steps)
    record, label = flow.steps[move].inputs[0] if ends else node.record, AXES_SWAPPED if only_swaps else node.label
    return replace(node, label=label, steps=steps, record=record)


def leave_first_moves(flow: Flow, chart: Chart, every: Sequence[Staging]) -> Chart:
    """The chart without boxes of moves that the stream goes through too, where not all layers have them (BEATs).

    They lay the rows as every layer reads them, once, before the first one.
    """
    moves = [list_moves_past(flow, staging.joints[0]) for staging in every]
    if not any(moves) or all(moves):
        return chart
    taken = {flow.steps[move].id for move in moves[0]}
    return without_boxes(
        chart, [one.key for one in chart.nodes if one.steps and {step.id for step in one.steps} <= taken]
    )


def leave_moves_before(flow: Flow, chart: Chart, block: Step | None) -> Chart:
    """The chart of a layer's first sublayer without the moves by which its block's rows were laid before (DPTNet)."""
    made = None if block is None or not block.inputs else flow.places.get(block.inputs[0].source or "")
    moves: list[int] = []
    while made is not None and flow.op(made) in CARRYING:
        moves.append(made)
        made = next(iter(flow.makers[made]), None)
    taken = {flow.steps[move].id for move in moves}
    kept = [before_move(flow, node, moves[0], taken) for node in chart.nodes] if moves else chart.nodes
    gone = [node.key for node in chart.nodes if node.steps and {step.id for step in node.steps} <= taken]
    return without_boxes(replace(chart, nodes=tuple(kept)), gone)


def list_moves_past(flow: Flow, joint: Joint) -> list[int]:
    """The steps that only move a stream, for a branch and for the sum behind it."""
    start = joint.region.start
    ways = (
        find_region(flow, start, maker)
        for maker in flow.makers[joint.add]
        if maker is not None and strip_plain(flow, maker) == start
    )
    past = frozenset[int]().union(*(way.inner for way in ways if way is not None))
    return [node for node in past & joint.region.inner if flow.op(node) in CARRYING]


def without_boxes(chart: Chart, gone: Collection[str]) -> Chart:
    """The chart without some boxes: what led to them leads on to where they led, and rows close up."""
    edges, feet, heads = list(chart.edges), list(chart.feet), chart.heads
    for key in gone:
        sources = [edge.source for edge in edges if edge.target == key]
        onward = [edge for edge in edges if edge.source == key]
        feet = [one for foot in feet for one in ([edge.target for edge in onward] if foot == key else [foot])]
        heads = [one for head in heads for one in (sources if head == key else [head])]
        led = [replace(edge, source=source) for source in sources for edge in onward]
        edges = [edge for edge in edges if key not in (edge.source, edge.target)] + led
    nodes = [node for node in chart.nodes if node.key not in gone]
    rows = {row: number for number, row in enumerate(sorted({node.row for node in nodes}))}
    nodes = [replace(node, row=rows[node.row]) for node in nodes]
    memory = tuple(key for key in chart.memory if key not in gone)
    return Chart(tuple(nodes), tuple(edges), tuple(dict.fromkeys(feet)), " ".join(heads), memory)


def find_joined_tower(flow: Flow, staging: Staging, norm: Norm) -> str | None:
    """The tower whose rows an attention puts beside those of its stream before both are normalised (CaiT in timm)."""
    towers = [one.branch.beside for one in staging.branches if isinstance(one.branch, Attention)]
    join = norm.origin if norm.origin in staging.joints[0].region.inner else None
    if join is None or flow.op(join) not in JOINS or len(staging.branches) != 1 or towers in ([], [ANOTHER]):
        return None
    return towers[0] if staging.joints[0].stream in flow.makers[join] else None


def is_of_given_rows(flow: Flow, staging: Staging, norm: Norm) -> bool:
    """Whether a norm reads rows that came in and those of the stream, put together (Transformer-XL, norms first)."""
    join, stream = norm.origin, staging.joints[0].stream
    if join not in staging.joints[0].region.inner or join is None or not joins_given_rows(flow, join):
        return False
    return stream in {one for maker in flow.makers[join] for one in (maker, strip_plain(flow, maker))}


def chart_joined(flow: Flow, staging: Staging, norm: Norm) -> Chart | None:
    """Rows of another tower, or that came in, put beside those of the stream before the norm of both; else None."""
    tower = find_joined_tower(flow, staging, norm)
    if norm.origin is None or (tower is None and not is_of_given_rows(flow, staging, norm)):
        return None
    rows = " + ".join(f"{one.shape[-2]:,}" for one in flow.steps[norm.origin].inputs if len(one.shape) > 1)
    label = label_given_rows(flow, norm.origin) if tower is None else f"END TO END: {rows}"
    steps, record = steps_at(flow, norm.origin), flow.output(norm.origin)
    return chart_alone(Node("join_rows", label, 0, MIDDLE, steps, record, joins=tower))
