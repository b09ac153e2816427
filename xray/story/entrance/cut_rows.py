"""Rows that are left out of each sequence, at an end, by their places or by a mask, and what the step is called."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, PLACING, REPEATS, SIDE_BY_SIDE, SPLITS, ZEROS
from xray.story.branches.convolutions import find_shortened
from xray.story.entrance.entrance import pads_rows
from xray.story.passages.channels import find_channels
from xray.story.passages.ordered_rows import find_mask
from xray.story.recognition.between import is_linear, list_reading_data, puts_around
from xray.story.recognition.chosen_rows import ORDERS, find_drawn_table, picks_by_chance
from xray.story.recognition.values.value_shapes import number, read_slices

NEAR_BEHIND = 8
RESHAPES = frozenset({"reshape", "view"})
CHOOSING = frozenset({"gather", "index_select", "take_along_dim"})
COUNTED = ORDERS | {"arange", "randperm"}
"""What makes places of which none comes twice."""
LET_THROUGH = "ROWS THAT A MASK LETS THROUGH"


def label_chosen(flow: Flow, node: int) -> str:
    """What a step is called that takes rows of a sequence by their places or by a mask; "" for any other.

    Each is taken once at most where the places are those of an order; else all may be the same one (π0).
    """
    if takes_by_mask(flow, node):
        return f"{flow.output(node).shape[0]:,} OF {flow.steps[node].inputs[0].shape[0]:,} ROWS"
    if lets_through(flow, node) and node in list_reading_data(flow):
        return LET_THROUGH
    if flow.op(node) not in CHOOSING or not leaves_rows(flow, node):
        return ""
    before, after = flow.steps[node].inputs[0].shape[1], flow.output(node).shape[1]
    if not takes_each_once(flow, node):
        return f"FOR EACH PLACE ONE OF {before:,} ROWS"
    return f"{after:,} OF {before:,} ROWS" + ", DRAWN BY CHANCE" * picks_by_chance(flow, node)


def list_drawn(flow: Flow, node: int) -> tuple[int, ...]:
    """A step that lays rows out in sequences again, and the one before that picks them of all by chance; or none."""
    before = next(iter(flow.makers[node]), None) if flow.op(node) in RESHAPES else None
    if before is None or find_drawn_table(flow, before) is None or before not in list_reading_data(flow):
        return ()
    rows, again = flow.steps[before].inputs[0].shape, flow.output(node).shape
    return (node, before) if rows[::2] == again[::2] else ()


def label_drawn(flow: Flow, node: int) -> str:
    """What the picking of rows by chance is called, by how many it picks of how many."""
    before, after = flow.steps[flow.makers[node][0] or node].inputs[0].shape[1], flow.output(node).shape[1]
    return f"{after:,} ROWS PICKED BY CHANCE" + f" OF {before:,}" * (before != after)


def takes_by_mask(flow: Flow, node: int) -> bool:
    """Whether a step leaves out those rows that a mask names, of rows that were worked out of the input (UDOP)."""
    given = [record for record, _ in flow.given(node)] if flow.op(node) in ("index", "index_select") else []
    if len(given) != len(("rows", "mask")) or node not in list_reading_data(flow):
        return False
    rows, mask = given[0], find_mask(flow, node) or given[1]
    before, after = rows.shape, flow.output(node).shape
    are_rows = len(before) == len(after) == len(("row", "width")) and before[1] == after[1]
    return are_rows and mask.dtype == "bool" and mask.shape == before[:1] and 0 < after[0] < before[0]


def lets_through(flow: Flow, node: int) -> bool:
    """Whether a step takes those rows of all sequences that a mask names, one behind the other."""
    given = [record for record, _ in flow.given(node)] if flow.op(node) == "index" else []
    if len(given) != len(("rows", "mask")) or given[1].dtype != "bool":
        return False
    before, after = given[0].shape, flow.output(node).shape
    return given[1].shape == before[:-1] and len(before) == 3 and after[1:] == before[-1:]


def leaves_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes some rows of a sequence that was worked out of the input, and leaves the others."""
    before, after = flow.steps[node].inputs[0], flow.output(node)
    is_some = len(before.shape) == len(after.shape) == 3 and before.shape[1] > after.shape[1] > 0
    if not is_some or (before.shape[0], before.shape[2]) != (after.shape[0], after.shape[2]):
        return False
    return any(flow.op(one) in FINDINGS for one in flow.behind(flow.makers[node][0]))


def takes_each_once(flow: Flow, node: int) -> bool:
    """Whether the places by which a step takes rows are some of an order, no more than moved, cut and spread."""
    places = [maker for record, maker in flow.given(node) if not record.is_float]
    here = places[0] if len(places) == 1 else None
    while here is not None and flow.op(here) not in COUNTED:
        before = flow.makers[here] if flow.op(here) in CARRYING | REPEATS | {"index"} else ()
        here = before[0] if len(before) == 1 else None
    return here is not None and flow.output(here).shape[-1] >= flow.output(node).shape[1]


def clears_rows(flow: Flow, node: int) -> bool:
    """Whether a step sets those rows to 0 that a mask names, of rows that were worked out of the input (UDOP)."""
    given = list(flow.given(node)) if flow.op(node) in PLACING else []
    if len(given) != len(("rows", "mask")) or given[1][0].dtype != "bool" or node not in list_reading_data(flow):
        return False
    return flow.steps[node].settings.get("values") == 0 and given[1][0].shape == flow.output(node).shape[:-1]


def label_padded(flow: Flow, node: int) -> str:
    """How many rows data have behind a step that puts more of one number to them, or columns of zeros (Ovis 2)."""
    made = flow.output(node).shape
    if pads_rows(flow, node):
        return f"PADDED TO {made[-2]:,} ROWS"
    zeros = find_zeros(flow, node)
    return f"PADDED TO {made[zeros]:,} {'ROWS' if zeros == -2 else 'COLUMNS'}" if zeros else ""


def label_longer(flow: Flow, node: int) -> str:
    """How many places a series has behind a step that puts more of one number to it, its channels before these."""
    made, before = flow.output(node).shape, flow.steps[node].inputs[0].shape
    maker = flow.makers[node][0]
    is_series = len(made) == 3 and maker is not None and find_channels(flow, maker) == 1
    is_longer = puts_around(flow, node) and before[:-1] == made[:-1]
    return f"PADDED TO {made[-1]:,} PLACES" if is_series and is_longer else ""


def find_zeros(flow: Flow, node: int) -> int:
    """The axis, from the end, along which a step puts zeros before or behind data alone (UDOP); 0 if there is none."""
    given = list(flow.given(node)) if flow.op(node) == "cat" else []
    are_zeros = [flow.op(made) in ZEROS for made in (find_begin(flow, maker) for _, maker in given) if made is not None]
    made = flow.output(node).shape
    if len(are_zeros) != len(given) or are_zeros.count(False) != 1 or len(given) < 2 or len(made) not in (2, 3):
        return 0
    rows = given[are_zeros.index(False)][0].shape
    longer = [axis - len(made) for axis in range(len(made)) if rows[axis] != made[axis]]
    return longer[0] if longer in ([-1], [-2]) and node in list_reading_data(flow) else 0


def find_begin(flow: Flow, place: int | None) -> int | None:
    """The step whose numbers a step only moves, or stacks alone."""
    here = flow.carried_from(place)
    while here is not None and flow.op(here) == "stack" and len(flow.makers[here]) == 1:
        here = flow.carried_from(flow.makers[here][0])
    return here


def cuts_rows(flow: Flow, node: int) -> bool:
    """Whether a step leaves out rows at an end of each sequence that was worked out of the input (LLaVA).

    One row that is left has a box where others that are cut off are put behind it again (DINOv2 with registers). None
    has the end of what a convolution made longer, whose own box is cut to that.
    """
    along, maker = find_cut(flow, node), next(iter(flow.makers[node]), None)
    if along is None or prod(flow.output(node).shape) == 0 or node not in list_reading_data(flow):
        return False
    if maker is not None and find_shortened(flow, maker) == node:
        return False
    return flow.output(node).shape[along] > 1 or is_joined_again(flow, node)


def find_cut(flow: Flow, node: int) -> int | None:
    """The axis of the rows of which a step leaves some out, or of the places of a series behind its channels; or none.

    So the longer one of two series is cut, before they are put side by side (NeuCodec).
    """
    before, after = next((one.shape for one in flow.steps[node].inputs), ()), flow.output(node).shape
    if len(before) != len(after) or len(after) != len(("batch", "row", "width")):
        return None
    cut = [axis for axis in range(len(after)) if after[axis] != before[axis]]
    part = str(flow.steps[node].settings.get("index", "")).rpartition(", ")[2]
    is_series = cut == [2] and ":" in (part[:1], part[-1:]) and find_channels(flow, node) == 1
    return cut[0] if (cut == [1] or is_series) and 0 < after[cut[0]] < before[cut[0]] else None


def is_joined_again(flow: Flow, node: int) -> bool:
    """Whether what a step cuts off is put beside another part of the same rows again."""
    joins = [reader for reader in flow.readers.get(node, ()) if flow.op(reader) in SIDE_BY_SIDE]
    parts = {one for join in joins for one in flow.makers[join] if one is not None and flow.op(one) == "index"}
    return any(one != node and flow.makers[one][:1] == flow.makers[node][:1] for one in parts)


def label_cut_rows(flow: Flow, node: int) -> str:
    """What a step is called that leaves rows out: by how many, and at which end; else by how many it takes."""
    if told := label_cut_end(flow, node):
        return told
    along = find_cut(flow, node) or 1
    before, after = flow.steps[node].inputs[0].shape[along], flow.output(node).shape[along]
    return f"{after:,} OF {before:,} {'PLACE' if along == 2 else 'ROW'}S"


def label_cut_end(flow: Flow, node: int) -> str:
    """What a step is called that leaves rows out at one end of a sequence; "" for any other."""
    along = find_cut(flow, node) or 1
    before, after = flow.steps[node].inputs[0].shape[along], flow.output(node).shape[along]
    parts, what = str(flow.steps[node].settings.get("index", "")).split(", "), "PLACE" if along == 2 else "ROW"
    parts = [":"] * (3 - len(parts[1:])) + parts[1:] if parts[0] == "..." else parts
    rows, left = parts[along] if len(parts) > along else "", before - after
    rows = rows[rows.startswith("0:") :]
    one = {":1": "FIRST", "-1:": "LAST"}.get(rows)
    if after == 1 and one is not None:
        return f"THE {one} {what}"
    end = {f"{left}:": "FIRST", f":-{left}": "LAST"}.get(rows)
    if end is None:
        return f"THE FIRST {after:,} OF {before:,} {what}S" if rows == f":{after}" else ""
    return f"ALL {what}S BUT THE {end}{f' {left:,}' * (left > 1)}"


def label_cut_of_pieces(flow: Flow, node: int) -> str:
    """What a step is called that leaves out rows at the end of each piece of a sequence (Mllama's tiles).

    Pieces are known by the first layer, which reads each by itself.
    """
    before = flow.steps[node].inputs[0].shape if flow.op(node) == "index" and flow.steps[node].inputs else ()
    after = flow.output(node).shape
    is_cut = len(before) == len(after) == 4 and before[:2] + before[3:] == after[:2] + after[3:]
    left = before[2] - after[2] if is_cut and find_channels(flow, node) != 1 else 0
    is_last = str(flow.steps[node].settings.get("index")) == f":, :, :-{left}"
    if not is_last or before[1] < 2:
        return ""
    first = min((one for one in flow.behind(node) if flow.op(one) in FINDINGS or is_linear(flow, one)), default=None)
    are_pieces = first is not None and flow.output(first).shape[:1] == (before[0] * before[1],)
    return f"ALL ROWS BUT THE LAST{f' {left:,}' * (left > 1)} OF EACH PIECE" if are_pieces else ""


def label_pieces_apart(flow: Flow, node: int) -> str:
    """What moves are called that cut each series that came in into pieces, which a convolution reads apart; "" for any
    others.

    The pieces of all sequences stand one behind the other then (Qwen3-ASR).
    """
    if find_split(flow, node) is not None:
        sizes = {record.shape[0] for record in flow.steps[node].inputs}
        most = "UP TO " * (len(sizes) > 1)
        return f"CUT INTO {len(flow.steps[node].inputs):,} PIECES OF {most}{max(sizes):,}"
    if flow.op(node) not in CARRYING or not any(flow.op(one) in FINDINGS for one in flow.readers.get(node, ())):
        return ""
    way = [node]
    while (maker := next(iter(flow.makers[way[-1]]), None)) is not None and flow.op(maker) in CARRYING:
        way.append(maker)
    record, maker = next(flow.given(way[-1]))
    made, whole = flow.output(node), record.shape
    if maker is not None or not record.is_float or len(whole) < 2 or prod(whole) != prod(made.shape):
        return ""
    count, size = made.shape[0] // (whole[0] or 1), made.shape[-1]
    cuts = [flow.output(one).shape[-2:] for one in way]
    is_cut = (count, size) in cuts and count > 1 and count * size == whole[-1] and count * whole[0] == made.shape[0]
    return f"EACH CUT INTO {count:,} PIECES OF {size:,}" if is_cut else ""


def find_split(flow: Flow, node: int) -> int | None:
    """The step that cuts rows of data into the pieces which a step then stacks, the shorter ones filled up; or none."""
    step, makers = flow.steps[node], {*flow.makers[node]}
    if flow.op(node) != "pad_sequence" or len(makers) != 1 or node not in list_reading_data(flow):
        return None
    (cut,) = makers
    if cut is None or flow.op(cut) not in SPLITS or not 1 < len(step.inputs) == len(flow.steps[cut].outputs):
        return None
    is_whole = sum(one.shape[0] for one in step.inputs) == flow.steps[cut].inputs[0].shape[0]
    return cut if is_whole else None


def label_first(flow: Flow, node: int) -> str:
    """What a step is called that lays the first few of some pieces, or more than the first few that are read."""
    return label_first_of_each(flow, node) or label_read_in_part(flow, node)


def label_first_of_each(flow: Flow, node: int) -> str:
    """What a step is called that lays the first few of as many pieces each end to end; "" for any other.

    So are those pieces of each picture that are no padding (LLaVA-OneVision).
    """
    ways = flow.makers[node]
    if not ways or any(one is None or flow.op(one) != "index" or not flow.steps[one].inputs for one in ways):
        return ""
    cuts = [one for one in ways if one is not None]
    sources = {flow.makers[one][0] for one in cuts}
    counts = {(flow.output(one).shape[0], flow.steps[one].inputs[0].shape[0]) for one in cuts}
    (first, whole), *others = counts
    are_first = {str(flow.steps[one].settings.get("index")).removeprefix("0") for one in cuts} == {f":{first}"}
    (source, *more) = sources
    is_one = source is not None and not more and flow.op(source) == "unbind"
    if others or not are_first or not is_one or flow.steps[node].settings.get("dim") != 0:
        return ""
    return f"THE FIRST {first:,} OF EACH {whole:,}, END TO END"


def label_read_in_part(flow: Flow, node: int) -> str:
    """What a step is called that lays tensors side by side of which the first few alone are read; "" for any other.

    So Bark adds up what it looked up of some of its codes.
    """
    step, readers, laid = flow.steps[node], flow.leaf_readers(node), flow.output(node).shape
    count, axis = len(step.inputs), number(step, "dim") or 0
    if len({one.shape for one in step.inputs}) != 1 or laid[int(axis)] != count or step.id in flow.one_pass.results:
        return ""
    cuts = read_slices(flow.steps[readers[0]], len(laid)) if [flow.op(one) for one in readers] == ["index"] else None
    if cuts is None:
        return ""
    cut = cuts.pop(int(axis))
    first = range(count)[cut]
    is_only_cut = all(one == slice(None) for one in cuts) and list(first) == list(range(len(first)))
    return f"SIDE BY SIDE, THE FIRST {len(first):,} OF {count:,} READ" if is_only_cut and 0 < len(first) < count else ""


def label_cut_into(flow: Flow, node: int) -> str:
    """What a move is called that cuts each row into several, one behind the other; "" for any other (SEW)."""
    start = node
    while flow.op(start) in RESHAPES and (maker := next(iter(flow.makers[start]), None)) is not None:
        before, after = flow.steps[start].inputs[0].shape, flow.output(node).shape
        if len(before) == len(after) == len(("batch", "row", "width")) and before[0] == after[0] < prod(after):
            pieces = after[1] // before[1]
            return f"EACH ROW CUT INTO {pieces:,}" if pieces > 1 and before[2] == pieces * after[2] else ""
        start = maker
    return ""


def label_cut_sequences(flow: Flow, node: int) -> str:
    """What a move is called that cuts each sequence of rows into several; "" for any other (Granite Speech)."""
    before, after = (
        (flow.steps[node].inputs[0].shape, flow.output(node).shape) if flow.op(node) in RESHAPES else ((), ())
    )
    if len(before) != 3 or len(after) != 3 or before[2] != after[2] or not 1 < after[1] < before[1]:
        return ""
    pieces = before[1] // after[1]
    return f"EACH CUT INTO {pieces:,} PIECES OF {after[1]:,} ROWS" if before[1] == pieces * after[1] else ""
