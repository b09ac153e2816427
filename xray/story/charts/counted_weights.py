"""How many parameters the steps of a box work with: each once, by its name."""

from collections.abc import Collection, Iterable, Iterator
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    FINDINGS,
    NORMS,
    PRODUCTS,
    REPEATS,
    SCALINGS,
    SHAPING,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
)
from xray.ir.flow.projections import data_input
from xray.ir.flow.remembering import once
from xray.ir.flow.weights import gather_weights, read_weights
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.charts.chart import steps_at
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import is_linear, works_on_weights
from xray.story.wording import plural

MOVES = CARRYING | REPEATS
CUTS = SPLITS | frozenset({"index", "slice", "unbind", "narrow", "select"})
"""They take a part of a tensor, or several."""
APART = SIDE_BY_SIDE | PRODUCTS
"""What makes rows of learned ones has a box of its own."""


def steps_with_block(flow: Flow, *places: int) -> tuple[Step, ...]:
    """The steps at some places, behind the block that holds these and nothing else."""
    steps = steps_at(flow, *places)
    block = flow.places.get(steps[0].parent or "")
    if block is None or len(places) < 2:
        return steps
    inside = [place for place in range(block + 1, flow.ends[block]) if flow.is_leaf(place)]
    return (flow.steps[block], *steps) if set(inside) == set(places) else steps


def describe_params(flow: Flow, *places: int) -> str:
    """How many parameters some steps work with together, in words; nothing where one was resized on its way to them."""
    counted = count_params(flow, *places)
    is_part = any(reads_resized(flow, one, places) for one in places)
    return plural(counted, "parameter") if counted and not is_part else ""


def count_params(flow: Flow, *places: int) -> int:
    """How many numbers the parameters hold that some steps work with, or those inside them, each once."""
    return sum(weights_at(flow, places).values())


def weights_of_box(flow: Flow, steps: Iterable[Step]) -> dict[str, int]:
    """The parameters that the steps of a box work with, by their names."""
    return weights_at(flow, [flow.places[step.id] for step in steps if step.id in flow.places])


def weights_at(flow: Flow, places: Iterable[int]) -> dict[str, int]:
    """The parameters that some steps work with, or those inside them, by their names, each with its size.

    With those of which other steps made what these are given: in the same block, out of learned numbers alone (weights
    that are normed first, a row times a number), or in any, by moves alone: a part that these cut is a parameter by
    itself. Not those that were resized, which may happen to one many times, nor rows that a linear layer works on.
    """
    leaves = {inner for one in places for inner in range(one, flow.ends[one]) if flow.is_leaf(inner)}
    found: dict[str, int] = {}
    for place in (one for one in sorted(leaves) if flow.op(one) not in MOVES):
        rows = data_input(flow, place) if is_linear(flow, place) else None
        given, is_held = list(flow.given(place)), bool(flow.steps[place].params)
        own = None if rows is None or is_held else given[rows][0].weight
        found.update((name, size) for name, size in read_weights(flow, place).items() if name != own)
        given = [  # of rows no more than those that are laid out for it alone
            one
            for number, one in enumerate(given)
            if not (is_held or number == rows)
            or (one[1] in leaves and leaves.issuperset(list_using(flow, one[1] or 0)))
        ]
        if not is_held:
            found.update(gather_weights(flow, list_made_beside(flow, place, leaves)))
        found.update(part for record, maker in given for part in list_moved(flow, record, maker))
    return found


def list_using(flow: Flow, place: int) -> list[int]:
    """The leaves that read what a step gives, but for moves that nobody reads (an Identity beside the way)."""
    return [one for one in flow.leaf_readers(place) if flow.op(one) not in CARRYING or flow.leaf_readers(one)]


def list_made_beside(flow: Flow, place: int, known: Collection[int]) -> Iterator[int]:
    """The steps of no module, in the same block, that make of learned numbers alone what a step is given."""
    start = next(flow.parents(place), len(flow.steps))

    def makes(one: int) -> bool:
        return start < one and one not in known and works_on_weights(flow, one) and not flow.steps[one].params

    is_norm = flow.op(place) in NORMS  # the rows that it norms are none of its weights
    is_weight = is_norm or is_linear(flow, place) or flow.op(place) in FINDINGS
    given = filter(lambda one: one is not None and makes(one), flow.makers[place][is_norm:])
    made = list(flow.behind(*given, within=makes))
    if not is_weight and (
        flow.op(place) not in SUMS | SCALINGS | SIDE_BY_SIDE or not APART.isdisjoint(map(flow.op, made))
    ):
        return
    yield from made if any(flow.op(one) not in MOVES and flow.is_leaf(one) for one in made) else ()


def list_moved(flow: Flow, record: TensorRecord, maker: int | None) -> Iterator[tuple[str, int]]:
    """The parameters that a tensor is made of by steps that do no more than move numbers; biases may be end to end."""
    record, maker = before_zeroed(flow, record, maker)
    if maker is not None and begins_stream(flow, maker):
        return
    part, least, is_whole = "", prod(record.shape), False
    while maker is not None and (flow.op(maker) in MOVES or joins_biases(flow, maker)):
        given, step = list(flow.given(maker)), flow.steps[maker]
        if (joined := find_cut_out(flow, record, maker)) is not None:
            yield from [(joined[0].weight, prod(joined[0].shape))] if joined[0].weight is not None else ()
            yield from list_moved(flow, *joined)
            return
        if flow.op(maker) in SIDE_BY_SIDE:
            yield from () if part else read_weights(flow, maker).items()
            yield from () if part else (found for one in given for found in list_moved(flow, *one))
            return
        is_whole |= len(given) > 1  # rows are looked up, be these few
        if flow.op(maker) in CUTS:
            part += f" {spell_cut(step)} {record.output or ''}"
        weights = read_weights(flow, maker)
        for name, size in weights.items():
            whole = is_whole or least >= size or (step.op not in SPLITS and is_cut_once(flow, name, maker))
            yield (name, size) if whole else (f"{name}{part}", least)
        if weights or not given:
            return
        record, maker = given[0]
        least = min(least, prod(record.shape))


def begins_stream(flow: Flow, rows: int) -> bool:
    """Whether to some rows is added what was made of them: they are a stream of their own (the rows of Idefics 2)."""
    added = [one for one in flow.leaf_readers(rows) if flow.op(one) in SUMS]
    others = (maker for one in added for maker in flow.makers[one] if maker is not None and maker != rows)
    return any(rows in flow.behind(one, within=rows.__le__) for one in others)


def joins_biases(flow: Flow, maker: int) -> bool:
    """Whether a step puts biases end to end: those of queries and values, with zeros between them (Swin V2)."""
    return flow.op(maker) in SIDE_BY_SIDE and len(flow.output(maker).shape) == 1


def find_cut_out(flow: Flow, record: TensorRecord, maker: int) -> tuple[TensorRecord, int | None] | None:
    """Which of several biases that were put end to end a step cuts out again, and what made it (WavLM)."""
    rows = flow.makers[maker][0] if flow.op(maker) in SPLITS and record.output is not None else None
    if rows is None or not joins_biases(flow, rows):
        return None
    joined, parts = list(flow.given(rows)), flow.steps[maker].outputs
    is_same = [one.shape for one, _ in joined] == [one.shape for one in parts]
    return joined[record.output or 0] if is_same else None


def spell_cut(step: Step) -> str:
    """Which part of a tensor a step takes."""
    return " ".join(f"{key}={value}" for key, value in sorted(step.settings.items()))


@once
def list_ways_cut(flow: Flow) -> dict[str, set[str]]:
    """In which ways steps take parts of each parameter."""
    found: dict[str, set[str]] = {}
    for place, step in enumerate(flow.steps):
        for name in read_weights(flow, place):
            found.setdefault(name, set()).add(spell_cut(step) if flow.op(place) in CUTS else "")
    return found


def is_cut_once(flow: Flow, name: str, place: int) -> bool:
    """Whether several rows are taken of a parameter of which nothing else is."""
    return len(list_ways_cut(flow)[name]) == 1 < prod(flow.output(place).shape[:-1])


def reads_resized(flow: Flow, place: int, places: Collection[int]) -> bool:
    """Whether a step that moves no numbers reads a parameter that was resized on its way, which is not counted.

    Where what resized it is among the same steps, it is counted there (the rows that VITS pads).
    """
    if flow.steps[place].params or flow.op(place) in CARRYING | REPEATS:
        return False
    return any(
        learned_source(flow, record, maker) is not None
        and learned_source(flow, record, maker, CARRYING | REPEATS) is None
        and flow.carried_from(maker, CARRYING | REPEATS) not in places
        for record, maker in flow.given(place)
    )


def before_zeroed(flow: Flow, record: TensorRecord, maker: int | None) -> tuple[TensorRecord, int | None]:
    """A tensor as it was before steps set parts of it to 0, and the step that made it then."""
    while maker is not None and flow.op(maker) == "zero_" and (cut := flow.makers[maker][0]) is not None:
        before, earlier = next(flow.given(cut), (None, None))
        if before is None or before.shape != record.shape or flow.op(cut) not in SHAPING:
            break
        record, maker = before, earlier
    return record, maker
