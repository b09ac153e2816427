"""The chart of what the stream goes through between two layers, before the second of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, SIDE_BY_SIDE, SUMS
from xray.ir.trace import Step
from xray.story.body.stages import find_own_bend
from xray.story.body.towers import Towering
from xray.story.body.widths import end_of
from xray.story.branches.convolutions import looks_back
from xray.story.charts.between_chart import chart_added, join_right, spell_lengths
from xray.story.charts.chart import BROAD, RIGHT_HALF, Chart, Edge, Node, chart_alone, name_learned, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.cut_rows import find_cut as find_cut_axis
from xray.story.entrance.cut_rows import label_cut_rows, label_longer, label_padded
from xray.story.entrance.entrance_chart import label_scale
from xray.story.passages.added_places import ADDED_UP, learned_source
from xray.story.passages.bridges import Bridging, find_cut, fold_site, label_bridge
from xray.story.passages.joined_rows import label_learned_rows
from xray.story.passages.ordered_rows import fold_repeats, label_counts, label_first_row, name_repeated
from xray.story.passages.rows_between import find_earlier, moved_from
from xray.story.recognition.between import is_linear, is_scale, list_reading_data, works_on_weights
from xray.story.sentences.of_links import spell_earlier
from xray.story.sentences.of_parts import BEGUN_WITH, LEFT_BEHIND
from xray.story.sentences.of_ways_past import describe_source
from xray.story.streams.put_beside import RowsBeside
from xray.story.streams.rejoined_rows import takes_rows_alone
from xray.story.streams.scaled_streams import find_factor_behind
from xray.story.wording import spell_layers

KEPT = "+ WHAT CAME BEFORE THE LAYERS"


def chart_bridge(flow: Flow, towering: Towering, layers: Sequence[int]) -> Chart | None:
    """What the stream goes through before the first of some layers alike; None where it goes on as it is."""
    layer = layers[0]
    found = next((one for one in towering.bridges if one.bridge.before == layer), None)
    if found is None:
        return chart_added(flow, towering.added, layers)
    if found.rows is not None:
        ends = {one[-1].joints[-1].add: number for number, one in enumerate(towering.layers)}
        ends |= {end_of(one): number for number, one in enumerate(towering.layers)}
        return chart_put_beside(flow, found.rows, layer, ends)
    bend = find_own_bend(flow, towering.layers[layer - 1][-1])
    nodes = {one for one in found.nodes if one != bend and not joins_weights(flow, one)}  # that is drawn in its layer
    begins = {found.start if bend is None else bend}
    labels, scale = label_bridge(flow, found), find_factor_behind(flow, found.end)
    own = [node for node in nodes - found.aside if flow.is_leaf(node)]
    aside = (node for node in found.aside if takes_rows_alone(flow, node))
    labels |= {cut: label_cut_rows(flow, cut) for cut in (find_cut(flow, found.start, own), *aside) if cut is not None}
    labels |= label_counted_otherwise(flow, own)
    labels |= {} if scale is None else {scale: label_scale(flow, scale)}
    end, behind = (found.end, set()) if scale is None else (scale, {scale})
    labels |= label_counts(flow, found.counts)
    repeated = fold_repeats(flow, own)
    labels |= {node: name_repeated(flow, group[-1]) for node, group in repeated.items()}
    folded, key = {**fold_site(flow, found), **repeated}, name_bridge(layer)
    added = find_earlier(flow, found.nodes, found.start, towering.layers[: layer - 1])
    moved = {node: list_moved(flow, node, made, nodes) for node, (_, made) in added.items()}
    folded |= {node: (*own, node) for node, own in moved.items() if own}
    nodes = nodes.difference(*moved.values())
    labels |= label_kept(flow, towering, nodes)
    labels |= {node: label_added(flow, towering, node, number, moved[node]) for node, (number, _) in added.items()}
    chart = chart_operations(flow, nodes | behind, end, labels, key, folded=folded, begins=begins, aside=found.aside)
    if chart is None:
        return None
    chart = without_other_feet(flow, lead_counts(flow, chart, found), begins)
    chart = tell_put_back(towering, chart, layers[1:])
    return tell_readers(flow, towering, tell_moved(flow, chart, end), found.aside)


def joins_weights(flow: Flow, node: int) -> bool:
    """Whether a step lays weights end to end alone: that belongs to the step at which rows meet them (PVT's places)."""
    return flow.op(node) in SIDE_BY_SIDE and works_on_weights(flow, node)


def tell_put_back(towering: Towering, chart: Chart, layers: Sequence[int]) -> Chart:
    """The chart whose last box says what is laid beside the stream before others of some layers alike (a U-Net)."""
    before = {one.bridge.before: one.bridge.earlier for one in towering.bridges if one.bridge.earlier is not None}
    told = [f"before layer {one + 1}: what {spell_earlier(*before[one])}" for one in layers if one in before]
    nodes = (replace(one, told=(*one.told, *told)) if one.key == chart.head else one for one in chart.nodes)
    return replace(chart, nodes=tuple(nodes))


def without_other_feet(flow: Flow, chart: Chart, begins: Collection[int]) -> Chart:
    """The chart which the stream enters at those boxes alone that are made of it, if any is (TabICL's labels)."""
    places = {key: [flow.places[step.id] for step in chart.node(key).steps] for key in chart.feet}
    feet = tuple(key for key, own in places.items() if not own or not {*flow.behind(*own)}.isdisjoint(begins))
    return replace(chart, feet=feet or chart.feet)


def label_counted_otherwise(flow: Flow, nodes: Collection[int]) -> dict[int, str]:
    """The steps among some that leave rows out or pad these, with what they are called: no other box stands for them.

    The row that goes past what makes others fewer is told where it stands in front of these (Funnel, CANINE).
    """
    reading = list_reading_data(flow)
    own = [node for node in nodes if node in reading and flow.output(node).is_float and flow.steps[node].inputs]
    past = {flow.makers[node][0] for node in own if label_first_row(flow, node, nodes)}
    cuts = (node for node in own if flow.op(node) == "index" and find_cut_axis(flow, node) and node not in past)
    padded = {node: label_padded(flow, node) or label_longer(flow, node) for node in own if not leads_back(flow, node)}
    return {cut: label_cut_rows(flow, cut) for cut in cuts} | {node: told for node, told in padded.items() if told}


def leads_back(flow: Flow, node: int) -> bool:
    """Whether a convolution reads what a step gives that says itself that it looks back alone."""
    return any(flow.op(one) in FINDINGS and looks_back(flow, one) for one in flow.readers.get(node, ()))


def lead_counts(flow: Flow, chart: Chart, bridging: Bridging) -> Chart:
    """The chart with what says how often rows are repeated on the right, above a box of what a layer gave for that.

    The stream comes by on the left.
    """
    counts = bridging.counts
    if counts is None or counts.source == bridging.start:
        return chart
    own = {node.key for node in chart.nodes if node.steps and flow.places[node.steps[0].id] in counts.nodes}
    led = [key for key in chart.feet if key in own]
    label, source = f"WHAT LAYER {counts.layer + 1} GAVE", counts.source
    given = Node("counted", label, 0, RIGHT_HALF, steps_at(flow, source), flow.output(source))
    nodes = (replace(node, place=RIGHT_HALF) if node.key in own else node for node in chart.raised(1).nodes)
    feet = tuple(key for key in chart.feet if key not in led)
    edges = (*(Edge(given.key, key) for key in led), *chart.edges)
    return replace(chart, nodes=(given, *nodes), edges=edges, feet=feet)


def list_moved(flow: Flow, node: int, made: int, nodes: Collection[int]) -> tuple[int, ...]:
    """The steps between what a layer gave and a sum that adds it, which moves it alone."""
    here = next((one for one in flow.makers[node] if moved_from(flow, one) == made), None)
    moved: list[int] = []
    while here is not None and here != made and here in nodes:
        moved.append(here)
        here = flow.makers[here][0]
    return tuple(reversed(moved))


def label_added(flow: Flow, towering: Towering, node: int, number: int, moved: Sequence[int]) -> str:
    """What a step is called that adds what a layer gave, as it was or normed, or puts it beside other numbers."""
    made = [moved_from(flow, maker) for maker in flow.makers[node]]
    as_it_was = end_of(towering.layers[number]) in made
    told = f"WHAT LAYER {number + 1} GAVE{'' if as_it_was else ', NORMED'}"
    told = f"WHAT WENT INTO LAYER {number + 1}" if towering.layers[number][0].joints[0].stream in made else told
    cuts = [one for one in moved if flow.op(one) == "index" and find_cut_axis(flow, one)]
    told = f"{label_cut_rows(flow, cuts[0])} OF {told}" if len(cuts) == 1 else told
    return f"+ {told}" if flow.op(node) in SUMS else f"WITH {told} BESIDE IT"


def label_kept(flow: Flow, towering: Towering, nodes: Collection[int]) -> dict[int, str]:
    """The sums among some steps that add what an entrance gave to what became of that, with what they are called."""
    return {node: name_begun(flow, towering, made) for node, made in find_kept(flow, towering, nodes).items()}


def find_kept(flow: Flow, towering: Towering, nodes: Collection[int]) -> dict[int, int]:
    """The sums among some steps that add what an entrance gave to what became of that, each with the step of that."""
    sums = (node for node in nodes if flow.op(node) in SUMS and len(flow.makers[node]) == 2)
    made = {node: list(map(flow.carried_from, flow.makers[node])) for node in sums}
    kept = {node: [one for one in own if one in towering.entrance] for node, own in made.items()}
    return {node: own[0] for node, own in kept.items() if len(own) == 1 and own[0] is not None}


def name_begun(flow: Flow, towering: Towering, made: int) -> str:
    """What a sum is called that adds what a step of an entrance made: of which one, where more follow that (HRM)."""
    if is_scale(flow, made) and made != flow.carried_from(towering.start):
        return f"+ WHAT {label_scale(flow, made)} GAVE"
    return KEPT


def name_kept(flow: Flow, towering: Towering, towers: Sequence[Towering], chart: Chart) -> Chart:
    """The chart of a stage whose sums say where they add what a tower began with to what its layers made (SAM)."""

    def tell(node: Node) -> Node:
        sums = [flow.places[one.id] for one in node.steps if one.op in SUMS] if node.label.startswith(ADDED_UP) else []
        found = [one for one in towers if any(adds_begun(flow, one, here) for here in sums)]
        if not found:
            return node
        told = KEPT if towering in found else f"+ WHAT THE {found[0].tower.name.upper()} BEGINS WITH"
        return replace(node, label=f"{node.label.removeprefix(ADDED_UP)} {told}".strip())

    return replace(chart, nodes=tuple(map(tell, chart.nodes)))


def adds_begun(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a sum adds what a tower's first layer reads to what its layers made of that."""
    makers, start = flow.makers[node], flow.carried_from(towering.start)
    begun = [start is not None and flow.carried_from(one) == start for one in makers]
    made = (one for one, is_begun in zip(makers, begun, strict=True) if not is_begun)
    first = towering.layers[0][0].joints[0].add
    return len(makers) == 2 and begun.count(True) == 1 and first in flow.behind(*made)


def tell_readers(flow: Flow, towering: Towering, chart: Chart, aside: Collection[int]) -> Chart:
    """The chart in which the last box of rows that stay `aside` says which layers look at these."""
    if not aside:
        return chart
    reading = [
        number
        for number, layer in enumerate(towering.layers)
        if any(maker in aside for staging in layer for node in staging.nodes for maker in flow.makers[node])
    ]
    own = {node.key for node in chart.nodes if node.steps and flow.places[node.steps[0].id] in aside}
    last = own.difference(edge.source for edge in chart.edges)
    told = f"for layer{'s' * (len(reading) > 1)} {spell_layers(reading)}"
    nodes = (replace(node, told=(*node.told, told)) if node.key in last else node for node in chart.nodes)
    return replace(chart, nodes=tuple(nodes))


def name_bridge(layer: int) -> str:
    """What the keys of the boxes before a layer begin with."""
    return f"bridge{layer}_"


@dataclass(frozen=True)
class Adding:
    """A box before a layer that brings in what was made before: what a `layer` gave, from 0, or a step `made` of it.

    That step is a norm, or one before all layers, of which there is no `layer` then.
    """

    key: str
    layer: int | None
    made: Step | None = None


def list_adding(flow: Flow, towering: Towering, layer: int) -> list[Adding]:
    """The boxes before a layer that bring in what an earlier one gave, or what the first layer began with."""
    found: list[Adding] = []
    for one in towering.bridges:
        if one.bridge.before != layer:
            continue
        if one.rows is not None and one.rows.begun:
            found.append(Adding(name_beside(layer), None, flow.steps[one.rows.end]))
        key, begun = name_bridge(layer), find_kept(flow, towering, one.nodes)
        for node, (number, made) in find_earlier(flow, one.nodes, one.start, towering.layers[: layer - 1]).items():
            is_end = made == end_of(towering.layers[number])
            found.append(Adding(f"{key}{node}", number, None if is_end else flow.steps[made]))
        found += [Adding(f"{key}{node}", None, flow.steps[made]) for node, made in begun.items()]
    return found


def tell_moved(flow: Flow, chart: Chart, end: int) -> Chart:
    """The chart whose last box gives what the next layer reads, where axes of 1 alone are taken off in between."""
    head = chart.node(chart.head)
    made = flow.places.get(head.steps[0].id) if head.steps else None
    if made is None or end == made or flow.carried_from(end) != made or head.record is None:
        return chart
    left = [[one for one in shape if one > 1] for shape in (head.record.shape, flow.output(end).shape)]
    if left[0] != left[1]:
        return chart
    told = replace(head, record=flow.output(end), steps=(*head.steps, flow.steps[end]))
    return replace(chart, nodes=tuple(told if node is head else node for node in chart.nodes))


def chart_put_beside(flow: Flow, rows: RowsBeside, layer: int, ends: Mapping[int, int]) -> Chart | None:
    """What is put beside the stream before a layer: the former rows, what is made of them, and all end to end.

    The stream comes by on the left. `ends` has the layers by the sums that end them. Learned rows alone are one box,
    and so are such as came before the layers.
    """
    label, out = f"END TO END: {spell_lengths(flow, rows.join, rows.axis)}", flow.output(rows.join)
    if rows.source is None:
        label = label_learned_rows(flow, rows.join) or label
        extra = describe_params(flow, rows.join, *sorted(rows.nodes))
        steps = steps_at(flow, rows.join, *sorted(rows.nodes))
        said = (BEGUN_WITH.format(rows=rows.count),) if rows.begun else ()
        if rows.left_by is not None:
            said = (LEFT_BEHIND.format(rows=rows.count, layer=ends[rows.left_by] + 1),)
        alone = Node(name_beside(layer), label, 0, BROAD, steps, out, extra, told=said)
        chart = None if said else chart_worked(flow, rows, layer)
        if chart is None or not any(is_linear(flow, node) for node in rows.nodes):
            return chart_alone(alone)
        return join_right(None, chart, replace(alone, steps=steps_at(flow, rows.join), extra=""))
    chart = chart_worked(flow, rows, layer)
    if chart is None:
        return None
    cut, taken = rows.source, flow.output(rows.source).shape != flow.steps[rows.source].inputs[0].shape
    label_first = label_cut_rows(flow, cut) if taken and flow.op(cut) == "index" else "FORMER ROWS"
    source = describe_source(ends.get(flow.carried_from(cut) or 0))
    first = Node(f"former{layer}", label_first, 0, RIGHT_HALF, steps_at(flow, cut), flow.output(cut))
    first = replace(first, told=(source,) if source else ())
    return join_right(first, chart, Node(f"sum{layer}", label, 0, BROAD, steps_at(flow, rows.join), out))


def chart_worked(flow: Flow, rows: RowsBeside, layer: int) -> Chart | None:
    """What rows that are put beside the stream are worked out by, in one lane; None where there is no such chart."""
    nodes = {node for node in rows.nodes if flow.is_leaf(node)}
    labels = {node: told for node in nodes if (told := label_learned_sum(flow, node))}
    chart = chart_operations(flow, nodes, rows.end, labels, f"beside{layer}_")
    return chart if chart is not None and chart.is_one_lane else None


def name_beside(layer: int) -> str:
    """The key of the box of rows that are put beside the stream before a layer, if that is all there is of them."""
    return f"beside{layer}"


def label_learned_sum(flow: Flow, node: int) -> str:
    """What a sum is called that adds learned rows, as many as there are rows; "" for any other step."""
    given = list(flow.given(node)) if flow.op(node) in SUMS else []
    rows = flow.output(node).shape[-2:]
    learned = [learned_source(flow, record, maker) for record, maker in given if record.shape[-2:] == rows]
    return f"+ {name_learned(rows[0])}" if len(rows) == 2 and sum(one is not None for one in learned) == 1 else ""
