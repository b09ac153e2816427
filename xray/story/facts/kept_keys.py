"""Keys and values that a model keeps from pass to pass: how many words, how many bytes, what one more word costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SCALINGS, SIDE_BY_SIDE, SPLITS
from xray.ir.flow.projections import is_product
from xray.ir.flow.remembering import once
from xray.ir.kinds import plain_name
from xray.ir.records import TensorRecord
from xray.ir.storage import bytes_per_element, count_bytes
from xray.ir.trace import Pass, PassKind, Step, Trace
from xray.story.body.reading import read_pass
from xray.story.recognition.between import is_linear

JOINS = SIDE_BY_SIDE | {"extend"}
WRITES = frozenset({"index_copy", "index_put", "copy", "slice_scatter", "scatter"})
MOVES = CARRYING | REPEATS | SIDE_BY_SIDE | SPLITS | {"index", "stack", "copy_"}
ATTENTION = "scaled_dot_product"
FARTHEST = 40
"""Within so many steps what was kept stands before the attention that reads it."""
HEADS_RANK = 4
"""Keys and values are kept as (batch, heads, words, d_k)."""
ROWS_RANK = 3
"""The keys of other scores, by which keys are chosen, are kept as (batch, words, width)."""


@dataclass(frozen=True)
class Kept:
    """The keys and values kept after one pass.

    `words` is the length of those that grow, or that a pass would leave to grow; `bytes` is the size of all that is
    kept, what stays as it is (keys and values of an encoder) included.
    """

    kind: PassKind
    number: int
    words: int
    bytes: int


@dataclass(frozen=True)
class Growth:
    """How a key-value cache grew; `per_word` is what one more word of one sequence costs in bytes.

    `layers`, `heads`, `width` and `element_bytes` are its factors, per_word = layers x 2 x heads x width x bytes, and
    are 0 where the layers keep tensors of different sizes. `is_kept` is false where nothing was kept, and the record
    only tells what the keys and values of each word would take.
    """

    turns: tuple[Kept, ...]
    per_word: int
    layers: int
    heads: int
    width: int
    element_bytes: int
    is_kept: bool = True


@once
def measure_growth(trace: Trace) -> Growth | None:
    """The growth of a trace's key-value cache; None where neither a cache nor causal attention is in the record.

    So it is where keys of several lengths grow, those of two towers (Voxtral Realtime): one word has no price there.
    Nor is it told where more may be kept of a word than keys and values as attention reads them: numbers of which these
    are made anew (a waist), or in fewer bits.

    A tensor is kept if a pass reads it and did not make it, or joins new words to it. After a pass there is what the
    next one reads of before; after the last, what it has itself put together.
    """
    passes = [one for one in trace.passes if one.kind in ("forward", "decode")]
    looks = [look_at_pass(one) for one in passes]
    if not all(look.is_whole for look in looks):
        return None
    turns: list[Kept] = []
    for place, (one, look) in enumerate(zip(passes, looks, strict=True)):
        following = looks[place + 1] if place + 1 < len(looks) else None
        grown = following.grown_from if following is not None and following.reads else look.grown
        fixed = following.fixed if following is not None and following.reads else (*look.fixed, *look.memories)
        if grown or fixed:
            words = max((record.shape[-2] for record in grown or fixed), default=0)
            turns.append(Kept(one.kind, one.number, words, sum(map(count_bytes, (*grown, *fixed)))))
    joined = next((look.grown for look in reversed(looks) if look.grown), ())
    if len({record.shape[-2] for record in joined}) > 1:
        return None
    if joined:
        return describe_growth(tuple(turns), joined, is_kept=True)
    would_keep = next((found for one in passes if (found := tuple(list_causal_keys(one)))), ())
    return describe_growth((), would_keep, is_kept=False) if would_keep else None


def list_prices(trace: Trace) -> tuple[tuple[int, int], ...]:
    """Of keys that grow in two towers, each with rows of its own length, that length and what one more place costs."""
    looks = [look_at_pass(one) for one in trace.passes if one.kind in ("forward", "decode")]
    joined = (
        ()
        if not all(look.is_whole for look in looks)
        else next((look.grown for look in reversed(looks) if look.grown), ())
    )
    lengths = dict.fromkeys(record.shape[-2] for record in joined)
    found = ((one, [record for record in joined if record.shape[-2] == one]) for one in lengths)
    prices = tuple((one, describe_growth((), kept, is_kept=True).per_word) for one, kept in found)
    return prices if len(prices) > 1 else ()


@dataclass(frozen=True)
class Look:
    """What one pass has to do with a cache: what grew, from what, and what it read of before as it was.

    `memories` are keys and values of another tower that it put there first, to be read again by later ones. What grew
    lies as (batch, heads, words, width), however it is kept. It `is_whole` where no attention reads keys of a cache and
    values of none, or the other way round.
    """

    grown: tuple[TensorRecord, ...]
    grown_from: tuple[TensorRecord, ...]
    fixed: tuple[TensorRecord, ...]
    memories: tuple[TensorRecord, ...] = ()
    is_whole: bool = True

    @property
    def reads(self) -> bool:
        """Whether the pass read anything of before."""
        return bool(self.grown_from or self.fixed)


@once
def look_at_pass(one_pass: Pass) -> Look:
    """Find the steps of a pass that join new words to kept ones, and its other reads of what earlier passes made."""
    made: set[str] = set()
    states = {step.inputs[0].source for step in one_pass.steps if is_overwriting(step)}
    memories, is_lost = list_memories(one_pass), loses_cache(one_pass)
    joins, is_whole = list[Step](), True
    grown: list[TensorRecord | None] = []
    grown_from: list[TensorRecord] = []
    fixed: dict[tuple[str | None, tuple[int, ...]], TensorRecord] = {}
    for step in one_pass.steps:
        if step.id in one_pass.blocks:
            made.add(step.id)
            continue
        past = None if step.id in memories else find_past(step, made)
        if past is not None and not is_looked_at(one_pass, step, in_linear=len(past.shape) != ROWS_RANK):
            is_whole = is_whole and not is_looked_at(one_pass, step, in_linear=True)
            past = None
        past = None if past is not None and is_lost and begins_cache(step) else past
        if past is not None:
            joins.append(step)
            grown.append(lay_out(step.outputs[0], find_axis(step)))
            grown_from.extend([lay_out(past, find_axis(step)) or past] if prod(past.shape) else [])
        for record in step.inputs:
            if record is not past and record.source not in states and is_from_before(record, made):
                fixed[record.source, record.shape] = record
        made.update((step.id, *(record.source for record in step.outputs if record.source)))
    used = {(record.source, record.shape) for record in grown_from}
    kept = tuple(step.outputs[0] for step in one_pass.steps if step.id in memories)
    return Look(
        tuple(record for record in grown if record is not None),
        tuple(grown_from),
        tuple(one for key, one in fixed.items() if key not in used),
        kept,
        is_whole and None not in grown and reads_both(one_pass, joins),
    )


def find_axis(step: Step) -> int | None:
    """Along which axis a step puts new words to kept ones; None where that is not known."""
    past, out, new = step.inputs[0].shape, step.outputs[0].shape, step.inputs[-1].shape
    if plain_name(step.op) == "extend" or not prod(past):
        told = step.settings.get("dim", step.settings.get("other", -2))
        return told % len(out) if isinstance(told, int) else None
    other = past if plain_name(step.op) in JOINS else new
    found = [axis for axis, (one, size) in enumerate(zip(other, out, strict=False)) if one != size]
    told = step.settings.get("dim", step.settings.get("other"))
    found = [told % len(out)] if isinstance(told, int) and plain_name(step.op) != "copy" else found
    return found[0] if len(found) == 1 else None


def lay_out(record: TensorRecord, axis: int | None) -> TensorRecord | None:
    """A tensor of words along an axis as (batch, heads, words, width); None where axis or batch is not known."""
    batch = record.axes.index("batch") if "batch" in record.axes else None
    if axis is None or batch is None:
        return None
    others = [one for one in range(len(record.shape)) if one not in (axis, batch)]
    order = (batch, *others[:-1], axis, *others[-1:])
    return replace(
        record, shape=tuple(record.shape[one] for one in order), axes=tuple(record.axes[one] for one in order)
    )


def moves_rows(flow: Flow, node: int) -> bool:
    """Whether a step only moves, repeats or picks rows, multiplies them by one number, or puts others beside them."""
    return flow.op(node) in MOVES or (flow.op(node) in SCALINGS and len(flow.steps[node].inputs) == 1)


def is_looked_at(one_pass: Pass, step: Step, *, in_linear: bool = False) -> bool:
    """Whether what is put together is scored by a product or weighed by one, as it is, or what one layer makes of it.

    That layer is left out for the rows of a stream: a model that tells speakers apart puts what it heard of them in
    front of what it hears (Nemotron 3.5 Transcribe).
    """
    flow = read_pass(one_pass).flow
    todo, read = [flow.places[step.id]], set[int]()
    for _ in range(1 + in_linear):
        moved = [*todo, *flow.ahead(*list_readers(flow, todo), within=lambda one: moves_rows(flow, one))]
        onward = list_readers(flow, moved)
        todo = [one for one in onward if is_linear(flow, one)]
        read |= onward.difference(todo)
    return any(is_product(flow, one) or ATTENTION in flow.op(one) for one in read)


def list_readers(flow: Flow, places: Sequence[int]) -> set[int]:
    """The steps that read what any of some steps make."""
    return {reader for one in places for reader in flow.readers.get(one, ())}


def reads_both(one_pass: Pass, joins: Sequence[Step]) -> bool:
    """Whether each attention reads both keys and values of what steps put together, or of neither."""
    flow = read_pass(one_pass).flow
    kept = {flow.places[step.id] for step in joins}

    def leads(node: int) -> bool:
        return node in kept or moves_rows(flow, node) or is_linear(flow, node)

    for site in list_sites(flow) if kept else ():
        ends = ((site.scores, site.key.end), (site.weighted_sum, site.value.end))
        read = [[maker for record, maker in flow.given(place) if record is end] for place, end in ends]
        if all(read) and len({kept.isdisjoint(flow.behind(*one, within=leads)) for one in read}) > 1:
            return False
    return True


def loses_cache(one_pass: Pass) -> bool:
    """Whether a forward pass in which nothing looks back hands out no part of what it puts into caches (FlauBERT).

    Where words look back the keys of earlier ones stay as they are, be it that a model around does not hand them out.
    """
    outer = [step for step in one_pass.steps if step.parent is None and step.id in one_pass.blocks]
    masks = (record.mask for step in one_pass.steps for record in step.inputs if record.mask is not None)
    looks_back = any(step.settings.get("is_causal") is True for step in one_pass.steps)
    if one_pass.kind != "forward" or not outer or looks_back or any("causal" in mask.kind for mask in masks):
        return False
    left = {record.source for step in outer for record in step.outputs}
    left |= {step.inputs[0].source for step in one_pass.steps if step.id in left and step.op == "index"}
    return left.isdisjoint(step.id for step in one_pass.steps if begins_cache(step))


def list_memories(one_pass: Pass) -> set[str]:
    """The steps that keep keys and values of another tower: as long as that is, and no longer with any word."""
    if not any(begins_cache(step) for step in one_pass.steps):
        return set()
    reading = read_pass(one_pass)
    flow = reading.flow
    found: dict[str, set[str]] = {"self": set(), "cross": set()}
    moves = partial(moves_rows, flow)
    for site in reading.sites:
        read = (*flow.makers[site.scores], *flow.makers[site.weighted_sum])
        for here in flow.behind(*read, most=FARTHEST, within=moves, ends=lambda one: flow.op(one) in SIDE_BY_SIDE):
            if begins_cache(flow.steps[here]):
                kind = site.kind if is_brought(flow, here, site.query.origin) else "self"
                found[kind].add(flow.steps[here].id)
            elif flow.op(here) in SIDE_BY_SIDE:
                put = (flow.carried_from(maker) for maker in flow.makers[here])
                kept = [one for one in put if one is not None and begins_cache(flow.steps[one])]
                found["cross"] |= {flow.steps[one].id for one in kept if is_brought(flow, one, site.query.origin)}
    return found["cross"] - found["self"]  # later layers may read what one keeps for itself (Gemma 3n)


def is_brought(flow: Flow, kept: int, stream: int | None) -> bool:
    """Whether kept rows are worked out by linear layers, and of no stream (T5Gemma 2).

    Queries may come of it through a waist (DeepSeek-V4), and keys (DeepSeek-V3).
    """
    read = list_read(flow, kept)
    return bool(read) and ({stream} | list_read(flow, stream)).isdisjoint(read)


def list_read(flow: Flow, place: int | None) -> set[int | None]:
    """What the linear layers read that a step's numbers come from first."""
    behind = flow.behind(place, most=FARTHEST, ends=lambda one: is_linear(flow, one))
    return {flow.carried_from(flow.makers[one][0]) for one in behind if is_linear(flow, one)}


def begins_cache(step: Step) -> bool:
    """Whether a step puts the first rows into a cache that is empty."""
    return plain_name(step.op) in JOINS and bool(step.inputs) and not prod(step.inputs[0].shape)


def find_past(step: Step, made: set[str]) -> TensorRecord | None:
    """The kept tensor that a step puts new words into, or behind; None for a step that does no such thing."""
    name = plain_name(step.op)
    if name not in JOINS | WRITES or not step.inputs or not step.outputs or is_overwriting(step):
        return None
    past, out = step.inputs[0], step.outputs[0]
    rank = ROWS_RANK if joins_rows(step) else HEADS_RANK
    if len(out.shape) != rank or not out.is_float or (name in JOINS and len(step.inputs) != 2):
        return None
    is_empty = name in JOINS and prod(past.shape) == 0 and step.inputs[1].shape == out.shape
    return past if is_empty or step.op == "extend" or is_from_before(past, made, rank) else None


def joins_rows(step: Step) -> bool:
    """Whether rows of one width are put behind others, not cut into heads, as the keys of other scores are."""
    if plain_name(step.op) not in JOINS or len(step.outputs[0].shape) != ROWS_RANK:
        return False
    return any(step.settings.get(name) in (1, -2) for name in ("dim", "other"))


def is_overwriting(step: Step) -> bool:
    """Whether a tensor is written anew as a whole: a state, which is as large after any number of words."""
    return plain_name(step.op) == "copy" and len(step.inputs) == 2 and step.inputs[0].shape == step.inputs[1].shape


def is_from_before(record: TensorRecord, made: set[str], rank: int = HEADS_RANK) -> bool:
    """Whether a tensor of keys or values was made before this pass."""
    if len(record.shape) != rank or not record.is_float or record.role in ("mask", "parameter"):
        return False
    return record.source not in made if record.source is not None else record.role == "state"


def list_causal_keys(one_pass: Pass) -> Iterator[TensorRecord]:
    """The keys and values that causal self-attention read in a pass without a cache, where the record says that it was.

    Only fused attention is taken at its word, since it names what it was given. What several layers read counts once.
    """
    known: set[str] = set()
    for step in one_pass.steps:
        if ATTENTION not in step.op:
            continue
        given = {record.name: record for record in step.inputs}
        query, key, value = (given.get(name) for name in ("query", "key", "value"))
        if query is None or key is None or value is None or len(key.shape) != HEADS_RANK:
            continue
        masks = [record.mask.kind for record in step.inputs if record.mask is not None]
        causal = step.settings.get("is_causal") is True or any("causal" in kind for kind in masks)
        if causal and query.shape[-2] == key.shape[-2]:
            fresh = [one for one in (key, value) if one.source is None or one.source not in known]
            known |= {one.source for one in fresh if one.source is not None}
            yield from fresh


def describe_growth(turns: tuple[Kept, ...], kept: Sequence[TensorRecord], *, is_kept: bool) -> Growth:
    """The price of one more word, from the keys and values of all layers."""
    per_word = sum(count_bytes(one) // max(1, one.shape[0] * one.shape[-2]) for one in kept)
    sizes = {(one.shape[1], one.shape[-1], bytes_per_element(one.dtype) or 0) for one in kept}
    heads, width, element_bytes = next(iter(sizes)) if len(sizes) == 1 and len(kept) % 2 == 0 else (0, 0, 0)
    layers = len(kept) // 2 if heads else 0
    return Growth(turns, per_word, layers, heads, width, element_bytes, is_kept)
