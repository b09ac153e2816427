"""Sublayers: an attention or a feed-forward with its residual sum, and the norm before or after it."""

from dataclasses import dataclass
from typing import Literal

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm, find_norm, strip_norm
from xray.story.recognition.operand_ways import read_entry, trace_back
from xray.story.recognition.operation_kinds import CARRYING, CURVES, DROPOUTS, SCALINGS, SUMS
from xray.story.recognition.projections import is_projection

PASSING = CARRYING | DROPOUTS | SCALINGS
FARTHEST = 10


@dataclass(frozen=True)
class FeedForward:
    """Widen, bend, narrow: the places of its projections and of what stands between them.

    `gate` is the second projection of a gated one, whose product with the other is `multiply`.
    """

    expand: int
    activation: tuple[int, ...]
    contract: int
    gate: int | None = None
    multiply: int | None = None


@dataclass(frozen=True)
class Sublayer:
    """A sublayer on the residual stream.

    `stream` is the step that made what the sum adds the sublayer to (None: from outside the pass), `between` what
    stands between the sublayer's last projection and the sum, `end` the step with which the stream goes on.
    """

    kind: Literal["self_attention", "cross_attention", "feed_forward"]
    part: Site | FeedForward
    stream: int | None
    between: tuple[int, ...]
    add: int
    norm: Norm | None
    norm_first: bool
    end: int

    @property
    def last(self) -> int:
        """The last projection."""
        return self.part.last if isinstance(self.part, Site) else self.part.contract


def find_sublayers(flow: Flow, sites: tuple[Site, ...]) -> list[Sublayer]:
    """All sublayers of a pass, in the order of their sums."""
    found = [one for site in sites if (one := join_attention(flow, site)) is not None]
    sums = {one.add for one in found}
    streams = {end for one in found for end in (one.end, one.add)}
    for place, step in enumerate(flow.steps):
        if step.op in SUMS and place not in sums and len(step.inputs) == 2 and flow.is_leaf(place):
            forward = join_feed_forward(flow, place)
            if forward is not None:
                found.append(forward)
                streams |= {forward.end, forward.add}
    return sorted(found, key=lambda one: one.add)


def join_attention(flow: Flow, site: Site) -> Sublayer | None:
    """An attention with the sum that its output goes to.

    None where it goes to none, or what it is added to there is not what it reads: a feed-forward beside it, say.
    """
    if site.output is None:
        return None
    found = seek_sum(flow, site.output)
    if found is None:
        return None
    add, between, stream = found
    source, norm = strip_norm(flow, site.query.origin)
    is_first = norm is not None and source == stream
    if not is_first and not is_same_stream(flow, site.query.origin, stream):
        return None
    after = None if is_first else norm_after(flow, add)
    return Sublayer(
        kind="self_attention" if site.kind == "self" else "cross_attention",
        part=site,
        stream=stream,
        between=between,
        add=add,
        norm=norm if is_first else after,
        norm_first=is_first,
        end=add if after is None else after.end,
    )


def is_same_stream(flow: Flow, one: int | None, other: int | None) -> bool:
    """Whether two steps hand on the same numbers."""
    return flow.carried_from(one, CARRYING | DROPOUTS) == flow.carried_from(other, CARRYING | DROPOUTS)


def seek_sum(flow: Flow, start: int) -> tuple[int, tuple[int, ...], int | None] | None:
    """The residual sum that a projection's output goes to, what stands between, and the maker of the other operand."""
    here = start
    between: list[int] = []
    for _ in range(FARTHEST):
        following: int | None = None
        for reader in flow.readers.get(here, ()):
            step = flow.steps[reader]
            if not step.outputs:
                continue
            if step.op in SUMS and len(step.inputs) == 2:
                other = 1 - flow.makers[reader].index(here)
                if step.inputs[other].role == "parameter" or len(step.inputs[other].shape) < 2:
                    following = reader
                    break
                if step.inputs[other].shape == step.outputs[0].shape:
                    return reader, tuple(between), flow.makers[reader][other]
            elif following is None and (step.op in PASSING or find_norm(flow, reader) is not None):
                following = reader
        if following is None:
            return None
        between.append(following)
        here = following
    return None


def norm_after(flow: Flow, add: int) -> Norm | None:
    """The norm that reads a sum, if the stream goes on from the norm: nothing later adds to the bare sum."""
    norm: Norm | None = None
    for reader in flow.readers.get(add, ()):
        if flow.op(reader) in SUMS:
            return None
        norm = norm or ending_norm(flow, reader, add)
    return norm


def ending_norm(flow: Flow, reader: int, origin: int) -> Norm | None:
    """The norm of a step's output that begins at one of its readers, with all that still belongs to it."""
    here = reader
    found: Norm | None = None
    for _ in range(2 * FARTHEST):
        norm = find_norm(flow, here)
        if norm is not None and norm.origin == origin:
            found = norm
        elif found is not None:
            return found
        onward = flow.readers.get(here, ())
        if not onward:
            return found
        longer = (one for one in onward if (next_ := find_norm(flow, one)) is not None and next_.origin == origin)
        here = next(longer, onward[-1])
    return found


def join_feed_forward(flow: Flow, add: int) -> Sublayer | None:
    """The feed-forward that a sum adds to the stream; None if neither operand comes from one."""
    for branch in (1, 0):
        start, stream = flow.makers[add][branch], flow.makers[add][1 - branch]
        if start is None:
            continue
        found = read_feed_forward(flow, start, stream)
        if found is None:
            continue
        part, between, norm = found
        after = None if norm is not None else norm_after(flow, add)
        return Sublayer(
            kind="feed_forward",
            part=part,
            stream=stream,
            between=between,
            add=add,
            norm=norm or after,
            norm_first=norm is not None,
            end=add if after is None else after.end,
        )
    return None


def read_feed_forward(
    flow: Flow, start: int, stream: int | None
) -> tuple[FeedForward, tuple[int, ...], Norm | None] | None:
    """A feed-forward that ends at a step and begins at the stream, what follows its last projection, its first norm."""
    here = start
    between: list[int] = []
    while not is_projection(flow, here):
        passing = flow.op(here) in PASSING or is_bias_sum(flow, here) or find_norm(flow, here) is not None
        maker = next((maker for maker in flow.makers[here] if maker is not None), None)
        if not passing or maker is None or len(between) > FARTHEST:
            return None
        between.append(here)
        norm = find_norm(flow, here)
        here = norm.origin if norm is not None and norm.origin is not None else maker
    contract = here
    maker = read_entry_maker(flow, contract)
    if maker is None:
        return None
    nodes = trace_back(flow, maker)
    projections = [node for node in nodes if is_projection(flow, node)]
    inner = tuple(node for node in nodes if node not in projections)
    if len(projections) not in (1, 2) or not any(is_bend(flow, node) for node in inner):
        return None
    norms: list[Norm | None] = []
    for projection in projections:
        origin = read_entry(flow, projection)[1]
        source, norm = strip_norm(flow, origin)
        if origin == stream:
            norms.append(None)
        elif norm is not None and source == stream:
            norms.append(norm)
        else:
            return None
    return sort_gate(flow, projections, inner, contract), tuple(reversed(between)), norms[0]


def sort_gate(flow: Flow, projections: list[int], inner: tuple[int, ...], contract: int) -> FeedForward:
    """Which of two projections is bent (it is the gate), and which is only multiplied."""
    if len(projections) == 1:
        return FeedForward(projections[0], inner, contract)
    bent = {projection: leads_to_bend(flow, projection, inner) for projection in projections}
    gate = next((one for one in projections if bent[one]), projections[0])
    expand = next(one for one in projections if one != gate)
    multiply = inner[-1]
    for node in reversed(inner):
        if flow.op(node) in SCALINGS and len(flow.steps[node].inputs) == 2:
            multiply = node
            break
    return FeedForward(expand, tuple(node for node in inner if node < multiply), contract, gate, multiply)


def leads_to_bend(flow: Flow, projection: int, inner: tuple[int, ...]) -> bool:
    here = projection
    for _ in range(FARTHEST):
        onward = [reader for reader in flow.readers.get(here, ()) if reader in inner]
        if not onward:
            return False
        if any(is_bend(flow, node) for node in onward):
            return True
        if flow.op(onward[0]) not in PASSING or len(flow.steps[onward[0]].inputs) == 2:
            return len(onward) > 1
        here = onward[0]
    return False


def is_bend(flow: Flow, place: int) -> bool:
    """Whether a step is an activation: one that is known, or a module of one tensor that learned nothing."""
    step = flow.steps[place]
    if step.op in CURVES:
        return True
    alone = flow.is_leaf(place) and bool(step.module) and len(step.inputs) == 1 and not step.params
    return alone and step.op not in PASSING and step.inputs[0].shape == step.outputs[0].shape


def is_bias_sum(flow: Flow, place: int) -> bool:
    """Whether a step only adds a learned row."""
    step = flow.steps[place]
    return (
        step.op in SUMS
        and len(step.inputs) == 2
        and (step.inputs[1].role == "parameter" or len(step.inputs[1].shape) == 1)
    )


def read_entry_maker(flow: Flow, projection: int) -> int | None:
    from xray.story.recognition.projections import data_input

    number = data_input(flow, projection)
    return None if number is None else flow.makers[projection][number]
