"""What a tower reads first, as the box at the foot of its entrance, and the boxes that it is led to."""

from collections.abc import Collection
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    COPIES,
    CURVES,
    DROPOUTS,
    FINDINGS,
    LOOKUPS,
    PLACING,
    REPEATS,
    SIDE_BY_SIDE,
    TURNS,
    WRITES,
)
from xray.ir.flow.weights import list_weights
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.anatomy.tree import Reads
from xray.story.body.towers import Towering
from xray.story.branches.convolutions import looks_back
from xray.story.charts.chart import LEFT_HALF, MIDDLE, RIGHT_HALF, Chart, Edge, Node, name_learned, uncross
from xray.story.charts.counted_weights import weights_of_box
from xray.story.entrance.also_given import (
    IDS,
    add_others,
    find_behind_others,
    step_outside,
    step_past_join,
    tell_joined,
)
from xray.story.entrance.inputs import (
    OWN,
    before_pads,
    count_arguments,
    is_beside_picture,
    is_held_inside,
    list_worked_out,
    may_be_same,
    name_own,
    source_of,
)
from xray.story.entrance.shared_ids import find_shared_ids
from xray.story.entrance.tables import holds_sines, looks_up_counted
from xray.story.passages.added_places import learned_source
from xray.story.passages.joined_rows import find_begun_rows
from xray.story.recognition.between import is_linear, is_times_one
from xray.story.recognition.chosen_rows import is_drawn
from xray.story.recognition.norms import INVERTING
from xray.story.wording import ELLIPSIS, plural
from xray.text import show_controls

INPUTS = {
    "ids": "TOKEN IDS",
    "image": "IMAGE",
    "map": "MAP",
    "video": "VIDEO",
    "audio": "SIGNAL",
    "vectors": "VECTORS",
    "noise": "NOISE, DRAWN BY CHANCE",
}
MOST_LETTERS = 90
"""No more of a prompt is quoted."""


def add_given(flow: Flow, towering: Towering, chart: Chart) -> Chart:
    """The chart with what comes in at the bottom: one thing, or two beside each other."""
    kinds = (towering.tower.reads,) if towering.tower.also is None else (towering.tower.reads, towering.tower.also)
    drawn = {step.id for node in chart.nodes for step in node.steps}
    found = ((kind, find_input(flow, towering, kind)) for kind in kinds)
    given = [(kind, step_below(flow, drawn, *one)) for kind, one in found if one is not None]
    if chart.memory:  # what another tower gives is led to what takes it up
        given = [(kind, found) for kind, found in given if kind is not None or flow.steps[found[2]].id in drawn]
        given = [(kind, found) for kind, found in given if not is_led_in(flow, chart, found[1], found[2])]
    given = [(kind, step_outside(flow, towering.entrance, drawn, *one)) for kind, one in given]
    given = [(kind, step_past_join(flow, drawn, *one)) for kind, one in given]
    held = [is_held(flow, drawn, *one) or is_code(flow, *one) for _, one in given]
    given = [one for one, is_own in zip(given, held, strict=True) if one[0] is not None or not is_own]
    begun = find_begun_rows(flow, towering.entrance) if kinds == (None,) else None
    if begun is not None:
        return count_once(flow, add_learned(flow, chart, *begun))
    raised = chart.raised(1) if given else chart
    told = tuple(f"“{show_controls(text)}”" for text in quote_input(flow.one_pass))
    below: list[Node] = []
    edges: list[Edge] = []
    for place, (kind, (step, record, reader)) in zip((LEFT_HALF, RIGHT_HALF), given, strict=False):
        own = [node.key for node in raised.nodes if any(one is flow.steps[reader] for one in node.steps)][:1]
        is_alone = bool(record.source) or count_arguments(flow, record) < 2  # of two alike none knows which one it is
        led = lead_to_boxes(flow, towering.entrance, raised, record) if is_alone else []
        is_read = any(one is record for one, _ in flow.given(reader))
        own = own if is_read or not led else []  # boxes stand between, as of the one channel that is read
        own = list(dict.fromkeys((*own, *led))) or list(raised.feet[:1])
        shared = find_shared_ids(flow, raised, reader) if kind in ("ids", None) else None
        record, own = (record, own) if shared is None else (shared[0], list(dict.fromkeys((*own, *shared[1]))))
        label = "INPUT" if is_worked_out(flow, reader) else label_given(flow, kind, record, reader)
        key, place = f"given{len(below) or ''}", place if len(given) > 1 else MIDDLE
        padded = tell_lengthened(flow, reader, record) if kind == "audio" else tell_padded(flow, reader, record)
        joined = tell_joined(flow, reader, record)
        shown, turned = read_as_given(flow, reader, record)
        words = (*(() if below else told), *padded, *joined, *turned)
        below.append(Node(key, label, 0, place, (step,), shown, told=words))
        edges += [Edge(key, one) for one in own]
    feet = tuple(node.key for node in below[:1]) or raised.feet
    nodes = uncross((*below, *raised.nodes), edges, [node.key for node in raised.nodes])
    whole = Chart(tuple(nodes), (*edges, *raised.edges), feet, raised.head, raised.memory)
    return count_once(flow, add_others(flow, whole))


def count_once(flow: Flow, chart: Chart) -> Chart:
    """The chart whose boxes count no learned rows that have a box below them (the queries of Granite Speech)."""
    rows = {node.key: node.record.weight for node in chart.nodes if node.record is not None and node.record.weight}

    def tell(node: Node) -> Node:
        below = {rows[edge.source] for edge in chart.edges if edge.target == node.key and edge.source in rows}
        weights = weights_of_box(flow, node.steps) if below else {}
        left = sum(size for name, size in weights.items() if name not in below)
        is_all = node.extra == plural(sum(weights.values()), "parameter")
        return replace(node, extra=plural(left, "parameter")) if is_all and left else node

    return replace(chart, nodes=tuple(map(tell, chart.nodes)))


def label_given(flow: Flow, kind: Reads | None, record: TensorRecord, reader: int) -> str:
    """What comes in is called by its kind; ids may be drawn by chance (DiffusionGemma's canvas).

    What is made inside of nothing that came in is called so (SAM 2's zeros where no points are given).
    """
    maker = next((maker for one, maker in flow.given(reader) if one is record), None)
    if record.role == "ids" and is_drawn(flow, maker):
        return "IDS, DRAWN BY CHANCE"
    if kind is None and (
        own := OWN if maker is None and is_held_inside(flow, record, reader) else name_own(flow, maker)
    ):
        return own
    several = kind == "ids" and len(record.shape) > len(("batch", "place"))  # a word, and numbers of its place, say
    return IDS if several else INPUTS.get(kind or "", IDS if record.role == "ids" else "INPUT")


def tell_padded(flow: Flow, reader: int, record: TensorRecord) -> tuple[str, ...]:
    """How many ids of each row came in, where others that a model makes itself stand behind them (Longformer).

    Or in front of them, the same in every run (the prompts of CPM-Ant).
    """
    own = find_behind_others(flow, reader, record)
    if own is not None:
        count = own.shape[-1]
        return (f"{count:,} given, behind {record.shape[-1] - count:,} that are always the same",)
    maker = next((maker for one, maker in flow.given(reader) if one is record), None)
    if maker is None or record.role != "ids":
        return ()
    if flow.op(maker) not in PADDINGS:
        return tell_worked_out(flow, maker, record)
    before, given = next(flow.given(maker))
    is_behind = given is None and before.shape[:-1] == record.shape[:-1] and before.shape < record.shape
    is_behind = is_behind and str(flow.steps[maker].settings.get("pad", "")).startswith("0x")
    return (f"{before.shape[-1]:,} given, the rest put behind",) if is_behind else ()


def tell_lengthened(flow: Flow, reader: int, record: TensorRecord) -> tuple[str, ...]:
    """How long a signal is padded to before what reads it first, in no box (X-Codec).

    A convolution that reads nothing behind a place is told so, and needs rows in front of the first one.
    """
    read = next((one for one, _ in flow.given(reader) if one.role != "parameter"), record)
    before, after = record.shape[-1:], read.shape[-1:]
    is_same = prod(record.shape) * prod(after) == prod(read.shape) * prod(before)
    is_told = flow.op(reader) in FINDINGS and looks_back(flow, reader)
    return (f"padded to {after[0]:,}",) if is_same and before < after and not is_told else ()


def read_as_given(flow: Flow, reader: int, record: TensorRecord) -> tuple[TensorRecord, tuple[str, ...]]:
    """What came in, of which a record has the same numbers in another order of axes, and a word of that (Speech2Text).

    No word of axes of one that are put among others, nor where rows are laid out anew. It may be laid out several times
    (Emu3's image, as frames). The record itself where more was done to what came in.
    """
    ops = set[str]()
    made = flow.places.get(record.source or "")  # it may be padded before it is read
    whole, here = record, next((maker for one, maker in flow.given(reader) if one is record), made)
    while here is not None and flow.op(here) in CARRYING | REPEATS and len(flow.makers[here]) == 1:
        ops.add(flow.op(here))
        whole, here = next(flow.given(here))
    before, after = ([size for size in one.shape if size != 1] for one in (whole, record))
    times, rest = divmod(prod(record.shape), prod(whole.shape) or 1)
    if here is None and not rest and times > 1 and ops & REPEATS:
        return whole, (f"laid out {times:,} times",)
    if here is not None or sorted(before) != sorted(after):
        return before_pads(flow, reader, record), ()
    is_turned = before != after and ops <= TURNS | COPIES | CASTING | {"squeeze", "unsqueeze"}
    return whole, () if not is_turned else (f"axes swapped to {'×'.join(map(str, record.shape))}",)


def tell_worked_out(flow: Flow, maker: int, record: TensorRecord) -> tuple[str, ...]:
    """Of how many ids of each row all were worked out, where fewer came in and nothing else did (CLVP)."""
    steps = {maker, *flow.behind(maker)}
    came = {(one.shape, one.argument) for node in steps for one, made in flow.given(node) if made is None}
    ((shape, _),) = came if len(came) == 1 else (((), None),)
    is_longer = len(shape) > 1 and shape[:-1] == record.shape[:-1] and shape < record.shape
    return (f"worked out of {shape[-1]:,} given",) if is_longer else ()


def is_held(flow: Flow, drawn: Collection[str], step: Step, record: TensorRecord, reader: int) -> bool:
    """Whether what has a box makes rows (DN-DETR), or a model holds them (SAM 3), be they put end to end (SAM)."""
    maker = next((maker for one, maker in flow.given(reader) if one is record), None)
    is_made = maker is not None and flow.steps[maker].id in drawn
    joined = list(flow.given(maker)) if maker is not None and flow.op(maker) in SIDE_BY_SIDE else [(record, maker)]
    return is_made or all(learned_source(flow, *one) is not None for one in joined)


def is_code(flow: Flow, step: Step, record: TensorRecord, reader: int) -> bool:
    """Whether ids that are looked up were all worked out of other numbers: nothing comes in there (X-Codec)."""
    asked = next((maker for one, maker in flow.given(reader) if one is record), None)
    if flow.op(reader) not in LOOKUPS or record.role != "ids" or asked is None:
        return False
    moved = flow.behind(asked, within=lambda here: not flow.output(here).is_float)
    makers = [maker for here in moved for one, maker in flow.given(here) if not one.is_float]
    return None not in makers and any(maker is not None and flow.output(maker).is_float for maker in makers)


def add_learned(flow: Flow, chart: Chart, rows: TensorRecord, reader: int, working: int) -> Chart:
    """The chart with the learned rows below it that all begins with, led to the box that works on them first."""
    above = next((node.key for node in chart.nodes if flow.steps[working] in node.steps), None)
    if above is None:
        return chart
    name, told, raised = name_learned(rows.shape[-2]), plural(prod(rows.shape), "parameter"), chart.raised(1)
    node = Node("given", name, 0, MIDDLE, (flow.steps[reader],), rows, told)
    return Chart((node, *raised.nodes), (Edge("given", above), *raised.edges), ("given",), raised.head, raised.memory)


def lead_to_boxes(flow: Flow, entrance: Collection[int], chart: Chart, record: TensorRecord) -> list[str]:
    """The boxes to which what comes in is led first, be it over steps for which no box stands.

    So ids may be held to those of a table before they are looked up there (Gemma 3n's images).
    """
    boxes = {flow.places[step.id]: node.key for node in chart.nodes for step in node.steps if step.id in flow.places}
    lookups = (maker for node in entrance if flow.op(node) in LOOKUPS for _, maker in flow.taken(node))
    inside = {*entrance, *flow.behind(*lookups, within=lambda here: flow.output(here).role == "ids")}
    inside |= {one for node in entrance for one in list_asked(flow, node)}
    todo = [
        node
        for node in inside
        if not holds_sines(flow, node)  # it may look up places that were counted where nothing is recorded
        and any(
            is_same_given(flow, one, record)
            for one, maker in flow.taken(node)
            if maker is None or one.source is not None
        )
    ]
    seen: set[int] = set()
    while todo:
        here = todo.pop()
        if here in seen or here not in inside:
            continue
        seen.add(here)
        todo += () if here in boxes else flow.readers.get(here, ())
    found = {boxes[node] for node in seen if node in boxes}
    return [node.key for node in chart.nodes if node.key in found]


def is_same_given(flow: Flow, one: TensorRecord, other: TensorRecord) -> bool:
    """Whether two records are of one tensor, as it came in or as a step made it, as far as can be told."""
    is_alike = one.source == other.source and one.shape == other.shape and one.role == other.role != "parameter"
    return is_alike and (one.source is not None or may_be_same(flow, one, other))


def step_below(
    flow: Flow, drawn: Collection[str], step: Step, record: TensorRecord, reader: int
) -> tuple[Step, TensorRecord, int]:
    """The same below all boxes: what comes in and is read by the first of those that are drawn before what reads it."""
    found, own = (step, record, reader), next((maker for one, maker in flow.given(reader) if one is record), None)
    here = own
    while here is not None and flow.steps[here].id not in drawn and flow.op(here) in CARRYING and flow.makers[here]:
        here = flow.makers[here][0]
    while here is not None and flow.steps[here].id in drawn:
        first = next((one for one in flow.given(here) if one[0].role != "parameter"), None)
        if first is None:
            return found
        (record, maker), reader = first, here
        while maker is not None and flow.makers[maker] and flow.steps[maker].id not in drawn:
            if flow.op(maker) not in CARRYING and not is_times_one(flow, maker):
                break
            record, maker = next(flow.given(maker))
        step, here = flow.steps[reader], maker
    source = record if here is None else None if reader == found[2] else source_of(flow, reader, ())
    return found if source is None else (step, source, reader)


def is_led_in(flow: Flow, chart: Chart, record: TensorRecord, reader: int) -> bool:
    """Whether a way from another tower is drawn to what reads something that was made on this one."""
    is_made = any(one is record and maker is not None for one, maker in flow.given(reader))
    taking = (node for node in chart.nodes if node.key in chart.memory)
    return is_made and any(one is flow.steps[reader] for node in taking for one in node.steps)


def is_worked_out(flow: Flow, reader: int) -> bool:
    """Whether a convolution has worked on what a step reads: of a long entrance the first ones are not drawn."""
    return any(flow.op(node) in FINDINGS for node in flow.behind(*flow.makers[reader]))


def quote_input(one_pass: Pass) -> tuple[str, ...]:
    """The words that a pass read, those of its first sequence, where they were recorded."""
    text = "".join(next(iter(one_pass.tokens.get("input", ())), ()))
    return (text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + ELLIPSIS,) if text.strip() else ()


def find_input(flow: Flow, towering: Towering, kind: Reads | None = None) -> tuple[Step, TensorRecord, int] | None:
    """What a tower reads, of a kind or first, and which step reads it: of several lookups that in the largest table."""
    reads = kind or towering.tower.reads
    wanted = {"ids": LOOKUPS, **dict.fromkeys(("image", "map", "video", "audio"), FINDINGS)}.get(reads or "")
    if wanted is FINDINGS and all(flow.op(node) not in FINDINGS for node in towering.entrance):
        wanted = None  # patches may be cut by moves alone
    is_picture = reads in ("image", "map", "video")
    found: list[tuple[Step, TensorRecord, int]] = []
    for node in sorted(towering.entrance):
        if wanted is not None and flow.op(node) not in wanted:
            continue
        for record, maker in flow.taken(node):
            if record.role == "parameter" or not record.shape:
                continue
            if is_written_into(flow, node) and name_own(flow, maker):
                continue
            if reads == "ids" and (record.role != "ids" or looks_up_counted(flow, node) or holds_sines(flow, node)):
                continue
            if wanted is None and is_picture and is_beside_picture(flow, node, maker):
                continue
            if reads == "vectors" and (maker is not None or not is_numbers(flow, record, node)):
                continue
            if reads == "vectors" and is_held_inside(flow, record, node):
                continue
            given = flow.steps[node], record, node
            made = flow.carried_from(maker)
            if made is not None and reads is None and flow.op(made) == "one_hot":
                given = flow.steps[made], flow.steps[made].inputs[0], node
            outside = step_out(flow, towering.entrance, node, as_given=is_picture) if wanted is FINDINGS else given
            found.append(outside)
            break
    if reads == "ids":
        return max(found, key=lambda one: (len(one[1].shape) > 1, sum(list_weights(one[0]).values())), default=None)
    if reads == "vectors":
        return max(found, key=lambda one: (one[1].is_float, prod(one[1].shape)), default=None)
    if not found or not list_asked(flow, found[0][2]):
        return next(iter(found), None)
    came_in = (one for one in found if one[1].is_float and comes_in(flow, *one[1:]))
    return next(came_in, found[0])  # and not where numbers stand in it


def is_written_into(flow: Flow, node: int) -> bool:
    """Whether a step writes others into what it is given, or moves what others are written into (Anchor DETR)."""
    moved = flow.ahead(node, within=lambda one: one == node or flow.op(one) in CARRYING)
    written = (one for place in moved for one in (place, *flow.readers.get(place, ())))
    return any(flow.op(one) in WRITES | PLACING for one in written)


def comes_in(flow: Flow, record: TensorRecord, reader: int) -> bool:
    """Whether no step made what another one reads."""
    return any(one is record and maker is None for one, maker in flow.given(reader))


def list_asked(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that ask where a number stands, and the cast that makes 1 and 0 of that; or none (Chronos-Bolt)."""
    inverted = flow.carried_from(flow.makers[node][0]) if flow.op(node) in CASTING and flow.makers[node] else None
    asking = flow.makers[inverted][0] if inverted is not None and flow.op(inverted) in INVERTING else None
    if inverted is None or asking is None or flow.op(asking) != "isnan" or not flow.output(node).is_float:
        return ()
    return (asking, inverted, node)


def is_numbers(flow: Flow, record: TensorRecord, reader: int) -> bool:
    """Whether a step reads any numbers of a tensor; ids that it makes numbers are such."""
    return (record.is_float or flow.output(reader).is_float) and prod(record.shape) > 0


def step_out(flow: Flow, nodes: Collection[int], finder: int, *, as_given: bool) -> tuple[Step, TensorRecord, int]:
    """What comes in before a convolution, be it padded, and which step reads it: a linear layer before it, if one does.

    Be it laid out otherwise before, where it is told `as_given` (Qwen2-VL's patches, which come in as rows). Where more
    than that was done to it before, it is what the convolution reads.
    """
    record, maker = next(flow.given(finder))
    whole, reader, here = record, finder, maker
    while here is not None and here in nodes and flow.makers[here]:
        if is_linear(flow, here) and flow.op(here) not in FINDINGS:
            reader = here
        given = list_worked_out(flow, here)
        is_padded = flow.op(here) in PADDINGS or (flow.op(here) in SIDE_BY_SIDE and len(given) == 1)
        if not given or (not is_padded and reader != here and flow.op(here) not in CARRYING | DROPOUTS | CURVES):
            return flow.steps[finder], record, finder
        if reader != finder or is_padded or (as_given and flow.op(here) in CARRYING):
            whole = given[0][0]
        here = given[0][1]
    return (flow.steps[reader], whole, reader) if here is None else (flow.steps[finder], record, finder)
