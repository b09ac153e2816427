"""Rows that are swapped or rolled, keys of another row of the batch, and what tells how far apart two rows are."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    COUNTING,
    FINDINGS,
    LOOKUPS,
    PLACING,
    SHAPING,
    SIDE_BY_SIDE,
    SOFTMAXES,
    TURNS,
    WRITES,
)
from xray.ir.flow.projections import data_input
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.ir.turns import list_numbers
from xray.story.branches.operands.sides import Side, read_sides
from xray.story.entrance.inputs import name_argument
from xray.story.passages.channels import reads_places
from xray.story.passages.ordered_rows import shifts_places
from xray.story.recognition.between import Region, is_linear, list_reading_data
from xray.story.recognition.norms import find_norm
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.known_values import values_of
from xray.story.recognition.values.value_shapes import numbers

SWAPS = frozenset({"flip", "roll"})
PICKS = frozenset({"index", "select", "index_select", "narrow", "slice"})
LAYING_OUT = (SHAPING | CASTING) - TURNS - PICKS
"""They leave numbers in the order in which they lie, so that each row of the batch stays together."""
ORDERED = SWAPS | SOFTMAXES | {"cumsum", "sort", "normalize", "max_pool1d", "avg_pool1d"}
"""They give as many rows as they are given, be it that others stand where one was, or are mixed with it."""
MOST_BEHIND = 400
CUT_ROWS = re.compile(r":, (-?\d*):-?\d*(?:, :)*")


def looks_at_another_row(flow: Flow, query: Side, key: Side, value: Side, region: Region) -> bool:
    """Whether keys and values are of rows of the batch that were swapped or picked as those of the queries were not."""
    asked, offered, said = (list_moves(flow, side, region) for side in (query, key, value))
    return bool((offered & said) - asked)


def cuts_apart(flow: Flow, start: int | None, others: Iterable[int]) -> bool:
    """Whether a step picks rows of a tensor of which one of the others picks other rows."""
    if start is None or flow.op(start) not in PICKS:
        return False
    alike = [one for one in others if flow.op(one) in PICKS and flow.makers[one] == flow.makers[start]]
    return any(flow.steps[one].settings != flow.steps[start].settings for one in alike)


def is_left_behind(flow: Flow, start: int | None, place: int, sums: Collection[int]) -> bool:
    """Whether a stream went on behind one of its sums before a step: by another sum, or made anew (GroupViT).

    So a decoder that begins with what its encoder gives looks at that again in each layer.
    """
    return place not in flow.behind(start, ends=lambda here: here in sums or is_linear(flow, here))


def count_shifted(flow: Flow, sides: Sequence[Side]) -> tuple[int, int] | None:
    """How many numbers, of how many, are of the place before in rows that queries, keys and values are made of.

    Those may go through a norm then (Megabyte).
    """
    layers = [side.projections[0] if side.projections else None for side in sides]
    numbers = [None if layer is None else data_input(flow, layer) for layer in layers]
    read = {
        None if layer is None or number is None else flow.carried_from(flow.makers[layer][number])
        for layer, number in zip(layers, numbers, strict=True)
    }
    rows = read.pop() if len(read) == 1 else None
    norm = find_norm(flow, rows)
    rows = rows if norm is None else flow.carried_from(norm.origin)
    before = 0 if rows is None else count_of_before(flow, rows)
    return (before, flow.output(rows).shape[-1]) if rows is not None and before else None


def count_of_before(flow: Flow, rows: int) -> int:
    """How many numbers of each row that a step puts together are those of the place before."""
    is_wider = flow.op(rows) in SIDE_BY_SIDE and flow.output(rows).shape[-1] > flow.steps[rows].inputs[0].shape[-1]
    given = flow.given(rows) if is_wider else ()
    return sum(
        record.shape[-1]
        for record, maker in given
        if (made := flow.carried_from(maker)) is not None and shifts_places(flow, made)
    )


def label_of_before(before: int) -> str:
    """What a step is called that puts so many numbers of the place before beside others."""
    return f"SIDE BY SIDE, {before:,} OF THE PLACE BEFORE" if before else "SIDE BY SIDE"


def list_moves(flow: Flow, side: Side, region: Region) -> set[int]:
    """The steps between the stream and an operand that swap or pick whole rows of the batch."""
    start = region.start
    if start is None:
        return set()
    behind = flow.behind(*side.nodes, most=MOST_BEHIND, within=lambda place: place > start)
    return {node for node in behind if moves_rows(flow, node, start)}


def moves_rows(flow: Flow, node: int, start: int) -> bool:
    """Whether a step swaps or picks whole rows of the stream, and nothing within any of them."""
    step, stream = flow.steps[node], flow.output(start).shape
    before = step.inputs[0].shape if step.inputs else ()
    if step.op not in SWAPS | PICKS or len(stream) < 3 or prod(before) != prod(stream) or not prod(stream):
        return False
    axes = list_swapped(flow, node) if step.op in SWAPS else list_picked(before, flow.output(node).shape)
    row = prod(stream[1:])
    are_whole = all(before[axis] > 1 and prod(before[axis + 1 :]) % row == 0 for axis in axes)
    return bool(axes) and are_whole and lies_as(flow, node, start)


def list_swapped(flow: Flow, node: int) -> list[int]:
    """The axes that a step flips or rolls, counted from 0."""
    step, rank = flow.steps[node], len(flow.output(node).shape)
    return list_rolled(step) if step.op == "roll" else [number % rank for number in list_numbers(step)]


def swaps_places(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether some steps bring rows of data into another order, and not the numbers within each alone."""
    swaps = {node for node in nodes if flow.op(node) in SWAPS and flow.steps[node].outputs} & list_reading_data(flow)
    return any(min(list_swapped(flow, node), default=0) < len(flow.output(node).shape) - 1 for node in swaps)


def cuts_across_places(flow: Flow, node: int) -> bool:
    """Whether a step lays rows of heads out anew, so that in each there are several places of one head (Informer).

    The places lie behind the heads then, where these are to be laid side by side for each place.
    """
    given, made = flow.steps[node].inputs[:1], flow.output(node).shape
    if (
        flow.op(node) not in LAYING_OUT
        or not given
        or "heads" not in given[0].axes
        or prod(given[0].shape) != prod(made)
    ):
        return False
    heads = given[0].axes.index("heads")
    of_all = given[0].shape[heads:]
    if given[0].shape[: heads + 2] == made[: heads + 2]:
        return False  # heads and places stay, as where pairs that were turned are laid back (DeepSeek-V4)
    is_wider = of_all[-1] < made[-1] and made[-1] % prod(of_all) != 0
    return is_wider and prod(of_all[1:-1]) > 1


def cuts_across_heads(flow: Flow, node: int) -> bool:
    """Whether a step cuts an axis of heads with the batch within each as if heads were within (a learner's)."""
    given, made = flow.steps[node].inputs[:1], flow.output(node)
    is_cut = flow.op(node) in LAYING_OUT and bool(given) and given[0].axes[:1] == ("heads*batch",)
    return is_cut and given[0].shape[0] != made.shape[0] and made.axes[0] != "heads"


def lays_numbers_across(flow: Flow, node: int) -> bool:
    """Whether a step lays rows out in more axes as they lie, so that none holds all numbers of one place (a learner's).

    Heads are to be cut out of the numbers of each place, and brought before the places then. Nor does one where
    axes are to be swapped, and no number moves.
    """
    given, made = flow.steps[node].inputs[:1], flow.output(node).shape
    before = given[0].shape if given else ()
    if flow.op(node) not in LAYING_OUT or prod(before) != prod(made) or not 3 <= len(before) <= len(made):
        return False
    if len(before) == len(made):
        sizes = [[size for size in shape if size > 1] for shape in (before, made)]
        return before[0] == made[0] and sizes[0] != sizes[1] and sorted(sizes[0]) == sorted(sizes[1])
    return made[-1] < before[-1] and before[-1] not in [prod(made[axis:]) for axis in range(len(made))]


def loses_order(flow: Flow, nodes: Iterable[int], *, causal: bool | None) -> bool:
    """Whether steps of an attention lay rows out so that a mask no longer tells who sees what is ahead."""
    return any(lays_numbers_across(flow, node) or (causal and puts_given_behind(flow, node)) for node in nodes)


def puts_given_behind(flow: Flow, node: int) -> bool:
    """Whether rows that come in are put behind those that are worked out: kept ones, that came before (a learner's)."""
    made = flow.makers[node]
    if flow.op(node) not in SIDE_BY_SIDE or len(made) < 2 or made[0] is None or made[-1] is not None:
        return False
    last = flow.steps[node].inputs[-1]
    return last.role != "parameter" and last.is_float and last.shape[-1:] == flow.output(node).shape[-1:]


def list_rolled(step: Step) -> list[int]:
    """The axes that a step rolls, counted from 0; none where it rolls all numbers as one row."""
    rank = len(step.outputs[0].shape)
    return [one % rank for one in numbers(step, "dims") or numbers(step, "arg2")]


def rolls_places(flow: Flow, node: int) -> bool:
    """Whether a step rolls rows of places, and not the numbers of each, nor sequences."""
    step = flow.steps[node]
    if step.op != "roll" or not step.outputs:
        return False
    axes = list_rolled(step)
    return bool(axes) and {0, len(step.outputs[0].shape) - 1}.isdisjoint(axes)


def rolls_any(flow: Flow, nodes: Iterable[int]) -> bool:
    """Whether one of some steps rolls places."""
    return any(rolls_places(flow, node) for node in nodes)


def is_rolled(flow: Flow, site: Site, region: Region) -> bool:
    """Whether queries, keys and values are of places that were rolled alike, and what they find is rolled back."""
    query, key, value = (count_rolled(flow, side.nodes) for side in read_sides(flow, site, region))
    back = count_rolled(flow, flow.ahead(site.weighted_sum, within=region.inner.__contains__))
    return bool(query) and query == key == value == {axis: -far for axis, far in back.items()}


def count_rolled(flow: Flow, nodes: Iterable[int]) -> dict[int, int]:
    """How far some steps roll each axis of places in all, axes counted from the last one."""
    far: Counter[int] = Counter()
    for node in nodes:
        if rolls_places(flow, node):
            step = flow.steps[node]
            far_each = numbers(step, "shifts") or numbers(step, "other")
            for axis, one in zip(list_rolled(step), far_each, strict=False):
                far[axis - len(step.outputs[0].shape)] += one
    return {axis: one for axis, one in far.items() if one}


def read_kept_apart(flow: Flow, site: Site, query: Side) -> float | None:
    """By how much masks lower scores of places that stand in one window by a roll alone; None where none do just that.

    What is rolled out at one end comes in at the other, beside places that are far away (Swin).
    """
    rolls = [node for node in query.nodes if rolls_places(flow, node)]
    apart = mark_apart(flow.steps[rolls[0]], flow.output(site.scores).shape[-1]) if len(rolls) == 1 else None
    masks = [one.operand for one in read_scored(flow, site.scored) if one.kind == "mask" and one.operand is not None]
    lowered = [values_of(flow, one.maker) for one in masks] if apart is not None else []
    known = [one.reshape(-1, *one.shape[-2:]) for one in lowered if one is not None and one.ndim > 2]
    if apart is None or not known or len(known) < len(lowered) or any(one.shape != apart.shape for one in known):
        return None
    total = np.sum(known, axis=0)
    least = float(total.min())
    return -least if least < 0 and np.array_equal(total, np.where(apart, least, 0)) else None


def mark_apart(roll: Step, keys: int) -> NDArray[np.bool_] | None:
    """Which pairs of so many places of each square window a roll of a map has brought together; None if not known."""
    (_, *map_shape, _), side = roll.outputs[0].shape, isqrt(keys)
    shifts = numbers(roll, "shifts") or numbers(roll, "other")
    if list_rolled(roll) != [1, 2] or len(map_shape) != len(shifts) or side**2 != keys:
        return None
    if any(size % side for size in map_shape):
        return None
    from_where = [np.arange(size) - shift for size, shift in zip(map_shape, shifts, strict=True)]
    high, wide = ((places < 0) | (places >= places.size) for places in from_where)
    parts = 2 * high[:, None] + wide[None, :]
    windows = parts.reshape(len(high) // side, side, -1, side).swapaxes(1, 2).reshape(-1, keys)
    return np.asarray(windows[:, :, None] != windows[:, None, :])


def list_picked(before: tuple[int, ...], after: tuple[int, ...]) -> list[int]:
    """The axes of which a step may have taken one place, or a few."""
    if len(after) == len(before):
        return [axis for axis, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    return [axis for axis in range(len(before)) if before[:axis] + before[axis + 1 :] == after]


def lies_as(flow: Flow, node: int, start: int) -> bool:
    """Whether what a step reads lies as the stream does, be it with other axes."""
    here = flow.makers[node][0]
    while here is not None and here > start and flow.op(here) in LAYING_OUT:
        here = flow.makers[here][0]
    return here == start


def name_far_apart(flow: Flow, site: Site) -> str | None:
    """The argument that what joins the scores takes differences of, and is made of alone; None where places count.

    It holds several numbers for each place, as the corners of a box.
    """
    asked = {site.softmax, *site.scored, *site.query.nodes, *site.key.nodes}
    starts = (maker for node in site.scored for _, maker in flow.given(node) if maker is not None)
    behind = [*flow.behind(*(one for one in starts if one not in asked), most=MOST_BEHIND, ends=asked.__contains__)]
    way = {*behind} - asked
    if len(behind) == MOST_BEHIND:
        return None
    data = list_reading_data(flow).intersection(way)
    given = [record for node in data for record, maker in flow.taken(node) if maker is None]
    rows = {record.shape: name_argument(flow, record) for record in given if is_of_rows(record)}
    apart = [node for node in data if flow.op(node) == "sub" and parts_all(flow, node)]
    met = {*flow.behind(*apart), *flow.ahead(*apart, within=data.__contains__)} if apart else set[int]()
    others = (node for node in data - met if flow.is_leaf(node) and flow.op(node) not in CARRYING)
    tables = (node for node in way - met if flow.op(node) in LOOKUPS)
    takes_apart = bool(apart) and not any(True for _ in (*others, *tables))
    counts = any(flow.op(node) in COUNTING for node in way)
    (name,) = rows.values() if len(rows) == 1 else ("",)
    return name if name and takes_apart and not counts and len(next(iter(rows))) > len(("batch", "row")) else None


def is_of_rows(record: TensorRecord) -> bool:
    """Whether what comes from outside has rows, and is learned by nobody."""
    return record.role != "parameter" and len(record.shape) > 1


def parts_all(flow: Flow, node: int) -> bool:
    """Whether a step takes each row from each other one of the same rows."""
    shapes = [record.shape for record, _ in flow.taken(node)]
    makers = {flow.carried_from(maker) for _, maker in flow.taken(node)}
    whole = flow.output(node).shape
    return len(shapes) == 2 and len(makers) == 1 and shapes[0] != shapes[1] and all(one != whole for one in shapes)


def meets_places(flow: Flow, region: Region) -> bool:
    """Whether a branch moves rows along their places, or works with what it made of several of them.

    Where convolutions read them, channels lie on the second axis.
    """
    steps = [node for node in region.inner if flow.is_leaf(node) and flow.steps[node].outputs]
    channels = 1 if any(flow.op(node) in FINDINGS for node in steps) else -1
    back = list_put_back(flow, steps, region)
    return any(node not in back and stirs_places(flow, node, region, channels) for node in steps)


def list_put_back(flow: Flow, steps: Sequence[int], region: Region) -> set[int]:
    """The steps that pick rows by a mask, and those that put what was made of them where they stood, by the same one.

    Not so if what was picked leads to the end of a branch by another way too.
    """
    found = set[int]()
    for put in steps:
        masks = list_masks(flow, put) if flow.op(put) in PLACING else []
        picks = {node for node in steps if masks and flow.op(node) == "index" and list_masks(flow, node) == masks}
        led = flow.behind(region.end, within=region.inner.__contains__, ends={put}.__contains__)
        if picks and picks.isdisjoint(led):
            found |= {put, *picks}
    return found


def list_masks(flow: Flow, node: int) -> list[tuple[int | None, int | None, str | None]]:
    """Which masks alone tell a step what rows to take, or where to put them: who made each, or what argument it is."""
    told = [(one, maker) for one, maker in [*flow.given(node)][1:] if flow.op(node) == "index" or one.dtype == "bool"]
    are_known = all(one.dtype == "bool" and (maker is not None or one.argument) for one, maker in told)
    return [(maker, one.output, one.argument) for one, maker in told] if are_known else []


def stirs_places(flow: Flow, node: int, region: Region, channels: int) -> bool:
    """Whether a step lays rows of several places together, or others where one was: told by all axes but channels."""
    op, made, settings = flow.op(node), flow.output(node).shape, flow.steps[node].settings
    if is_linear(flow, node) or op in FINDINGS:
        return channels < 0 and reads_places(flow, node)
    if op in LAYING_OUT | TURNS | PLACING | WRITES:
        return False
    if op in PICKS and len(flow.steps[node].inputs) > 1:  # some rows alone, or all of them in another order
        return made == flow.steps[node].inputs[0].shape
    if op in PICKS:
        return takes_again(flow, node, region, channels)
    if op in SIDE_BY_SIDE:
        return lays_elsewhere(flow, node)
    if op in ORDERED:
        axes = [settings[name] for name in ("dims", "dim", "arg2", "other") if name in settings][:1]
        return axes not in ([channels], [channels + len(made)], [channels - len(made)])
    own = [one.shape for one, maker in flow.given(node) if maker in region.inner or maker == region.start]
    alike = [one for one in own if len(one) == len(made)]
    return shifts_places(flow, node) or any(list_places(one, channels) != list_places(made, channels) for one in alike)


def list_places(shape: tuple[int, ...], channels: int) -> tuple[int, ...]:
    """How many places there are along each axis of rows, or of maps whose channels are the second one."""
    return shape[:-1] if channels < 0 else shape[2:]


def takes_again(flow: Flow, node: int, region: Region, channels: int) -> bool:
    """Whether a step takes some places of rows of which others of a branch take these, too, or all."""
    rows, made, maker = flow.steps[node].inputs[0].shape, flow.output(node).shape, flow.makers[node][0]
    is_of_places = len(rows) > 2 and len(made) > 1 and rows[channels] == made[channels] and prod(made) < prod(rows)
    if maker is None or not is_of_places:
        return False
    readers = region.inner.intersection(flow.leaf_readers(maker))
    taken = [prod(flow.output(one).shape if flow.op(one) in PICKS else rows) for one in readers]
    return sum(taken) > prod(rows)


def lays_elsewhere(flow: Flow, node: int) -> bool:
    """Whether a step puts some rows of each sequence, cut from the others, where others of it were."""
    offset = 0
    for record, maker in flow.given(node):
        cut = None if maker is None else CUT_ROWS.fullmatch(str(flow.steps[maker].settings.get("index", "")))
        is_along = len(record.shape) > 2 and record.shape[-1] == flow.output(node).shape[-1]
        if cut is not None and is_along and int(cut[1] or 0) not in (offset, offset - flow.output(node).shape[1]):
            return True
        offset += record.shape[1] if is_along else 0
    return False
