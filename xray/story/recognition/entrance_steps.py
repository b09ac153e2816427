"""The steps before the first layer, sorted: words or patches, their scale, what is added to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm, find_norm
from xray.story.recognition.operation_kinds import (
    CARRYING,
    CASTING,
    DROPOUTS,
    FINDINGS,
    JOINS,
    LOOKUPS,
    SCALINGS,
    SHAPING,
    SUMS,
)
from xray.story.recognition.projections import is_projection

MOST_STEPS = 60


@dataclass(frozen=True)
class Entrance:
    """The steps from the inputs to the first layer, by what they do; empty where there are none."""

    words: tuple[int, ...]
    scale: tuple[int, ...]
    patches: tuple[int, ...]
    sums: tuple[int, ...]
    norm: Norm | None
    dropout: int | None
    last: int | None
    nodes: tuple[int, ...]


def read_entrance(flow: Flow, entry: int | None) -> Entrance | None:
    """The steps behind the beginning of a stream; None if it comes from outside, or from nothing that is known."""
    if entry is None:
        return None
    behind = list_back(flow, entry)
    lookups = [node for node in behind if flow.op(node) in LOOKUPS and len(flow.output(node).shape) > 1]
    finders = [node for node in behind if flow.op(node) in FINDINGS or is_projection(flow, node)]
    words = pick_words(flow, lookups)
    if words is not None and finders and counts_up(flow, next(iter(flow.makers[words]), None)):
        words = None
    if words is None and not finders:
        return None
    sums = tuple(sorted(node for node in behind if flow.op(node) in SUMS and is_stream_sum(flow, node)))
    norm = find_norm(flow, flow.carried_from(entry, CARRYING | DROPOUTS))
    if norm is not None and norm.origin is None:
        norm = None
    finders = [] if words is not None else finders
    core = words if words is not None else max(finders)
    root = {core}
    sums = tuple(node for node in sums if node > core)
    before = min(sums) if sums else entry
    scale = tuple(
        node
        for node in behind
        if core < node <= before
        and flow.op(node) in SCALINGS
        and len(flow.steps[node].inputs) == 1
        and comes_from(flow, node, root)
    )
    last = norm.end if norm is not None else (sums[-1] if sums else None)
    dropout = next((node for node in sorted(behind, reverse=True) if flow.op(node) in DROPOUTS), None)
    if dropout is None:
        makers = [entry, *(() if last is None else (last,)), core]
        dropout = next(
            (node for maker in makers for node in flow.handed.get(maker, ()) if flow.op(node) in DROPOUTS), None
        )
    patches: tuple[int, ...] = ()
    if words is None:
        until = min(sums) if sums else entry + 1
        patches = tuple(
            sorted(
                node
                for node in behind
                if min(finders) <= node < until
                and node in set(behind)
                and (node in finders or comes_from(flow, node, set(finders)) or is_between(flow, node, finders))
            )
        )
    nodes = sorted(
        {*(() if words is None else (words,)), *patches, *scale, *sums, *(() if norm is None else norm.nodes), entry}
    )
    return Entrance(
        words=() if words is None else (words,),
        scale=scale,
        patches=patches,
        sums=sums,
        norm=norm,
        dropout=dropout,
        last=last,
        nodes=tuple(nodes),
    )


def is_between(flow: Flow, node: int, finders: Sequence[int]) -> bool:
    return any(min(finders) < node < one for one in finders)


def is_stream_sum(flow: Flow, node: int) -> bool:
    """Whether a sum adds two tensors that each have a number for every place."""
    step = flow.steps[node]
    return (
        len(step.inputs) == 2
        and len(step.outputs[0].shape) > 1
        and step.outputs[0].dtype.startswith(("float", "bfloat"))
        and all(len(record.shape) > 1 and record.shape[-1] == step.outputs[0].shape[-1] for record in step.inputs)
    )


def list_back(flow: Flow, entry: int) -> list[int]:
    """The steps behind the beginning of a stream, as far as numbers of it are made; ids are not followed."""
    found: list[int] = []
    todo = [entry]
    seen = {entry}
    while todo and len(found) < MOST_STEPS:
        here = todo.pop()
        found.append(here)
        if flow.op(here) in LOOKUPS:
            continue
        for record, maker in flow.given(here):
            if maker is not None and maker not in seen and record.dtype.startswith(("float", "bfloat")):
                seen.add(maker)
                todo.append(maker)
    return found


def pick_words(flow: Flow, lookups: Sequence[int]) -> int | None:
    """The lookup of the words: its ids were given and not counted out.

    Of several the one whose table has a row for each score that the pass ends with, then the one whose ids come from
    outside as they are, then the largest.
    """
    ends = next((node for node in reversed(range(len(flow.steps))) if is_projection(flow, node)), None)
    scored = None if ends is None else flow.output(ends).shape[-1]

    def table(node: int) -> int:
        step = flow.steps[node]
        number = step.settings.get("num_embeddings")
        if isinstance(number, int):
            return number
        weights = [
            record.shape[0]
            for record in step.inputs
            if len(record.shape) == 2 and record.dtype.startswith(("float", "bfloat"))
        ]
        return max(weights, default=step.params)

    def merit(node: int) -> tuple[bool, bool, bool, bool, int]:
        ids = flow.steps[node].inputs[0] if flow.steps[node].inputs else None
        maker = flow.makers[node][0] if flow.makers[node] else None
        straight = is_untouched(flow, maker)
        given = straight or not counts_up(flow, maker)
        whole = ids is not None and ids.shape[:1] == flow.output(node).shape[:1]
        return (given, whole, table(node) == scored, straight, table(node))

    streams = [node for node in lookups if len(flow.output(node).shape) >= 2]
    return max(streams, key=merit, default=None)


def is_untouched(flow: Flow, place: int | None) -> bool:
    """Whether ids come from outside as they are: perhaps in another shape, but not cut out of a longer table."""
    while place is not None and flow.op(place) in SHAPING | CASTING and flow.makers[place]:
        if prod(flow.steps[place].inputs[0].shape) != prod(flow.output(place).shape):
            return False
        place = flow.makers[place][0]
    return place is None


def counts_up(flow: Flow, place: int | None) -> bool:
    """Whether ids are made by counting."""
    todo, seen = [place], 0
    while todo and seen < 12:
        here = todo.pop()
        if here is None:
            continue
        seen += 1
        if flow.op(here) in ("arange", "cumsum"):
            return True
        todo += flow.makers[here]
    return False


def comes_from(flow: Flow, place: int | None, main: set[int]) -> bool:
    """Whether a step is one of the given ones, or one of them is a few steps behind it."""
    here = place
    for _ in range(16):
        if here is None:
            return False
        if here in main:
            return True
        if flow.op(here) not in CARRYING | DROPOUTS | SCALINGS | JOINS and find_norm(flow, here) is None:
            return False
        if not flow.makers[here]:
            return False
        here = next((maker for maker in flow.makers[here] if maker is not None), None)
    return False
