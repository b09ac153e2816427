"""What boxes of an entrance read besides what a tower reads first: other arguments, and learned rows."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CHANCE,
    DIFFERENCES,
    DIVISIONS,
    FINDINGS,
    LOOKUPS,
    NORMS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    WAVES,
)
from xray.ir.flow.projections import data_input
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.charts.chart import Chart, Edge, Node, name_learned
from xray.story.charts.steps.noise import find_made, find_noise_sum
from xray.story.entrance.inputs import (
    count_arguments,
    is_named_picture,
    may_be_same,
    name_argument,
)
from xray.story.entrance.shared_ids import are_made_whole, asks_for_sums, find_given_rows
from xray.story.entrance.tables import holds_sines
from xray.story.passages.channels import widens_rows
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.chosen_rows import list_mixed, mixes
from xray.story.wording import plural

VECTORS, IDS, NUMBERS, PICTURE, IMAGE, MAPS = "VECTORS", "IDS", "NUMBERS", "INPUT", "IMAGE", ("MAP", "VIDEO")
BY_CHANCE = "DRAWN BY CHANCE"
WHOLE = CARRYING | frozenset({"index_select", "long", "int"})
LAYING = CARRYING | REPEATS | SIDE_BY_SIDE
"""What cuts ids out of other numbers, and makes them whole, and what lays what came in beside other such tensors."""
MOST_BESIDE, MOST_BEHIND = 4, 40  # boxes side by side at the foot; steps behind a lookup among which its ids are found


def add_others(flow: Flow, chart: Chart) -> Chart:
    """The chart with what else comes in below boxes to which nothing leads yet."""
    given = [node for node in chart.nodes if node.row == 0 and (node.key in chart.feet or node.key.startswith("given"))]
    led = {edge.target for edge in chart.edges} | {*chart.feet, *chart.memory, *(node.key for node in given)}
    bare = [node for node in chart.nodes if node.key not in led and not looks_up_sines(flow, node)]
    edges = [*lead_to_lookups(flow, given, bare)]
    found = [(node, *one) for node in bare if (one := read_besides(flow, node)) is not None]
    kinds = (PICTURE, SIDE_BY_SIDE), (VECTORS, DIFFERENCES | DIVISIONS)
    joining = ((node, *kind) for kind in kinds for node in chart.nodes if node.row)
    mixing = [one for one in chart.nodes if one.row and mixes(flow, [flow.places[step.id] for step in one.steps])]
    reading = ((node, NUMBERS, WAVES | SCALINGS) for node in (*bare, *mixing))
    found += [
        (node, record, label)
        for node, label, ops in (*joining, *reading)
        for record in list_joined(flow, chart, node, ops)
    ]
    alike = Counter(record.shape for _, record, label in found if label == VECTORS)
    others: dict[str, Node] = {}
    for node, record, label in found:
        told = plural(prod(record.shape), "parameter") if record.role == "parameter" else ""
        # whoever reads the like of an argument that is the only one reads the same
        is_one = label in (VECTORS, IDS, NUMBERS, PICTURE, IMAGE) and count_arguments(flow, record) == 1
        if label == VECTORS and not is_one and alike[record.shape] > 1:
            continue
        same = next((one for one in given if is_one and has_shape(flow, one, record)), None)
        if same is None:
            key = record.argument or str(record.shape) if is_one else record.weight or record.source or node.key
            joined = tell_joined(flow, flow.places[node.steps[0].id], record) if label == PICTURE else ()
            beside = sum(one.key.rstrip("_") == f"also{node.key}" for one in others.values())
            box = Node(f"also{node.key}{'_' * beside}", label, 0, node.place, node.steps[:1], record, told, told=joined)
            same = others.setdefault(key, box)
        edges += [one for one in [Edge(same.key, node.key)] if one not in (*edges, *chart.edges)]
    edges += [edge for edge in lead_to_products(flow, chart, others.values()) if edge not in edges]
    edges += lead_to_noise(flow, chart, others.values())
    too_many = len(others) + len(given) > MOST_BESIDE
    if not others or not given or too_many or any(node.row == 0 and node not in given for node in chart.nodes):
        kept = [edge for edge in edges if not edge.source.startswith("also")]
        return Chart(chart.nodes, (*chart.edges, *kept), chart.feet, chart.head, chart.memory)
    row = sorted((*given, *others.values()), key=lambda node: node.place[0])
    laid = {node.key: ((at + 0.5) / len(row), 0.94 / len(row)) for at, node in enumerate(row)}
    nodes = name_inputs(flow, (*chart.nodes, *others.values()))
    placed = tuple(node if node.key not in laid else replace(node, place=laid[node.key]) for node in nodes)
    return Chart(placed, (*edges, *chart.edges), chart.feet, chart.head, chart.memory)


def looks_up_sines(flow: Flow, node: Node) -> bool:
    """Whether a box looks up in a table of sines: places that were counted may ask for these, with nothing recorded."""
    return any(holds_sines(flow, flow.places[step.id]) for step in node.steps)


def lead_to_lookups(flow: Flow, below: list[Node], bare: list[Node]) -> Iterator[Edge]:
    """The arrows from what comes in to lookups of ids that are numbers of it, or are worked out of it.

    So are a patch's row and column cut out of it (Kosmos-2.5), and places counted past the padding (RoBERTa). Ids among
    which others were put are known by those that came in (CPM-Ant).
    """
    within = [
        None if one.record is None else find_behind_others(flow, flow.places[one.steps[0].id], one.record)
        for one in below
    ]
    for node in bare:
        asked = [record for step in node.steps for record in list_asked(flow, flow.places[step.id], node.key)]
        for one, own in zip(below, within, strict=True):
            if any(has_shape(flow, one, record) or is_like(flow, own, record) for record in asked):
                yield Edge(one.key, node.key)


def has_shape(flow: Flow, node: Node, record: TensorRecord) -> bool:
    """Whether a box shows a tensor that came in, of the same shape, as far as can be told."""
    return is_like(flow, node.record, record)


def is_like(flow: Flow, one: TensorRecord | None, other: TensorRecord) -> bool:
    """Whether a tensor that came in is known, and is another one as far as can be told: by argument, shape and role."""
    return one is not None and (one.shape, one.role) == (other.shape, other.role) and may_be_same(flow, one, other)


def find_behind_others(flow: Flow, reader: int, record: TensorRecord) -> TensorRecord | None:
    """The ids that came in, of those that a step reads: the last of each row, behind others that no data made.

    None where not so.
    """
    maker = next((maker for one, maker in flow.given(reader) if one is record), None)
    joined = flow.carried_from(maker)
    given = [] if joined is None or flow.op(joined) not in SIDE_BY_SIDE else list(flow.given(joined))
    if record.role != "ids" or len(given) != 2 or given[0][1] is None:
        return None
    (others, counted), (own, here) = given
    own, here = flow.before_moves(own, here, WHOLE)
    is_whole = (*own.shape[:-1], own.shape[-1] + others.shape[-1]) == record.shape if own.shape else False
    is_made = counted not in list_reading_data(flow) and len(own.shape) > 1
    return own if here is None and own.role == "ids" and is_whole and is_made else None


def list_asked(flow: Flow, lookup: int, key: str = "") -> list[TensorRecord]:
    """The arguments of the whole pass of which the ids that a step looks up were worked out, each by itself there."""
    if flow.op(lookup) not in LOOKUPS and key != "places":
        return []
    makers = (maker for _, maker in flow.taken(lookup))
    ways = flow.behind(
        *makers, most=MOST_BEHIND, within=lambda here: not flow.output(here).is_float or flow.op(here) in WHOLE
    )
    return [
        record
        for here in (lookup, *ways)
        for record, maker in flow.taken(here)
        if maker is None and record.role != "parameter" and record.shape and count_arguments(flow, record) == 1
    ]


def read_besides(flow: Flow, node: Node) -> tuple[TensorRecord, str] | None:
    """What a box works on that came in with the other arguments, or learned rows that it leads on, and what it is."""
    places = [flow.places[step.id] for step in node.steps]
    place = next((one for one in places if flow.op(one) in LOOKUPS), places[0])
    drawn = find_drawn_by_chance(flow, place)
    if drawn is not None:
        return flow.output(drawn), BY_CHANCE
    asked = {
        record.argument or record.shape: record
        for record in list_asked(flow, place)
        if record.role == "ids" and not looks_up_more(flow, place, record)
    }
    whole = find_given_rows(flow, place) if flow.op(place) in LOOKUPS and not asked else None
    if whole is not None and count_arguments(flow, whole) == 1:
        return whole, NUMBERS if are_made_whole(flow, place) else IDS
    if len(asked) == 1:
        return next(iter(asked.values())), NUMBERS if asks_for_sums(flow, place) else IDS
    if flow.op(place) in FINDINGS:
        record, maker = next(flow.given(place))
        is_given = record.argument is not None if maker is None else is_put_together(flow, maker)
        return (record, PICTURE) if is_given else None
    if not (is_linear(flow, place) or flow.op(place) in NORMS):
        return None
    record, maker = flow.before_moves(*list(flow.given(place))[data_input(flow, place) or 0], CARRYING | REPEATS)
    if maker is not None or not record.is_float or not record.shape:
        return None
    if record.role == "parameter":
        rows = prod(record.shape[:-1])
        return record, name_learned(rows)
    if len(record.shape) > len(("batch", "rows", "width")) or not count_arguments(flow, record):
        return None
    label = NUMBERS if len(record.shape) == 1 else VECTORS
    return record, IMAGE if is_named_picture(name_argument(flow, record)) else label


def lead_to_products(flow: Flow, chart: Chart, others: Iterable[Node]) -> Iterator[Edge]:
    """The arrows from what else comes in to boxes that multiply by it, or by 1 less it (TimesFM's padding)."""
    for node in chart.nodes:
        records = list(list_joined(flow, chart, node, SCALINGS)) if node.row else []
        yield from (
            Edge(one.key, node.key) for one in others if any(has_shape(flow, one, record) for record in records)
        )


def lead_to_noise(flow: Flow, chart: Chart, others: Iterable[Node]) -> Iterator[Edge]:
    """The arrows from numbers drawn by chance to boxes that say by them how much is noise, and how much rows (π0)."""
    drawn = [(one, find_made(flow, place)) for one in others if (place := find_drawn_place(flow, one)) is not None]
    for node in chart.nodes if drawn else ():
        blend = find_noise_sum(flow, flow.places[node.steps[0].id]) if node.steps else None
        yield from (Edge(one.key, node.key) for one, made in drawn if blend is not None and made == blend.share)


def find_drawn_place(flow: Flow, node: Node) -> int | None:
    """The step that makes the numbers, drawn by chance, that a box shows; None for any other box."""
    is_drawn = node.label == BY_CHANCE and bool(node.steps)
    return find_drawn_by_chance(flow, flow.places[node.steps[0].id]) if is_drawn else None


def name_inputs(flow: Flow, nodes: Iterable[Node]) -> Iterator[Node]:
    """Some boxes, with the names of the arguments that they show: ids beside the first ones, and inputs if several.

    Inputs have names only where each one's is known: else the one that has one would seem to be all that came in.
    """
    nodes = [*nodes]
    told = {
        node.key: name_argument(flow, node.record)
        for node in nodes
        if node.row == 0 and node.record is not None and node.record.source is None
        if node.label == PICTURE or (node.label in (IMAGE, *MAPS) and node.key.startswith("given"))
    }
    are_known = all(told.values()) and len(set(told.values())) == len(told) > 1
    told = (told if are_known else {}) | name_vectors(flow, nodes)
    for one in nodes:
        is_named = one.label in (IDS, NUMBERS) or (one.label == IMAGE and one.key.startswith("also"))
        name = name_argument(flow, one.record) if is_named and one.record is not None else ""
        yield replace(one, extra=one.extra or told.get(one.key, ""), told=(*one.told, *filter(None, [name])))


def name_vectors(flow: Flow, nodes: Iterable[Node]) -> dict[str, str]:
    """The names of arguments that are rows of numbers, by their boxes, where several such come in."""
    given = [node for node in nodes if node.row == 0 and node.label == VECTORS and node.record is not None]
    names = ((node.key, name_argument(flow, node.record)) for node in given if node.record is not None)
    return {key: name for key, name in names if name} if len(given) > 1 else {}


def name_in_common(flow: Flow, charts: Sequence[Chart | None]) -> list[Chart | None]:
    """The charts of several entrances, where an argument comes in at the foot of more than one with its name there.

    Two towers may hear one sound (VibeVoice ASR): without its name it would seem to be two.
    """
    named = [{} if chart is None else list_named(flow, chart) for chart in charts]
    many = Counter(name for one in named for name in {name for name, _ in one.values()})
    return [
        None if chart is None else replace(chart, nodes=tuple(tell_name(node, own, many) for node in chart.nodes))
        for chart, own in zip(charts, named, strict=True)
    ]


def list_named(flow: Flow, chart: Chart) -> dict[str, tuple[str, TensorRecord]]:
    """The boxes at the foot of an entrance in which an argument of known name comes in, each with that and how."""
    given = (node for node in chart.nodes if node.row == 0 and node.key.startswith(("given", "also")))
    own = ((node.key, find_argument(flow, node.record)) for node in given if node.record is not None)
    return {key: (name, found) for key, found in own if found is not None and (name := name_argument(flow, found))}


def find_argument(flow: Flow, record: TensorRecord) -> TensorRecord | None:
    """What came in from outside as a tensor, be it moved since, with all its numbers; None where one was made inside.

    A long sound may be cut into pieces first, and be no longer than one of them (VibeVoice ASR).
    """
    if record.source is not None and record.source not in flow.places:  # made by a step of an earlier pass
        return None
    found, here = record, None if record.source is None else flow.places[record.source]
    while here is not None:
        if flow.op(here) not in CARRYING or not flow.makers[here]:
            return None
        found, here = next(flow.given(here))
    is_whole = found.role != "parameter" and prod(found.shape) == prod(record.shape)
    return found if is_whole else None


def tell_name(node: Node, named: Mapping[str, tuple[str, TensorRecord]], many: Mapping[str, int]) -> Node:
    """A box with the name of what comes in there, where that comes in elsewhere too and the box does not tell yet.

    And with the shape that this is given in, where it is laid out otherwise before it is read (UnivNet).
    """
    name, given = named.get(node.key, ("", None))
    is_told = name in (node.extra, *node.told)
    if given is None or many.get(name, 0) < 2 or is_told:
        return node
    is_as_given = node.record is None or node.record.shape == given.shape
    laid = () if is_as_given else (f"given as {'×'.join(map(str, given.shape))}",)
    told = (*laid, *node.told, name) if node.extra else (*laid, *node.told)
    return replace(node, extra=node.extra or name, told=told)


def list_joined(flow: Flow, chart: Chart, node: Node, ops: Collection[str]) -> Iterator[TensorRecord]:
    """The arguments of the whole pass that a box brings to others, worked on in no box below and led in by none.

    So does whether a place is padded (TimesFM). What numbers are chosen by does not count, nor what something learned
    worked on (Swin-Unet's patches). Maps that a join in no box laid together come in each by itself (Cosmos).
    """
    works = list_mixed(flow, place := flow.places[node.steps[0].id])[:-1] or (place,)
    if any(flow.op(one) not in ops for one in works):
        return
    drawn = {flow.places[step.id] for one in chart.nodes if not one.key.startswith("given") for step in one.steps}
    for record, maker in (one for work in works for one in flow.taken(work)):
        ways = list(flow.behind(maker, most=MOST_BEHIND, within=lambda here: flow.output(here).dtype != "bool"))
        taken = [(record, maker), *(one for here in ways for one in flow.taken(here))]
        given = {
            (one.shape, one.role, one.argument): one
            for one, before in taken
            if before is None and one.shape and (one.role == "parameter" or count_arguments(flow, one))
        }
        is_raw = drawn.isdisjoint(ways) and not any(flow.steps[one].params for one in ways) and len(ways) < MOST_BEHIND
        is_laid = ops == SIDE_BY_SIDE and len(record.shape) > len(("batch", "rows", "width"))
        is_laid &= all(flow.op(one) in LAYING or not flow.makers[one] for one in ways)
        if (len(given) == 1 or is_laid) and is_raw:
            yield from (one for one in given.values() if one.role != "parameter" and count_arguments(flow, one) == 1)


def is_put_together(flow: Flow, maker: int) -> bool:
    """Whether a picture is nothing but others that came in, beside each other (SegGPT's painted ones)."""
    ways = list(flow.behind(maker, most=MOST_BEHIND))
    given = [record for here in ways for record, before in flow.given(here) if before is None]
    return all(flow.op(here) in CARRYING | SIDE_BY_SIDE for here in ways) and all(
        count_arguments(flow, record) for record in given
    )


def tell_joined(flow: Flow, reader: int, record: TensorRecord) -> tuple[str, ...]:
    """Of what given pieces rows of numbers were put together before anything reads them, all of one size (SegGPT).

    Where there is but one such argument, it was put beside itself.
    """
    maker = flow.carried_from(next((maker for one, maker in flow.given(reader) if one is record), None))
    if maker is None or flow.op(maker) not in SIDE_BY_SIDE or not record.is_float:
        return ()
    pieces = [(one, flow.carried_from(made)) for one, made in flow.given(maker)]
    kinds = {(one.shape, one.role, one.axes) for one, _ in pieces}
    are_given = all(made is None or (flow.op(made) in CARRYING and flow.makers[made] == (None,)) for _, made in pieces)
    if len(pieces) < 2 or len(kinds) != 1 or not are_given:
        return ()
    ((shape, role, _),) = kinds
    size, how = "×".join(map(str, shape)), "side by side" if widens_rows(flow, maker) else "put end to end"
    came_in = sum((one.shape, one.role) == (shape, role) for one in flow.one_pass.arguments)
    if came_in == 1:
        return (f"{size} {'twice' if len(pieces) == 2 else f'{len(pieces):,} times'}, {how}",)
    return (f"{len(pieces):,} of {size}, {how}",) if len(pieces) <= came_in else ()


def step_outside(
    flow: Flow, entrance: Collection[int], drawn: Collection[str], step: Step, record: TensorRecord, reader: int
) -> tuple[Step, TensorRecord, int]:
    """The same outside of all boxes: where one made what is read, the one tensor that the boxes begin with."""
    own = next((maker for one, maker in flow.given(reader) if one is record), None)
    behind = set(flow.behind(own, within=entrance.__contains__))
    if all(flow.steps[node].id not in drawn for node in behind):
        return step, record, reader
    outer = {
        one.source: (flow.steps[node], one, node)
        for node in sorted(behind, reverse=True)
        for one, maker in flow.taken(node)
        if maker not in entrance
        and one.role == "activation"
        and one.shape[:1] == record.shape[:1]
        and one.is_float == record.is_float
    }
    return next(iter(outer.values())) if len(outer) == 1 else (step, record, reader)


def step_past_join(
    flow: Flow, drawn: Collection[str], step: Step, record: TensorRecord, reader: int
) -> tuple[Step, TensorRecord, int]:
    """The same as it is read first, where what comes in is put end to end before, in no box."""
    reading = flow.leaf_readers(reader)
    is_joined = flow.op(reader) in SIDE_BY_SIDE and step.id not in drawn and len(reading) == 1
    if not is_joined or any(maker is not None for _, maker in flow.given(reader)):
        return step, record, reader
    return step, next(one for one, maker in flow.given(reading[0]) if maker == reader), reading[0]


def looks_up_more(flow: Flow, lookup: int, record: TensorRecord) -> bool:
    """Whether a step looks up longer rows of ids than came in: others, made here, stand beside them (CPM-Ant).

    Ids that are one number each of a longer box of numbers are as many as there are boxes (LayoutLMv3).
    """
    asked = [one.shape for one, _ in flow.taken(lookup) if one.role == "ids" and one.shape]
    rows = [min(len(shape), len(record.shape)) - 1 for shape in asked]
    return any(shape[row] > record.shape[row] for shape, row in zip(asked, rows, strict=True))


def find_drawn_by_chance(flow: Flow, place: int) -> int | None:
    """The numbers, one for each sequence, of which waves are made that chance alone says: the time of a flow (π0)."""
    if flow.op(place) not in WAVES:
        return None
    behind = list(flow.behind(place, most=MOST_BEHIND, ends=lambda here: flow.op(here) in CHANCE))
    whole = {one.shape for one in flow.one_pass.arguments}
    given = [one.shape for here in behind for one, maker in flow.given(here) if maker is None and one.shape]
    if not whole.isdisjoint(given) or not any(flow.op(here) in CHANCE for here in behind):
        return None
    numbers = [here for here in behind if len(flow.output(here).shape) == 1 and flow.output(here).is_float]
    return max(numbers, default=None)
