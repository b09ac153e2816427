"""The chart of what stands above the last layer: a last norm, a head, a loss or the next word."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isclose, prod

from xray.ir.flow.alike_pieces import list_pieces
from xray.ir.flow.attention_sites import NO_WEIGHT
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import FINDINGS, TURNS
from xray.ir.flow.weights import find_first, gather_weights
from xray.ir.trace import Step
from xray.story.body.ends import list_rows_cut, scores_words, works_with_table
from xray.story.body.scale import find_bent, list_bendings
from xray.story.body.stages import find_own_bend
from xray.story.body.towers import Towering
from xray.story.branches.scored.caps import name_cap, name_times, read_factor
from xray.story.charts.chart import BROAD, Chart, Edge, Node, add_above, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.norm_chart import hold_modulation, name_modulation
from xray.story.charts.steps.drawn_steps import MOST_AT_ALL
from xray.story.charts.steps.operation_labels import find_laid, label_step
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.cut_rows import (
    cuts_rows,
    label_cut_into,
    label_cut_of_pieces,
    label_cut_rows,
    label_cut_sequences,
    label_padded,
)
from xray.story.entrance.entrance_chart import label_resampler
from xray.story.exits.behind.last_steps import (
    MASKED_DOWN,
    find_last,
    find_maker_in,
    find_sum,
    is_last_norm,
    is_normed_again,
    list_beside_each_other,
)
from xray.story.exits.behind.worked_behind import (
    adds_earlier,
    label_behind,
    list_begun,
    list_worked_behind,
    read_written,
)
from xray.story.exits.box_edges import EDGES, find_edges
from xray.story.exits.brought import label_begun, label_brought, lead_brought, list_brought
from xray.story.exits.corrected_chart import OF_THESE, find_last_boxes, label_last
from xray.story.exits.handed_out import chart_levels
from xray.story.exits.handed_rows import hold_twins, label_pieces, tell_pooled
from xray.story.exits.looking import fold_scales, label_looking, lead_in, list_looking
from xray.story.exits.loss_chart import add_loss, find_predicted, is_loss, list_loss, list_picks, name_loss, name_pick
from xray.story.exits.nearest_codes import find_nearest, label_codes
from xray.story.exits.other_ways import find_ways, label_ways, lead_beside, lead_ways, list_finer, reach_joining
from xray.story.exits.several_heads import Heads, find_heads, place_heads
from xray.story.exits.waves import list_waves
from xray.story.passages.added_places import label_places
from xray.story.passages.joined_rows import label_joined_rows, multiplies_earlier
from xray.story.passages.modulation import list_modulation
from xray.story.passages.ordered_rows import label_every, label_first_row
from xray.story.recognition.addends import FILLS
from xray.story.recognition.between import find_region, is_linear, list_reading_data, with_weights
from xray.story.recognition.mixed_streams import find_end
from xray.story.recognition.resamplers import find_resamplers
from xray.story.sentences.of_parts import SAME_AS_WORDS, describe_own_beside
from xray.story.streams.put_back import list_put_back

TO_WORDS = "LINEAR TO VOCABULARY"


def chart_exit(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps behind a tower's last sum: last norm, head, a loss or the next word; `others` are of other towers."""
    end = towering.last_layer
    last = find_last(flow, towering, others)
    if last is None and (levels := chart_levels(flow, towering, others)) is not None:
        return levels
    if last is None:
        bend = find_own_bend(flow, towering.layers[-1][-1])
        begin = end if bend is None else bend
        return add_worked(flow, towering, chart_rows_left(flow, begin, others), begin, others)
    loss = last if is_loss(flow, last) and len(flow.steps[last].inputs) > 1 else None
    picks = list_picks(flow, last, others) if loss is None else []
    predicted = 0 if loss is None else find_predicted(flow, loss, end)
    nearest = find_nearest(flow, last)
    top = find_sum(flow, last, end) if loss is None else find_bent(flow, find_maker_in(flow, loss, predicted, end))
    top = top if nearest is None else nearest.end
    top = reach_joining(flow, top, end, others) if top is not None and loss is None else top
    region = None if top is None else find_region(flow, end, top)
    if region is None or top is None:
        return None
    heads = find_heads(flow, towering, top, region.inner, others) if loss is None else Heads()
    rejoined = next((one.rejoined for one in towering.stagings[-1:]), None)
    together = list_put_back(flow, end) if rejoined is None else (rejoined.join,)
    nodes = {*region.inner, *heads.steps}.difference(others, together)
    of_stage = [node for node in nodes if is_of_stage(flow, towering, node)]
    nodes.difference_update(flow.behind(*of_stage, within=lambda node: node > end))
    beside = frozenset[int]() if towering.condition is None else towering.condition.nodes
    brought = list_brought(flow, region, beside) if loss is None and not others else frozenset[int]()
    began = list_begun(flow, towering)
    ways = find_ways(flow, nodes, others, towering.sums) if loss is None else {}
    looking = list_looking(flow, nodes) if loss is None else []
    ways = {**{node: way for node, way in ways.items() if not adds_earlier(flow, node, began)}, **lead_in(looking)}
    nodes |= {*list_beside(flow, end, top, others), *brought}.union(*ways.values())
    apart = list_apart(flow, towering, {*nodes, *of_stage}).difference(of_stage)
    nodes |= apart
    pieces = list(list_pieces(flow, nodes))
    nodes.difference_update(node for one in pieces for way in one.ways[1:] for node in way)
    labels = (
        label_joined_rows(flow, nodes, {end, *of_stage})
        | label_begun(flow, towering, nodes)
        | label_brought(flow, brought)
        | label_ways(flow, nodes, ways)
        | label_looking(flow, looking)
        | label_pieces(pieces)
    )
    modulation = () if towering.final is None else list_modulation(flow, towering.final)
    gathered = find_end(flow, towering.chains[-1].joints[-1].mixing, end)
    for node in nodes:
        if is_linear(flow, node) and (scores_words(flow, node, towering.tower.vocab) or works_with_table(flow, node)):
            labels[node] = TO_WORDS
        elif is_loss(flow, node):
            labels[node] = name_loss(flow.steps[node])
        elif node == gathered:
            labels[node] = f"{towering.tower.streams} STREAMS INTO ONE"
        elif is_last_norm(flow, towering, node) and not is_normed_again(flow, node, nodes):
            labels[node] = f"LAST NORM, {name_modulation(flow, modulation)}" if modulation else "LAST NORM"
        elif padded := label_padded(flow, node):
            labels[node] = padded
        elif earlier := label_first_row(flow, node, nodes) or label_places(flow, node):
            labels[node] = earlier
        elif multiplies_earlier(flow, node, nodes):
            labels[node] = "MULTIPLIED"
        elif pushes_down(flow, node):
            labels[node] = MASKED_DOWN
        elif flow.op(node) == "index" and cuts_rows(flow, node):
            labels[node] = label_cut_rows(flow, node)
        elif cut := label_cut_into(flow, node) or label_every(flow, node) or label_cut_of_pieces(flow, node):
            labels[node] = cut
        elif adds_earlier(flow, node, began):
            labels[node] = label_behind(flow, (node,), began)
        elif flow.steps[node].error is not None:
            to_words = flow.steps[node].settings.get("out_features") == towering.tower.vocab
            labels[node] = TO_WORDS if to_words else label_step(flow, node)
    before, behind = list_bendings(flow, top) if is_linear(flow, top) else ([], [])
    behind = [node for node in behind if loss is None or loss in flow.ahead(node)]
    for node in before:
        own = ", ".join(filter(None, (labels.get(node), name_bending(flow, [node]))))
        labels |= {node: own} if own and node in nodes else {}
    pooling = find_resamplers(flow, nodes, {end})
    labels |= {one.end: label_resampler(one) for one in pooling}
    folded = {one.end: with_rows(flow, one.nodes, nodes) for one in pooling} | fold_scales(flow, looking)
    folded |= {towering.final.end: (*towering.final.nodes, *modulation)} if towering.final and modulation else {}
    if gathered != end:
        folded[gathered] = tuple(sorted(flow.behind(gathered, within=lambda place: place > end)))
    for stack, own_steps in find_edges(flow, nodes).items():
        nodes.add(stack)
        labels[stack], folded[stack] = EDGES, own_steps
    if nearest is not None:
        labels[nearest.end] = label_codes(nearest)
        folded[nearest.end] = nearest.nodes
    label = name_bending(flow, behind)
    if heads.steps:
        labels |= dict(heads.labels) | ({behind[-1]: label} if label else {})
        folded |= dict(heads.folded)
    corrected = label_last(flow, towering, nodes)
    labels |= corrected
    if boxes := find_last_boxes(flow, towering, corrected):
        nodes |= {*boxes}
        labels[boxes[0]], folded[boxes[0]] = OF_THESE, boxes
    bend = find_own_bend(flow, towering.layers[-1][-1])
    aside, begins = frozenset[int]().union(*ways.values()), {end if bend is None else bend, end, *together}
    chart = chart_operations(
        flow, nodes, top, labels, "out", folded=folded, begins=begins, most=MOST_AT_ALL, aside=aside
    )
    if chart is None:
        left = chart_rows_left(flow, top, others)
        return add_worked(flow, towering, left, top, others) if loss is None else left
    held = [replace(node, extra="") if node.label == OF_THESE else node for node in chart.nodes]
    drawn = {*of_stage, *(flow.places[step.id] for node in held for step in node.steps)}
    chart = replace(chart, nodes=tuple(tell_pooled(flow, show_given(node), end, drawn) for node in held))
    chart = replace(chart, nodes=tuple(name_words(tell_table(flow, node)) for node in chart.nodes))
    chart = hold_twins(flow, count_gathered(flow, chart, folded.get(gathered, ())), pieces)
    chart = hold_modulation(flow, chart, towering.final, modulation)
    chart = lead_ways(flow, lead_brought(flow, without_told(chart), brought, end), ways)
    chart = lead_beside(flow, chart, others, begins)
    if loss is not None:
        return add_loss(flow, add_bent(flow, chart, label, behind), loss, predicted)
    if apart:
        chart = place_heads(put_last(chart, steps_at(flow, *apart)))
    elif heads.steps:
        chart = place_heads(chart)
    elif label:
        chart = add_bent(flow, chart, label, behind)
    else:
        chart = add_worked(flow, towering, chart, top, others) or chart
    for node in (one for one in picks if one not in behind):
        label, out = name_pick(flow, node), flow.output(node)
        pick = Node(f"out{node}", label, chart.rows, BROAD, steps_at(flow, node), out, surface="phase")
        made = flow.carried_from(flow.makers[node][0])
        own = next((one.key for one in chart.nodes if made is not None and flow.steps[made] in one.steps), chart.head)
        edges = (*chart.edges, Edge(own, pick.key))  # a loss may stand above the scores (WeNet)
        chart = replace(chart, nodes=(*chart.nodes, pick), edges=edges, head=pick.key)
    return chart


def add_bent(flow: Flow, chart: Chart, label: str, behind: Sequence[int]) -> Chart:
    """The chart with what is done to all scores of the last layer above it, where anything is."""
    if not label:
        return chart
    return add_above(chart, Node("bent", label, 0, BROAD, steps_at(flow, *reversed(behind)), flow.output(behind[-1])))


def pushes_down(flow: Flow, node: int) -> bool:
    """Whether a step makes some of the numbers that it reads so low that a softmax leaves nothing of them."""
    written = read_written(flow, node) if flow.op(node) in FILLS else None
    return written is not None and written <= NO_WEIGHT and node in list_reading_data(flow)


def chart_rows_left(flow: Flow, end: int, others: Collection[int]) -> Chart | None:
    """The rows that alone another tower reads of what a layer gives last: those that are no padding (LED's encoder).

    Or the pieces that they are cut into.
    """
    pieces = chart_pieces(flow, end, others)
    if pieces is not None:
        return pieces
    readers = flow.leaf_readers(end)
    out = flow.one_pass.results
    if len(readers) != 1 or flow.op(readers[0]) != "index" or not cuts_rows(flow, readers[0]):
        return None
    is_theirs = readers[0] in others  # it stands where the other tower begins (InternVL)
    if is_theirs or flow.steps[end].id in out or {*others}.isdisjoint(flow.readers.get(readers[0], ())):
        return None
    key, label = f"out{readers[0]}", label_cut_rows(flow, readers[0])
    return Chart((Node(key, label, 0, BROAD, steps_at(flow, *readers), flow.output(readers[0])),), (), (key,), key)


def chart_pieces(flow: Flow, end: int, others: Collection[int]) -> Chart | None:
    """The pieces of rows that alone another tower reads, made as many first as fill the last one (Granite Speech)."""
    out = flow.one_pass.results
    nodes: list[Node] = []
    here, told = end, ""
    while not told:
        readers = flow.leaf_readers(here)
        if len(readers) != 1 or flow.steps[here].id in out:
            return None
        (here,) = readers
        told = label_cut_sequences(flow, here)
        label = told or label_padded(flow, here)
        if not label:
            return None
        nodes.append(Node(f"out{here}", label, len(nodes), BROAD, steps_at(flow, here), flow.output(here)))
    if {*others}.isdisjoint(flow.readers.get(here, ())):
        return None
    edges = tuple(Edge(one.key, other.key) for one, other in pairwise(nodes))
    return Chart(tuple(nodes), edges, (nodes[0].key,), nodes[-1].key)


def add_worked(flow: Flow, towering: Towering, chart: Chart | None, top: int, others: Collection[int]) -> Chart | None:
    """A chart with what is worked out without weights of what a step gives, on top; alone where nothing stands below.

    None where there is neither.
    """
    began = list_begun(flow, towering)
    worked = [
        (f"behind{one[0]}", label_behind(flow, one, began), one) for one in list_worked_behind(flow, top, others, began)
    ]
    worked += [(f"wave{one[0]}", told, one) for told, one in list_waves(flow, top, others)]
    worked += [(f"finer{one[0]}", told, one) for told, one in list_finer(flow, towering, top, others)]
    worked += [(f"number{one[0]}", told, one) for told, one in list_loss(flow, top, others)]
    boxed = {step.id for node in (() if chart is None else chart.nodes) for step in node.steps}
    for key, told, steps in worked:
        if flow.steps[steps[0]].id in boxed:  # the bias of a product that the head is (Perceiver)
            continue
        extra = describe_params(flow, *steps)
        node = Node(key, told, 0, BROAD, steps_at(flow, *steps), flow.output(steps[0]), extra)
        chart = Chart((node,), (), (key,), key) if chart is None else add_above(chart, node)
    return chart


def count_gathered(flow: Flow, chart: Chart, nodes: Collection[int]) -> Chart:
    """The chart whose box of streams that become one tells the parameters of all that works their weights out.

    So it is in the layers: what is worked out there is no way of the stream's own (Hunyuan 4).
    """
    own = steps_at(flow, *nodes)
    extra = describe_params(flow, *nodes)
    return replace(
        chart, nodes=tuple(replace(one, extra=extra) if own and own[-1] in one.steps else one for one in chart.nodes)
    )


def list_apart(flow: Flow, towering: Towering, known: Collection[int]) -> set[int]:
    """The last norm with all before it, where what a tower gives goes another way too, which is drawn (X-CLIP)."""
    final = set(() if towering.final is None else towering.final.nodes)
    within = towering.last_layer.__lt__
    return set(flow.behind(*final, within=within)) if final.isdisjoint(known) else set()


def put_last(chart: Chart, steps: Collection[Step]) -> Chart:
    """The chart with the boxes of some steps behind the others, so that they stand on the right of these."""
    return replace(chart, nodes=tuple(sorted(chart.nodes, key=lambda node: any(one in steps for one in node.steps))))


def with_rows(flow: Flow, own: Collection[int], drawn: Collection[int]) -> tuple[int, ...]:
    """The steps of a resampler, and those that make its learned rows of parameters alone, if they have no box."""
    reading = list_reading_data(flow)
    made = flow.behind(*own, within=lambda place: place in own or place not in reading)
    return tuple(sorted({*own, *(one for one in made if one not in drawn)}))


def list_beside(flow: Flow, end: int, last: int, others: Collection[int]) -> list[int]:
    """The convolutions beside the last step of a tower that read what it ends with too."""
    beside = [place for place in flow.ahead(end, within=lambda here: here not in others) if flow.op(place) in FINDINGS]
    return beside if last in list_beside_each_other(flow, end, beside) else []


def name_bending(flow: Flow, nodes: Sequence[int]) -> str:
    """By what number all scores are multiplied, or by which they are bent; empty where they stay as they are."""
    capped = name_cap(flow, nodes)
    if capped:
        return capped
    factor = prod(one for node in nodes if (one := read_factor(flow, node)) is not None)
    if isclose(factor, 1, rel_tol=1e-6):
        return ""
    return name_times(factor)


def tell_table(flow: Flow, node: Node) -> Node:
    """The box of a product with the table of the words, no module's own, as it says so, and as its rows are laid out.

    So are they by sequences, which it worked on all at once (Perceiver).
    """
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    first = next((one for one in places if works_with_table(flow, one)), None) if node.label == TO_WORDS else None
    if first is None or flow.steps[first].params:
        return node
    turns = [one for one in flow.makers[first] if one is not None and flow.op(one) in TURNS]
    laid = find_laid(flow, max(places)) if list_rows_cut(flow, first) else max(places)
    made, known = with_weights(flow, places), find_first(flow)
    own = sum(count for name, count in gather_weights(flow, made).items() if known[name] in made)
    steps = steps_at(flow, *dict.fromkeys((*places, *turns, laid)))
    return replace(node, extra=describe_own_beside(SAME_AS_WORDS, own), steps=steps, record=flow.output(laid))


def name_words(node: Node) -> Node:
    """A box that gives a score for every word, the last axis of which is named for that."""
    axes = () if node.record is None or node.label != TO_WORDS else node.record.axes
    if node.record is None or axes[-1:] != ("",):
        return node
    return replace(node, record=replace(node.record, axes=(*axes[:-1], "vocab")))


def show_given(node: Node) -> Node:
    """A step that failed with the shape that it was given."""
    step = node.steps[0] if node.steps else None
    return replace(node, record=next(iter(step.inputs), None)) if step is not None and step.error is not None else node


def without_told(chart: Chart) -> Chart:
    """The chart without boxes of one step for which all boxes that read them stand too: means that they are of."""
    for node in reversed(chart.nodes):  # what the dropped ones read may be told too
        readers = [edge.target for edge in chart.edges if edge.source == node.key]
        above = [one for one in chart.nodes if one.key in readers]
        if not above or len(node.steps) != 1 or any(node.steps[0] not in one.steps[1:] for one in above):
            continue
        led = [replace(edge, target=key) for edge in chart.edges if edge.target == node.key for key in readers]
        feet = (key for foot in chart.feet for key in (readers if foot == node.key else [foot]))
        chart = replace(
            chart,
            nodes=close_row([one for one in chart.nodes if one is not node], node.row),
            edges=(*led, *(edge for edge in chart.edges if node.key not in (edge.source, edge.target))),
            feet=tuple(dict.fromkeys(feet)),
        )
    return chart


def close_row(nodes: Sequence[Node], row: int) -> tuple[Node, ...]:
    """The nodes, those above a row one lower if nothing stands in it."""
    if any(node.row == row for node in nodes):
        return tuple(nodes)
    return tuple(replace(node, row=node.row - 1) if node.row > row else node for node in nodes)


def is_of_stage(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a step belongs to the last stage: what scales its sum, the norm behind it, or the bend of all of that."""
    last = towering.stagings[-1:]
    bend = find_own_bend(flow, towering.layers[-1][-1])
    own = {
        node
        for staging in last
        for nodes in (staging.behind, *(norm.nodes for norm in staging.norms))
        for node in nodes
    }
    return node == bend or node in own
