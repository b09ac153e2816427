"""The chart of a stage: its norms, its branches, one above or beside the other, and the sum that ends it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE, SUMS, TURNS
from xray.story.anatomy.attentions import Attention, DeformableAttention, Looking
from xray.story.anatomy.branches import (
    Convolution,
    CurvedAttention,
    Experts,
    FeedForward,
    FourierMixing,
    PlaceMixing,
    PoolMixing,
    Unknown,
)
from xray.story.attention.apart import (
    chart_copied,
    chart_of_before,
    chart_ordered,
    chart_returned,
    chart_window_cut,
    end_before,
    find_copied,
    find_returned,
)
from xray.story.attention.chart import chart_attention
from xray.story.attention.curved import name_curved_steps, tell_mask
from xray.story.attention.sampled import chart_sampling
from xray.story.attention.ways.lanes import list_opening
from xray.story.attention.ways.part_names import AND_MORE, LINEAR_FOR, PLACES_MIXED
from xray.story.body.links import list_added_behind
from xray.story.body.scale import find_scale, find_tanh_gate, name_scale, name_tanh_gate
from xray.story.body.stages import Branching, Staging, find_ending
from xray.story.branches.lengths import read_mixing
from xray.story.branches.scored.caps import label_scale
from xray.story.charts.between_chart import chart_beside, fill_between, lead_past, lead_pieces, spell_lengths
from xray.story.charts.chart import (
    BROAD,
    Chart,
    Edge,
    Node,
    chart_alone,
    join_beside,
    stack_charts,
    steps_at,
    with_remarks,
)
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.forward_chart import AXES_SWAPPED, add_left, chart_forward, lay_on_changed, lay_rows
from xray.story.charts.norm_chart import chart_gate, chart_norm, chart_own_gate, is_opening, join_norms, list_begun_norm
from xray.story.charts.norms_apart import chart_joined, hold_moves, lead_norms
from xray.story.charts.rows_chart import chart_added, chart_gather, chart_since, chart_spread, list_led_in, tell_led_in
from xray.story.charts.steps.operation_labels import label_step
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.charts.sum_chart import add_sum, chart_picked
from xray.story.entrance.cut_rows import label_cut_rows
from xray.story.experts.experts_chart import chart_experts
from xray.story.passages.added_places import ADDED_UP
from xray.story.passages.modulation import find_beside_gate, list_modulation
from xray.story.recognition.between import is_linear, list_reading_data, projections_in
from xray.story.recognition.mixed_streams import Weighing
from xray.story.recognition.norms import Norm, is_learned_gate
from xray.story.states.lanes import lay_lanes
from xray.story.states.names import name_state_steps, tell_read
from xray.story.streams.joints import Joint
from xray.story.streams.put_beside import lie_end_to_end
from xray.story.streams.scaled_streams import list_learned_behind, name_learned_behind
from xray.story.wording import plural


def chart_stage(flow: Flow, staging: Staging) -> Chart:
    """The whole chart of a stage, its sum on top; branches that begin at one point stand beside each other."""
    before = join_norms([norm for norm in staging.norms if is_opening(flow, norm, staging)])
    charts = [add_own_sum(flow, staging, one, chart_whole(flow, staging, one)) for one in staging.branches]
    if len(before) > 1:
        charts = [chart_begun(flow, one, before, chart) for one, chart in zip(staging.branches, charts, strict=True)]
    charts = [tell_linear_of_both(flow, staging, *one) for one in zip(staging.branches, charts, strict=True)]
    beside = staging.stage.parallel
    taken = {node for norm in before for node in norm.nodes}
    inner = {node for joint in staging.joints for node in joint.region.inner}
    if staging.stage.beside:
        chart = chart_beside(flow, staging, charts, taken)
    else:
        charts = add_own_scales(flow, staging, fill_between(flow, staging, charts, taken))
        chart = (
            charts[0]
            if len(charts) == 1
            else join_beside(charts)
            if beside
            else lead_pieces(flow, charts, inner, staging.joints[0].stream)
        )
    chart = lay_on_changed(flow, staging, chart)
    if len(before) == 1:
        chart = chart_own_gate(flow, staging, before[0], chart)
        order = chart_ordered(flow, staging, before[0])
        chart = chart if order is None else stack_charts(order, chart)
        chart = stack_charts(chart_norm(flow, before[0], "opening", beside), chart)
        joined = chart_joined(flow, staging, before[0])
        chart = chart if joined is None else stack_charts(joined, chart)
        cut = chart_window_cut(flow, staging, before[0])
        chart = chart if cut is None else stack_charts(cut, chart)
        before_it = chart_of_before(flow, before[0])
        chart = chart if before_it is None else stack_charts(before_it, chart)
        chart = lead_past(flow, chart, staging.joints[0].stream, inner)
    if staging.joints[0].since:
        chart = replace(stack_charts(chart_since(flow, staging.joints[0]), chart), feet=())
    picked = chart_picked(flow, staging)
    if picked is not None:
        chart = stack_charts(picked, chart)
    if staging.added is not None:
        chart = stack_charts(chart_added(flow, staging.added), chart)
    chart = add_shared_end(flow, staging, chart)
    if not has_own_sums(staging):
        chart = add_scale(flow, staging.joints[-1], staging.branches[-1], chart)
    for mixing in [joint.mixing for joint in staging.joints if joint.mixing is not None][:1]:
        chart = stack_charts(chart_gather(flow, mixing), stack_charts(chart, chart_spread(flow, mixing)))
    for weighing in [joint.weighing for joint in staging.joints if joint.weighing is not None][:1]:
        return lead_by_gates(add_sum(flow, staging, stack_charts(chart, chart_gates(flow, weighing))), chart.heads)
    summed = add_sum(flow, staging, chart)
    is_alone = len(staging.branches) == 1 and isinstance(staging.branches[0].branch, FeedForward)
    return add_sum(flow, staging, add_left(flow, staging.branches[0], chart, summed)) if is_alone else summed


def tell_linear_of_both(flow: Flow, staging: Staging, found: Branching, chart: Chart) -> Chart:
    """The chart of an attention whose one linear layer makes the wide rows of a feed-forward beside it too (Flux 2)."""
    if not isinstance(found.branch, Attention):
        return chart
    wide = [one.region.inner for one in staging.branches if isinstance(one.branch, FeedForward)]
    both = steps_at(flow, *(node for nodes in wide for node in projections_in(flow, nodes))) * staging.stage.parallel
    made = {step.id for step in both}
    nodes = (
        replace(node, label=f"{node.label}{AND_MORE}")
        if node.label.startswith(LINEAR_FOR) and any(step.id in made for step in node.steps)
        else node
        for node in chart.nodes
    )
    return replace(chart, nodes=tuple(nodes))


def add_own_sum(flow: Flow, staging: Staging, found: Branching, chart: Chart) -> Chart:
    """The chart of a feed-forward with the sum of a stream that goes along its branch, if there is one (MobileBERT)."""
    last = max(projections_in(flow, found.region.inner), default=found.region.end)
    nested = (one for joint in staging.joints for one in joint.nested if last < one.add <= found.region.end)
    own = next((one for one in nested if one.add in found.region.inner), None)
    if own is None or stands_for(chart, flow, own.add) or goes_on(flow, chart, own.add):
        return chart
    add, ending = own.add, find_ending(flow, own.region)
    if flow.output(add).shape != flow.output(staging.joints[-1].add).shape:  # it does not lead back to d_model
        chart = replace(chart, nodes=tuple(replace(node, remark="") for node in chart.nodes))
    if ending is not None and ending.end in found.region.inner and not stands_for(chart, flow, ending.end):
        chart = stack_charts(chart, chart_norm(flow, ending, "closing", wide=False))
    others = {node for one in staging.branches if one is not found for node in one.region.inner}
    behind = [node for node in list_learned_behind(flow, add) if node not in others]
    label = f"ADD, {name_learned_behind(behind)}" if behind else "ADD"
    end = behind[-1] if behind else add
    node = Node("own_sum", label, 0, BROAD, steps_at(flow, end, add, *behind[:-1]), flow.output(end))
    is_led = own.stream not in (None, *found.region.inner) and own.stream in staging.nodes
    stacked = stack_charts(chart, chart_alone(node))
    below = (one.key for one in chart.nodes if any(flow.places.get(step.id) == own.stream for step in one.steps))
    begun = (Edge(key, node.key) for key in below if key not in chart.heads)
    stacked = replace(stacked, edges=(*stacked.edges, *begun))
    return replace(stacked, feet=(*stacked.feet, node.key)) if is_led else stacked


def goes_on(flow: Flow, chart: Chart, add: int) -> bool:
    """Whether a box of a chart stands for what is done behind a sum (CSATv2: a map that multiplies rows)."""
    return any(flow.places.get(step.id, add) > add for key in chart.heads for step in chart.node(key).steps[:1])


def chart_begun(flow: Flow, found: Branching, norms: Sequence[Norm], chart: Chart) -> Chart:
    """A branch above the norms that are its own, where branches do not share one (GPT-NeoX)."""
    own = [norm for norm in norms if norm.end in found.region.inner]
    if len(own) > 1:
        lone = (chart_norm(flow, norm, f"opening{number or ''}", wide=False) for number, norm in enumerate(own))
        told = [tell_other_rows(flow, found, norm) for norm in own]
        drawn = [replace(one.nodes[0], told=(*one.nodes[0].told, *rows)) for one, rows in zip(lone, told, strict=True)]
        chart = lead_norms(flow, own, drawn, chart)
        others = {node.key for node, rows in zip(drawn, told, strict=True) if rows}
        return replace(chart, feet=tuple(foot for foot in chart.feet if foot not in others))
    return stack_charts(chart_norm(flow, own[0], "opening", wide=False), chart) if own else chart


def tell_other_rows(flow: Flow, found: Branching, norm: Norm) -> tuple[str, ...]:
    """Which rows a norm reads, where they are others than a branch works on: cut of what these were cut of, or more.

    So those before the places that ask give keys and values alone (Perceiver AR), or with these (SwinTrack).
    """
    read, start = norm.origin, found.region.start
    if read in (None, start):
        return ()
    rows, own = flow.output(read).shape, flow.output(found.region.end).shape
    if not len(rows) == len(own) == len(("batch", "row", "width")) or rows[1] == own[1]:
        return ()
    if flow.op(read) == "index" and flow.makers[read] == (start,):
        return (f"of {label_cut_rows(flow, read).lower()}",)
    return (f"of {rows[1]:,} rows",) if rows[1] > own[1] else ()


def chart_gates(flow: Flow, weighing: Weighing) -> Chart:
    """The gates of stream and branch, by which both are multiplied, as a chart of its own."""
    made = weighing.list_learned(flow)[-1]
    learned = sum(flow.steps[node].params for node in weighing.nodes if flow.is_leaf(node))
    places = (made, *sorted(weighing.nodes - {made}))
    label, extra = "GATES OF BOTH", plural(learned, "parameter") if learned else ""
    node = Node("gates", label, 0, BROAD, steps_at(flow, *places), flow.output(made), extra)
    return Chart((node,), (), (node.key,), node.key)


def lead_by_gates(chart: Chart, made: Sequence[str]) -> Chart:
    """The chart in which gates are made of the stream too, and what a branch made goes by them to the sum."""
    return replace(chart, edges=(*chart.edges, *(Edge(one, "add") for one in made)), feet=(*chart.feet, "gates"))


def add_shared_end(flow: Flow, staging: Staging, chart: Chart) -> Chart:
    """The chart with what branches side by side share before the sum: a linear layer (Flux) or a gate (Flux 3)."""
    if not staging.stage.parallel or len(staging.joints) != 1:
        return chart
    region = staging.joints[0].region
    last = max(one.region.end for one in staging.branches)
    shared = {node for node in region.inner if node > last} - {node for norm in staging.norms for node in norm.nodes}
    gate = find_beside_gate(flow, region.end, region.start)
    both = max((node for node in shared if flow.op(node) in SUMS), default=None)
    end = (
        chart_operations(flow, shared, region.end, prefix="end")
        if any(is_linear(flow, one) for one in shared)
        else None
    )
    if end is None and gate is not None and both is not None and both < gate:
        end = chart_alone(Node("both", ADDED_UP, 0, BROAD, steps_at(flow, both), flow.output(both)))
    if end is None:
        return chart
    if gate is not None:
        end = stack_charts(end, with_remarks(chart_gate(flow, gate), staging.branches[-1].branch))
    return stack_charts(chart, end)


def chart_branch(flow: Flow, found: Branching) -> Chart:
    """What is drawn of one branch."""
    chart: Chart | None = None
    if isinstance(found.branch, Attention):
        chart = hold_moves(flow, chart_attention(flow, found))
    elif isinstance(found.branch, DeformableAttention):
        chart = chart_sampling(flow, found)
    elif isinstance(found.branch, Experts):
        chart = chart_experts(flow, found)
    elif isinstance(found.branch, FeedForward):
        forward = chart_forward(flow, found)
        chart = None if forward is None else lay_rows(flow, found, hold_moves(flow, forward))
    if chart is None:
        own = found.region.inner - list_opening(flow, found) - list_begun_norm(flow, found)
        begins = {found.region.start, *found.region.inner} - {None, *own}
        named = (
            name_curved_steps(flow, found.region.inner)
            if isinstance(found.branch, CurvedAttention)
            else name_state_steps(flow, found.branch, own, found.region.end)
        )
        begun = [one for one in begins if one is not None]
        led = list_led_in(flow, found)
        labels = dict.fromkeys(list_added_behind(flow, found), ADDED_UP) | dict(named.labels) | label_turns(flow, found)
        labels |= label_rows_beside(flow, found)
        operations = chart_operations(
            flow, own | led, found.region.end, labels, folded=named.folded, begins=begun, most=named.most
        )
        operations = None if operations is None else tell_led_in(flow, found, operations, led)
        read = None if operations is None else tell_read(operations, found.branch)
        chart = None if read is None else tell_mask(flow, lay_lanes(flow, read, named.lanes))
    if chart is None:
        end = found.region.end
        node = Node(f"op{end}", label_step(flow, end), 0, BROAD, steps_at(flow, end), flow.output(end))
        chart = chart_alone(node)
    chart = with_remarks(chart, found.branch)
    closing = find_ending(flow, found.region) if isinstance(found.branch, Looking | FeedForward | Experts) else None
    gate = find_beside_gate(flow, found.region.end, found.region.start)
    is_of_norm = closing is not None and gate in list_modulation(flow, closing)
    if gate is not None and not is_of_norm and isinstance(found.branch, FeedForward | Experts | DeformableAttention):
        chart = stack_charts(chart, with_remarks(chart_gate(flow, gate), found.branch))
    tanh = find_tanh_gate(flow, found.region.end, found.region.inner)
    if tanh is not None and isinstance(found.branch, FeedForward | Experts):
        node = Node("tanh", name_tanh_gate(flow, tanh), 0, BROAD, steps_at(flow, tanh), flow.output(tanh))
        chart = stack_charts(chart, chart_alone(node))
    held = {step.id for node in chart.nodes for step in node.steps}
    if closing is None or flow.steps[closing.end].id in held:
        return chart
    return stack_charts(chart, chart_norm(flow, closing, "closing", wide=False))


def label_turns(flow: Flow, found: Branching) -> dict[int, str]:
    """What the steps are called that lay places last, and first again, or else mix them; none in any other branch."""
    inner = found.region.inner if isinstance(found.branch, PlaceMixing) else ()
    mixing = [node for node in inner if read_mixing(flow, node) is not None]
    turns = (node for node in inner if flow.op(node) in TURNS and flow.output(node).is_float)
    return dict.fromkeys(mixing, PLACES_MIXED) if mixing else dict.fromkeys(turns, AXES_SWAPPED)


def label_rows_beside(flow: Flow, found: Branching) -> dict[int, str]:
    """What the steps of a branch that is not known are called that put rows made elsewhere to its own (CaIT)."""
    inner, reading = found.region.inner, list_reading_data(flow)
    apart = reading - inner - {found.region.start} if isinstance(found.branch, Unknown) else frozenset[int]()
    joins = {node for node in inner if flow.op(node) in SIDE_BY_SIDE and len(flow.steps[node].inputs) == 2}
    given = {node: [record.shape for record in flow.steps[node].inputs] for node in joins}
    return {
        node: f"END TO END: {spell_lengths(flow, node)}"
        for node, shapes in given.items()
        if {maker in apart for maker in flow.makers[node]} == {True, False} and not inner.isdisjoint(flow.makers[node])
        if len(shapes[0]) == len(("batch", "row", "width"))
        if lie_end_to_end(1, shapes[0], shapes[1], flow.output(node).shape)
    }


def chart_whole(flow: Flow, staging: Staging, found: Branching) -> Chart:
    """What is drawn of one branch, with a row that is copied in front of its windows and what becomes of that."""
    copied = find_copied(flow, staging)
    returned = None if copied is None else find_returned(flow, found)
    if copied is None or returned is None:
        return chart_branch(flow, found)
    chart = chart_branch(flow, end_before(flow, found, returned))
    return stack_charts(stack_charts(chart_copied(flow, copied), chart), chart_returned(flow, returned))


def has_own_sums(staging: Staging) -> bool:
    """Whether each of the branches beside each other has a sum of its own that adds it to the stream (DeiT III)."""
    return staging.stage.parallel and len(staging.joints) == len(staging.branches) > 1


def add_own_scales(flow: Flow, staging: Staging, charts: Sequence[Chart]) -> list[Chart]:
    """The charts of branches that have sums of their own, each with what multiplies it at its end."""
    if not has_own_sums(staging):
        return [*charts]
    joined = zip(staging.joints, staging.branches, charts, strict=True)
    return [add_scale(flow, joint, found, chart) for joint, found, chart in joined]


def add_scale(flow: Flow, joint: Joint, found: Branching, chart: Chart) -> Chart:
    """The chart with what multiplies a branch before the sum of its joint, if no box stands for that yet."""
    region = joint.region
    scale = find_scale(flow, region.end, region.inner)
    known = Looking | FeedForward | Experts | Convolution | PlaceMixing | FourierMixing | PoolMixing | Unknown
    if scale is None or stands_for(chart, flow, scale) or not isinstance(found.branch, known):
        return chart
    learned = name_scale(flow, region.end, region.inner) == "learned"
    label = "× LEARNED NUMBERS" if learned else label_scale(flow, scale)
    gates = (maker for maker in flow.makers[scale] if maker is not None and is_learned_gate(flow, maker))
    places = (scale, *(node for gate in gates for node in sorted(flow.behind(gate), reverse=True)))
    extra = describe_params(flow, *places) if learned else ""
    node = Node("scale", label, 0, BROAD, steps_at(flow, *places), flow.output(scale), extra)
    nodes = tuple(leave_out(flow, one, places) if one.key == "closing" else one for one in chart.nodes)
    return stack_charts(replace(chart, nodes=nodes), chart_alone(node))


def leave_out(flow: Flow, node: Node, others: Collection[int]) -> Node:
    """A box of a norm without the steps behind it that stand in another one."""
    places = sorted({flow.places[step.id] for step in node.steps}.difference(others))
    return replace(node, steps=steps_at(flow, *reversed(places)), record=flow.output(places[-1]))


def stands_for(chart: Chart, flow: Flow, node: int | None) -> bool:
    """Whether a box of a chart stands for a step; not the norm to which a factor behind it seems to belong."""
    boxes = (box for box in chart.nodes if box.key != "closing")
    return node is not None and any(step is flow.steps[node] for box in boxes for step in box.steps)
