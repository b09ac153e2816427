"""The charts of a feed-forward and of experts: out to d_ff and back, for all places alike or chosen for each."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    DROPOUTS,
    PLACING,
    SCALINGS,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
    TURNS,
    ZEROS,
)
from xray.ir.flow.projections import data_input
from xray.story.anatomy.branch_words import label_activation
from xray.story.anatomy.branches import FeedForward
from xray.story.attention.factors import MULTIPLIED
from xray.story.body.stages import Branching, Staging, opening_norms
from xray.story.branches.before_last import find_inner_norm
from xray.story.branches.feed_forward import find_rows_beside, is_bend, is_gate, list_bending, list_threshold
from xray.story.charts.chart import (
    BROAD,
    LEFT_HALF,
    RIGHT_HALF,
    Chart,
    Edge,
    Node,
    add_above,
    chart_alone,
    stack_charts,
    steps_at,
)
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.norm_chart import draw_inner_norm
from xray.story.charts.steps.operation_labels import label_step
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.inputs import name_argument
from xray.story.experts.held_gates import find_held
from xray.story.passages.added_places import ADDED_UP
from xray.story.passages.learned_steps import list_bias
from xray.story.passages.modulation import list_modulation
from xray.story.recognition.between import (
    is_linear,
    list_reading_data,
    name_groups,
    projections_in,
    width_in,
    width_out,
)
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.recognition.norms import list_factors, spell_norm
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.shortcuts import ends_turns, find_any_norm

AXES_SWAPPED = "AXES SWAPPED"
"""What a step is called that lays places last, and first again."""


def chart_forward(flow: Flow, found: Branching) -> Chart | None:
    """The chart of a feed-forward: expand (and gate), bend, contract."""
    branch = found.branch
    if not isinstance(branch, FeedForward):
        return None
    nodes = found.region.inner
    projections = projections_in(flow, nodes)
    last = projections[-1]
    wide = [node for node in projections[:-1] if width_out(flow, node) in (branch.d_ff, 2 * (branch.d_ff or 0))]
    in_a_row = len(wide) > 1 and wide[0] in flow.behind(wide[-1], within=nodes.__contains__)
    if branch.kernel is not None or not wide or len(projections) != len(wide) + 1 or len(wide) > 2 or in_a_row:
        opened = [norm.end for norm in opening_norms(flow, found.region, found.region.start)]
        own = [node for node in nodes if node > max(opened, default=-1)]
        begun = opened or [one for one in (found.region.start,) if one is not None]
        return chart_operations(flow, own, found.region.end, label_half(flow, found.region.end), begins=begun)
    bend = label_activation(branch.activation or "")
    with_bend = f" + {bend}" if bend else ""
    between = [
        node for node in sorted(nodes) if wide[0] < node < last and node not in projections and flow.is_leaf(node)
    ]
    gate = next((node for node in reversed(between) if is_gate(flow, node, set(nodes), wide)), None)
    drawn: list[Node] = []
    edges: list[Edge] = []
    feet: tuple[str, ...]
    if branch.gated and len(wide) == 2 and gate is not None:
        bent = next((one for one in wide if one not in map(flow.carried_from, flow.makers[gate])), wide[0])
        bending = list_bending(flow, [node for node in between if node < gate], branch.activation)
        held = find_held(flow, gate, between)
        for key, one, place in (("gate", bent, LEFT_HALF), ("expand", next(w for w in wide if w != bent), RIGHT_HALF)):
            above = list_threshold(flow, between, [bent]) if key == "gate" else []
            above_bent = dict.fromkeys((*list_bias(flow, one), *((*bending, *above) if key == "gate" else ())))
            label = f"GATE{' ABOVE A THRESHOLD' * bool(above)}{with_bend}" if key == "gate" else "UP"
            drawn.append(
                Node(
                    key,
                    label,
                    0,
                    place,
                    steps_at(flow, one, *above_bent),
                    flow.output(one),
                    describe_params(flow, one, *above_bent),
                )
            )
        drawn.append(
            Node(
                "multiply",
                "GATE × UP",
                1,
                BROAD,
                steps_at(flow, gate, *(held.nodes if held else ())),
                flow.output(gate),
                told=held.told if held else (),
            )
        )
        edges = [Edge("gate", "multiply"), Edge("expand", "multiply")]
        feet, top, row = ("gate", "expand"), "multiply", 2
    elif branch.gates_beside and len(wide) == 1:
        times = find_rows_beside(flow, found.region, between)
        bends = [node for node in between if node < (times or last)]
        drawn += [
            Node(
                "gate",
                f"GATE{with_bend}",
                0,
                BROAD,
                steps_at(flow, *wide, *bends),
                flow.output(wide[0]),
                describe_params(flow, *wide),
            ),
            Node("beside", "× ROWS FROM BESIDE", 1, BROAD, steps_at(flow, times or last), flow.output(times or last)),
        ]
        edges, feet, top, row = [Edge("gate", "beside")], ("gate",), "beside", 2
    else:
        is_fused = branch.gated and gate is not None
        label = (
            "ONE LINEAR FOR GATE AND UP"
            if is_fused
            else f"LINEAR{name_groups(flow, wide[0])}{name_norm_between(flow, between)}{with_bend}"
        )
        joined = find_joined(flow, found, wide[0])
        with_it = list_bias(flow, wide[0])
        with_it += () if is_fused else tuple(one for one in list_between(flow, between, branch) if one not in with_it)
        first = 0 if joined is None else 1
        if joined is not None:
            drawn.append(Node("join", "BESIDE THE STREAM", 0, BROAD, steps_at(flow, joined), flow.output(joined)))
            edges.append(Edge("join", "expand"))
        drawn.append(
            Node(
                "expand",
                label,
                first,
                BROAD,
                steps_at(flow, wide[0], *with_it),
                flow.output(wide[0]),
                describe_params(flow, wide[0], *list_norms_between(flow, between), *with_it),
            )
        )
        feet, top, row = (drawn[0].key,), "expand", first + 1
        if is_fused and gate is not None:
            held = find_held(flow, gate, between)
            drawn.append(
                Node(
                    "multiply",
                    f"GATE{with_bend}, × UP",
                    row,
                    BROAD,
                    steps_at(
                        flow,
                        gate,
                        *list_bending(flow, [one for one in between if one < gate], branch.activation),
                        *(held.nodes if held else ()),
                    ),
                    flow.output(gate),
                    told=held.told if held else (),
                )
            )
            edges.append(Edge("expand", "multiply"))
            top, row = "multiply", row + 1
    inner = find_inner_norm(flow, last, between)
    if inner is not None:
        drawn.append(draw_inner_norm(flow, inner, row))
        edges.append(Edge(top, "inner"))
        top, row = "inner", row + 1
    label, back = f"LINEAR{name_groups(flow, last)}", (*list_bias(flow, last), last)
    made, counted = flow.output(back[0]), describe_params(flow, *back)
    drawn.append(Node("contract", label, row, BROAD, steps_at(flow, *back), made, counted))
    edges.append(Edge(top, "contract"))
    chart = Chart(tuple(name_clamps(flow, node, nodes) for node in drawn), tuple(edges), feet, "contract")
    return draw_chosen(flow, chart, wide[0], last)


def label_half(flow: Flow, end: int) -> dict[int, str]:
    """The step that a feed-forward ends with, and what it is called, where it cuts off what goes another way."""
    whole, part = flow.steps[end].inputs[:1], flow.output(end).shape
    return {end: f"CUT: {part[-1]:,} OF {whole[0].shape[-1]:,}"} if flow.op(end) in SPLITS and whole else {}


def draw_chosen(flow: Flow, chart: Chart, wide: int, last: int) -> Chart:
    """The chart with boxes of the rows that a mask chooses, and of these put into zeros (X-MOD's languages)."""
    place = data_input(flow, wide)
    taken = None if place is None else flow.carried_from(flow.makers[wide][place], CARRYING - {"index"})
    readers = flow.readers.get(last, ())
    if taken is None or flow.op(taken) != "index" or len(readers) != 1 or flow.op(readers[0]) not in PLACING:
        return chart
    (put,), begin = readers, flow.carried_from(flow.makers[readers[0]][0])
    mask, masks = flow.makers[taken][-1], [record.dtype == "bool" for record in flow.steps[taken].inputs[1:]]
    if masks != [True] or mask not in flow.makers[put] or begin is None or flow.op(begin) not in ZEROS:
        return chart
    first = Node("chosen", label_chosen(flow, mask), 0, BROAD, steps_at(flow, taken), flow.output(taken))
    above = chart.raised(1)
    edges = (*(Edge(first.key, foot) for foot in above.feet), *above.edges)
    whole = Chart((first, *above.nodes), edges, (first.key,), above.head)
    return add_above(whole, Node("put", "PUT BACK, 0 ELSEWHERE", 0, BROAD, steps_at(flow, put), flow.output(put)))


def label_chosen(flow: Flow, mask: int | None) -> str:
    """What rows are called that a mask chooses, by the id that they have, where that came in."""
    given = [] if mask is None else list(flow.given(mask))
    name = name_argument(flow, given[0][0]) if len(given) == 1 and given[0][1] is None else ""
    wanted = None if mask is None or flow.op(mask) != "eq" else number(flow.steps[mask])
    known = bool(name) and wanted is not None
    return f"ROWS WHERE {name.replace('_', ' ').upper()} = {wanted:g}" if known else "ROWS OF A MASK"


def name_clamps(flow: Flow, node: Node, within: Collection[int]) -> Node:
    """The box of a linear layer that says where what it reads or makes is clamped, and stands for that (Gemma 4)."""
    linear = flow.places[node.steps[0].id]
    number = data_input(flow, linear) if is_linear(flow, linear) else None
    if number is None:
        return node
    read = flow.carried_from(flow.makers[linear][number])
    before = [read] if read in within and read is not None and flow.op(read) in CLAMPS else []
    behind, here = list[int](), linear
    while len(readers := flow.readers.get(here, ())) == 1 and flow.op(readers[0]) in CLAMPS and readers[0] in within:
        here = readers[0]
        behind.append(here)
    name, plus, bent = node.label.partition(" + ")
    label = f"{'CLAMP + ' * bool(before)}{name}{' + CLAMP' * bool(behind)}{plus}{bent}"
    return replace(node, label=label, steps=(*node.steps, *steps_at(flow, *before, *behind)))


def find_joined(flow: Flow, found: Branching, wide: int) -> int | None:
    """The step that puts what a part before it found beside the stream's own rows, for a linear layer to read both."""
    number = data_input(flow, wide)
    join = None if number is None else flow.carried_from(flow.makers[wide][number])
    if join is None or flow.op(join) not in SIDE_BY_SIDE or found.region.start is None:
        return None
    before, after = flow.steps[join].inputs[0].shape, flow.output(join).shape
    is_wider = [more for less, more in zip(before, after, strict=True) if more > less] == [width_in(flow, wide)]
    begun = flow.carried_from(found.region.start)
    own = [flow.carried_from(maker) == begun for maker in flow.makers[join]]
    return join if is_wider and own.count(True) == 1 < len(own) else None


def list_between(flow: Flow, between: Sequence[int], branch: FeedForward) -> list[int]:
    """The steps between two linear layers that the name of the first stands for: its norm and its activation.

    A norm that the second one reads stands in a box of its own (Kosmos-2).
    """
    normed = list_norms_between(flow, between)
    bent = [node for node in between if node > max(normed)] if normed else between
    return sorted({*list_bending(flow, bent, branch.activation), *normed})


def name_norm_between(flow: Flow, between: Sequence[int]) -> str:
    """The norm of the wide rows before they are bent, as it stands in a label; empty if there is none."""
    norm = find_norm_between(flow, between)
    return "" if norm is None else f" + {spell_norm(flow, norm)}"


def find_norm_between(flow: Flow, between: Sequence[int]) -> FoundNorm | None:
    """The norm of the wide rows before they are bent."""
    bend = next((node for node in reversed(between) if is_bend(flow, node)), None)
    norms = (find_any_norm(flow, node) for node in reversed(between) if bend is not None and node < bend)
    return next((norm for norm in norms if norm is not None and bend not in norm.nodes), None)


def list_norms_between(flow: Flow, between: Sequence[int]) -> tuple[int, ...]:
    """The steps of that norm."""
    norm = find_norm_between(flow, between)
    return () if norm is None else norm.nodes


def add_left(flow: Flow, found: Branching, chart: Chart, summed: Chart) -> Chart:
    """A feed-forward with what is done to its rows behind its last layer, where no box stands for some of that.

    So the stream is taken off, and a gate multiplies the rest (EfficientViM). `summed` is the chart with its sum.
    """
    scales = [node for node in chart.nodes if node.key == chart.head == "scale"]
    inner, named = found.region.inner, {flow.places[node.steps[0].id]: node.label for node in scales}
    drawn = [node for node in summed.nodes if node not in scales]
    held = {flow.places[step.id] for node in drawn for step in node.steps}
    last = max((*projections_in(flow, inner), *held.intersection(inner)))
    left = [node for node in sorted(inner) if node > last and flow.is_leaf(node)]
    in_scale = {flow.places[step.id] for node in scales for step in node.steps}
    data = list_reading_data(flow)
    works = [node for node in left if flow.op(node) not in CARRYING | DROPOUTS and node in data]
    gated = [node for node in works if flow.op(node) in SCALINGS and not data.isdisjoint({*flow.makers[node]} - inner)]
    named = {node: label_step(flow, node) for node in gated} | named
    below = below_scale(chart) if scales else chart
    top = chart_operations(flow, left, found.region.end, named, "left") if {*works} - in_scale else None
    if top is None or not all(leads_on(flow, top.node(foot), held) for foot in top.feet):
        return chart
    begun = flow.carried_from(found.region.start)
    read = [one.key for one in top.nodes if one.key not in top.feet and leads_on(flow, one, {begun})]
    whole = stack_charts(below, top)
    return replace(whole, feet=(*whole.feet, *read))


def below_scale(chart: Chart) -> Chart:
    """A chart without what multiplies all at its end."""
    below = " ".join(edge.source for edge in chart.edges if edge.target == chart.head)
    nodes = tuple(node for node in chart.nodes if node.key != chart.head)
    return replace(chart, nodes=nodes, edges=tuple(one for one in chart.edges if one.target != chart.head), head=below)


def leads_on(flow: Flow, node: Node, places: Collection[int | None]) -> bool:
    """Whether a box reads what one of some steps gave, through moves alone."""
    made = (maker for step in node.steps for maker in flow.makers[flow.places[step.id]])
    return any(flow.carried_from(maker) in places for maker in made if maker is not None)


def lay_on_changed(flow: Flow, staging: Staging, chart: Chart) -> Chart:
    """A feed-forward on what multiplies its rows, or is added to them, before its first layer (MiniMax H3).

    No box of the chart stands for that, nor one of a norm before it.
    """
    (found, *others), norms = staging.branches, staging.norms
    if others or not isinstance(found.branch, FeedForward):
        return chart
    first = min(projections_in(flow, found.region.inner), default=-1)
    number = data_input(flow, first) if is_linear(flow, first) else None
    told = ((*norm.nodes, *list_modulation(flow, norm), *list_factors(flow, norm)) for norm in norms)
    held = {flow.places[step.id] for node in chart.nodes for step in node.steps}.union(*told)
    free = found.region.inner - held
    way = [] if number is None else flow.behind(flow.makers[first][number], within=free.__contains__)
    works = [node for node in way if flow.op(node) not in CARRYING | DROPOUTS and flow.is_leaf(node)]
    changes, data = sorted(node for node in works if len(flow.steps[node].inputs) > 1), list_reading_data(flow)
    is_known = all(flow.op(node) in SCALINGS | SUMS and data.issuperset(flow.makers[node]) for node in changes)
    if not changes or not is_known:
        return chart
    labels = {node: ADDED_UP if flow.op(node) in SUMS else MULTIPLIED for node in changes}
    below = chart_operations(flow, changes, changes[-1], labels, "changed")
    return chart if below is None else stack_charts(below, chart)


def lay_rows(flow: Flow, found: Branching, chart: Chart) -> Chart:
    """A feed-forward with the steps that lay its rows as its layers read them, and others beside them."""
    return lay_beside(flow, found, put_on_turn(flow, found, chart))


def put_on_turn(flow: Flow, found: Branching, chart: Chart) -> Chart:
    """A feed-forward on the step that lays its rows as its first linear layer reads them, behind a norm (PatchTST)."""
    first = next((node for node in sorted(found.region.inner) if is_linear(flow, node)), None)
    number = None if first is None else data_input(flow, first)
    turn = None if first is None or number is None else flow.makers[first][number]
    if turn is None or flow.op(turn) not in TURNS or turn not in found.region.inner:
        return chart
    if ends_turns(flow, turn, found.region.start):
        return chart
    held = {step.id for node in chart.nodes for step in node.steps}
    if any(flow.steps[one].id in held for one in flow.behind(turn, within=found.region.inner.__contains__)):
        return chart
    is_other = flow.output(turn).shape[-1:] != flow.steps[turn].inputs[0].shape[-1:]
    node = Node("turned", AXES_SWAPPED, 0, BROAD, steps_at(flow, turn), flow.output(turn))
    return stack_charts(chart_alone(node), chart) if is_other else chart


def lay_beside(flow: Flow, found: Branching, chart: Chart) -> Chart:
    """A feed-forward between the steps that lay other rows beside its own, and take its own out again (CogVideoX)."""
    start, projections = found.region.start, projections_in(flow, found.region.inner)
    number = data_input(flow, projections[0])
    join = None if number is None else flow.makers[projections[0]][number]
    if start is None or join is None or flow.op(join) not in SIDE_BY_SIDE or join not in found.region.inner:
        return chart
    rows, joined = flow.output(start).shape, flow.output(join).shape
    held = {step.id for node in chart.nodes for step in node.steps}
    if joined == rows or joined[-1:] != rows[-1:] or flow.steps[join].id in held:
        return chart
    own, all_rows = prod(rows[1:-1]), prod(joined[1:-1])
    behind = (node for node in sorted(found.region.inner) if node > projections[-1] and flow.op(node) in CARRYING)
    cut = next((node for node in behind if flow.output(node).shape == rows and flow.is_leaf(node)), None)
    box = Node("joined", label_step(flow, join), 0, BROAD, steps_at(flow, join), flow.output(join))
    chart = stack_charts(chart_alone(box), chart)
    if cut is None:
        return chart
    label = f"{own:,} OF {all_rows:,} ROWS"
    return stack_charts(chart, chart_alone(Node("cut", label, 0, BROAD, steps_at(flow, cut), flow.output(cut))))
