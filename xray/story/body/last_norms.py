"""The norm behind the last layer of a tower."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SUMS
from xray.story.anatomy.tree import Norm
from xray.story.body.stages import Staging
from xray.story.cutting.patterns import Layer
from xray.story.recognition.between import is_linear, strip_plain
from xray.story.recognition.lengths import divides_by_length
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.recognition.norms import name_norm
from xray.story.streams.chains import Chain
from xray.story.streams.shortcuts import find_any_norm

MOST_BEHIND = 8
MOST_ONWARD = 80
POOLINGS = frozenset({"mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool2d"})


def norm_within_skip(flow: Flow, chain: Chain) -> FoundNorm | None:
    """The norm that reads the last layer of a chain before what went into the first is added to it once more."""
    last = chain.joints[-1].add
    norm = last_norm(flow, last) if chain.end > last else None
    return norm if norm is not None and any(norm.end in skip.region.inner for skip in chain.skips) else None


def last_norm(flow: Flow, end: int) -> FoundNorm | None:
    """The norm that reads what a chain ends with; rows that are made one long are no norm of it (X-CLIP).

    Nor is one of rows that several places were put together to: it belongs to what puts them (InternVL's projector),
    or one of a piece that the rows were cut into: it belongs to what works on each piece (HunYuan VL's images).
    """
    todo = [end]
    for _ in range(40):
        if not todo:
            return None
        here = todo.pop(0)
        for reader in flow.readers.get(here, ()):
            norm = closing_norm(flow, reader, end)
            if norm is not None:
                is_own = flow.output(norm.end).shape[-1] in flow.output(end).shape
                return norm if is_own and not is_mere_length(flow, norm) and not is_of_piece(flow, end, norm) else None
            if flow.op(reader) in CARRYING | DROPOUTS | POOLINGS:
                todo.append(reader)
    return None


def is_of_piece(flow: Flow, end: int, norm: FoundNorm) -> bool:
    """Whether a norm reads one of several pieces that a stream is cut into."""
    here = norm.origin
    while here is not None and here != end and flow.makers[here]:
        if len(flow.steps[here].outputs) > 1:
            return True
        here = flow.makers[here][0]
    return False


def is_mere_length(flow: Flow, norm: FoundNorm) -> bool:
    """Whether rows are made one long, and no learned number of each channel multiplies them."""
    learned = (one for node in norm.nodes for one in flow.steps[node].inputs if one.role == "parameter")
    is_length = any(divides_by_length(flow, node) for node in norm.nodes)
    return is_length and all(prod(one.shape) == 1 for one in learned)


def goes_past(flow: Flow, end: int, norm: FoundNorm) -> bool:
    """Whether the stream goes on beside a norm, so that the norm belongs to a branch that was not recognised."""
    return any(
        flow.op(reader) in SUMS and len(flow.steps[reader].inputs) == 2 and reader > norm.end
        for reader in flow.readers.get(end, ())
    )


def is_of_keys(flow: Flow, end: int, norm: FoundNorm, sites: Sequence[Site]) -> bool:
    """Whether a norm belongs to an attention behind a stream, which makes keys of what it gives (Perceiver).

    The block that works both out does not hold the end of the stream, as that of an encoder does that ends in a norm.
    """
    made = flow.steps[norm.end].id
    is_out = made in flow.one_pass.results
    blocks = set(flow.parents(norm.end)) - set(flow.parents(end))
    return not is_out and any(
        site.kind == "cross"
        and site.scores > norm.end
        and not blocks.isdisjoint(flow.parents(site.softmax))
        and norm.end in flow.behind(*(node for node in site.key.nodes if is_linear(flow, node)), most=MOST_BEHIND)
        for site in sites
    )


def is_of_way_on(flow: Flow, sums: Collection[int], norm: FoundNorm) -> bool:
    """Whether a norm belongs to what leads a stream elsewhere: one block works it out, and a linear layer behind it.

    That block holds none of the stream's sums: what works those out had ended before (Qwen2.5-VL's merger, Mistral 3's
    projector).
    """
    inside = {block for add in sums for block in flow.parents(add)}
    apart = [block for block in flow.parents(norm.end) if block not in inside]
    onward = islice(flow.ahead(norm.end), MOST_ONWARD)
    return bool(apart) and any(is_linear(flow, place) and apart[-1] in flow.parents(place) for place in onward)


def is_used(flow: Flow, place: int) -> bool:
    """Whether what a step makes is read, or handed out by the model, and not dropped (MetaCLIP 2)."""
    if any(flow.is_leaf(reader) for reader in flow.readers.get(place, ())):
        return True
    made = flow.steps[place].id
    return made in flow.one_pass.results


def closing_norm(flow: Flow, reader: int, end: int) -> FoundNorm | None:
    """The longest norm of a step's output that goes through one of its readers."""
    found: FoundNorm | None = None
    todo = [reader]
    seen: set[int] = set()
    while todo and len(seen) < 20:
        here = todo.pop(0)
        if here in seen:
            continue
        seen.add(here)
        norm = find_any_norm(flow, here)
        if norm is not None and norm.origin is not None and strip_pools(flow, norm.origin) == end:
            if found is None or len(norm.nodes) >= len(found.nodes):
                found = norm
        elif found is not None:
            continue
        if is_linear(flow, here):
            continue
        todo += flow.readers.get(here, ())
    return found


def strip_pools(flow: Flow, place: int) -> int | None:
    """The step whose places are only moved or pooled until here."""
    here = strip_plain(flow, place)
    while here is not None and flow.op(here) in POOLINGS and flow.makers[here]:
        here = strip_plain(flow, flow.makers[here][0])
    return here


def is_end_of_layer(layers: Sequence[Layer]) -> bool:
    """Whether the norm behind the last layer ends that: one stands behind the same sublayer of each other (Conformer).

    What comes behind that in one layer alone changes nothing.
    """
    last = layers[-1][-1].stage
    kinds = [branch.part for branch in last.branches]
    ends = [
        any(one.stage.norm.is_behind_sum and kinds == [branch.part for branch in one.stage.branches] for one in layer)
        for layer in layers[:-1]
    ]
    return bool(ends) and all(ends) and not last.norm.is_behind_sum


def ends_as_another(flow: Flow, chain: Chain, layers: Sequence[Layer], norm: FoundNorm) -> bool:
    """Whether the block of the last layer holds the norm behind it, and another layer ends with one (Fun-ASR's ear)."""
    last = layers[-1][-1].stage.norm
    others = (layer[-1].stage.norm.is_behind_sum for layer in layers[:-1])
    return not last.is_behind_sum and any(others) and is_of_last_block(flow, chain, norm)


def is_of_last_block(flow: Flow, chain: Chain, norm: FoundNorm) -> bool:
    """Whether a block that holds the last sum of a chain, and not its first, holds the norm of that too (Fun-ASR).

    One that reads some rows alone, cut off the others, is none of the sum: it is of what works on these (GroupViT).
    """
    if prod(flow.output(norm.end).shape) != prod(flow.output(chain.end).shape):
        return False
    ends, begins = set(flow.parents(chain.end)), set(flow.parents(chain.joints[0].add))
    return any(block in ends - begins for block in flow.parents(norm.end))


def take_norm(flow: Flow, staging: Staging, norm: FoundNorm) -> Staging:
    """A stage with the norm that stands behind its sum."""
    own = staging.stage.norm
    kind = name_norm(flow, norm)
    found = Norm(
        kind if own.place == "none" or kind == own.kind else None,
        "after" if own.place in ("none", "after") else "both",
        "both" if own.on == "branch" else "stream",
        own.adaptive or False,
    )
    return replace(staging, stage=replace(staging.stage, norm=found), norms=(*staging.norms, norm))
