"""Codes: of all rows of a table the one that is nearest to each row, known by how far all of them are."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIFFERENCES, LOOKUPS, PRODUCTS, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.story.entrance.tables import table_rows
from xray.story.recognition.between import is_linear, list_reading_data
from xray.story.recognition.values.value_shapes import number

MOST_BEHIND, MOST_STEPS, MOST_IDS, MOST_TERMS = 14, 40, 400, 400
NORMALIZE, CDIST = "normalize", "cdist"
HIGHEST = frozenset({"argmax", "max"})
COMPARING = PRODUCTS | {CDIST}
HELD = CARRYING | SCALINGS | {NORMALIZE, "clamp"}
IDS = CARRYING | {"stack", "unbind", "index", "select"}


@dataclass(frozen=True)
class Nearest:
    """The step that picks codes, all steps that work out how far each is, how many there are, and of which rows.

    `rows` made these; codes are near `in_direction` where both are brought to the length 1 first.
    """

    end: int
    nodes: tuple[int, ...]
    codes: int
    rows: int | None = None
    in_direction: bool = False


def find_nearest(flow: Flow, product: int) -> Nearest | None:
    """What picks the code nearest to each row, by a product of rows with all codes; None where it is not proven.

    How far a row is from a code is told by the squares of both and twice their product; the least is picked, or the
    highest where all is taken off. Rows and codes of the length 1 are near where their product is high.
    """
    codes = count_codes(flow, product)
    here = product
    sign = -1 if flow.op(product) == CDIST else find_sign(flow, flow.makers[product][0]) if codes else 1
    for _ in range(MOST_BEHIND):
        readers = flow.leaf_readers(here)
        if codes is None or len(readers) != 1:
            return None
        before, here = here, readers[0]
        if is_pick(flow, here):
            is_near = (flow.op(here) in HIGHEST) == (sign > 0)
            return prove_nearest(flow, product, here, codes) if is_near else None
        if flow.output(here).shape[-1:] != (codes,):
            return None
        is_taken_off = flow.op(here) in DIFFERENCES and flow.makers[here].index(before) == 1
        sign *= -1 if is_taken_off or flow.op(here) in ("neg", "rsub") else sign_of(flow, here)
    return None


def prove_nearest(flow: Flow, product: int, pick: int, codes: int) -> Nearest | None:
    """What picks codes by a product, if squares are added to it, or both sides are brought to the length 1."""
    rows, nodes = find_rows(flow, product), list_worked_out(flow, pick, product)
    in_direction = sum(flow.op(node) == NORMALIZE for node in nodes) == 2
    is_proven = len(nodes) < MOST_STEPS and (
        in_direction or flow.op(product) == CDIST or sums_squares(flow, nodes, codes)
    )
    return Nearest(pick, nodes, codes, rows, in_direction) if is_proven else None


def is_pick(flow: Flow, node: int) -> bool:
    """Whether a step says where the highest or the lowest of some numbers stands."""
    return flow.op(node) in ("argmin", "argmax") or (
        flow.op(node) in ("max", "min") and len(flow.steps[node].outputs) == 2
    )


def sign_of(flow: Flow, node: int) -> int:
    """-1 for a step that multiplies by a number below 0, else 1."""
    factor = number(flow.steps[node]) if flow.op(node) in SCALINGS and len(flow.makers[node]) == 1 else None
    return -1 if isinstance(factor, (int, float)) and factor < 0 else 1


def find_sign(flow: Flow, rows: int | None) -> int:
    """-1 where rows were multiplied by a number below 0 on their way to a product, else 1."""
    sign = 1
    while rows is not None and flow.op(rows) in HELD and len(flow.makers[rows]) == 1:
        sign *= sign_of(flow, rows)
        rows = flow.makers[rows][0]
    return sign


def count_codes(flow: Flow, product: int) -> int | None:
    """How many rows of a table others are multiplied by, or are so far from, where a step does that; else None."""
    step = flow.steps[product]
    if flow.op(product) not in PRODUCTS | {CDIST} or len(step.inputs) != 2 or not step.outputs:
        return None
    held = [is_held(flow, *one) for one in flow.given(product)]
    codes = flow.output(product).shape[-1]
    tables = [one.shape for one, is_table in zip(flow.steps[product].inputs, held, strict=True) if is_table]
    return codes if len(tables) == 1 and len(tables[0]) in (2, 3) and codes in tables[0][-2:] else None


def is_held(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is one that the model holds, learned or not, be it moved, scaled or quotient of two."""
    record, maker = flow.before_moves(record, maker, HELD)
    came_in = {one.shape for one in flow.one_pass.arguments}
    return maker is None and record.is_float and (record.role == "parameter" or record.shape not in came_in)


def find_rows(flow: Flow, product: int) -> int | None:
    """The step that made the rows that a product multiplies by codes, before they are moved or scaled."""
    given = [maker for one, maker in flow.given(product) if not is_held(flow, one, maker)]
    here = given[0] if len(given) == 1 else None
    while here is not None and flow.op(here) in HELD and len(flow.makers[here]) == 1:
        here = flow.makers[here][0]
    return here


def list_worked_out(flow: Flow, end: int, product: int) -> tuple[int, ...]:
    """The steps that work out how far codes are from the rows that a product reads, that one included."""
    rows = find_rows(flow, product)
    return tuple(sorted(flow.behind(end, most=MOST_STEPS, within=lambda place: place != rows)))


def sums_squares(flow: Flow, nodes: Collection[int], codes: int) -> bool:
    """Whether squares of every code are among what is added up."""
    squares = (node for node in nodes if is_square(flow, node))
    return any(codes in flow.output(node).shape[-2:] and is_held(flow, *next(flow.given(node))) for node in squares)


def is_square(flow: Flow, node: int) -> bool:
    """Whether a step multiplies each number by itself."""
    powers = [number(flow.steps[node], name) for name in ("other", "arg1", "exponent")]
    return flow.op(node) == "square" or (flow.op(node) == "pow" and 2 in powers)


@dataclass(frozen=True)
class Choice:
    """A lookup of codes that are the nearest to rows, in the table that these are of, and where all of them stand."""

    lookup: int
    picked: tuple[Nearest, ...]
    nodes: frozenset[int]

    @property
    def rows(self) -> set[int]:
        """The steps that made the rows that codes are picked for."""
        return {one.rows for one in self.picked if one.rows is not None}


def find_choice(flow: Flow, lookup: int) -> Choice | None:
    """How the ids of a lookup were picked, be it that they were stacked with others; None where it is not proven."""
    if flow.op(lookup) not in LOOKUPS:
        return None
    asked = [one for record, one in flow.given(lookup) if not record.is_float]
    ways = {*flow.behind(*asked, most=MOST_IDS, ends=lambda place: flow.op(place) not in IDS)}
    picks = [place for place in sorted(ways) if flow.op(place) not in IDS]
    found = [one for place in picks if (one := find_picked(flow, place)) is not None]
    if not found or len(found) < len(picks) or {one.codes for one in found} != {table_rows(flow, lookup)}:
        return None
    return Choice(lookup, tuple(found), frozenset(ways).union(*(one.nodes for one in found)))


def find_picked(flow: Flow, pick: int) -> Nearest | None:
    """The codes that a step picks as the nearest ones; None where it is not proven."""
    scores = flow.makers[pick][:1] if is_pick(flow, pick) else ()
    found = (find_nearest(flow, one) for one in flow.behind(*scores, most=MOST_BEHIND) if flow.op(one) in COMPARING)
    return next((one for one in found if one is not None and one.end == pick), None)


def list_nearest(flow: Flow, nodes: Collection[int]) -> list[Nearest]:
    """What picks the codes that some steps look up, each once."""
    choices = (one for node in sorted(nodes) if (one := find_choice(flow, node)) is not None)
    return [*{one.end: one for choice in choices for one in choice.picked}.values()]


@dataclass(frozen=True)
class Residual:
    """Rows told by codes several times, each time by what those before left over; what all look up is added up.

    `turn` are the linear steps of the first time, before and behind the lookup; `nodes` all steps, `end` the last.
    """

    end: int
    nodes: frozenset[int]
    turn: tuple[tuple[int, ...], tuple[int, ...]]
    picked: tuple[Nearest, ...]

    @property
    def learning(self) -> list[int]:
        """The steps whose parameters are counted: codes that are looked up are those that rows are compared with."""
        return sorted(self.nodes.difference(*(one.nodes for one in self.picked)))


def find_residual_codes(flow: Flow, nodes: Collection[int]) -> list[Residual]:
    """All rows told by codes of what is left over among some steps."""
    own = [one for node in sorted(nodes) if (one := find_choice(flow, node)) is not None]
    picked = {one.end: one for one in list_nearest(flow, nodes)}
    lookups = {one.picked[0].end: one.lookup for one in own if len(one.picked) == 1}
    chains: dict[int, list[Nearest]] = {}
    left: dict[int, int] = {}
    for end in sorted(picked):
        before = list_before(flow, picked[end])
        begun = next((left[place] for place in before if place in left), None)
        over = list_left_over(flow, lookups[end], before) if end in lookups else []
        begun = flow.carried_from(flow.makers[over[0]][0]) if over and begun is None else begun
        if begun is not None:
            chains.setdefault(begun, []).append(picked[end])
            left |= dict.fromkeys(over, begun)
    found = (read_residual(flow, nodes, start, chain) for start, chain in chains.items() if len(chain) > 1)
    return [one for one in found if one is not None]


def list_before(flow: Flow, one: Nearest) -> list[int]:
    """The step that made the rows which a code is picked for, and what it makes these of where that is linear."""
    rows = one.rows
    makers = [] if rows is None or not is_linear(flow, rows) else [flow.carried_from(flow.makers[rows][0])]
    return [place for place in (rows, *makers) if place is not None]


def list_left_over(flow: Flow, lookup: int, before: Collection[int]) -> list[int]:
    """The differences between rows and what is looked up for them."""
    made = {*flow.ahead(lookup, within=lambda place: place < lookup + MOST_STEPS)}
    return [
        node
        for node in sorted(made)
        if flow.op(node) in DIFFERENCES
        and len(flow.makers[node]) == 2
        and flow.carried_from(flow.makers[node][0]) in before
        and flow.makers[node][1] in made
    ]


def read_residual(flow: Flow, nodes: Collection[int], start: int, chain: Sequence[Nearest]) -> Residual | None:
    """What adds up the rows of all codes of a chain, if as many are added up, and nothing else comes in."""
    reading = list_reading_data(flow)
    ends = [one.end for one in chain]
    for end in sorted(nodes):
        if flow.op(end) not in SUMS or end < max(ends) or count_terms(flow, end) != len(chain):
            continue
        own = {*flow.behind(end, within=lambda place: place != start)}
        others = {maker for node in own for maker in flow.makers[node] if maker in reading and maker not in own}
        turn = read_turn(flow, own, chain)
        if own.issuperset(ends) and others == {start} and turn is not None:
            return Residual(end, frozenset(own), turn, tuple(chain))
    return None


def count_terms(flow: Flow, node: int) -> int:
    """How many tensors are added up by a step and those before it that it adds, lone numbers left out."""
    todo, count = [node], 0
    while todo and count + len(todo) <= MOST_TERMS:
        here = todo.pop()
        added = flow.makers[here] if flow.op(here) in SUMS else ()
        makers = [maker for maker in added if maker is not None and flow.output(maker).shape]
        todo += [flow.carried_from(maker) or maker for maker in makers]
        count += not makers
    return count + len(todo)


def read_turn(
    flow: Flow, own: Collection[int], chain: Sequence[Nearest]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The linear steps of the first of several times, before and behind its lookup; None where not all are alike."""
    linear = [node for node in sorted(own) if is_linear(flow, node) and flow.op(node) not in COMPARING]
    many, rest = divmod(len(linear), len(chain))
    kinds = {(flow.op(node), flow.output(node).shape, at % max(many, 1)) for at, node in enumerate(linear)}
    if rest or len(kinds) != many or len({(one.codes, one.in_direction) for one in chain}) > 1:
        return None
    first, pick = linear[:many], chain[0].end
    return tuple(node for node in first if node < pick), tuple(node for node in first if node > pick)


def label_codes(nearest: Nearest) -> str:
    """What a box is called in which the nearest of all codes is picked."""
    return f"THE NEAREST OF {nearest.codes:,} CODES" + ", BY DIRECTION" * nearest.in_direction
