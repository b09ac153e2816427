"""Tables that are looked into before the first layer: which one holds the words, which places, which is trained."""

import re
from collections.abc import Collection
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    BARRIERS,
    CARRYING,
    COUNTING,
    DROPOUTS,
    LOOKUPS,
    ONES,
    REPEATS,
    SCALINGS,
    SCORING,
    SIDE_BY_SIDE,
    SUMS,
    ZEROS,
)
from xray.ir.flow.remembering import once
from xray.ir.flow.weights import read_weights
from xray.ir.records import TensorRecord
from xray.ir.trace import name_weights
from xray.story.recognition.values.known_values import values_of

MOST = 400
CHOICES = frozenset({"topk", "argmax", "multinomial"})
LEFT_OVER = frozenset({"remainder", "remainder_", "fmod", "fmod_"})
MOST_BESIDE = 40
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PLACE_WORD = re.compile(r"pos(ition(s|al)?|enc|emb(ed)?)?|w?pe|places?")
OTHER_WORD = re.compile(r"bias|rel(ative)?|scale|shift")
MOST_BEFORE = 2
"""So many rows a table of places may have before that of the first place."""
PICKING = frozenset({"index", "index_select", "gather", "slice", "narrow"})
FILLING = frozenset({"masked_fill", "masked_fill_", "pad"})
ALL_ALIKE = ZEROS | ONES | frozenset({"full", "full_like", "new_full"})
MOVING = CARRYING | REPEATS | frozenset({"interpolate", "upsample", "roll", "cat", "pad", "stack"})


def mixes_with(flow: Flow, given: Collection[int], nodes: Collection[int], stops: Collection[int]) -> bool:
    """Whether rows of all tables are added to, or widen, rows that are made of other things: kinds, and no words.

    So are the kinds of modality that are added to another tower's rows (BridgeTower), and what is known of a whole
    series beside its values (Autoformer).
    """
    meet = bool(given) and all(meets_other_rows(flow, node, nodes, stops) for node in given)
    return meet and not any(scores_its_rows(flow, node) for node in given)


def scores_its_rows(flow: Flow, node: int) -> bool:
    """Whether a linear layer works with the table of a lookup: a score for each of its rows, which are words then."""
    table = name_weights(flow.steps[node])
    behind = (place for place in range(node + 1, len(flow.steps)) if flow.op(place) not in LOOKUPS)
    return any(table in read_weights(flow, place) for place in behind)


def list_tables_beside(flow: Flow, given: Collection[int], outer: Collection[int], nodes: Collection[int]) -> list[int]:
    """The lookups whose rows are put beside what an `outer` step made of what comes in: words and patches (ViLT)."""
    found: set[int] = set()
    for join in nodes:
        shape, given_there = flow.output(join).shape, flow.steps[join].inputs
        if flow.op(join) in SIDE_BY_SIDE and all(one.shape[-1:] == shape[-1:] for one in given_there):
            ways = [set(flow.behind(maker, within=nodes.__contains__)) for maker in flow.makers[join]]
            pictured = [one for one in ways if not one.isdisjoint(outer)]
            found |= {
                node for node in given if any(node in one for one in ways) and any(node not in one for one in pictured)
            }
    return sorted(node for node in found if not is_spread(flow, node, nodes))


def is_spread(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether each row that a lookup finds is added to several others: that of a moment, to all of a picture."""
    own = {node, *steps_from(flow, node, nodes)}
    return any(
        flow.op(here) in SUMS and maker in own and prod(record.shape) < prod(flow.output(here).shape)
        for here in own
        for record, maker in flow.given(here)
    )


def meets_other_rows(flow: Flow, node: int, nodes: Collection[int], stops: Collection[int]) -> bool:
    """Whether what is looked up meets rows that no table made, in a sum or side by side."""
    for here in sorted(steps_from(flow, node, nodes)):
        wide = flow.op(here) in SIDE_BY_SIDE and flow.output(here).shape[-1:] != flow.steps[here].inputs[0].shape[-1:]
        if not (wide or (flow.op(here) in SUMS and len(flow.steps[here].inputs) == 2)):
            continue
        for record, maker in flow.given(here):
            is_for_all = record.shape[-2:-1] == (1,) != flow.output(here).shape[-2:-1]
            is_row = len(record.shape) >= 3 and record.is_float and (wide or not is_for_all)
            if is_row and is_other_row(flow, record, maker, stops):
                return True
    return False


def steps_from(flow: Flow, node: int, nodes: Collection[int]) -> set[int]:
    """The steps that hand on, add and join what a step made."""
    ops = MOVING | SUMS | DROPOUTS | {"where"}

    def goes_on(here: int) -> bool:
        return here in nodes and (flow.op(here) in ops or is_masked(flow, here))

    return set(flow.ahead(*flow.readers.get(node, ()), within=goes_on)) - {node}


def is_masked(flow: Flow, node: int) -> bool:
    """Whether a step multiplies rows by whether they count at all, or by one number, as a gate is (Mllama)."""
    given = flow.steps[node].inputs
    return flow.op(node) in SCALINGS and any(one.dtype == "bool" or prod(one.shape) == 1 for one in given)


def is_other_row(flow: Flow, record: TensorRecord, maker: int | None, stops: Collection[int]) -> bool:
    """Whether rows come from outside as numbers, or from another tower, and from no table."""
    if maker is None:
        return record.role == "activation"
    found = list(flow.behind(maker, most=MOST, ends=lambda one: one in stops or flow.op(one) in LOOKUPS))
    if any(flow.op(one) in LOOKUPS for one in found):
        return False
    outside = any(
        before is None and given.role == "activation" and given.is_float and len(given.shape) >= 2
        for one in found
        if one not in stops and flow.op(one) not in PICKING
        for given, before in flow.given(one)
    )
    return outside or any(one in stops for one in found)


def are_ids(flow: Flow, source: TensorRecord, node: int) -> bool:
    """Whether rows are found by whole numbers that come in, in a table or of 0 and 1, before a step works on them."""
    wide = len(source.shape) + 1
    return source.role == "ids" and any(
        flow.op(one) in LOOKUPS | {"one_hot"} or (flow.op(one) == "eq" and len(flow.output(one).shape) >= wide)
        for one in flow.behind(node)
    )


def looks_up_places(flow: Flow, node: int) -> bool:
    """Whether the ids of a lookup were counted out, and its table is called one of places, or holds sines."""
    name = name_weights(flow.steps[node])
    if names_others(name) or not says_places(name, *name_home(flow, node)):
        return holds_sines(flow, node) and picks_each(flow, node)
    return looks_up_counted(flow, node)


def picks_each(flow: Flow, node: int) -> bool:
    """Whether ids by which a step picks rows were counted out, and none is known to pick one row for several places."""
    known = [values_of(flow, maker) for record, maker in flow.given(node) if not record.is_float]
    is_apart = all(one is None or len({*one.flat}) >= max(one.shape[-1:], default=0) for one in known)
    return is_apart and looks_up_counted(flow, node)


def says_places(*names: str) -> bool:
    """Whether one of some names of modules or parameters says that it is of places."""
    return any(PLACE_WORD.fullmatch(word) for name in names for word in split_name(name))


def names_others(name: str) -> bool:
    """Whether a parameter's name says that it is something else: a bias, a scale, or of places that are relative."""
    return any(OTHER_WORD.fullmatch(word) for word in split_name(name))


def split_name(name: str) -> list[str]:
    """The words of a name, in small letters."""
    return [word.lower() for word in WORD.findall(name)]


def name_home(flow: Flow, node: int) -> tuple[str, ...]:
    """The path and the class of the module to which a step belongs; none where that is the whole model."""
    home = node if flow.steps[node].module else next(flow.parents(node), None)
    is_part = home is not None and flow.steps[home].parent is not None
    return (flow.steps[home].path, flow.steps[home].module) if home is not None and is_part else ()


def looks_up_counted(flow: Flow, node: int) -> bool:
    """Whether the ids of a lookup were counted out, or are the first ones of a row as long as the table.

    Such a row is none that an argument of the model may be: as many words may come in as the table has rows. Nor are
    they one and the same for several places.
    """
    asked = next(((record, maker) for record, maker in flow.given(node) if not record.is_float), None)
    if asked is None:
        return False
    record, maker = asked
    rows = table_rows(flow, node)
    known = values_of(flow, maker)
    if hands_on_ids(flow, maker) or (known is not None and known.size > 1 and (known == known.flat[0]).all()):
        return False
    seen: set[int] = set()
    todo = [] if maker is None else [maker]
    lengths = {record.shape} if maker is None else set()
    while todo and len(seen) < MOST_BESIDE:
        here = todo.pop()
        if here in seen or flow.op(here) in BARRIERS:  # such as words that scores chose
            continue
        seen.add(here)
        if flow.op(here) in COUNTING:
            return not (counts_one_id(flow, here) or begins_as_given(flow, here))
        given = list(flow.given(here))
        if flow.op(here) in SUMS and any(are_given_ids(flow, *one) for one in given):
            return False
        if flow.op(here) in PICKING | FILLING:  # not where something is picked, or filled in
            given = given[:1]
            if rows is not None and any(before is None and is_row_of_places(flow, one, rows) for one, before in given):
                return True
        elif flow.op(here) == "where":
            given = given[1:]
        elif flow.op(here) in SCALINGS:
            given = [one for one in given if not is_of_bools(flow, one[1])]
        lengths |= {one.shape for one, before in given if before is None and not one.is_float}
        todo += [before for _, before in given if before is not None]
    given_in = {one.shape for one in flow.one_pass.arguments}
    return rows is not None and bool((lengths - given_in) & {(rows,), (1, rows)})


def counts_one_id(flow: Flow, counting: int) -> bool:
    """Whether a step counts how often one id stood so far, as sentences are by their ends: no places."""
    counted = flow.carried_from(next(iter(flow.makers[counting]), None), CARRYING | {"int", "long"})
    return counted is not None and flow.op(counted) == "eq"


def begins_as_given(flow: Flow, counting: int) -> bool:
    """Whether a step counts on from a number that is given: months from the first one (Presto)."""
    first = flow.makers[counting][0] if flow.op(counting) == "arange" and len(flow.makers[counting]) > 1 else None
    made = flow.behind(first, most=MOST_BESIDE)
    return any(record.argument is not None for one in made for record in flow.steps[one].inputs)


def are_given_ids(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether ids of several sequences are an argument, or some of one: with others added no places (Trajectory T.)."""
    record, maker = flow.before_moves(record, maker, CARRYING | PICKING | FILLING | SCALINGS)
    return maker is None and record.argument is not None and not record.is_float and record.shape[:1] > (1,)


def is_of_bools(flow: Flow, maker: int | None) -> bool:
    """Whether a number that ids are multiplied by is made of what holds or not: 0 where they are hidden (VALL-E)."""
    moves = CARRYING | REPEATS | PICKING | {"long", "int", "rsub", "sub"}
    way = list(flow.behind(maker, most=MOST_BESIDE, within=lambda one: flow.op(one) in moves))
    return any(record.dtype == "bool" for one in way for record in flow.steps[one].inputs)


def find_lone_rows(flow: Flow, nodes: Collection[int]) -> int | None:
    """The lookup of rows of a table in order, where an entrance holds nothing else (PEGASUS-X's global tokens)."""
    tables = [node for node in nodes if flow.op(node) in LOOKUPS]
    if len(tables) != 1 or not looks_up_counted(flow, *tables):
        return None
    is_plain = all(node in tables or flow.op(node) in CARRYING | DROPOUTS for node in nodes)
    return tables[0] if is_plain else None


def is_row_of_places(flow: Flow, record: TensorRecord, rows: int) -> bool:
    """Whether a row of ids is as long as a table, or two less, and no argument of the model: those of all places.

    The first two rows of such a table are of none (Nyströmformer).
    """
    count = prod(record.shape)
    given = [one.shape for one in flow.one_pass.arguments]
    is_held = record.shape in ((count,), (1, count)) and record.shape not in given and not record.is_float
    return is_held and 0 <= rows - count <= MOST_BEFORE < count


@once
def list_biases(flow: Flow) -> frozenset[int]:
    """The lookups whose rows go nowhere but into scores: a table of biases begins no stream (LeViT)."""
    scored = frozenset[int]().union(*(site.scored for site in list_sites(flow)))

    def goes_into_scores(node: int) -> bool:
        way = list(flow.ahead(node, within=lambda here: here not in scored and (here == node or is_between(here))))
        readers = {reader for here in way for reader in flow.readers.get(here, ())}
        return bool(readers) and readers <= scored.union(way)

    def is_between(here: int) -> bool:
        return flow.op(here) in SCORING | REPEATS or not flow.is_leaf(here)

    return frozenset(node for node in range(len(flow.steps)) if flow.op(node) in LOOKUPS and goes_into_scores(node))


def looks_up_ids(flow: Flow, node: int) -> bool:
    """Whether ids of a lookup come in as they are: none is worked out of other numbers (Mimi), or picked (LiLT).

    Ids that a model holds itself do not come in, nor such as are all one number, or counted. What is picked from
    rows of several ids each tells something of a place: one of the corners of its box. A table of sines holds what no
    words are.
    """
    if holds_sines(flow, node):
        return False
    asked = next(((record, maker) for record, maker in flow.given(node) if not record.is_float), None)
    todo = [] if asked is None else [(*asked, False)]
    seen: set[int] = set()
    while todo and len(seen) < MOST_BESIDE:
        record, maker, is_picked = todo.pop()
        if maker is None:
            if came_in(flow, record) and not (is_picked and len(record.shape) > 2):
                return True
        elif not flow.steps[maker].inputs or flow.op(maker) in ALL_ALIKE:
            return flow.op(maker) not in ALL_ALIKE | COUNTING
        elif maker not in seen:
            seen.add(maker)
            given = [one for one in flow.given(maker) if not one[0].is_float and one[0].dtype != "bool"]
            is_part = any(prod(flow.output(maker).shape) < prod(one.shape) for one, _ in given)
            picks = is_picked or (is_part and flow.op(maker) in PICKING | {"select"})
            todo += [(one, before, picks) for one, before in given]
    return asked is None


def came_in(flow: Flow, record: TensorRecord) -> bool:
    """Whether what no step of this pass made is an argument of it, or may be by its shape: the model does not hold it.

    Or an earlier pass made it.
    """
    like = (record.shape, record.dtype)
    is_like = record.role != "parameter" and any((one.shape, one.dtype) == like for one in flow.one_pass.arguments)
    return is_like or record.argument is not None or record.source is not None


def holds_sines(flow: Flow, node: int) -> bool:
    """Whether the table of a lookup is known to hold sines, be it not proven that its rows are of places."""
    return flow.steps[node].settings.get("sines") is True


def hands_on_ids(flow: Flow, maker: int | None) -> bool:
    """Whether ids that came in are among those looked up: put behind some that were counted out, as prompts (CPM-Ant).

    Or where no padding stands, for which ids were counted out (DALL-E). A row of ids that is the same for all sequences
    may be one of places.
    """
    joining, joins = SIDE_BY_SIDE | {"where"}, False
    for here in flow.behind(maker, most=MOST_BESIDE, within=lambda one: flow.op(one) in CARRYING | FILLING | joining):
        joins = joins or flow.op(here) in joining
        if joins and any(before is None and one.role == "ids" and one.shape[0] > 1 for one, before in flow.given(here)):
            return True
    return False


def table_rows(flow: Flow, node: int) -> int | None:
    """How many rows the table of a lookup has."""
    step = flow.steps[node]
    rows = step.settings.get("num_embeddings")
    if isinstance(rows, int):
        return rows
    return next((record.shape[0] for record in step.inputs if len(record.shape) == 2 and record.is_float), None)


def shares_rows(flow: Flow, node: int) -> bool:
    """Whether several ids look one row up, as they are what is left over of a division: the table tells no words then.

    So are the characters that CANINE looks up by several hashes. What is left over of a place that scores chose, among
    those of all words of several beams, is a word.
    """
    ids = next((maker for record, maker in flow.given(node) if not record.is_float), None)
    ops = {flow.op(one) for one in flow.behind(ids, most=MOST_BESIDE, ends=lambda one: flow.op(one) in CHOICES)}
    return not ops.isdisjoint(LEFT_OVER) and ops.isdisjoint(CHOICES)


def judge_training(flow: Flow, trained: bool | None, nodes: Collection[int]) -> bool | None:
    """Whether parameters are learned: not where they are frozen and others of the same entrance are trained.

    Else a frozen one says nothing: who runs a model may freeze all of it, or all but a few weights in its layers,
    whatever it learned before.
    """
    return None if trained is False and not any(trains(flow, one) for one in nodes) else trained


def trains(flow: Flow, node: int) -> bool | None:
    """Whether a step has parameters that require a gradient; None where it has none, or that was not noted."""
    step = flow.steps[node]
    noted = [record.trained for record in step.inputs if record.trained is not None]
    noted += [] if step.trained is None else [step.trained > 0]
    return any(noted) if noted else None
