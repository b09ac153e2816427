"""How many parameters the tables hold of which places are made that a sum adds, and how places are counted."""

import re
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    DIFFERENCES,
    DROPOUTS,
    GRIDS,
    LOOKUPS,
    ONES,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
    TIMES,
)
from xray.ir.flow.remembering import once_each
from xray.ir.flow.weights import read_weights
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.charts.chart import Chart, Node
from xray.story.entrance.tables import PICKING
from xray.story.passages.added_places import describe_sum, source_beside
from xray.story.passages.channels import tells_places
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.chosen_rows import STANDING
from xray.story.recognition.scored_parts import is_nothing
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.shortcuts import find_any_norm
from xray.story.wording import plural

Table = tuple[str, tuple[int, ...]]
"""By what a parameter is known that no module works with: the block that reads it, and its shape."""


NUMBERED = CARRYING | {"int", "long"}
BUCKETS = frozenset({"bucketize", "searchsorted"})


@dataclass(frozen=True)
class Laid:
    """The steps that make places out of learned tables, and the tables; `is_pure` where of nothing else."""

    steps: frozenset[int]
    tables: tuple[Table, ...]
    is_pure: bool


def count_tables(flow: Flow, chart: Chart) -> Chart:
    """The chart whose boxes of learned places count the whole tables of which these were cut, or resized.

    A table is counted in the first box alone that all its rows are for. That says how many rows no step reads. One of
    which another box makes these places is counted there (RAR).
    """
    drawn = {flow.places[step.id]: node for node in reversed(chart.nodes) for step in node.steps}
    told: set[Table] = set()
    nodes = []
    for node in chart.nodes:
        laid = find_laid(flow, flow.places[node.steps[0].id]) if node.steps else None
        is_own = laid is not None and all(drawn.get(one, node) is node for one in laid.steps)
        if laid is not None and is_own and told.isdisjoint(laid.tables) and are_whole(flow, laid):
            told.update(laid.tables)
            held = plural(sum(prod(shape) for _, shape in laid.tables), "parameter")
            node = replace(node, extra=held, told=(*node.told, *describe_unread(flow, laid)))
        nodes.append(node)
    return replace(chart, nodes=tuple(nodes))


@once_each
def list_added(flow: Flow, lookup: int) -> tuple[bool, ...]:
    """For each sum to which what is looked up comes first, be it normed or scaled, whether it tells places there.

    It tells none where it stands beside rows of data before, as a prompt does.
    """
    ways = {*flow.ahead(lookup, within=lambda here: here == lookup or keeps_rows(flow, here))}
    ends = sorted({one for here in ways for one in flow.leaf_readers(here)} - ways)
    added = [(one, *given) for one in ends if flow.op(one) in SUMS for given in flow.given(one)]
    told = [tells_places(flow, *one) for one in added if one[-1] in ways]
    return (*told, *(False for one in ends if stands_beside(flow, one)))


def keeps_rows(flow: Flow, node: int) -> bool:
    """Whether rows stay such in a step: none that meet others in a sum or a product, or stand beside them."""
    if flow.op(node) in SUMS | DIFFERENCES | SIDE_BY_SIDE:
        is_of_data = flow.op(node) not in SIDE_BY_SIDE or node in list_reading_data(flow)
        return len(flow.steps[node].inputs) < 2 or not is_of_data
    wide = flow.output(node).shape[-1:]
    rows = [one for one in flow.steps[node].inputs if one.is_float and one.role != "parameter" and len(one.shape) > 1]
    return flow.op(node) not in SCALINGS or sum(one.shape[-1:] == wide != (1,) for one in rows) < 2


def stands_beside(flow: Flow, node: int) -> bool:
    """Whether a step puts rows end to end, or makes a pile of them, as wide as they are."""
    wide = flow.output(node).shape[-1:]
    return flow.op(node) in SIDE_BY_SIDE and all(one.shape[-1:] == wide for one in flow.steps[node].inputs)


def find_laid(flow: Flow, node: int) -> Laid | None:
    """What makes the learned places that a step adds, where it is more than moves; None where it is not, or adds none.

    Where it is picked between places of a table, what says where is no part of that.
    """
    places = next(describe_sum(flow, node, ()), None) if flow.op(node) in SUMS else None
    if places is None or not places.learned:
        return None
    steps: set[int] = set()
    tables: dict[Table, None] = {}
    todo, is_pure = [node], True
    while todo:
        here = todo.pop()
        given = list(flow.given(here))
        if here == node:
            given = [one for one in given if is_learned(flow, *one)]
        for record, maker in given[:1] if flow.op(here) in GRIDS else given:
            if record.role == "parameter":
                tables |= {(record.weight, record.shape): None} if record.weight is not None else {}
            elif record.is_float and (maker is None or not flow.makers[maker]):
                is_pure = False
            elif maker is not None and record.is_float and maker not in steps:
                steps.add(maker)
                todo.append(maker)
    return Laid(frozenset(steps), tuple(tables), is_pure) if steps and tables else None


def is_learned(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is picked out of a learned table."""
    source = source_beside(flow, record, maker)
    return source is not None and source.role == "parameter"


def are_whole(flow: Flow, laid: Laid) -> bool:
    """Whether some of the numbers of the tables are lost or changed on the way, and nothing else reads these."""
    changes = any(flow.op(node) not in CARRYING | REPEATS | SIDE_BY_SIDE or cuts(flow, node) for node in laid.steps)
    return changes and all(reads_alone(flow, laid, name) for name, _ in laid.tables)


def cuts(flow: Flow, node: int) -> bool:
    """Whether a step hands on a part of the numbers that it is given, as of a table laid out for each sequence."""
    return prod(flow.output(node).shape) < prod(flow.steps[node].inputs[0].shape)


def describe_unread(flow: Flow, laid: Laid) -> list[str]:
    """How many of the first rows of a table are left out by all that read it (HunYuanVL)."""
    ((name, shape), *others) = laid.tables
    first = 0 if others else count_left_out(flow, name)
    told = "row" if first == 1 else plural(first, "row")
    return [f"of {shape[0]:,} rows, the first {told} not read"] if first else []


def count_left_out(flow: Flow, name: str) -> int:
    """How many of the first rows of a table are left out by all that read it."""
    counts = {count_first(step) for place, step in enumerate(flow.steps) if name in read_weights(flow, place)}
    return counts.pop() if len(counts) == 1 else 0


def count_first(step: Step) -> int:
    """How many of the first rows a step leaves out that picks all others."""
    left = re.fullmatch(r"(\d+):(?:, :)*", str(step.settings.get("index")))
    return int(left[1]) if left else 0


def count_unread(flow: Flow) -> int:
    """How many numbers stand in the first rows of tables that no step reads."""
    picking = [step for step in flow.steps if count_first(step)]
    tables = {(step.inputs[0].weight, step.inputs[0].shape) for step in picking}
    return sum(count_left_out(flow, name) * prod(shape[1:]) for name, shape in tables if name is not None)


def reads_alone(flow: Flow, laid: Laid, name: str) -> bool:
    """Whether a table is read for these places alone."""
    places = range(len(flow.steps))
    return laid.steps.issuperset(one for one in places if name in read_weights(flow, one) and flow.readers.get(one))


def list_put_together(flow: Flow, node: int) -> tuple[int, ...]:
    """A sum with the steps that put the places it adds end to end, all of one table: those of each picture, say."""
    laid = find_laid(flow, node)
    if laid is None or len(laid.tables) > 1 or not laid.is_pure:
        return ()
    is_joined = any(flow.op(one) in SIDE_BY_SIDE and len(flow.steps[one].inputs) > 1 for one in laid.steps)
    return (*sorted(laid.steps), node) if is_joined else ()


def list_fitting(flow: Flow, node: int, kinds: dict[str, str]) -> list[tuple[int, str]]:
    """The steps, first to last, that make pieces of one table as large as a picture, and what each kind is called."""
    laid = find_laid(flow, node)
    own = () if laid is None or len(laid.tables) > 1 else sorted(laid.steps)
    return [(one, kinds[flow.op(one)]) for one in own if flow.op(one) in kinds]


def tell_counting(flow: Flow, chart: Chart) -> Chart:
    """The chart whose boxes of places say how they are counted, where that is not one by one (RoBERTa)."""
    nodes = list[Node]()
    for node in chart.nodes:
        lookups = [flow.places[one.id] for one in node.steps if one.op in LOOKUPS | PICKING]
        ways = (describe_counting, describe_held)
        told = next(filter(None, (describe(flow, one) for one in lookups for describe in ways)), "")
        nodes.append(replace(node, told=(*node.told, told)) if told else node)
    return replace(chart, nodes=tuple(nodes))


def describe_counting(flow: Flow, lookup: int) -> str:
    """From which number the places of a lookup are counted, and which id is left out; "" where none is.

    Or that they are buckets, into which numbers fall, as what share of a picture's side a patch is away (Idefics 3).
    A place that is left out is multiplied by 0 before the number is added that all begin with.
    """
    last = find_numbering(flow, lookup)
    if last is not None and BUCKETS.intersection(
        map(flow.op, flow.behind(last, within=lambda one: is_whole(flow, one)))
    ):
        return "counted in buckets"
    here, added, masks = last, 0, set[int | None]()
    while here is not None and flow.op(here) in SUMS | DIFFERENCES | TIMES:
        one = 0 if flow.op(here) in TIMES else number(flow.steps[here])
        if one is None or (masks and one) or len(flow.steps[here].inputs) != 1 + (flow.op(here) in TIMES):
            return ""
        added += int(-one if flow.op(here) in DIFFERENCES else one)
        masks |= {flow.carried_from(maker, NUMBERED) for maker in flow.makers[here][1:]}
        here = flow.carried_from(next(iter(flow.makers[here]), None), NUMBERED)
    if here is None:
        return ""
    start = read_start(flow, here, masks)
    if start is not None and last is not None:
        if flow.output(here).shape[-1:] != flow.output(last).shape[-1:]:
            return ""  # some of those counted may be cut off in front
        return f"from row {start + added} on" if start + added > 0 and flow.one_pass.number <= 1 else ""
    return describe_left_out(flow, here, masks, added + 1)


def describe_held(flow: Flow, lookup: int) -> str:
    """For how many places a model holds the ids of a lookup, where what came in says which place each is; else "".

    So places that are counted by the ids of words pick kinds of words (RoBERTa): no word itself picks any.
    """
    maker = next((maker for record, maker in flow.given(lookup) if not record.is_float), None)
    pick = flow.carried_from(maker, STANDING | REPEATS)
    if pick is None or flow.op(pick) != "gather" or len(flow.makers[pick]) != 2:
        return ""
    arguments = [one.shape for one in flow.one_pass.arguments]
    record, maker = flow.before_moves(*next(flow.given(pick)), STANDING | REPEATS)
    before = (one for here in flow.behind(flow.makers[pick][1]) for one in flow.given(here))
    is_counted = any(other is None and one.role == "ids" and one.shape in arguments for one, other in before)
    is_held = maker is None and record.role == "ids" and record.shape not in arguments
    return f"by ids held for {record.shape[-1]:,} places" if is_held and is_counted else ""


def read_start(flow: Flow, counting: int, masks: AbstractSet[int | None]) -> int | None:
    """The first number of places that are counted one by one, all of them; None where it is not known."""
    if flow.op(counting) == "arange":
        given = flow.steps[counting].settings
        ends = "other" in given or ("input" in given and "end" in given)
        start = given.get("start", given.get("input") if ends else 0)
        is_plain = not masks and given.keys().isdisjoint(("arg2", "step"))
        return start if is_plain and type(start) is int else None
    counted = next(iter(flow.makers[counting]), None)
    every = flow.op(counting) == "cumsum" and counted is not None and flow.op(counted) in ONES
    return 1 if every and masks <= {counted} else None


def describe_left_out(flow: Flow, counting: int, masks: AbstractSet[int | None], first: int) -> str:
    """From which number places are counted that a mask leaves out where it is 0, and of which id that is."""
    if flow.op(counting) != "cumsum" or masks != {flow.carried_from(next(iter(flow.makers[counting]), None), NUMBERED)}:
        return ""
    mask = next(iter(masks))
    left_out = None if mask is None or flow.op(mask) != "ne" else number(flow.steps[mask])
    if mask is None or left_out is None:
        return ""
    ids = flow.steps[mask].inputs[0]
    words = (step for step in flow.steps if step.op in LOOKUPS and (*step.inputs[:1],) == (ids,))
    padding = " (padding)" * any(step.settings.get("padding_idx") == left_out for step in words)
    return f"counted from {first}, id {left_out:g}{padding} left out"


def is_whole(flow: Flow, node: int) -> bool:
    """Whether a step gives whole numbers."""
    return not flow.output(node).is_float


def find_numbering(flow: Flow, node: int) -> int | None:
    """The step that gives the whole numbers that another one looks up, adds to or multiplies first."""
    maker = next((maker for record, maker in flow.given(node) if not record.is_float), None)
    return flow.carried_from(maker, NUMBERED)


def reads_words_alone(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether what a stream begins with at each place is the row of the one id that came in there, and nothing else.

    What is looked up is moved, normalised or multiplied by one number at most, and nothing that later steps work into
    it may tell its places apart.
    """
    words = [node for node in nodes if flow.op(node) in LOOKUPS]
    given = [(ids.shape, maker) for ids, maker in flow.given(words[0]) if not ids.is_float] if len(words) == 1 else []
    made, last = (flow.output(node).shape for node in (words[0], max(nodes))) if given else ((), ())
    is_whole = bool(given) and given[0][0] == made[:-1] and last[-1:] == made[-1:] and prod(last) == prod(made)
    if not is_whole or flow.carried_from(given[0][1]) is not None:
        return False
    kept = {one for node in nodes for norm in [find_any_norm(flow, node)] if norm is not None for one in norm.nodes}
    kept |= {node for node in nodes if flow.op(node) in CARRYING | DROPOUTS or is_number_scale(flow, node)}
    lengths, stream = {made[-2], prod(made[:-1])}, set(flow.ahead(words[0]))
    later = [node for node in stream.difference(words) if flow.is_leaf(node)]
    return {*nodes} <= {*words, *kept} and not any(tells_apart(flow, node, stream, lengths) for node in later)


def is_number_scale(flow: Flow, node: int) -> bool:
    """Whether a step multiplies all numbers by one."""
    given, whole = flow.steps[node].inputs, flow.output(node).shape
    return flow.op(node) in SCALINGS and sorted(prod(one.shape) for one in given)[:-1] in ([], [1]) and bool(whole)


def tells_apart(flow: Flow, node: int, stream: Collection[int], lengths: Collection[int]) -> bool:
    """Whether what a step reads beside a stream is as long as its sequences, or cut out of learned rows.

    Not what meets the scores of pairs of places: what that tells is told by their attention.
    """
    are_scores = flow.output(node).shape[-1:] == (min(lengths),)
    given = list(flow.given(node))[-1 if flow.op(node) == "copy_" else 0 :]  # what is written over tells nothing
    for read, maker in given:
        before = None if maker is None or flow.op(maker) != "index" else flow.steps[maker].inputs[0]
        is_cut = before is not None and before.role == "parameter" and prod(before.shape) > prod(read.shape)
        is_alike = read.role == "mask" or (are_scores and read.role != "parameter") or is_nothing(flow, maker)
        if maker not in stream and (is_cut or not (is_alike or {*lengths}.isdisjoint(read.shape))):
            return True
    return "x" in str(flow.steps[node].settings.get("normalized_shape", ""))
