"""Places that are added to rows: learned ones, ones from a table that is not, be it through a gate."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    COUNTING,
    CURVES,
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
from xray.story.entrance.tables import (
    MOST_BESIDE,
    MOVING,
    PICKING,
    judge_training,
    name_home,
    names_others,
    picks_each,
    says_places,
)
from xray.story.passages.channels import find_channels, tells_places
from xray.story.recognition.addends import FILLINGS
from xray.story.recognition.between import is_linear, is_scale

ADDED_UP = "ADDED UP"
"""What a sum is called of which nothing more is known; where more is, these words make room for it."""
OF_SINES = "OF SINES"
PUTTING = PLACING | FILLINGS | {"mul", "div", "detach", "copy_"}
"""What a table goes through besides: its rows are laid into others, be they resized for each image (SigLIP 2)."""
PICTURE = len(("batch", "channels", "height", "width"))
NAMELESS = TensorRecord("", (), (), "", "", "activation")
"""Stands for places that are worked out, and picked from no table."""


def describe_sum(flow: Flow, node: int, nodes: Collection[int], stream: int | None = None) -> Iterator[EntrancePart]:
    """The places that are added: rows made of no data, one for each place, that are called places, or are waves.

    One row for all tells no places. Nor do rows for an axis behind that of the places, as a learned weight for each of
    several streams: alike for all.

    `stream` made what they are added to, which may be learned rows itself (the queries of Grounding DINO).
    """
    shape = flow.output(node).shape
    for record, maker in flow.given(node) if len(flow.steps[node].inputs) > 1 else ():
        if len(record.shape) < 2 or record.shape[-1:] != shape[-1:]:
            continue
        if stream is not None and stream in (maker, flow.carried_from(maker)):
            continue
        source = source_beside(flow, record, maker)
        sines = source is not None and reads_sines(flow, node, maker)
        if (
            source is None
            or not (sines or works_out_waves(flow, maker, source) or is_called_places(flow, node, maker, source))
            or not tells_places(flow, node, record, maker)
        ):
            continue
        learned = judge_training(flow, source.trained, nodes) if source.role == "parameter" else False
        yield EntrancePart("positions", count_held(flow, node, source), learned=learned, sines=sines or None)
        return


def works_out_waves(flow: Flow, maker: int | None, source: TensorRecord) -> bool:
    """Whether rows that are picked from no table are waves of numbers that were counted out."""
    behind = {flow.op(one) for one in flow.behind(maker)} if source is NAMELESS else set()
    return not behind.isdisjoint(COUNTING) and not behind.isdisjoint(WAVES)


def is_called_places(flow: Flow, node: int, maker: int | None, source: TensorRecord) -> bool:
    """Whether the name of a table, or that of a module in which its rows are made or added, says places."""
    if source.weight is not None and names_others(source.weight):
        return False
    ways = flow.behind(maker, most=MOST_BESIDE, within=lambda one: flow.op(one) in MOVING | PICKING | PUTTING | GRIDS)
    made = "" if maker is None else flow.op(maker)
    return says_places(source.weight or "", made, *(name for one in (node, *ways) for name in name_home(flow, one)))


def count_held(flow: Flow, node: int, source: TensorRecord) -> int | None:
    """How many rows a table of places has; None where that is not known."""
    axis = find_channels(flow, node)
    wide = flow.output(node).shape[-1 if axis is None else axis]
    held = wide if wide in source.shape else next(iter(source.shape[-1:]), 0)
    is_map = len(source.shape) == PICTURE
    has_rows = len(source.shape) >= 2 and held and not (is_map and axis is None)  # what is worked out has none
    return prod(source.shape) // held if has_rows else None


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

    Or by learned rows, which may go through a linear layer of its own first (the queries of Conditional DETR), or by
    linear layers that read sines (of boxes in LW-DETR).
    """
    places = label_places(flow, node, stream)
    if places:
        return places
    layers = sum(is_linear(flow, one) for one in list_of_sines(flow, node, stream))
    if layers:
        return f"+ {f'{layers} LINEAR LAYERS' if layers > 1 else 'LINEAR'} {OF_SINES}"
    found = (find_learned_rows(flow, *one, stream) for one in flow.given(node))
    return next((f"+ {'LINEAR OF ' * is_led}{rows:,} LEARNED ROWS" for rows, is_led in found if rows > 1), ADDED_UP)


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


def reads_sines(flow: Flow, node: int, maker: int | None) -> bool:
    """Whether what a step adds is sines: of a table that it reads or one that moved it, or worked out of places.

    Rows of a table that are picked by other numbers than such as were counted out are of something else.
    """
    ways = [*flow.behind(maker, most=MOST_BESIDE, within=lambda one: flow.op(one) in MOVING | PICKING | PUTTING)]
    is_held = any(flow.steps[one].settings.get("sines") is True for one in (node, *ways))
    picks = (one for one in ways if flow.op(one) in PICKING and not all(had.is_float for had in flow.steps[one].inputs))
    return works_out_sines(flow, maker) or (is_held and all(picks_each(flow, one) for one in picks))


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
    given = [record for one in (*laid, *behind) for record, before in flow.taken(one) if before is None]
    is_counted = any(flow.op(one) in COUNTING for one in behind)
    is_for_all = len(flow.output(maker).shape) > 2 and flow.output(maker).shape[-2] == 1  # times of noise, say
    is_of_data = any(one.role == "parameter" or (one.is_float and is_given(flow, one)) for one in given)
    return is_counted and not is_for_all and not is_of_data


def find_learned_rows(
    flow: Flow, record: TensorRecord, maker: int | None, stream: int | None = None
) -> tuple[int, bool]:
    """How many learned rows a tensor is, moved at most, and whether a linear layer reads them first; 0 for the stream.

    Or for one that is anything else.
    """
    linear = flow.carried_from(maker)
    is_led = linear is not None and is_linear(flow, linear)
    if linear is not None and is_led:
        record, maker = next(flow.given(linear))
    if stream is not None and stream in flow.behind(maker, ends=lambda one: flow.op(one) not in MOVING):
        return 0, is_led
    source = learned_source(flow, record, maker)
    is_whole = source is not None and source.shape[-1:] == record.shape[-1:]
    return (prod(source.shape[:-1]) if source is not None and is_whole else 0), is_led


def adds_held(flow: Flow, node: int) -> bool:
    """Whether a step adds rows that a model holds and that are no parameter: of places, or of anything else."""
    sources = (source_beside(flow, *one) for one in flow.given(node))
    return any(one is not None and one.role == "activation" for one in sources)


def list_layouts(flow: Flow, nodes: Collection[int]) -> Iterator[int]:
    """The steps outside of some that lay out learned rows which these add: once for all layers (DETR's queries).

    So are those that lay out learned rows for a linear layer among these.
    """
    for node in nodes:
        yield from (one for one in follow_layout(flow, node) if one not in nodes)


@once_each
def follow_layout(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that lay out learned rows which a step adds, or which it reads as a linear layer."""
    found: list[int] = []
    for record, maker in flow.given(node) if flow.op(node) in SUMS or is_linear(flow, node) else ():
        source = learned_source(flow, record, maker)
        while source is not None and maker is not None:
            found.append(maker)
            maker = next((before for one, before in flow.given(maker) if one.role != "ids"), None)
    return tuple(found)


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
    given = [record for node in behind for record, before in flow.taken(node) if before is None and not is_counted]
    is_of_others = any(one.argument and not one.is_float and "pos" not in one.argument.lower() for one in given)
    return is_of_others or any(
        flow.op(node) in LOOKUPS or (before is None and record.is_float and is_given(flow, record))
        for node in behind
        for record, before in flow.taken(node)
    )


def list_laid(flow: Flow, node: int, nodes: Collection[int]) -> tuple[int, ...]:
    """A sum with the steps that lay the places which it adds into rows, pick them between others, or scale them."""
    for record, maker in flow.given(node):
        if len(record.shape) > 1 and source_beside(flow, record, maker) is not None:
            laid = sorted(flow.behind(maker, within=nodes.__contains__))
            is_laid = any(flow.op(one) in PLACING | GRIDS or is_scale(flow, one) for one in laid)
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
    if rows := count_whole(flow, node):
        return rows
    made, held = flow.output(node), learned_source(flow, flow.output(node), node)
    rows = 0 if held is None else prod(held.shape[:-1])
    return rows if rows in made.shape[:-1] else made.shape[-2]


def count_whole(flow: Flow, node: int) -> int:
    """How many learned rows are held, be they a map, where a step gives all, laid out and repeated at most; else 0."""
    made, held = flow.output(node), learned_source(flow, flow.output(node), node, CARRYING | REPEATS)
    given = [(flow.output(one), next(flow.given(one), None)) for one in flow.behind(node)]
    is_cut = any(one is not None and prod(made.shape) < prod(one[0].shape) for made, one in given)
    if held is None or is_cut or held.shape[-1] != made.shape[-1]:
        return 0
    return prod(held.shape) // made.shape[made.axes.index("d_model") if "d_model" in made.axes else -1]


def count_repeats(flow: Flow, node: int) -> int:
    """How often each of some learned rows stands among those of a sequence, where they are laid out and repeated."""
    made, rows = flow.output(node).shape, count_whole(flow, node)
    if not rows or rows in made[:-1]:
        return 1
    times, rest = divmod(made[-2], rows)
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
