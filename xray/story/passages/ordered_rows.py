"""Rows in another order, as one gives it (by windows, in Qwen2.5-VL's eye) or in turn, and rows that are repeated."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.index_spans import read_span
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    CLAMPS,
    DIFFERENCES,
    PLACING,
    REPEATS,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
    TURNS,
    ZEROS,
)
from xray.ir.flow.regrouping import MOVES, Regrouping, Stacked, find_regrouping, follow, list_moves
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.ir.turns import read_turn
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import does_mix, find_region, list_reading_data
from xray.story.recognition.values.value_shapes import number, read_index

SLICE = re.compile(r"-?\d*:-?\d*|\.\.\.")
TAKING = frozenset({"index", "index_select"})
RESHAPES = frozenset({"reshape", "view", "flatten", "unflatten", "unsafe_view"})
ROWS = len(("batch", "row", "width"))
EACH_REPEATED = "repeat_interleave"
REPEATING = frozenset({EACH_REPEATED, "repeat", "tile", "interpolate", "upsample"})
BACK = "ROWS PUT BACK IN THEIR ORDER"
MAP = ("windows down", "lines", "windows across", "columns")
ROUNDING = frozenset({"round", "round_"})
ROWS_AND_COUNTS = 2


def takes_in_order(flow: Flow, node: int) -> bool:
    """Whether a step takes as many rows as there are, in the order that a row of whole numbers says, or sorted ones."""
    if find_order(flow, node) is not None:
        return True
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2 or not step.outputs:
        return False
    rows, order = step.inputs
    is_order = len(order.shape) == 1 and order.shape[0] > 1 and not order.is_float and order.dtype != "bool"
    is_rows = rows.is_float and len(rows.shape) > 1 and rows.shape == step.outputs[0].shape
    return is_order and is_rows and order.shape[0] in rows.shape[:-1] and node in list_reading_data(flow)


def takes_all_in_order(flow: Flow, node: int) -> bool:
    """Whether an index of slices alone takes all that there is (`[:, 0:]`)."""
    step = flow.steps[node]
    if flow.op(node) != "index" or len(step.inputs) != 1 or step.inputs[0].shape != flow.output(node).shape:
        return False
    return all(SLICE.fullmatch(one) for one in str(step.settings.get("index", "?")).split(", "))


def find_order(flow: Flow, node: int) -> int | None:
    """The step that sorts numbers, one of each row of a sequence, in whose order another takes all rows (V-JEPA 2)."""
    step = flow.steps[node]
    if flow.op(node) != "gather" or len(step.inputs) != 2 or not step.inputs[0].is_float:
        return None
    rows, order = (one.shape for one in step.inputs)
    sorts = flow.carried_from(flow.makers[node][1], CARRYING | REPEATS)
    if sorts is None or flow.op(sorts) != "argsort" or len(rows) != len(("batch", "row", "width")) or rows != order:
        return None
    return sorts if flow.output(sorts).shape == rows[:-1] and node in list_reading_data(flow) else None


def name_order(flow: Flow, node: int) -> str:
    """What a step is called that takes all rows: those that a mask keeps, or in another order."""
    sorts = find_order(flow, node)
    if sorts is None and find_mask(flow, node) is not None:
        return "ROWS THAT A MASK KEEPS"
    if sorts is None:
        windows = read_windows(flow, node)
        back = BACK if takes_back(flow, node) else "ROWS IN A GIVEN ORDER"
        return back if windows is None else f"ROWS BY WINDOWS OF {windows[0]}×{windows[1]}"
    return "ROWS SORTED" if sorts_back(flow, sorts) is None else BACK


def takes_back(flow: Flow, node: int) -> bool:
    """Whether a step takes all rows in the order that sorts an order in which another step took as many before."""
    sorts = flow.carried_from(flow.makers[node][1])
    order = None if sorts is None or flow.op(sorts) != "argsort" else flow.carried_from(flow.makers[sorts][0], CASTING)
    if order is None:
        return False
    moved = {order, *flow.ahead(order, within=lambda one: one == order or flow.op(one) in CASTING)}
    readers = (one for place in moved for one in flow.readers.get(place, ()) if one < node and flow.makers[one])
    return any(flow.makers[one][-1] in moved and takes_in_order(flow, one) for one in readers)


def read_windows(flow: Flow, node: int) -> tuple[int, int] | None:
    """How many rows high and wide the windows are by which a step takes the rows of a map; None if it does not so.

    Its order is that of numbers counted up, laid out as a map, cut into windows, and those of no row left away.
    """
    (rows, _), (order, maker) = list(flow.given(node))
    if maker is None or rows.shape[-2] != order.shape[0]:
        return None
    ways = list(flow.behind(maker))
    if not all(keeps_order(flow, one) or flow.op(one) in TURNS for one in ways):
        return None
    windows = {read_window(flow, one) for one in ways if flow.op(one) in TURNS}
    return windows.pop() if len(windows) == 1 else None


def keeps_order(flow: Flow, node: int) -> bool:
    """Whether a step of whole numbers counts them up, or leaves them in their order, but for those of a map's edge."""
    if flow.op(node) in TAKING:
        return len(flow.steps[node].inputs) == 2 and flow.steps[node].inputs[1].dtype == "bool"
    if flow.op(node) in SUMS:
        return len(flow.steps[node].inputs) == 1
    return flow.op(node) in (MOVES - TURNS) | PADDINGS | {"arange", "cat", "ne"}


def read_window(flow: Flow, turn: int) -> tuple[int, int] | None:
    """The lines and columns of windows of a map that a turn lays one window after the other; None for any other."""
    turned, shape = read_turn(flow.steps[turn]), flow.steps[turn].inputs[0].shape
    if len(shape) < len(MAP):
        return None
    *first, height, down, width, across = range(len(shape))
    is_cut = turned == (*first, height, width, down, across) and shape[down] * shape[across] > 1
    return (shape[down], shape[across]) if is_cut else None


def sorts_back(flow: Flow, sorts: int) -> int | None:
    """The step that takes rows in an order which another sorts back, if both are known."""
    former = flow.carried_from(flow.makers[sorts][0])
    if former is None or flow.op(former) != "argsort":
        return None
    moved = set(flow.ahead(former, within=lambda one: one == former or flow.op(one) in CARRYING | REPEATS))
    readers = (one for place in sorted(moved) for one in flow.leaf_readers(place))
    return next((one for one in readers if find_order(flow, one) == former), None)


def find_mask(flow: Flow, node: int) -> TensorRecord | None:
    """The mask, one answer for each row, where a step takes the rows that it does not hide, in their order.

    The places of what is not nothing come from the first to the last.
    """
    step = flow.steps[node]
    if flow.op(node) not in TAKING or len(step.inputs) != 2:
        return None
    (rows, _), (order, maker) = flow.given(node)
    found = flow.carried_from(maker)
    if found is None or flow.op(found) != "nonzero" or len(order.shape) != 1 or not rows.is_float:
        return None
    mask = flow.steps[found].inputs[0]
    return mask if mask.dtype == "bool" and mask.shape == rows.shape[:1] else None


def read_regrouping(flow: Flow, node: int) -> Regrouping | None:
    """How moves of data that end at a step put rows into other sequences (VideoPrism's frames and patches)."""
    moves = list_moves(flow, node)
    if not moves or not flow.output(node).is_float or node not in list_reading_data(flow):
        return None
    channels = find_channels(flow, flow.makers[moves[-1]][0] or node)
    return None if channels is None else find_regrouping(flow, node, channels)


def label_regrouped(found: Regrouping) -> str:
    """What moves are called that put rows into other sequences, or in another order: how both are counted."""
    parts = found.before[-1]
    if found.before[:-1] == found.after[:-1] and len(parts) == len(("part", "row")) and parts[::-1] == found.after[-1]:
        return f"ROWS OF {parts[0]:,} PARTS IN TURN"
    sides = ("×".join("·".join(f"{size:,}" for size in axis) for axis in side) for side in (found.before, found.after))
    return f"ROWS REGROUPED: {' → '.join(sides)}"


def label_stacked(found: Stacked) -> str:
    """What moves are called that cut each map into pieces and lay them along its other axis (CLAP's spectrograms)."""
    turned = "AXES SWAPPED, " if found.is_turned else ""
    return f"{turned}{found.pieces:,} PIECES ONE {'BELOW' if found.is_below else 'BESIDE'} THE OTHER"


def shifts_places(flow: Flow, node: int) -> bool:
    """Whether a step hands each place the row of the one before it: nothing in front, the last row cut (RWKV).

    Of a map the place before stands in the same line (DALL-E).
    """
    axis = find_shifted(flow, node)
    return axis is not None and (axis == -2 or len(flow.output(node).shape) <= ROWS)


def shifts_lines(flow: Flow, node: int) -> bool:
    """Whether a step hands each place of a map the row of the one above it, where lines were laid out just before."""
    made, here = flow.output(node).shape, flow.makers[node][0] if flow.steps[node].inputs else None
    if len(made) != ROWS + 1 or find_shifted(flow, node) != -ROWS:
        return False
    while here is not None and flow.op(here) in CARRYING | SPLITS and len(flow.steps[here].inputs) == 1:
        before = flow.steps[here].inputs[0].shape
        if len(before) == ROWS:
            return before[:2] == (made[0], made[1] * made[2]) and flow.output(here).shape[:-1] == made[:-1]
        here = flow.makers[here][0]
    return False


def find_shifted(flow: Flow, node: int) -> int | None:
    """Along which axis, counted from the last, a step moves all on by one, nothing in front; None where it does not."""
    told = flow.steps[node].settings.get("padding", flow.steps[node].settings.get("pad"))
    pairs = told.split("x") if flow.op(node) in PADDINGS and isinstance(told, str) and told.endswith("1x-1") else []
    is_alone = bool(pairs) and set(pairs[:-2]) <= {"0"} and pairs[-2:] == ["1", "-1"]
    return -(len(pairs) // 2) if is_alone else None


def label_first_row(flow: Flow, node: int, nodes: Collection[int]) -> str:
    """What a step of a part is called that puts the first row of what came before the part in front of rows made in it.

    So CANINE keeps the row of the class beside those that several characters became. "" for any other.
    """
    given, made = list(flow.given(node)), flow.output(node).shape
    if flow.op(node) not in SIDE_BY_SIDE or len(given) != 2 or len(made) != len(("batch", "places", "width")):
        return ""
    (first, cut), (rest, maker) = given
    if cut is None or cut not in nodes or maker not in nodes or flow.op(cut) != "index":
        return ""
    if cut not in list_reading_data(flow):  # the first row of a learned table (PVT)
        return ""
    if first.shape[1] + rest.shape[1] != made[1] or any(one in nodes for one in flow.makers[cut]):
        return ""
    span = read_span(str(flow.steps[cut].settings.get("index", "")), flow.steps[cut].inputs[0].shape, 1)
    return f"THE STREAM'S FIRST ROW IN FRONT: 1 + {rest.shape[1]:,}" if span == (0, 1) else ""


def list_in_turn(flow: Flow, stack: int) -> tuple[int, ...]:
    """The steps that stack rows of several streams and lay them out one of each after the other, the last first.

    Empty where they do anything else with them, as lay one stream behind another.
    """
    step = flow.steps[stack]
    shapes = {record.shape for record in step.inputs}
    if flow.op(stack) != "stack" or len(step.inputs) < 2 or len(shapes) != 1 or stack not in list_reading_data(flow):
        return ()
    dim, way = step.settings.get("dim", 0), [stack]
    if len(shapes.pop()) != ROWS or not isinstance(dim, int):
        return ()
    while len(readers := flow.leaf_readers(way[0])) == 1 and flow.op(readers[0]) in MOVES:
        way.insert(0, readers[0])
        before, after = follow(flow, way[:-1])
        streams = before.pop(dim % (ROWS + 1)) if before else []
        if before and after == [before[0], [*before[1], *streams], before[2]]:
            return tuple(way)
    return ()


def list_put_in_turn(flow: Flow, last: int) -> tuple[int, ...]:
    """The steps that write rows of several streams into zeros, each at every so manieth, till none of these is left.

    The last first, the one that makes the zeros behind them; empty for any others (Decision Transformer for Atari).
    """
    steps, taken, here = list[int](), list[tuple[int, int]](), last
    while (found := read_put(flow, here)) is not None and (not steps or flow.leaf_readers(here) == steps[-1:]):
        steps.append(here)
        taken.append(found)
        before = flow.makers[here][0]
        if before is None:
            return ()
        here = before
    every = len(steps)
    is_whole = sorted(taken) == [(every, place) for place in range(every)]
    is_begun = flow.op(here) in ZEROS and flow.leaf_readers(here) == steps[-1:]
    return (*steps, here) if every > 1 and is_whole and is_begun else ()


def read_put(flow: Flow, node: int) -> tuple[int, int] | None:
    """At every so manieth row a step writes others into rows, and from which on, from 0; None for any other step."""
    index = read_index(flow.steps[node].settings) if flow.op(node) == "index_put_" else None
    if index is None or len(flow.steps[node].inputs) != 2 or len(flow.output(node).shape) != ROWS:
        return None
    rows = index[1] if len(index) > 1 else None
    if (
        not isinstance(rows, slice)
        or rows.stop is not None
        or any(one != slice(None) for one in (*index[:1], *index[2:]))
    ):
        return None
    (batch, count, width), begin, every = flow.output(node).shape, rows.start or 0, rows.step or 1
    is_even = every > 1 and count % every == 0 and flow.steps[node].inputs[1].shape == (batch, count // every, width)
    return (every, begin) if is_even else None


def read_every(flow: Flow, cut: int) -> tuple[int, int] | None:
    """Of how many rows a step takes one, and which, from 0: rows were cut into so many before; None for others."""
    index = read_index(flow.steps[cut].settings) if flow.op(cut) in ("index", "select") else None
    if index is None or len(flow.steps[cut].inputs) != 1 or len(flow.steps[cut].inputs[0].shape) != ROWS + 1:
        return None
    numbers = [place for place, one in enumerate(index) if isinstance(one, int)]
    if len(numbers) != 1 or any(one != slice(None) for one in index if not isinstance(one, int)):
        return None
    moves, here = list[int](), flow.makers[cut][0]
    while here is not None and flow.op(here) in MOVES and len(flow.output(here).shape) == ROWS + 1:
        moves.append(here)
        here = flow.makers[here][0]
    before, after = follow(flow, moves)
    if len(before) != ROWS or len(before[1]) != len(("row", "which")) or moves[-1] not in list_reading_data(flow):
        return None
    (row, which), taken, number = before[1], after.pop(numbers[0]), index[numbers[0]]
    is_cut = taken == [which] and after == [before[0], [row], before[2]]
    return (which.size, number % which.size) if is_cut and isinstance(number, int) else None


def label_every(flow: Flow, cut: int) -> str:
    """What a step is called that takes every so manieth row; "" for any other."""
    found = read_every(flow, cut)
    return "" if found is None else f"EVERY {spell_place(found[0])} ROW, FROM THE {spell_place(found[1] + 1)}"


def spell_place(number: int) -> str:
    """A number as a place: 1ST, 2ND, 3RD, 4TH."""
    return f"{number}{'TH' if 10 < number % 100 < 14 else {1: 'ST', 2: 'ND', 3: 'RD'}.get(number % 10, 'TH')}"


@dataclass(frozen=True)
class RowCounts:
    """The steps that work out how often rows are repeated of what a layer gave, from 0; `source` is where it ends."""

    layer: int
    source: int
    nodes: frozenset[int]


def repeats_rows(flow: Flow, before: int, start: int, leaves: Collection[int]) -> bool:
    """Whether rows become more by being repeated, as each is to last (FastSpeech 2), or all spread out again."""
    rows, left = flow.output(before).shape, flow.output(start).shape
    is_other = len(rows) == len(left) and rows != left and rows[0] == left[0]
    is_other = is_other and (rows[1] == left[1] or rows[2:] == left[2:])
    repeating = REPEATING if prod(rows) < prod(left) else {EACH_REPEATED}
    return is_other and any(flow.op(node) in repeating for node in leaves)


def find_counts(flow: Flow, ends: Sequence[int], leaves: Collection[int]) -> RowCounts | None:
    """What works out how often some steps repeat rows, of what the last of layers gave that leads there, by its `ends`.

    None where no weights take part.
    """
    repeats = [node for node in sorted(leaves) if flow.op(node) == EACH_REPEATED]
    counts = [flow.makers[node][1] for node in repeats if len(flow.makers[node]) == ROWS_AND_COUNTS]
    if not counts or counts[0] is None or len({flow.carried_from(one) for one in counts}) > 1:
        return None
    for layer, end in reversed(list(enumerate(ends))):
        region = find_region(flow, end, counts[0]) if counts[0] > end else None
        if region is not None:
            learned = [node for node in region.inner if flow.is_leaf(node) and flow.steps[node].params]
            return RowCounts(layer, end, region.inner) if does_mix(flow, learned) else None
    return None


def name_repeated(flow: Flow, node: int) -> str:
    """What a step is called that repeats rows, or channels, each by itself: how many, and how often, if that is one."""
    given, maker = flow.steps[node].inputs, flow.makers[node][0]
    pairs = enumerate(zip(given[0].shape, flow.output(node).shape, strict=False))
    axes = {axis: pair for axis, pair in pairs if len({*pair}) > 1}
    are_channels = maker is not None and [*axes] == [find_channels(flow, maker)]
    name = "CHANNEL" if are_channels else "ROW"
    rows, made = next(iter(axes.values())) if len(axes) == len(given) == 1 else (0, 0)  # a second says how often
    if not rows or made % rows:
        return f"EACH {name} REPEATED"
    return f"EACH {f'OF {rows:,} {name}S' if rows > 1 else name} {made // rows:,} TIMES"


def fold_repeats(flow: Flow, nodes: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The step that puts in the last of sequences whose rows are repeated one sequence after the other, with all such.

    Empty where they are not repeated so.
    """
    repeats = [node for node in sorted(nodes) if flow.op(node) == EACH_REPEATED]
    puts = [node for node in sorted(nodes) if flow.op(node) in PLACING]
    put = [flow.carried_from(flow.makers[node][-1]) for node in puts]
    held = [flow.carried_from(flow.makers[node][0]) for node in puts]
    is_one = bool(puts) and put == repeats and held[1:] == puts[:-1] and flow.op(held[0] or 0) in ZEROS
    return {puts[-1]: (*reversed(puts), *reversed(repeats))} if is_one else {}


def label_counts(flow: Flow, counts: RowCounts | None) -> dict[int, str]:
    """What steps are called that make whole numbers, none too low, of what says how often rows are repeated."""
    found: dict[int, str] = {}
    for node in () if counts is None else counts.nodes:
        op, value, least = flow.op(node), number(flow.steps[node]), flow.steps[node].settings.get("min")
        if op in DIFFERENCES and value is not None and len(flow.steps[node].inputs) == 1:
            found[node] = f"− {value:g}"
        elif op in ROUNDING:
            found[node] = "ROUNDED"
        elif op in CLAMPS and isinstance(least, int | float) and "max" not in flow.steps[node].settings:
            found[node] = f"AT LEAST {least:g}"
    return found
