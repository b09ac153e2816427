"""What stands below the first layer and above the last one: entrance and exit as charts."""

from collections.abc import Collection
from dataclasses import replace
from math import isclose, prod, sqrt

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, LOOKUPS, LOSSES, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.body.ends import is_convolved
from xray.story.body.entrance import cuts_patches, describe_sum, learned_source
from xray.story.body.stages import find_any_norm
from xray.story.body.tables import looks_up_places, trains
from xray.story.body.towers import POOLINGS, Towering
from xray.story.charts.chart import BROAD, MIDDLE, Chart, Edge, Node, describe_dropout, list_dropouts, steps_at
from xray.story.charts.operations_chart import chart_operations, label_step
from xray.story.charts.stage_chart import name_modulation
from xray.story.passages.modulation import list_modulation
from xray.story.recognition.between import find_region, is_linear, is_scale
from xray.story.recognition.mixed_streams import find_end
from xray.story.recognition.value_shapes import number
from xray.story.sentences.of_runs import list_remarks_of_loss
from xray.story.wording import ELLIPSIS
from xray.text import show_controls

INPUTS = {"ids": "TOKEN IDS", "image": "IMAGE", "video": "VIDEO", "audio": "SIGNAL", "vectors": "VECTORS"}
MOST_LETTERS = 90
"""No more of a prompt is quoted."""
PICKS = frozenset({"argmax", "multinomial"})
COMPARED = {"targets": (0.08, 0.36), "predictions": (0.64, 0.72)}
"""What a loss compares, and where each stands."""


def chart_entrance(flow: Flow, towering: Towering, *, has_words: bool = False) -> Chart | None:
    """The steps before a tower's first layer, what it reads at the bottom; words stand there as they are."""
    nodes = set(towering.entrance)
    start = towering.chains[0].start
    if not nodes or start is None:
        return None
    labels = {node: label for node in nodes if (label := label_entry(flow, node))}
    chart = chart_places(flow, towering, start)
    if chart is None:
        chart = chart_operations(flow, nodes, start, labels, "in")
        chart = None if chart is None else add_scale(flow, chart, nodes)
    if chart is None:
        return None
    given = find_input(flow, towering)
    if given is None or has_words:
        return chart
    step, record, reader = given
    raised = chart.raised(1)
    foot = next(
        (node.key for node in raised.nodes if any(one is flow.steps[reader] for one in node.steps)), raised.feet[0]
    )
    told = tuple(f"“{show_controls(text)}”" for text in quote_input(flow.one_pass))
    label = "INPUT" if is_worked_out(flow, reader) else INPUTS.get(towering.tower.reads or "", "INPUT")
    below = Node("given", label, 0, MIDDLE, (step,), record, told=told)
    return Chart((below, *raised.nodes), (Edge("given", foot), *raised.edges), ("given",), raised.head)


def is_worked_out(flow: Flow, reader: int) -> bool:
    """Whether a convolution has worked on what another one reads: of a long entrance the first ones are not drawn."""
    before = flow.behind(flow.makers[reader][0]) if flow.op(reader) in FINDINGS else ()
    return any(flow.op(node) in FINDINGS for node in before)


def add_scale(flow: Flow, chart: Chart, nodes: Collection[int]) -> Chart:
    """The chart with the number on top by which all that it gives is multiplied, if it is."""
    drawn = max(flow.places[step.id] for node in chart.nodes for step in node.steps)
    scales = [one for one in sorted(nodes) if one > drawn and is_scale(flow, one) and number(flow.steps[one]) != 1]
    if len(scales) != 1 or len(flow.output(scales[0]).shape) != 3:
        return chart
    label = "× √d_model" if is_root(flow, scales[0]) else "× ONE NUMBER"
    return add_above(chart, Node("scale", label, 0, MIDDLE, steps_at(flow, *scales), flow.output(scales[0])))


def quote_input(one_pass: Pass) -> tuple[str, ...]:
    """The words that a pass read, those of its first sequence, where they were recorded."""
    text = "".join(next(iter(one_pass.tokens.get("input", ())), ()))
    return (text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + ELLIPSIS,) if text.strip() else ()


def chart_places(flow: Flow, towering: Towering, start: int) -> Chart | None:
    """Words looked up and places worked out, added up; None for an entrance of any other build."""
    end = flow.carried_from(start, CARRYING | DROPOUTS)
    lookups = [node for node in towering.entrance if flow.op(node) in LOOKUPS]
    if end is None or len(lookups) != 1 or flow.op(end) not in SUMS or len(flow.makers[end]) != 2:
        return None
    word = lookups[0]
    if looks_up_places(flow, word):
        return None
    given = list(flow.given(end))
    sides = [flow.carried_from(maker, CARRYING | DROPOUTS | SCALINGS) for _, maker in given]
    if word not in sides or None in sides:
        return None
    record, place = given[1 - sides.index(word)]
    scales = [node for node in sorted(towering.entrance) if word < node < end and is_scale(flow, node)]
    if place is None or len(scales) > 1 or flow.steps[place].params:
        return None
    last = scales[0] if scales else word
    label = "EMBED" if not scales else "EMBED × √d_model" if is_root(flow, last) else "EMBED × A FACTOR"
    params = flow.steps[word].params
    told = f"{params:,} parameters" if params else ""
    dropped = list_dropouts(flow, end)
    nodes = (
        Node("words", label, 0, (0.5, 0.5), steps_at(flow, word, *scales), flow.output(word), told),
        Node(
            "plus",
            "+",
            1,
            (0.5, 0.1),
            (flow.steps[end], *dropped),
            flow.output(end),
            describe_dropout(flow, dropped),
            form="sign",
        ),
        Node("places", "POSITIONS", 1, (0.79, 0.4), steps_at(flow, place), record),
    )
    return Chart(nodes, (Edge("words", "plus"), Edge("places", "plus")), ("words",), "plus")


def without_places(chart: Chart) -> Chart:
    """The same without a node for the places: the sign that adds them stands for them."""
    places = next((node for node in chart.nodes if node.key == "places"), None)
    if places is None:
        return chart
    nodes = tuple(
        replace(node, steps=(*node.steps, *places.steps)) if node.key == "plus" else node
        for node in chart.nodes
        if node is not places
    )
    return replace(chart, nodes=nodes, edges=tuple(edge for edge in chart.edges if edge.source != "places"))


def is_root(flow: Flow, node: int) -> bool:
    """Whether a step multiplies by the root of the width of what it reads."""
    factor = flow.steps[node].settings.get("factor", number(flow.steps[node]))
    return isinstance(factor, float) and isclose(factor, sqrt(flow.output(node).shape[-1]), rel_tol=1e-4)


def label_entry(flow: Flow, node: int) -> str:
    """What a step of the entrance is called."""
    op = flow.op(node)
    if op in LOOKUPS:
        return "PLACES, LOOKED UP" if looks_up_places(flow, node) else "LOOK UP IN A TABLE"
    if op in FINDINGS:
        return "PATCHES" if cuts_patches(flow, node) else ""
    part = next(describe_sum(flow, node, ()), None) if op in SUMS else None
    if part is not None:
        return "+ LEARNED PLACES" if part.learned else "+ PLACES"
    if op in SUMS and any(record.role == "parameter" for record in flow.steps[node].inputs):
        return "+ A ROW" if trains(flow, node) is False else "+ A LEARNED ROW"
    if op == "cat" and any(record.shape[1:2] == (1,) for record in flow.steps[node].inputs):
        record, maker = next(flow.given(node))
        is_learned = record.shape[1:2] == (1,) and learned_source(flow, record, maker) is not None
        return "A LEARNED ROW IN FRONT" if is_learned else "WITH ONE MORE ROW"
    return ""


def find_input(flow: Flow, towering: Towering) -> tuple[Step, TensorRecord, int] | None:
    """What a tower reads from outside, and which step reads it: of several lookups the one in the largest table."""
    reads = towering.tower.reads
    wanted = {"ids": LOOKUPS, "image": FINDINGS, "video": FINDINGS, "audio": FINDINGS}.get(reads or "")
    if wanted is FINDINGS and all(flow.op(node) not in FINDINGS for node in towering.entrance):
        wanted = None  # patches may be cut by moves alone
    found: list[tuple[Step, TensorRecord, int]] = []
    for node in sorted(towering.entrance):
        if wanted is not None and flow.op(node) not in wanted:
            continue
        for record, maker in flow.given(node):
            if record.role == "parameter" or not record.shape:
                continue
            if reads == "ids" and (record.role != "ids" or looks_up_places(flow, node)):
                continue
            if reads == "vectors" and maker is not None:
                continue
            found.append((flow.steps[node], record, node))
            break
    if reads == "ids":
        return max(found, key=lambda one: one[0].params, default=None)
    return found[0] if found else None


def chart_exit(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps behind a tower's last sum: last norm, head, a loss or the next word; `others` are of other towers."""
    end = towering.chains[-1].end
    last = find_last(flow, towering, others)
    if last is None:
        return None
    loss = last if is_loss(flow, last) and len(flow.steps[last].inputs) > 1 else None
    picks = list_picks(flow, last) if loss is None else []
    top = last if loss is None else find_maker_in(flow, loss, 0, end)
    region = None if top is None else find_region(flow, end, top)
    if region is None or top is None:
        return None
    nodes = {node for node in region.inner if not is_of_stage(towering, node) and node not in others}
    labels = {}
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
        elif flow.steps[node].error is not None:
            to_words = flow.steps[node].settings.get("out_features") == towering.tower.vocab
            labels[node] = "LINEAR TO VOCABULARY" if to_words else label_step(flow, node)
    chart = chart_operations(flow, nodes, top, labels, "out")
    if chart is None:
        return None
    chart = replace(chart, nodes=tuple(tell_pooled(flow, show_given(node), end) for node in chart.nodes))
    if loss is not None:
        return add_loss(flow, chart, loss)
    for node in picks:
        label, out = name_pick(flow, node), flow.output(node)
        chart = add_above(chart, Node(f"out{node}", label, 0, BROAD, steps_at(flow, node), out, surface="phase"))
    return chart


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
            return replace(node, label=f"{node.label} OF {told}")
        if flow.op(here) not in CARRYING | DROPOUTS or not flow.makers[here]:
            break
        here = flow.makers[here][0]
    return node


def name_rows(flow: Flow, node: int) -> str:
    """Which of a stream's rows a step hands on as one: the first, the last, another one, or their mean."""
    step = flow.steps[node]
    before, after = (step.inputs[0].shape if step.inputs else ()), flow.output(node).shape
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


def add_above(chart: Chart, node: Node) -> Chart:
    """The chart with one node more on top of its head."""
    raised = replace(node, row=chart.rows)
    return Chart((*chart.nodes, raised), (*chart.edges, Edge(chart.head, node.key)), chart.feet, node.key, chart.memory)


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

    What goes on through convolutions is no head (VITS): there, the last norm is the last.
    """
    end = towering.chains[-1].end
    reached = {end}
    heads: list[int] = []
    for place in range(end + 1, len(flow.steps)):
        if (
            place in others
            or not flow.is_leaf(place)
            or not any(maker in reached for maker in flow.makers[place] if maker is not None)
        ):
            continue
        reached.add(place)
        failed = flow.steps[place].error is not None
        if failed or is_linear(flow, place) or is_loss(flow, place) or find_any_norm(flow, place) is not None:
            heads.append(place)
    ends = (one for one in reversed(heads) if is_last_norm(flow, towering, one) or not is_convolved(flow, one))
    return next(ends, None)
