"""What stands above the last layer: a last norm, a head, a loss or the next word."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isclose, prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DROPOUTS, FINDINGS, LOSSES, SIDE_BY_SIDE, SUMS
from xray.ir.trace import Step
from xray.story.body.ends import is_convolved
from xray.story.body.scale import list_bendings
from xray.story.body.stages import find_any_norm
from xray.story.body.towers import POOLINGS, Towering
from xray.story.branches.caps import find_cap, read_factor
from xray.story.charts.chart import (
    BROAD,
    Chart,
    Edge,
    Node,
    add_above,
    steps_at,
)
from xray.story.charts.entrance_chart import label_resampler
from xray.story.charts.operation_labels import label_step
from xray.story.charts.operations_chart import chart_operations
from xray.story.charts.stage_chart import name_modulation
from xray.story.passages.bridges import EARLIER_BESIDE, lays_earlier_beside
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.passages.modulation import list_modulation
from xray.story.recognition.between import find_region, is_linear
from xray.story.recognition.mixed_streams import find_end
from xray.story.recognition.resamplers import find_resamplers
from xray.story.sentences.of_runs import list_remarks_of_loss

JOINING = SIDE_BY_SIDE | {"stack"}
PICKS = frozenset({"argmax", "multinomial"})
COMPARED = {"targets": (0.08, 0.36), "predictions": (0.64, 0.72)}
"""What a loss compares, and where each stands."""


def chart_exit(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps behind a tower's last sum: last norm, head, a loss or the next word; `others` are of other towers."""
    end = towering.last_layer
    last = find_last(flow, towering, others)
    if last is None:
        return None
    loss = last if is_loss(flow, last) and len(flow.steps[last].inputs) > 1 else None
    picks = list_picks(flow, last) if loss is None else []
    top = find_sum(flow, last, end) if loss is None else find_maker_in(flow, loss, 0, end)
    region = None if top is None else find_region(flow, end, top)
    if region is None or top is None:
        return None
    nodes = {node for node in region.inner if not is_of_stage(towering, node) and node not in others}
    labels = label_joined_rows(flow, nodes)
    gathered = find_end(flow, towering.chains[-1].joints[-1].mixing, end)
    for node in nodes:
        if is_linear(flow, node) and flow.output(node).shape[-1:] == (towering.tower.vocab,):
            labels[node] = "LINEAR TO VOCABULARY"
        elif is_loss(flow, node):
            labels[node] = f"{name_loss(flow.steps[node])}: THE LOSS"
        elif node == gathered:
            labels[node] = f"{towering.tower.streams} STREAMS INTO ONE"
        elif is_last_norm(flow, towering, node):
            final = towering.final
            modulation = () if final is None else list_modulation(flow, final)
            labels[node] = f"LAST NORM, {name_modulation(flow, modulation)}" if modulation else "LAST NORM"
        elif lays_earlier_beside(flow, node, nodes):
            labels[node] = EARLIER_BESIDE
        elif flow.steps[node].error is not None:
            to_words = flow.steps[node].settings.get("out_features") == towering.tower.vocab
            labels[node] = "LINEAR TO VOCABULARY" if to_words else label_step(flow, node)
    before, behind = list_bendings(flow, top) if is_linear(flow, top) and loss is None else ([], [])
    for node in before:
        own = ", ".join(filter(None, (labels.get(node), name_bending(flow, [node]))))
        labels |= {node: own} if own and node in nodes else {}
    pooling = find_resamplers(flow, nodes, {end})
    labels |= {one.end: label_resampler(one) for one in pooling}
    chart = chart_operations(flow, nodes, top, labels, "out", folded={one.end: one.nodes for one in pooling})
    if chart is None:
        return None
    chart = replace(chart, nodes=tuple(tell_pooled(flow, show_given(node), end) for node in chart.nodes))
    if loss is not None:
        return add_loss(flow, chart, loss)
    label = name_bending(flow, behind)
    if label:
        steps = steps_at(flow, *reversed(behind))
        chart = add_above(chart, Node("bent", label, 0, BROAD, steps, flow.output(behind[-1])))
    else:
        for node in list_worked_behind(flow, top):
            box = Node(f"behind{node}", label_step(flow, node), 0, BROAD, steps_at(flow, node), flow.output(node))
            chart = add_above(chart, box)
    for node in picks:
        label, out = name_pick(flow, node), flow.output(node)
        chart = add_above(chart, Node(f"out{node}", label, 0, BROAD, steps_at(flow, node), out, surface="phase"))
    return chart


def list_worked_behind(flow: Flow, top: int) -> list[int]:
    """The steps that bend all that the last layer gives or add what no data makes, and nothing else reads that.

    A pooler's tanh is such a one, and a bias of words that stands apart from the layer (BART).
    """
    found: list[int] = []
    here = top
    while True:
        readers = [reader for reader in flow.readers.get(here, ()) if flow.is_leaf(reader)]
        if len(readers) != 1:
            return found
        here = readers[0]
        given = [record.shape for record, maker in flow.given(here) if flow.carried_from(maker) is None]
        if flow.op(here) in CURVES or (flow.op(here) in SUMS and any(given)):
            found.append(here)
        elif flow.op(here) not in CARRYING | DROPOUTS:
            return found


def find_sum(flow: Flow, last: int, end: int) -> int:
    """The sum that adds the last step to what it was worked out of, as at the end of a pooling head; else that step."""
    for reader in flow.readers.get(last, ()):
        makers = [maker for maker in flow.makers[reader] if maker is not None]
        others = [maker for maker in makers if maker != last]
        if flow.op(reader) in SUMS and len(makers) == 2 and len(others) == 1 and others[0] > end:
            return reader if others[0] in flow.behind(last, within=lambda place: place >= end) else last
    return last


def name_bending(flow: Flow, nodes: Sequence[int]) -> str:
    """By what number all scores are multiplied, or by which they are bent; empty where they stay as they are."""
    cap = find_cap(flow, nodes)
    if cap is not None:
        return f"{cap:g} · TANH( EACH / {cap:g} )"
    factor = prod(one for node in nodes if (one := read_factor(flow, node)) is not None)
    if isclose(factor, 1, rel_tol=1e-6):
        return ""
    return f"÷ {1 / factor:.4g}" if 0 < factor < 1 else f"× {factor:.4g}"


def show_given(node: Node) -> Node:
    """A step that failed with the shape that it was given."""
    step = node.steps[0] if node.steps else None
    return replace(node, record=next(iter(step.inputs), None)) if step is not None and step.error is not None else node


def tell_pooled(flow: Flow, node: Node, end: int) -> Node:
    """The same, called by which row of the stream it reads, if not all of them go into it."""
    places = [flow.places[step.id] for step in node.steps if step.id in flow.places]
    here = next((maker for maker in flow.makers[min(places)] if maker is not None), None) if places else None
    while here is not None and here > end:
        told = name_rows(flow, here)
        if told:
            return replace(node, label=f"{node.label} OF {told}", steps=(*node.steps, flow.steps[here]))
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            break
        here = flow.makers[here][0]
    return node


def name_rows(flow: Flow, node: int) -> str:
    """Which of a stream's rows a step hands on as one: the first, the last, another one, or their mean."""
    step = flow.steps[node]
    before, after = (step.inputs[0].shape if step.inputs else ()), flow.output(node).shape
    if step.op in POOLINGS and len(before) == 4:
        return "A MEAN OF PLACES" if after in (before[:2], (*before[:2], 1, 1)) else ""
    if step.op in POOLINGS and len(before) == 3:
        is_one = (after == (*before[:2], 1)) or (before[:1], before[2:]) == (after[:1], after[-1:])
        return "A MEAN OF ROWS" if is_one and prod(after) == prod(before[:1]) * max(after[1:]) else ""
    if step.op not in ("index", "select") or len(before) != 3 or (before[0], before[2]) != after:
        return ""
    parts = str(step.settings.get("index", "")).split(", ")
    place = str(parts[1] if step.op == "index" and len(parts) > 1 and parts[0] == ":" else step.settings.get("index"))
    told = {"0": "THE FIRST ROW", "-1": "THE LAST ROW"}.get(place, "")
    return told or "ONE ROW OF EACH"


def find_maker_in(flow: Flow, place: int, number: int, end: int) -> int | None:
    """The step that works out one input of another, behind what only moves numbers."""
    makers = flow.makers[place]
    here = makers[number] if number < len(makers) else None
    while here is not None and here > end and flow.op(here) in CARRYING and flow.makers[here]:
        here = flow.makers[here][0]
    return here if here is not None and here >= end else None


def add_loss(flow: Flow, chart: Chart, loss: int) -> Chart:
    """What is compared, and the one number that comes out."""
    step = flow.steps[loss]
    row = chart.rows
    pair = []
    for (key, place), (record, maker) in zip(COMPARED.items(), list(flow.given(loss))[1::-1], strict=True):
        moved = maker is not None and flow.op(maker) in CARRYING
        steps = steps_at(flow, maker) if moved and maker is not None else (step,)
        pair.append(Node(key, key.upper(), row, place, steps, record, surface="phase"))
    out = step.outputs[0] if step.outputs else None
    box = Node(
        "loss",
        name_loss(step),
        row + 1,
        (0.45, 1.1),
        (step,),
        out,
        "the loss",
        surface="phase",
        value=spell_value(step),
        told=list_remarks_of_loss(step, flow.one_pass.tokens.get("targets", ())),
    )
    edges = (*chart.edges, Edge(chart.head, "predictions"), Edge("predictions", "loss"), Edge("targets", "loss"))
    return Chart((*chart.nodes, *pair, box), edges, chart.feet, "loss")


def name_loss(step: Step) -> str:
    """What a loss is called."""
    return step.op.removesuffix("_loss").replace("_", "-").upper()


def spell_value(step: Step) -> str:
    """The number that a loss came to, where it was kept."""
    preview = step.outputs[0].preview if step.outputs else None
    if not step.outputs:
        return "failed"
    if preview is None or not preview.values:
        return "one number"
    value = preview.values[0]
    return value if isinstance(value, str) else f"{value:.4f}"


def list_picks(flow: Flow, head: int) -> list[int]:
    """The steps from the scores of all words to the ids of chosen ones, if that was recorded."""
    found: list[int] = []
    reached = {head}
    for place in range(head + 1, len(flow.steps)):
        if flow.is_leaf(place) and any(maker in reached for maker in flow.makers[place]):
            reached.add(place)
            found += [place] if flow.op(place) not in CARRYING else []
            if flow.output(place).role == "ids" and flow.op(place) in PICKS:
                return found
    return []


def name_pick(flow: Flow, node: int) -> str:
    """What a step on the way to the next word is called."""
    op = flow.op(node)
    return {"last_row": "LAST ROW ONLY", "select": "LAST ROW ONLY"}.get(op, op.strip("_").replace("_", " ").upper())


def is_loss(flow: Flow, node: int) -> bool:
    """Whether a step works out a loss."""
    return flow.op(node) in LOSSES or flow.output(node).role == "loss"


def is_last_norm(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a step ends the norm of a tower's last sum."""
    norm = find_any_norm(flow, node)
    return norm is not None and towering.final is not None and norm.origin == towering.final.origin


def is_of_stage(towering: Towering, node: int) -> bool:
    """Whether a step belongs to a stage, as the norm behind the last sum of a model that normalises after it does."""
    return any(node in norm.nodes for staging in towering.stagings[-1:] for norm in staging.norms)


def find_last(flow: Flow, towering: Towering, others: Collection[int]) -> int | None:
    """The last step that is worked out of a tower's result: the loss, if there is one, else the last head or norm.

    What goes on through convolutions is no head (VITS): there, the last norm is the last. Where there is neither, one
    convolution may end all (VibeVoice's encoder). One that reads what other towers end with too is not the tower's own,
    where it has one (PE-AV).
    """
    end = towering.last_layer
    reached, foreign, shared = {end}, list_worked_out(flow, others, end), set[int]()
    heads: list[int] = []
    for place in range(end + 1, len(flow.steps)):
        makers = {maker for maker in flow.makers[place] if maker is not None}
        if place in others or not flow.is_leaf(place) or reached.isdisjoint(makers):
            foreign |= set() if foreign.isdisjoint(makers) or place in reached else {place}
            continue
        reached.add(place)
        shared |= set() if (foreign | shared).isdisjoint(makers) else {place}
        failed = flow.steps[place].error is not None
        if failed or is_linear(flow, place) or is_loss(flow, place) or find_any_norm(flow, place) is not None:
            heads.append(place)
    finders = [place for place in reached if flow.op(place) in FINDINGS]
    if not heads and len(finders) == 1:
        bends = [place for place in reached if flow.op(place) in CURVES]
        return next((bend for bend in bends if flow.carried_from(flow.makers[bend][0]) == finders[0]), finders[0])
    ends = [one for one in reversed(heads) if is_last_norm(flow, towering, one) or not is_convolved(flow, one)]
    own = next((one for one in ends if one not in shared), None)
    is_head = own is not None and is_linear(flow, own) and not any(is_loss(flow, one) for one in ends)
    last = own if is_head else next(iter(ends), None)
    return last if last is None else find_joined_heads(flow, last, heads) or last


def list_worked_out(flow: Flow, others: Collection[int], end: int) -> set[int]:
    """What was worked out of other towers before a tower ended, and not for this tower."""
    found, own = set(others), set(flow.behind(end))
    for place in range(min(found, default=end), end):
        if place not in own and any(maker in found for maker in flow.makers[place]):
            found.add(place)
    return found


def find_joined_heads(flow: Flow, last: int, heads: Collection[int]) -> int | None:
    """The step that puts what several heads of one kind give together: of each book of codes, say (MusicGen)."""
    for reader in flow.readers.get(last, ()):
        joined = {record.shape for record in flow.steps[reader].inputs} if flow.op(reader) in JOINING else set()
        makers = set(flow.makers[reader])
        if joined == {flow.output(last).shape} and len(makers) > 1 and makers <= {*heads} and is_linear(flow, last):
            return reader
    return None
