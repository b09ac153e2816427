"""What stands below the first layer: what comes in, and how it becomes the stream."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isclose, prod, sqrt

from xray.ir.flow.dataflow import SHAPED_ALIKE, Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DROPOUTS, FINDINGS, LOOKUPS, PLACING, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.anatomy.tree import Reads
from xray.story.body.entrance import cuts_patches
from xray.story.body.stages import find_any_norm
from xray.story.body.tables import looks_up_places, trains
from xray.story.body.towers import Towering
from xray.story.branches.caps import read_factor
from xray.story.charts.chart import (
    LEFT_HALF,
    MIDDLE,
    RIGHT_HALF,
    Chart,
    Edge,
    Node,
    add_above,
    chart_learned,
    describe_dropout,
    list_dropouts,
    steps_at,
)
from xray.story.charts.operations_chart import chart_operations
from xray.story.passages.added_places import (
    adds_to_picture,
    describe_sum,
    is_gated,
    learned_source,
    list_laid,
    list_weighed,
)
from xray.story.passages.joined_rows import label_joined_rows
from xray.story.passages.turns import find_turns
from xray.story.recognition.between import is_linear, is_scale, is_times_one
from xray.story.recognition.resamplers import Resampler
from xray.story.recognition.value_shapes import number
from xray.story.streams.asides import list_carried_readers
from xray.story.wording import ELLIPSIS
from xray.text import show_controls

INPUTS = {"ids": "TOKEN IDS", "image": "IMAGE", "video": "VIDEO", "audio": "SIGNAL", "vectors": "VECTORS"}
PADDINGS = frozenset({"pad", "zero_pad2d", "constant_pad_nd"})
CHOOSING = frozenset({"gather", "index_select", "take_along_dim"})
MEAN = "MEAN OF BOTH"
MOST_LETTERS = 90
"""No more of a prompt is quoted."""


def chart_entrance(flow: Flow, towering: Towering, *, has_words: bool = False) -> Chart | None:
    """The steps before a tower's first layer, what it reads at the bottom; words stand there as they are."""
    nodes = set(towering.entrance)
    start = towering.start
    if not nodes or start is None:
        return None
    labels = label_joined_rows(flow, nodes)
    labels |= {node: label for node in nodes if (label := label_entry(flow, node))}
    labels |= {node: label_scale(flow, node) for node in list_scaled_words(flow, nodes)}
    chart = chart_places(flow, towering, start)
    if chart is None:
        labels |= {one.end: label_resampler(one) for one in towering.resamplers}
        folded = {one.end: one.nodes for one in towering.resamplers}
        folded |= {node: laid for node in nodes if flow.op(node) in SUMS and (laid := list_laid(flow, node, nodes))}
        weighed = {node: own for node in nodes if (own := list_weighed(flow, node, nodes))}
        labels |= {node: f"{flow.steps[node].inputs[0].shape[-2]:,} ROWS WEIGHED, ADDED UP" for node in weighed}
        folded |= weighed
        turns = find_turns(flow, nodes)
        if turns is not None:
            labels |= {turns.end: f"{turns.count:,} TURNS OF A LOOP"}
            folded |= {turns.end: (*turns.steps, turns.end)}
        chart = chart_operations(flow, nodes, start, labels, "in", is_entrance=True, folded=folded)
        chart = None if chart is None else add_halves(flow, add_scale(flow, chart, nodes))
    if chart is None:
        return chart_learned(flow, start)
    return chart if has_words else add_given(flow, towering, chart)


def label_resampler(one: Resampler) -> str:
    """How many rows of its own an attention looks at how many others with."""
    learned = "LEARNED " if one.trained is not False else ""
    rows = f"ONE {learned}ROW LOOKS" if one.rows == 1 else f"{one.rows:,} {learned}ROWS LOOK"
    return f"{rows} AT {one.seen:,}"


def add_given(flow: Flow, towering: Towering, chart: Chart) -> Chart:
    """The chart with what comes in at the bottom: one thing, or two beside each other."""
    kinds = (towering.tower.reads,) if towering.tower.also is None else (towering.tower.reads, towering.tower.also)
    drawn = {step.id for node in chart.nodes for step in node.steps}
    found = ((kind, find_input(flow, towering, kind)) for kind in kinds)
    given = [(kind, step_below(flow, drawn, *one)) for kind, one in found if one is not None]
    if chart.memory:  # what another tower gives is led to what takes it up
        given = [(kind, found) for kind, found in given if kind is not None or flow.steps[found[2]].id in drawn]
        given = [(kind, found) for kind, found in given if not is_led_in(flow, chart, found[1], found[2])]
    raised = chart.raised(1) if given else chart
    told = tuple(f"“{show_controls(text)}”" for text in quote_input(flow.one_pass))
    below: list[Node] = []
    edges: list[Edge] = []
    for place, (kind, (step, record, reader)) in zip((LEFT_HALF, RIGHT_HALF), given, strict=False):
        own = [node.key for node in raised.nodes if any(one is flow.steps[reader] for one in node.steps)][:1]
        own = own or lead_to_boxes(flow, towering.entrance, raised, record) or list(raised.feet[:1])
        label = "INPUT" if is_worked_out(flow, reader) else INPUTS.get(kind or "", "INPUT")
        key, place = f"given{len(below) or ''}", place if len(given) > 1 else MIDDLE
        below.append(Node(key, label, 0, place, (step,), record, told=() if below else told))
        edges += [Edge(key, one) for one in own]
    feet = tuple(node.key for node in below[:1]) or raised.feet
    return Chart((*below, *raised.nodes), (*edges, *raised.edges), feet, raised.head, raised.memory)


def lead_to_boxes(flow: Flow, entrance: Collection[int], chart: Chart, record: TensorRecord) -> list[str]:
    """The boxes to which what comes in is led first, where no box stands for the step that reads it."""
    boxes = {flow.places[step.id]: node.key for node in chart.nodes for step in node.steps if step.id in flow.places}
    todo = [
        node
        for node in entrance
        if flow.op(node) not in SHAPED_ALIKE
        and any(maker is None and is_same_given(one, record) for one, maker in flow.given(node))
    ]
    seen: set[int] = set()
    while todo:
        here = todo.pop()
        if here in seen or here not in entrance:
            continue
        seen.add(here)
        todo += () if here in boxes else flow.readers.get(here, ())
    found = {boxes[node] for node in seen if node in boxes}
    return [node.key for node in chart.nodes if node.key in found]


def is_same_given(one: TensorRecord, other: TensorRecord) -> bool:
    """Whether two records are of one tensor that came in, as far as can be told."""
    return one.source == other.source and one.shape == other.shape and one.role == other.role != "parameter"


def step_below(
    flow: Flow, drawn: Collection[str], step: Step, record: TensorRecord, reader: int
) -> tuple[Step, TensorRecord, int]:
    """The same below all boxes: what comes in and is read by the first of those that are drawn before what reads it."""
    found, own = (step, record, reader), next((maker for one, maker in flow.given(reader) if one is record), None)
    here = flow.carried_from(own)
    while here is not None and flow.steps[here].id in drawn:
        first = next((one for one in flow.given(here) if one[0].role != "parameter"), None)
        if first is None:
            return found
        (record, maker), reader = first, here
        while maker is not None and flow.makers[maker] and (flow.op(maker) in CARRYING or is_times_one(flow, maker)):
            record, maker = next(flow.given(maker))
        step, here = flow.steps[reader], maker
    return (step, record, reader) if here is None else found


def is_led_in(flow: Flow, chart: Chart, record: TensorRecord, reader: int) -> bool:
    """Whether a way from another tower is drawn to what reads something that was made on this one."""
    is_made = any(one is record and maker is not None for one, maker in flow.given(reader))
    taking = (node for node in chart.nodes if node.key in chart.memory)
    return is_made and any(one is flow.steps[reader] for node in taking for one in node.steps)


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
    label = label_scale(flow, scales[0])
    return add_above(chart, Node("scale", label, 0, MIDDLE, steps_at(flow, *scales), flow.output(scales[0])))


def label_scale(flow: Flow, node: int) -> str:
    """What a step is called that multiplies all that comes in by one number."""
    return "× √d_model" if is_root(flow, node) else "× ONE NUMBER"


def list_scaled_words(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The steps that multiply words by one number before something is put among them (Gemma 3), or added (TIPSv2)."""
    joins = {node for node in nodes if flow.op(node) in PLACING | SUMS}
    scales = (node for node in nodes if is_scale(flow, node) and not joins.isdisjoint(list_carried_readers(flow, node)))
    return [
        node
        for node in scales
        if number(flow.steps[node]) != 1
        and (word := flow.carried_from(flow.makers[node][0], CARRYING)) is not None
        and flow.op(word) in LOOKUPS | PLACING
    ]


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
    if word not in sides or None in sides or towering.tower.reads != "ids":
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
        return "PLACE LOOKUP" if looks_up_places(flow, node) else "TABLE LOOKUP"
    if op in FINDINGS:
        found = any(flow.op(one) in FINDINGS for one in flow.behind(flow.makers[node][0]))
        return "PATCHES" if cuts_patches(flow, node) and not found else ""
    part = next(describe_sum(flow, node, ()), None) if op in SUMS else None
    if part is not None:
        return f"+ {'GATED ' * is_gated(flow, node)}{'LEARNED ' * bool(part.learned)}PLACES"
    if op in SUMS and adds_to_picture(flow, node):
        return "+ LEARNED NUMBERS"
    if op in SUMS and find_any_norm(flow, node) is not None:
        return ""
    if op in SUMS and is_halved(flow, node):
        return MEAN
    if op in SUMS and {record.role == "parameter" for record in flow.steps[node].inputs} == {True, False}:
        return "+ A ROW" if trains(flow, node) is False else "+ A LEARNED ROW"
    if adds_looked_up(flow, node):
        return f"{flow.steps[node].inputs[0].shape[-2]:,} ROWS ADDED UP"
    if op == "interpolate" and learned_source(flow, *next(flow.given(node))) is None:
        return "RESIZED"
    if op in SCALINGS and is_learned_number(flow, node):
        return "× A LEARNED NUMBER"
    if op in CHOOSING and leaves_rows(flow, node):
        return f"{flow.output(node).shape[1]:,} OF {flow.steps[node].inputs[0].shape[1]:,} ROWS"
    rows = [record.shape[1] for record in flow.steps[node].inputs if len(record.shape) > 1]
    if op == "cat" and flow.output(node).shape[1:2] == (sum(rows),):
        return label_rows(flow, node, rows)
    return ""


def label_rows(flow: Flow, node: int, rows: Sequence[int]) -> str:
    """What a step is called that puts learned rows before others, or one more beside them; "" for any other."""
    learned = [len(one[0].shape) == 3 and learned_source(flow, *one) is not None for one in flow.given(node)]
    first = sum(rows[: learned.index(False)]) if False in learned else 0
    if first and learned.count(False) > 1:
        told = (f"{one:,}{' LEARNED' * own}" for one, own in zip(rows, learned, strict=True))
        return f"END TO END: {' + '.join(told)}"
    if first:
        return "A LEARNED ROW IN FRONT" if first == 1 else f"{first:,} LEARNED ROWS IN FRONT"
    return "WITH ONE MORE ROW" if 1 in rows else ""


def adds_looked_up(flow: Flow, node: int) -> bool:
    """Whether a step adds up all rows that a place looked up: a word and the codes of a sound (Kyutai's, CSM's)."""
    maker = flow.carried_from(next(iter(flow.makers[node]), None))
    before = flow.steps[node].inputs[0].shape if flow.steps[node].inputs else ()
    is_sum = flow.op(node) == "sum" and len(before) == 4 and flow.output(node).shape == (*before[:2], before[-1])
    return is_sum and maker is not None and flow.op(maker) in LOOKUPS


def is_learned_number(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows or maps by one number that is learned (DeepSeek-VL's hybrid)."""
    learned = [prod(record.shape) for record in flow.steps[node].inputs if record.role == "parameter"]
    return learned == [1] and prod(flow.output(node).shape) > 1


def is_halved(flow: Flow, node: int) -> bool:
    """Whether two tensors that are alike are added, and the sum goes on as half of it: their mean (Qwen2.5-Omni)."""
    shapes = {record.shape for record in flow.steps[node].inputs}
    readers = [reader for reader in flow.readers.get(node, ()) if flow.is_leaf(reader)]
    return (
        len(flow.steps[node].inputs) == 2 and len(shapes) == 1 and [read_factor(flow, one) for one in readers] == [0.5]
    )


def add_halves(flow: Flow, chart: Chart) -> Chart:
    """The chart whose boxes of a mean stand for the step too that halves the sum."""
    halves = {
        node.key: [reader for reader in flow.readers[flow.places[node.steps[0].id]] if flow.is_leaf(reader)]
        for node in chart.nodes
        if node.label == MEAN
    }
    nodes = (replace(one, steps=(*one.steps, *steps_at(flow, *halves.get(one.key, ())))) for one in chart.nodes)
    return replace(chart, nodes=tuple(nodes))


def leaves_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes some rows of a sequence that was worked out of the input, and leaves the others."""
    before, after = flow.steps[node].inputs[0], flow.output(node)
    is_some = len(before.shape) == len(after.shape) == 3 and before.shape[1] > after.shape[1] > 0
    if not is_some or (before.shape[0], before.shape[2]) != (after.shape[0], after.shape[2]):
        return False
    return any(flow.op(one) in FINDINGS for one in flow.behind(flow.makers[node][0]))


def find_input(flow: Flow, towering: Towering, kind: Reads | None = None) -> tuple[Step, TensorRecord, int] | None:
    """What a tower reads, of a kind or first, and which step reads it: of several lookups that in the largest table."""
    reads = kind or towering.tower.reads
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
            if reads == "vectors" and (maker is not None or not is_numbers(flow, record, node)):
                continue
            given = flow.steps[node], record, node
            found.append(given if wanted is not FINDINGS else step_out(flow, towering.entrance, node))
            break
    if reads == "ids":
        return max(found, key=lambda one: one[0].params, default=None)
    if reads == "vectors":
        return max(found, key=lambda one: (one[1].is_float, prod(one[1].shape)), default=None)
    return found[0] if found else None


def is_numbers(flow: Flow, record: TensorRecord, reader: int) -> bool:
    """Whether a step reads any numbers of a tensor, and not its shape alone; ids that it makes numbers are such."""
    is_float = record.is_float or flow.output(reader).is_float
    return is_float and prod(record.shape) > 0 and flow.op(reader) not in SHAPED_ALIKE


def step_out(flow: Flow, nodes: Collection[int], finder: int) -> tuple[Step, TensorRecord, int]:
    """What comes in before a convolution, be it padded, and which step reads it: a linear layer before it, if one does.

    Where more than that was done to it before, it is what the convolution reads.
    """
    record, maker = next(flow.given(finder))
    whole, reader, here = record, finder, maker
    while here is not None and here in nodes and flow.makers[here]:
        if is_linear(flow, here) and flow.op(here) not in FINDINGS:
            reader = here
        elif flow.op(here) not in CARRYING | DROPOUTS | CURVES | PADDINGS:
            return flow.steps[finder], record, finder
        if reader != finder or flow.op(here) in PADDINGS:
            whole = flow.steps[here].inputs[0]
        here = flow.makers[here][0]
    return (flow.steps[reader], whole, reader) if here is None else (flow.steps[finder], record, finder)
