"""Rows laid side by side on the way into or out of a tower: several become one wider one, or others stand beside."""

from collections.abc import Collection, Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    FINDINGS,
    LOOKUPS,
    NORMS,
    SCALINGS,
    SIDE_BY_SIDE,
)
from xray.ir.flow.regrouping import MOVES, Axes, follow
from xray.ir.records import TensorRecord
from xray.story.passages.added_places import learned_source
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import (
    is_linear,
    list_reading_data,
)

BESIDE = "SIDE BY SIDE"
KEPT = frozenset({"pad", "index"})


def label_joined_rows(flow: Flow, nodes: Collection[int], begins: Collection[int] = ()) -> dict[int, str]:
    """What steps are called that lay rows side by side: several of one stream, or what other steps made beside it.

    Beside what the steps themselves make, or what they begin with, which steps before them made.
    """
    labels: dict[int, str] = {}
    for node in sorted(nodes):
        if reads_rows(flow, node):
            labels |= label_merging(flow, nodes, node)
        elif flow.op(node) == "cat":
            labels |= label_beside(flow, nodes, node) or label_beside(flow, begins, node)
    return labels


def reads_rows(flow: Flow, node: int) -> bool:
    """Whether a step reads rows along the last axis: a norm or a linear layer, and no convolution."""
    return flow.op(node) in NORMS or (is_linear(flow, node) and flow.op(node) not in FINDINGS)


def label_merging(flow: Flow, nodes: Collection[int], reader: int) -> dict[int, str]:
    """The move behind which several rows stand side by side in one that a layer reads; empty where none does that."""
    read, maker = next(flow.given(reader))
    way, told = read_merging(flow, read, maker)
    wide = read.shape[-1:]
    moves = (node for node in way if node in nodes and flow.is_leaf(node) and flow.output(node).shape[-1:] == wide)
    last = next(moves, None)
    return {last: told} if told and last is not None else {}


def read_merging(flow: Flow, read: TensorRecord, maker: int | None) -> tuple[list[int], str]:
    """The moves behind which several rows stand side by side in one, the last first, and what they do, or nothing.

    All numbers of the rows are still there (patch mergers, pixel shuffles, frames of sound that are stacked), which the
    moves prove that put each part of each axis where it stands. Not of one number each: what a convolution makes with
    one channel may be one row (PoseFormer's mean of frames).
    """
    way: list[int] = []
    record = read
    moving = CARRYING | {"pad"}  # which may add nothing
    while (
        maker is not None and flow.op(maker) in moving and prod(flow.steps[maker].inputs[0].shape) == prod(read.shape)
    ):
        way.append(maker)
        record, maker = next(flow.given(maker))
    axis = find_row(flow, record, maker)
    before, after = follow(flow, way) if all(flow.op(one) in MOVES | KEPT for one in way) else ([], [])
    if axis is None or not after:
        return way, ""
    own, laid = before.pop(axis), after[-1]
    of_batch = before[0] if axis and record.axes[:1] == ("batch",) else []
    if not own or not {*own} < {*laid} or not {*of_batch}.isdisjoint(laid):
        return way, ""
    told = label_lines(record, before, after) if axis == 1 else ""
    told = told or describe_joining(flow, way, prod(part.size for part in laid if part not in own))
    is_parted = laid[: len(own)] == own
    return way, told.replace(BESIDE, f"{BESIDE}, CHANNEL BY CHANNEL") if is_parted else told


def label_lines(record: TensorRecord, before: Axes, after: Axes) -> str:
    """What moves are called by which a row holds all lines of a map, or all its columns, at one place; "" for others.

    So the frequencies that a moment has stand side by side, each with its channels (Qwen3-ASR). `before` are the parts
    of the map's axes without those of its channels.
    """
    if len(before) != len(("batch", "height", "width")) or len(after) != 3 or before[0] != after[0]:
        return ""
    if after[1] not in before[1:]:
        return ""
    what, joined = ("COLUMNS", record.shape[3]) if after[1] == before[1] else ("LINES", record.shape[2])
    return f"{joined:,} {what} SIDE BY SIDE: {record.shape[1]}·{joined} = {record.shape[1] * joined}"


def name_merging(flow: Flow, node: int) -> str:
    """What a move is called that is the last of those that lay several rows side by side, and that nothing reads."""
    if flow.op(node) not in CARRYING or not flow.is_leaf(node) or flow.readers.get(node):
        return ""
    way, told = read_merging(flow, flow.output(node), node)
    began = flow.makers[way[-1]][0] if told else None
    is_row = began is not None and find_channels(flow, began) == len(flow.output(began).shape) - 1
    return told if is_row else ""


def find_row(flow: Flow, record: TensorRecord, maker: int | None) -> int | None:
    """The axis of the numbers of a row; of frames of sound too that no weights worked on yet (Nemotron 3.5)."""
    axis = None if maker is None else find_channels(flow, maker)
    weighed = (is_linear(flow, one) or flow.op(one) in FINDINGS | LOOKUPS for one in flow.behind(maker))
    return len(record.shape) - 1 if axis is None and is_framed(record) and not any(weighed) else axis


def is_framed(record: TensorRecord) -> bool:
    """Whether a tensor has rows of numbers, as frames of sound are."""
    return record.is_float and len(record.shape) == len(("batch", "frame", "number"))


def label_beside(flow: Flow, nodes: Collection[int], node: int) -> dict[int, str]:
    """A step that lays what others made beside the rows of a part, and how wide they get."""
    inside = [(record, maker) for record, maker in flow.given(node) if maker is not None and maker in nodes]
    widths = [record.shape[-1:] for record in flow.steps[node].inputs]
    wide = flow.output(node).shape[-1:]
    if len(inside) != 1 or len(widths) < 2 or wide != (sum(one[0] for one in widths if one),):
        return {}
    record, maker = inside[0]
    if find_channels(flow, maker) != len(record.shape) - 1:
        return {}
    return {node: f"SIDE BY SIDE: {' + '.join(str(one[0]) for one in widths)} = {wide[0]}"}


def label_learned_rows(flow: Flow, node: int) -> str:
    """What a step is called that puts learned rows or columns beside others: a row for the class, marks of an end."""
    step, after = flow.steps[node], flow.output(node).shape
    if flow.op(node) not in SIDE_BY_SIDE or len(after) not in (3, 4):
        return ""
    own = [learned_source(flow, record, maker) is not None for record, maker in flow.given(node)]
    rest = [record for record, is_own in zip(step.inputs, own, strict=True) if not is_own]
    if len(rest) != 1 or len(step.inputs) < 2:
        return ""
    longer = [axis for axis, (less, more) in enumerate(zip(rest[0].shape, after, strict=True)) if less < more]
    if len(longer) != 1 or longer[0] in (0, 1 if len(after) == 4 else 2):
        return ""
    before, more = rest[0].shape[longer[0]], after[longer[0]] - rest[0].shape[longer[0]]
    if len(after) == 3 and more == 1 and own[0]:
        return "A LEARNED ROW IN FRONT"
    held = [learned_source(flow, *one) for one in flow.given(node)]
    if len(after) == 3 and sum(prod(one.shape) for one in held if one is not None) != more * after[-1]:
        return ""  # some of them are the same, or some are left out
    return f"LEARNED {'COLUMNS' if longer[0] == 3 else 'ROWS'} BESIDE: {before:,} + {more:,}"


def find_begun_rows(flow: Flow, nodes: Collection[int]) -> tuple[TensorRecord, int, int] | None:
    """The learned rows that an entrance begins with, if it reads nothing else; which steps read and change them.

    So begin the queries of a Q-Former, behind which stands a norm.
    """
    found: list[tuple[TensorRecord, int]] = []
    for node in sorted(nodes):
        for record, maker in flow.given(node):
            if maker in nodes:
                continue
            if record.role != "parameter":
                return None
            if len(record.shape) > 1 and record.shape[-1:] == flow.output(node).shape[-1:]:
                found.append((record, node))
    if len(found) != 1:
        return None
    working: int | None = found[0][1]
    while working is not None and flow.op(working) in CARRYING:
        working = next((one for one in flow.readers.get(working, ()) if one in nodes), None)
    return None if working is None else (*found[0], working)


def multiplies_earlier(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether a step multiplies rows of a part by as many that data made before it (the table of Gemma 3n)."""
    given, made = list(flow.given(node)), flow.output(node)
    if flow.op(node) not in SCALINGS or len(given) != 2 or len(made.shape) < len(("batch", "places", "width")):
        return False
    inside = [maker for _, maker in given if maker in nodes]
    before = [maker for _, maker in given if maker is not None and maker not in nodes]
    are_rows = all(record.shape == made.shape and record.role == "activation" for record, _ in given)
    return are_rows and len(inside) == len(before) == 1 and list_reading_data(flow).issuperset((*inside, *before))


def describe_joining(flow: Flow, way: Sequence[int], joined: int) -> str:
    """How many rows moves lay side by side in one, and whether they are neighbours of a grid."""
    grid = find_grid(flow, way)
    are_near = grid is not None and prod(grid) == joined
    return f"{'×'.join(map(str, grid or ()))} NEIGHBOURS SIDE BY SIDE" if are_near else f"{joined} PLACES SIDE BY SIDE"


def find_grid(flow: Flow, way: Sequence[int]) -> tuple[int, int] | None:
    """How many neighbours across and down moves, the last first, lay side by side, or every so manieth row is taken."""
    for number, node in enumerate(way, 1):
        before, after = follow(flow, way[:number])
        cut = [axis for axis in before[1:3] if len(axis) == len(("outer", "inner"))]
        if len(before) == 4 and len(cut) == 2 and {inner for _, inner in cut} <= {*after[-1]}:
            return cut[0][1].size, cut[1][1].size
        steps = [one.partition("::")[2] for one in str(flow.steps[node].settings.get("index", "")).split(", ")]
        sizes = [int(one) for one in steps if one.isdecimal()]
        if flow.op(node) in ("index", "slice") and len(sizes) == 2:
            return sizes[0], sizes[1]
    return None
