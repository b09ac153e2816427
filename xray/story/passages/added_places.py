"""Places that are added to rows: learned ones, ones from a table that is not, be it through a gate."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    COUNTING,
    CURVES,
    FINDINGS,
    GRIDS,
    LOOKUPS,
    PLACING,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
    WAVES,
)
from xray.ir.flow.remembering import once, once_each
from xray.ir.records import TensorRecord
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.entrance.tables import MOST, MOST_BESIDE, MOVING, PICKING, judge_training
from xray.story.passages.channels import adds_to_itself, find_channels, tells_places
from xray.story.recognition.addends import FILLINGS
from xray.story.recognition.between import is_linear, is_scale, list_reading_data
from xray.story.recognition.values.known_values import values_of

ADDED_UP = "ADDED UP"
"""What a sum is called of which nothing more is known; where more is, these words make room for it."""
OF_SINES = "OF SINES"
PUTTING = PLACING | FILLINGS | {"mul", "div", "detach", "copy_"}
"""What a table goes through besides: its rows are laid into others, be they resized for each image (SigLIP 2)."""
PICTURE = len(("batch", "channels", "height", "width"))
NAMELESS = TensorRecord("", (), (), "", "", "activation")
"""Stands for places that are worked out, and picked from no table."""


def describe_sum(flow: Flow, node: int, nodes: Collection[int], stream: int | None = None) -> Iterator[EntrancePart]:
    """The places that are added: learned ones, or ones from a table that is not. One row for all tells no places.

    Nor do rows for an axis behind that of the places, as a learned weight for each of several streams: alike for all.

    `stream` made what they are added to, which may be learned rows itself (the queries of Grounding DINO).
    """
    shape = flow.output(node).shape
    if len(flow.steps[node].inputs) < 2 or adds_to_picture(flow, node):
        return
    for record, maker in flow.given(node):
        if len(record.shape) < 2 or record.shape[-1] != shape[-1]:
            continue
        if stream is not None and stream in (maker, flow.carried_from(maker)):
            continue
        source = source_beside(flow, record, maker)
        if source is not None and (
            find_row_for_all(flow, node, maker) is not None
            or not tells_places(flow, node, record, maker)
            or adds_to_itself(flow, node, [learned_source(flow, *one) for one in flow.given(node)], source.weight)
        ):
            continue
        if source is not None:
            learned = judge_training(flow, source.trained, nodes) if source.role == "parameter" else False
            axis = find_channels(flow, node)
            wide = shape[-1 if axis is None else axis]
            held = wide if wide in source.shape else next(iter(source.shape[-1:]), 0)
            is_map = len(source.shape) == len(("batch", "channels", "height", "width"))
            has_rows = len(source.shape) >= 2 and held and not (is_map and axis is None)  # what is worked out has none
            rows = prod(source.shape) // held if has_rows else None
            if rows != 1 and not (
                len(source.shape) > len(("rows", "width")) and prod(source.shape) == max(source.shape)
            ):
                yield EntrancePart("positions", rows, learned=learned, sines=reads_sines(flow, node, maker) or None)
            return


def name_beside(flow: Flow, node: int, part: EntrancePart, word: int | None, nodes: Collection[int]) -> EntrancePart:
    """A part of an entrance, marked where a sum gives places to rows that are put among those of words, and not added.

    What a sum makes is followed on to where it meets what the words are made into.
    """
    if part.part != "positions" or word is None:
        return part
    own, worded = (set(flow.ahead(one, within=nodes.__contains__)) for one in (node, word))
    meeting = min(own & worded, default=None)
    is_beside = node not in worded and meeting is not None and flow.op(meeting) in PLACING | SIDE_BY_SIDE
    return replace(part, beside=is_beside)


def name_addition(flow: Flow, node: int, stream: int | None) -> str:
    """What a sum is called that makes the rows of queries or keys: by the places that it adds to a stream, if any.

    Or by learned rows that go through a linear layer of its own first (the queries of Conditional DETR), or by linear
    layers that read sines (of boxes in LW-DETR).
    """
    places = label_places(flow, node, stream)
    if places:
        return places
    found = (find_projected_rows(flow, maker, stream) for maker in flow.makers[node])
    rows = next((one.shape[-2] for one in found if one is not None), 1)
    layers = sum(is_linear(flow, one) for one in list_of_sines(flow, node, stream))
    if rows == 1 and layers:
        return f"+ {f'{layers} LINEAR LAYERS' if layers > 1 else 'LINEAR'} {OF_SINES}"
    return f"+ LINEAR OF {rows:,} LEARNED ROWS" if rows > 1 else ADDED_UP


def list_of_sines(flow: Flow, node: int, stream: int | None) -> tuple[int, ...]:
    """The linear layers, the last one first, that make of sines what a sum adds to a stream; none where none do."""
    if label_places(flow, node, stream):
        return ()
    return max((find_of_sines(flow, maker) for maker in flow.makers[node] if maker != stream), key=len, default=())


def find_of_sines(flow: Flow, maker: int | None) -> tuple[int, ...]:
    """The linear layers, be they bent, that sines and cosines laid side by side go through; none for all else."""
    layers, here = list[int](), flow.carried_from(maker)
    while here is not None and is_linear(flow, here):
        layers.append(here)
        here = flow.carried_from(flow.makers[here][0], CARRYING | CURVES)
    laid = CARRYING | SIDE_BY_SIDE | {"stack"}
    way = flow.behind(here, most=MOST_BESIDE, ends=lambda one: flow.op(one) not in laid)
    made = {flow.op(one) for one in way} - laid
    return tuple(layers) if made == {"sin", "cos"} else ()


def label_places(flow: Flow, node: int, stream: int | None = None) -> str:
    """What a sum is called that adds places; "" for any other step."""
    places = next(describe_sum(flow, node, (), stream), None) if flow.op(node) in SUMS else None
    return "" if places is None else f"+ {name_places(places)}"


def name_places(places: EntrancePart) -> str:
    """What places are called in a box: sines, where these are known, else learned ones."""
    return "SINES OF PLACES" if places.sines else f"{'LEARNED ' * bool(places.learned)}PLACES"


def find_row_for_all(flow: Flow, node: int, maker: int | None) -> tuple[int, int] | None:
    """Which row of a table is picked for every place that a sum adds to, and of how many; None where it is not one.

    So an image picks that of no frame among rows for the frames of a video (Kimi K2.5), and a turn of layers its own
    (Universal Transformers).
    """
    pick = flow.carried_from(maker, (CARRYING | REPEATS) - PICKING)
    given = list(flow.given(pick)) if pick is not None and flow.op(pick) in PICKING else []
    if pick is None or not given or prod(given[0][0].shape[:-2]) != 1 or len(given[0][0].shape) < 2:
        return None
    table, rows = given[0][0].shape, given[0][0].shape[-2]
    if len(given) == 1:
        parts = str(flow.steps[pick].settings.get("index", "")).split(", ")
        row = (parts[len(table) - 2 :] or [""])[0]
        is_row = row.removeprefix("-").isdecimal() and flow.output(node).shape[-2:-1] > (1,)
        return (int(row) % rows, rows) if is_row and "..." not in parts and "None" not in parts else None
    if len(given) != len(("table", "ids")) or len(table) != 2 or given[1][0].role != "ids":
        return None
    numbers = values_of(flow, given[1][1])
    if numbers is None or numbers.size < 2 or not (numbers == numbers.flat[0]).all():
        return None
    return int(numbers.flat[0]), rows


def label_row_for_all(flow: Flow, node: int) -> str:
    """What a sum is called that adds one and the same row of a table to all rows; "" for any other step."""
    found = [find_row_for_all(flow, node, maker) for maker in flow.makers[node]] if flow.op(node) in SUMS else []
    row, rows = next((one for one in found if one is not None), (0, 0))
    return f"+ ROW {row:,} OF A TABLE OF {rows:,} ROWS" if rows else ""


def reads_sines(flow: Flow, node: int, maker: int | None) -> bool:
    """Whether what a step adds is sines: of a table that it reads or one that moved it, or worked out of places."""
    ways = flow.behind(maker, most=MOST_BESIDE, within=lambda one: flow.op(one) in MOVING | PICKING | PUTTING | LOOKUPS)
    is_held = any(flow.steps[one].settings.get("sines") is True for one in (node, *ways))
    return is_held or works_out_sines(flow, maker)


def works_out_sines(flow: Flow, maker: int | None) -> bool:
    """Whether rows are sines and cosines, laid side by side, of what was counted out, and of no data (DETR)."""
    if maker is None:
        return False
    laid = {*flow.behind(maker, within=lambda one: flow.op(one) in MOVING | PICKING | PUTTING)}
    begins = {one for node in laid for one in flow.makers[node] if one is not None and flow.output(one).is_float} - laid
    waves = {one for one in begins or {maker} if flow.op(one) in WAVES}
    if {flow.op(one) for one in waves} != WAVES or any(flow.op(one) not in FILLINGS for one in begins - waves):
        return False
    behind = [*flow.behind(*waves)]
    given = [record for one in (*laid, *behind) for record, before in flow.given(one) if before is None]
    is_counted = any(flow.op(one) in COUNTING for one in behind)
    is_for_all = len(flow.output(maker).shape) > 2 and flow.output(maker).shape[-2] == 1  # times of noise, say
    is_of_data = any(one.role == "parameter" or (one.is_float and is_given(flow, one)) for one in given)
    return is_counted and not is_for_all and not is_of_data


def find_projected_rows(flow: Flow, maker: int | None, stream: int | None = None) -> TensorRecord | None:
    """The learned rows that a linear layer reads, moved at most; None where it reads anything else, or the stream."""
    linear = flow.carried_from(maker)
    if linear is None or not is_linear(flow, linear):
        return None
    record, before = next(flow.given(linear))
    if stream is not None and stream in (before, flow.carried_from(before)):
        return None
    source = learned_source(flow, record, before)
    return source if source is not None and len(source.shape) > 1 else None


def list_layouts(flow: Flow, nodes: Collection[int]) -> Iterator[int]:
    """The steps outside of some that lay out learned places which these add: once for all layers (DETR's queries).

    So are those that lay out learned rows for a linear layer among these.
    """
    for node in nodes:
        yield from (one for one in follow_layout(flow, node) if one not in nodes)


@once_each
def follow_layout(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that lay out what a step adds, if that is learned places, or reads, if that is learned rows."""
    places = next(describe_sum(flow, node, ()), None) if flow.op(node) in SUMS else None
    is_laid = (places is not None and places.learned) or find_projected_rows(flow, node) is not None
    found: list[int] = []
    for record, maker in flow.given(node) if is_laid else ():
        source = learned_source(flow, record, maker)
        while source is not None and maker is not None:
            found.append(maker)
            maker = next((before for one, before in flow.given(maker) if one.role != "ids"), None)
    return tuple(found)


def adds_to_picture(flow: Flow, node: int) -> bool:
    """Whether a step adds learned numbers to a picture as it comes in, a frame around it, say: no places (TVP)."""
    if flow.op(node) not in SUMS or len(flow.output(node).shape) < PICTURE or node not in list_reading_data(flow):
        return False
    sources = [source_beside(flow, record, maker) for record, maker in flow.given(node)]
    is_learned = any(source is not None and source.role == "parameter" for source in sources)
    return is_learned and not any(
        flow.op(one) in FINDINGS | LOOKUPS or is_linear(flow, one) for one in flow.behind(node, most=MOST)
    )


def source_beside(flow: Flow, record: TensorRecord, maker: int | None) -> TensorRecord | None:
    """The table of places that something is picked from: learned, or there from the beginning; None if it is data."""
    seen: set[int] = set()
    todo = [(record, maker)]
    source: TensorRecord | None = None
    is_made = False
    while todo and len(seen) < MOST_BESIDE:
        record, maker = todo.pop()
        if maker is None:
            if record.is_float and len(record.shape) >= 2 and record.role in ("parameter", "activation"):
                source = record if source is None or record.role == "parameter" else source
            continue
        if maker in seen:
            continue
        seen.add(maker)
        if flow.op(maker) in WAVES or makes_places(flow, maker):
            if tells_of_data(flow, maker):
                return None
            is_made = True  # what it is multiplied by or laid beside must be no data: else rows are turned by it
            continue
        if flow.op(maker) not in MOVING | PICKING | PUTTING | GRIDS:
            return None
        given = list(flow.taken(maker))[: 1 if flow.op(maker) in GRIDS else None]  # where it picks is no table
        todo += [(one, before) for one, before in given if one.is_float and prod(one.shape) > 1]
    if is_made:
        return NAMELESS
    if source is not None and source.role == "activation":
        is_data = is_given(flow, source) if seen else not is_held(flow, source)
        return None if is_data else source
    return source


def tells_of_data(flow: Flow, wave: int) -> bool:
    """Whether a wave is of numbers that come in, or of rows that are looked up: of times, say, and of no places.

    Whole numbers that come in may be places; those that are called otherwise are none, where they are not counted.
    """
    behind = [wave, *flow.behind(wave)]
    is_counted = any(flow.op(node) == "cumsum" or flow.output(node).dtype == "bool" for node in behind)
    given = [record for node in behind for record, before in flow.given(node) if before is None and not is_counted]
    is_of_others = any(one.argument and not one.is_float and "pos" not in one.argument.lower() for one in given)
    return is_of_others or any(
        flow.op(node) in LOOKUPS or (before is None and record.is_float and is_given(flow, record))
        for node in behind
        for record, before in flow.given(node)
    )


def list_laid(flow: Flow, node: int, nodes: Collection[int]) -> tuple[int, ...]:
    """A sum with the steps that lay the places which it adds into rows, pick them between others, or scale them."""
    for record, maker in flow.given(node):
        if len(record.shape) > 1 and source_beside(flow, record, maker) is not None:
            laid = sorted(flow.behind(maker, within=nodes.__contains__))
            is_laid = adds_to_picture(flow, node) or any(
                flow.op(one) in PLACING | GRIDS or is_scale(flow, one) for one in laid
            )
            return (*laid, node) if is_laid else ()
    return ()


def is_gated(flow: Flow, node: int) -> bool:
    """Whether what a step adds was multiplied by a single number that is learned, or worked out of such (mllama)."""
    for maker in map(flow.carried_from, flow.makers[node]):
        given = list(flow.given(maker)) if maker is not None and flow.op(maker) in SCALINGS else []
        for record, before in given if len(given) > 1 else ():
            if prod(record.shape) == 1 and any(
                one.role == "parameter" for step in flow.behind(before, most=4) for one in flow.steps[step].inputs
            ):
                return True
    return False


def is_held(flow: Flow, record: TensorRecord) -> bool:
    """Whether a table is one that the model holds: the same rows for every sequence, and no argument has its shape."""
    batch = {shape[0] for shape in list_given(flow) if len(shape) > 1}
    is_once = len(record.shape) == 3 and record.shape[0] == 1 and 1 not in batch
    is_rows = len(record.shape) == 2 and record.shape[0] not in {1, *batch}
    return (is_once or is_rows) and not is_given(flow, record)


def is_given(flow: Flow, record: TensorRecord) -> bool:
    """Whether an argument of the model has the shape of a tensor, which may then be that argument."""
    return record.shape in list_given(flow)


@once
def list_given(flow: Flow) -> frozenset[tuple[int, ...]]:
    """The shapes of what the model is given."""
    return frozenset(one.shape for one in flow.one_pass.arguments)


def makes_places(flow: Flow, node: int) -> bool:
    """Whether a step makes rows out of how many ids there are, the same ones for every sequence, without parameters."""
    step = flow.steps[node]
    shape = flow.output(node).shape
    return (
        flow.is_leaf(node)
        and not step.params
        and bool(step.inputs)
        and not any(record.is_float or record.role == "parameter" for record in step.inputs)
        and (len(shape) == 2 or (len(shape) == 3 and shape[0] == 1))
    )


def learned_source(
    flow: Flow, record: TensorRecord, maker: int | None, over: Collection[str] = MOVING - SIDE_BY_SIDE
) -> TensorRecord | None:
    """The parameter that a tensor is, moved, repeated or resized at most by such operations; None if it is none."""
    while record.role != "parameter" and maker is not None and (flow.op(maker) in over or takes_alike(flow, maker)):
        if not flow.makers[maker]:
            return None
        record, maker = next(flow.given(maker))
    return record if record.role == "parameter" else None


def takes_alike(flow: Flow, node: int) -> bool:
    """Whether a step picks among rows that are one row, repeated, or puts nothing beside them (V-JEPA 2)."""
    if flow.op(node) in SIDE_BY_SIDE:
        return len(flow.steps[node].inputs) == 1
    repeated = flow.makers[node][0] if flow.op(node) == "gather" else None
    if repeated is None or flow.op(repeated) not in REPEATS:
        return False
    axis, before = flow.steps[node].settings.get("dim"), flow.steps[repeated].inputs[0].shape
    return isinstance(axis, int) and len(before) == len(flow.output(node).shape) and before[axis] == 1


def count_learned(flow: Flow, node: int) -> int:
    """How many learned rows a step gives each sequence: as many as are held, be it that sequences come second."""
    made, held = flow.output(node), learned_source(flow, flow.output(node), node)
    rows = 0 if held is None else prod(held.shape[:-1])
    return rows if rows in made.shape[:-1] else made.shape[-2] // count_repeats(flow, node)


def count_repeats(flow: Flow, node: int) -> int:
    """How often each of some learned rows stands among those of a sequence, where they are laid out and repeated."""
    made, held = flow.output(node), learned_source(flow, flow.output(node), node, CARRYING | REPEATS)
    rows = 0 if held is None else prod(held.shape[:-1])
    given = [(flow.output(one), next(flow.given(one), None)) for one in flow.behind(node)]
    is_cut = any(one is not None and prod(made.shape) < prod(one[0].shape) for made, one in given)
    if held is None or not rows or is_cut or rows in made.shape[:-1] or held.shape[-1] != made.shape[-1]:
        return 1
    times, rest = divmod(made.shape[-2], rows)
    return times if times and not rest else 1


def list_weighed(flow: Flow, node: int, nodes: Collection[int]) -> tuple[int, ...]:
    """The steps that weigh several rows which each place looked up, and add them up: places between those of a table.

    The last of them is the sum; empty where a step is no such one.
    """
    before, after = next((one.shape for one in flow.steps[node].inputs), ()), flow.output(node).shape
    weighed = next(iter(flow.makers[node]), None)
    if flow.op(node) != "sum" or weighed is None or flow.op(weighed) not in SCALINGS or len(before) != len(after) + 1:
        return ()
    looked_up = [maker for maker in map(flow.carried_from, flow.makers[weighed]) if maker is not None]
    if before[-1:] != after[-1:] or not any(flow.op(maker) in LOOKUPS for maker in looked_up):
        return ()
    weights = [maker for record, maker in flow.given(weighed) if record.shape == (*before[:-1], 1)]
    if len(weights) != 1:
        return ()
    return (*sorted(flow.behind(*weights, within=nodes.__contains__)), weighed, node)
