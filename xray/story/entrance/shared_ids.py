"""Ids of which several tables look up a part each: codes of a sound, hashes (CANINE), columns of boxes (LayoutLM)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, DIFFERENCES, LOOKUPS, SCALINGS, SIDE_BY_SIDE, SUMS
from xray.ir.records import TensorRecord
from xray.story.charts.chart import Chart
from xray.story.entrance.inputs import name_argument, reads_vectors
from xray.story.entrance.tables import LEFT_OVER, PICKING, holds_sines, looks_up_counted
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.wording import plural

WHOLE = frozenset({"long", "int"})
CUTS = CARRYING | WHOLE | {"index", "select", "slice", "narrow", "unbind", "chunk", "split"}
WORKING = SUMS | SCALINGS | LEFT_OVER
HOLDING = CARRYING | CLAMPS | WHOLE
ALONE = HOLDING | SCALINGS
SUMMED = HOLDING | {"sum"}
Cut = tuple[TensorRecord, int | None, tuple[int, ...]]
"""The tensor that ids are a column of, its maker, and the columns: two where it is how far apart they are."""


def find_shared_ids(flow: Flow, chart: Chart, reader: int) -> tuple[TensorRecord, list[str]] | None:
    """The ids of which a lookup and others read a part each, and the boxes of all of them; None where none does."""
    ways = [
        (node.key, list_way(flow, place))
        for node in chart.nodes
        for place in (flow.places[step.id] for step in node.steps)
        if flow.op(place) in LOOKUPS and not looks_up_counted(flow, place) and not holds_sines(flow, place)
    ]
    for origin, record in list_way(flow, reader).items():
        sharing = [key for key, way in ways if origin in way]
        if len(sharing) > 1:
            return record, list(dict.fromkeys(sharing))
    return None


def list_way(flow: Flow, lookup: int) -> dict[object, TensorRecord]:
    """What the ids of a lookup were cut or worked out of, the nearest first: by its step, or name if from outside.

    Each by itself, with plain numbers (CANINE's hashes). Not one of the parts that a step cut it into: each lookup has
    another one of these (X-Codec).
    """
    found: dict[object, TensorRecord] = {}
    here: int | None = lookup
    while here is not None and (here == lookup or flow.op(here) in CUTS or is_worked_out_alone(flow, here)):
        given = next((one for one in flow.given(here) if here != lookup or not one[0].is_float), None)
        if given is None:
            break
        record, here = given
        if here is None and not is_told_apart(flow, record):
            break
        if here is None or len(flow.steps[here].outputs) == 1:
            found[(record.argument or record.name, record.shape) if here is None else here] = record
    return found


def is_told_apart(flow: Flow, record: TensorRecord) -> bool:
    """Whether it is known which ids came in, or no two tensors of their shape did: each word may have a segment."""
    alike = sum((one.shape, one.role) == (record.shape, "ids") for one in flow.one_pass.arguments)
    return record.argument is not None or alike < 2


def is_worked_out_alone(flow: Flow, node: int) -> bool:
    """Whether a step makes ids of the ids of one tensor, each by itself."""
    inputs, output = flow.steps[node].inputs, flow.output(node)
    return flow.op(node) in WORKING and len(inputs) == 1 and inputs[0].role == output.role == "ids"


@dataclass(frozen=True)
class IdColumns:
    """Lookups of columns of one tensor, which columns each reads, and the steps that put together what is found.

    These come one behind the other; `is_apart` where they read nothing else. `name` is the argument as which a module
    was handed the tensor, or what it was worked out of alone; `is_given` where that came in, or was made of what did.
    The ids are `is_made` where they are numbers that were made whole, and `has_more` where others are put beside those
    of the argument (UDOP's boxes, and those of its image).
    """

    lookups: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    joins: tuple[int, ...]
    is_apart: bool
    name: str
    is_given: bool
    is_made: bool = False
    has_more: bool = False

    def list_read(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each lookup with the columns that it reads."""
        return zip(self.lookups, self.columns, strict=True)

    def list_folded(self) -> dict[int, tuple[int, ...]]:
        """The steps that boxes stand for, each by its last: one for all, or one for the lookups and one for sums."""
        if self.is_apart:
            return {self.joins[-1]: (*self.lookups, *self.joins)}
        return {self.lookups[-1]: self.lookups, self.joins[-1]: self.joins}


def find_id_columns(flow: Flow, nodes: Collection[int]) -> list[IdColumns]:
    """The lookups among some steps of several columns of one tensor, by tensor."""
    groups: dict[object, dict[int, Cut]] = {}
    for node in sorted(nodes):
        cut = read_columns(flow, node) if flow.op(node) in LOOKUPS else None
        if cut is not None:
            record, maker, _ = cut
            groups.setdefault((record.shape, record.dtype, record.argument) if maker is None else maker, {})[node] = cut
    found = (put_together(flow, nodes, cuts) for cuts in groups.values())
    return [one for one in found if one is not None]


def read_columns(flow: Flow, lookup: int) -> Cut | None:
    """The columns that a step looks up; None where its ids are none, or more was done to them than held in bounds."""
    asked = next((maker for record, maker in flow.given(lookup) if not record.is_float), None)
    here = back_to(flow, asked, HOLDING)
    if here is None or flow.op(here) not in DIFFERENCES:
        return None if here is None else cut_column(flow, here)
    cuts = [cut_column(flow, back_to(flow, maker, HOLDING)) for maker in flow.makers[here]]
    first, last = cuts if len(cuts) == 2 else (None, None)
    if first is None or last is None or (first[0].shape, first[1]) != (last[0].shape, last[1]):
        return None
    return (*first[:2], first[2] + last[2])


def back_to(flow: Flow, place: int | None, ops: Collection[str]) -> int | None:
    """The step before those that do no more than some operations, and cut no column."""
    while place is not None and flow.op(place) in ops and flow.makers[place] and cut_column(flow, place) is None:
        place = flow.makers[place][0]
    return place


def cut_column(flow: Flow, place: int | None) -> Cut | None:
    """The one column of ids, along the last axis, that a step takes; None where it does not."""
    if place is None or flow.op(place) != "index" or len(flow.steps[place].inputs) != 1:
        return None
    (record, maker), made = next(flow.given(place)), flow.output(place)
    *rows, last = str(flow.steps[place].settings.get("index", "")).split(", ")
    is_cut = len(record.shape) > 2 and made.shape == record.shape[:-1] and record.role == "ids"
    if not is_cut or not rows or not set(rows) <= {":", "..."} or not last.removeprefix("-").isdecimal():
        return None
    return record, maker, (int(last) % record.shape[-1],)


def put_together(flow: Flow, nodes: Collection[int], cuts: Mapping[int, Cut]) -> IdColumns | None:
    """Lookups of columns with the steps that put together what they find; None where these do not end in one.

    Arguments of one shape cannot be told apart unless it is known which one is read.
    """
    lookups, read = tuple(cuts), tuple(columns for *_, columns in cuts.values())
    record, maker, _ = cuts[lookups[0]]
    alike = (
        1
        if record.argument
        else sum((one.shape, one.dtype) == (record.shape, record.dtype) for one in flow.one_pass.arguments)
    )
    joins = list_joins(flow, nodes, lookups)
    if len(set(read)) < 2 or (maker is None and alike != 1) or not joins:
        return None
    is_apart = all(made in {*lookups, *joins} for one in joins for made in flow.makers[one])
    if flow.op(joins[0]) in SIDE_BY_SIDE and not is_apart:
        return None
    is_given = maker is None or maker in list_reading_data(flow)
    name = name_handed(flow, lookups[0], record, maker)
    ways = list_ways(flow, record, maker)
    is_made = are_made_whole(flow, lookups[0])
    has_more = any(flow.op(one) in SIDE_BY_SIDE for one in ways)
    return IdColumns(lookups, read, joins, is_apart, name, is_given, is_made, has_more)


def asks_for_sums(flow: Flow, lookup: int) -> bool:
    """Whether the ids that a step looks up are sums of what came in, as of the neighbours of an adjacency matrix."""
    makers = (maker for _, maker in flow.taken(lookup))
    return any(flow.op(here) == "sum" for here in flow.behind(*makers, within=lambda here: flow.op(here) in SUMMED))


def are_made_whole(flow: Flow, lookup: int) -> bool:
    """Whether the ids of which a step looks up a column are made of other numbers, cut off where they are whole."""
    record, maker, _ = read_columns(flow, lookup) or (None, None, ())
    return record is not None and any(flow.output(one).is_float for one in list_ways(flow, record, maker))


def list_ways(flow: Flow, record: TensorRecord, maker: int | None) -> list[int]:
    """The steps behind columns of ids that work on as many of them for each place."""
    return [*flow.behind(maker, within=lambda here: flow.output(here).shape[-1:] == record.shape[-1:])]


def list_joins(flow: Flow, nodes: Collection[int], lookups: Collection[int]) -> tuple[int, ...]:
    """The sums, one of the other, or the one step that puts side by side what lookups find; none where it is more."""
    readers = {node: flow.leaf_readers(node) for node in lookups}
    joins = sorted({one for own in readers.values() for one in own})
    ops = {flow.op(one) for one in joins}
    is_one_kind = ops <= SUMS or (ops <= SIDE_BY_SIDE and len(joins) == 1)
    if not is_one_kind or not set(nodes).issuperset(joins) or any(len(own) != 1 for own in readers.values()):
        return ()
    follows = pairwise(joins)
    is_chain = all(flow.leaf_readers(one) == [after] for one, after in follows)
    return tuple(joins) if is_chain else ()


def name_handed(flow: Flow, lookup: int, record: TensorRecord, maker: int | None) -> str:
    """The argument of the model, or else of the innermost module around a lookup, that a tensor is made of alone.

    No argument of a module is told by a name by which the model itself is given another.
    """
    given = {one.name for one in flow.one_pass.arguments}
    while maker is not None:
        handed = (
            one.name
            for parent in flow.parents(lookup)
            for one, before in flow.given(parent)
            if before == maker and one.shape == record.shape
        )
        if name := next(handed, ""):
            is_other = name in given and not any(
                one.argument == name for here in (maker, *flow.behind(maker)) for one, _ in flow.given(here)
            )
            return "" if is_other else name
        if flow.op(maker) not in ALONE or len(flow.makers[maker]) != 1:
            return ""
        record, maker = next(flow.given(maker))
    return name_argument(flow, record)


def find_given_rows(flow: Flow, lookup: int) -> TensorRecord | None:
    """The ids of the model's arguments that a lookup reads a column of, be others put beside their rows (UDOP)."""
    record, maker, _ = read_columns(flow, lookup) or (None, None, ())
    if record is None:
        return None
    many = record.shape[-1:]
    taken = [(record, maker), *(one for here in list_ways(flow, record, maker) for one in flow.taken(here))]
    given = {
        (one.shape, one.argument): one
        for one, made in taken
        if made is None and one.role == "ids" and one.shape[-1:] == many
    }
    return next(iter(given.values())) if len(given) == 1 else None


def count_tables(flow: Flow, lookups: Collection[int]) -> int:
    """How many tables some steps look into."""
    return len({name_table(flow, node) for node in lookups})


def name_table(flow: Flow, lookup: int) -> object:
    """What a table is known by: its module, or the step that took it out of a larger one."""
    if flow.steps[lookup].params:
        return flow.steps[lookup].path
    return next(((record.shape, maker) for record, maker in flow.given(lookup) if record.is_float), None)


def label_columns(flow: Flow, found: IdColumns) -> dict[int, str]:
    """What the boxes of such lookups are called."""
    tables = count_tables(flow, found.lookups)
    told = f"{len(found.lookups):,} LOOKUPS"
    told += f" IN {plural(tables, 'table').upper()}" if tables < len(found.lookups) else ""
    joined = "ADDED UP" if flow.op(found.joins[-1]) in SUMS else "SIDE BY SIDE"
    if found.is_apart:
        return {found.joins[-1]: f"{told}, {joined}"}
    return {found.lookups[-1]: told, found.joins[-1]: joined}


def list_vectors(flow: Flow, nodes: Collection[int], given: Collection[int]) -> list[int]:
    """The linear layers that read rows of numbers which come in, but for one row for all of more that are looked up."""
    lengths = {flow.output(node).shape[-2] for node in given}
    found = [node for node in nodes if is_linear(flow, node) and reads_vectors(flow, node)]
    return [node for node in found if flow.output(node).shape[-2:-1] != (1,) or max(lengths, default=1) == 1]


def looks_up_columns(flow: Flow, node: int) -> bool:
    """Whether a lookup finds one row for each sequence, and others find theirs by other columns of the same numbers.

    So each column of a table of data has a table of its own: its ids are no words (FT-Transformer).
    """
    return len(flow.output(node).shape) == len(("batch", "width")) and len(list_columns(flow, node)) > 1


def list_columns(flow: Flow, node: int) -> list[int]:
    """The lookups in tables of their own of one column each of the numbers that a lookup reads one of, with it."""
    cuts = {one: cut for one in range(len(flow.steps)) if (cut := cut_of(flow, one)) is not None}
    own = cuts.get(node)
    alike = [one for one, (origin, _) in cuts.items() if own is not None and origin == own[0]]
    paths, columns = ({flow.steps[one].path for one in alike}, {cuts[one][1] for one in alike})
    return alike if len(paths) == len(columns) == len(alike) else []


def cut_of(flow: Flow, lookup: int) -> tuple[object, str] | None:
    """Which tensor a lookup reads one column of, by its step or name and shape, and which; None if it reads none."""
    step = flow.steps[lookup]
    if step.op not in LOOKUPS or not step.is_learned:
        return None
    cut = next((maker for record, maker in flow.given(lookup) if not record.is_float), None)
    if cut is None or flow.op(cut) not in PICKING or len(flow.steps[cut].inputs) != 1:
        return None
    record, maker = next(flow.given(cut))
    is_column = len(record.shape) == len(flow.output(cut).shape) + 1 and record.shape[:-1] == flow.output(cut).shape
    origin = (record.name, record.shape) if maker is None else maker
    return (origin, str(sorted(flow.steps[cut].settings.items(), key=str))) if is_column else None
