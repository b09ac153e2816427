"""Rows that stand in front of each window of an attention, and what becomes of them behind it (TimeSformer's class)."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from xray.ir.flow.cut_rows import are_apart
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, REPEATS, SIDE_BY_SIDE
from xray.ir.trace import Step
from xray.story.anatomy.tree import Norm as NormFacts
from xray.story.body.stages import Branching, Staging
from xray.story.branches.rows import count_of_before, label_of_before
from xray.story.charts.chart import BROAD, LEFT_HALF, MIDDLE, RIGHT_HALF, Chart, Edge, Node, chart_alone, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.passages.ordered_rows import name_order, takes_in_order
from xray.story.recognition.between import cut_region, strip_plain
from xray.story.recognition.norms import Norm, name_norm, spell_norm
from xray.story.recognition.values.value_shapes import numbers
from xray.story.sentences.of_parts import BUT_THE_FIRST, describe_box
from xray.story.streams.rejoined_rows import WHOLE, count_taken
from xray.story.streams.shortcuts import find_any_norm

MOVES = CARRYING | DROPOUTS


@dataclass(frozen=True)
class Copied:
    """One row of each sequence copied in front of every window: `join` puts it there, `row` and `cut` are both ways.

    The first step of `row` takes the row out of what the sublayer's own sum adds to, beside the others; `norm` reads
    the windows then, if there is one.
    """

    join: int
    row: tuple[int, ...]
    cut: tuple[int, ...]
    norm: Norm | None


@dataclass(frozen=True)
class Returned:
    """What an attention gives, parted: `row` is the way of the rows that were copied, `others` that of all others.

    `join` puts both end to end, `mean` is the step of the first way that makes one of the copies.
    """

    join: int
    row: tuple[int, ...]
    others: tuple[int, ...]
    mean: int


def find_copied(flow: Flow, staging: Staging) -> Copied | None:
    """The row that is copied in front of the windows of a stage's attention, where its sum adds to that row once."""
    found, joint = staging.branches[0], staging.joints[0]
    if found.site is None or len(staging.branches) != 1 or len(staging.joints) != 1:
        return None
    whole = next((one for one in flow.makers[joint.add] if one is not None and one not in joint.region.inner), None)
    joins = [node for node in found.region.inner if flow.op(node) in SIDE_BY_SIDE and node < found.site.scores]
    is_joined = whole is not None and flow.op(whole) in SIDE_BY_SIDE and len(flow.makers[whole]) == 2
    if whole is None or not is_joined or len(joins) != 1 or len(flow.makers[joins[0]]) != 2:
        return None
    (join,) = joins
    row, cut = (walk_moves(flow, maker, REPEATS) for maker in flow.makers[join])
    first, begun = flow.carried_from(flow.makers[whole][0], WHOLE), flow.makers[cut[0]][0] if cut else None
    if not row or first != row[0] or begun != found.region.start or begun not in flow.makers[whole]:
        return None
    copies, windows = (record.shape for record, _ in flow.given(join))
    if count_taken(flow, row[0]) != 1 or copies[:2] != (windows[0], 1):
        return None
    norms = (find_any_norm(flow, reader) for reader in flow.readers.get(join, ()))
    return Copied(join, row, cut, next((norm for norm in norms if norm is not None and norm.origin == join), None))


def find_returned(flow: Flow, found: Branching) -> Returned | None:
    """What becomes of the rows that stood in front of windows: a mean of them is put before the others again."""
    join, made = flow.carried_from(found.region.end, MOVES), None if found.site is None else found.site.output
    if join is None or made is None or flow.op(join) not in SIDE_BY_SIDE or len(flow.makers[join]) != 2:
        return None
    first, second = flow.makers[join]
    mean = flow.carried_from(first)
    if mean is None or not is_mean_of_rows(flow, mean, flow.output(join).shape):
        return None
    row, others = (*walk_moves(flow, flow.makers[mean][0]), mean), walk_moves(flow, second)
    if len(row) < 2 or not others or {flow.makers[way[0]][0] for way in (row, others)} != {made}:
        return None
    indices = [str(flow.steps[way[0]].settings.get("index", "")) for way in (row, others)]
    is_parted = count_taken(flow, row[0]) == 1 and flow.op(others[0]) == "index"
    return (
        Returned(join, row, others, mean)
        if is_parted and are_apart(indices[0], indices[1], flow.output(made).shape)
        else None
    )


def is_mean_of_rows(flow: Flow, node: int, whole: tuple[int, ...]) -> bool:
    """Whether a step makes one row of each sequence's several, along their own axis, to stand among rows as a whole."""
    step = flow.steps[node]
    before = step.inputs[0].shape if step.op == "mean" else ()
    is_along = numbers(step, "dim") in ((1,), (-2,))
    return is_along and len(before) == len(whole) == len(("batch", "row", "width")) and before[::2] == whole[::2]


def walk_moves(flow: Flow, place: int | None, more: frozenset[str] = frozenset()) -> tuple[int, ...]:
    """The moves that end with a step, the first one first: as far back as where rows are taken out of others."""
    way: list[int] = []
    while place is not None and flow.op(place) in MOVES | more and flow.makers[place]:
        way.insert(0, place)
        if flow.op(place) == "index":
            break
        place = flow.makers[place][0]
    return tuple(way)


def chart_copied(flow: Flow, copied: Copied) -> Chart:
    """The row and the windows side by side, end to end above these, and the norm of all of them."""
    row, windows = (record for record, _ in flow.given(copied.join))
    times = row.shape[0] // flow.output(copied.row[0]).shape[0]
    nodes = [
        Node("copied", f"THE FIRST ROW, {times:,} TIMES", 0, LEFT_HALF, steps_back(flow, copied.row), row),
        Node(
            "cut",
            label_windows(windows.shape[1]),
            0,
            RIGHT_HALF,
            steps_back(flow, copied.cut),
            windows,
            told=(BUT_THE_FIRST,),
        ),
    ]
    told = f"END TO END: 1 + {windows.shape[1]:,}"
    nodes.append(Node("front", told, 1, BROAD, steps_at(flow, copied.join), flow.output(copied.join)))
    edges = [Edge("copied", "front"), Edge("cut", "front")]
    if copied.norm is not None:
        end, kind = copied.norm.end, name_norm(flow, copied.norm)
        label, remark = spell_norm(flow, copied.norm), describe_box("norm", NormFacts(kind, None))
        extra = describe_params(flow, *copied.norm.nodes)
        steps = steps_back(flow, copied.norm.nodes)
        nodes.append(Node("opening", label, 2, MIDDLE, steps, flow.output(end), extra, remark))
        edges.append(Edge("front", "opening"))
    return Chart(tuple(nodes), tuple(edges), ("copied", "cut"), nodes[-1].key)


def chart_returned(flow: Flow, returned: Returned) -> Chart:
    """The mean of the copied rows and the windows joined, side by side, and both end to end."""
    copies, others = flow.steps[returned.mean].inputs[0].shape[1], flow.output(returned.others[-1])
    label = f"THE FIRST ROWS: MEAN OF {copies:,}"
    row = Node("mean", label, 0, LEFT_HALF, steps_back(flow, returned.row), flow.output(returned.row[-1]))
    joined = Node("tail", "WINDOWS JOINED", 0, RIGHT_HALF, steps_back(flow, returned.others), others)
    told = f"END TO END: 1 + {others.shape[1]:,}"
    both = Node("returned", told, 1, BROAD, steps_at(flow, returned.join), flow.output(returned.join))
    edges = (Edge("mean", "returned"), Edge("tail", "returned"))
    return Chart((row, joined, both), edges, ("mean", "tail"), "returned")


def chart_window_cut(flow: Flow, staging: Staging, norm: Norm) -> Chart | None:
    """The box of what cuts a stream into windows before the norm of an attention reads it; None where nothing does."""
    window = getattr(staging.stage.branches[0], "window", None)
    way = [node for node in walk_moves(flow, norm.origin) if flow.op(node) != "index"]
    before = flow.steps[way[0]].inputs[0].shape if way else ()
    made = flow.output(norm.end).shape
    is_cut = len(before) == len(made) == len(("batch", "row", "width")) and before[1] > made[1] == window
    if not way or not is_cut or before[2] != made[2] or before[0] * before[1] != made[0] * made[1]:
        return None
    node = Node("cut", label_windows(made[1]), 0, MIDDLE, steps_back(flow, way), flow.output(way[-1]))
    return chart_alone(node)


def chart_of_before(flow: Flow, norm: Norm) -> Chart | None:
    """The box of what puts numbers of the place before into rows that a norm reads; None where nothing does."""
    join = strip_plain(flow, norm.origin)
    before = 0 if join is None else count_of_before(flow, join)
    if join is None or not before:
        return None
    made = [one for maker in flow.makers[join] for one in (maker, flow.carried_from(maker)) if one is not None]
    places = (join, *dict.fromkeys(sorted(made, reverse=True)))
    return chart_alone(Node("shifted", label_of_before(before), 0, MIDDLE, steps_at(flow, *places), flow.output(join)))


def chart_ordered(flow: Flow, staging: Staging, norm: Norm) -> Chart | None:
    """The box of what puts all rows that a norm gives to an attention into another order; None where nothing does."""
    readers = flow.leaf_readers(norm.end)
    if len(readers) != 1 or staging.branches[0].site is None or not takes_in_order(flow, readers[0]):
        return None
    (order,) = readers
    label = name_order(flow, order)
    return chart_alone(Node("order", label, 0, MIDDLE, steps_at(flow, order), flow.output(order)))


def label_windows(places: int) -> str:
    """What a move is called that makes a sequence of its own of every so many places."""
    return f"CUT INTO WINDOWS OF {places:,}"


def end_before(flow: Flow, found: Branching, returned: Returned) -> Branching:
    """A branch that ends where what it gives is parted."""
    region = cut_region(flow, found.region, flow.makers[returned.others[0]][0])
    return found if region is None else replace(found, region=region)


def steps_back(flow: Flow, way: Collection[int]) -> tuple[Step, ...]:
    """The steps of a way, the last first."""
    return steps_at(flow, *reversed([*way]))
