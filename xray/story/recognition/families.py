"""Which stack is the encoder and which the decoder, what family that makes, and what kind each pass is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from xray.ir.trace import PassKind
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CARRYING
from xray.story.recognition.scored_parts import list_behind, read_scored
from xray.story.recognition.stacks import Stack
from xray.story.recognition.way_parts import cut_way

Family = Literal["encoder-decoder", "decoder-only", "encoder-only"]
COMPARISONS = frozenset({"le", "lt", "ge", "gt"})
BACKWARD = frozenset({"backward"})
"""What makes a pass a training step; a loss alone is worked out in evaluation, too."""


@dataclass(frozen=True)
class Sides:
    """The stacks of one pass."""

    encoder: Stack | None
    decoder: Stack | None


def choose_sides(read: Sequence[tuple[Flow, tuple[Stack, ...]]]) -> list[Sides]:
    """Encoder and decoder of each pass: the decoder is the stack that reads another one's result."""
    return [choose(flow, stacks) for flow, stacks in read]


def choose(flow: Flow, stacks: tuple[Stack, ...]) -> Sides:
    """The sides of one pass; of several stacks on a side the longest."""
    crossing = [stack for stack in stacks if stack.crossings]
    if not crossing:
        return Sides(max(stacks, key=lambda stack: len(stack.layers)), None)
    decoder = max(crossing, key=lambda stack: len(stack.layers))
    others = [stack for stack in stacks if stack is not decoder]
    origin = decoder.crossings[0].key.origin
    encoder = next((stack for stack in others if ends_in(flow, stack, origin)), None)
    return Sides(encoder, decoder)


def ends_in(flow: Flow, stack: Stack, origin: int | None) -> bool:
    """Whether a tensor is a stack's result, or made of it within a few steps."""
    here = origin
    for _ in range(12):
        if here is None:
            return False
        if here in (stack.end, stack.result):
            return True
        here = next((maker for maker in flow.makers[here] if maker is not None), None)
    return False


def name_family(read: Sequence[tuple[Flow, tuple[Stack, ...]]], sides: Sequence[Sides]) -> Family:
    """What kind of transformer this is."""
    if any(side.decoder is not None for side in sides):
        return "encoder-decoder"
    stacks = [(flow, side.encoder) for (flow, _), side in zip(read, sides, strict=True) if side.encoder is not None]
    return (
        "decoder-only"
        if any(is_causal(flow, stack) or has_cache(flow, stack) for flow, stack in stacks)
        else "encoder-only"
    )


def is_causal(flow: Flow, stack: Stack) -> bool:
    """Whether the stack's self-attention hides the future: its masks say so, or how they are made."""
    for site in stack.sites:
        for part in read_scored(flow, site.scored):
            if part.kind != "mask" or part.operand is None:
                continue
            facts = part.operand.record.mask
            if facts is not None and facts.kind in ("causal", "padding+causal"):
                return True
            if facts is None and any(hides_future(flow, node) for node in list_behind(flow, part.operand.maker)):
                return True
    return False


def hides_future(flow: Flow, node: int) -> bool:
    """Whether a step cuts a triangle, or compares a row of places with a column of them."""
    step = flow.steps[node]
    if step.op.rstrip("_") in ("tril", "triu"):
        return True
    if step.op not in COMPARISONS or len(step.inputs) != 2 or not step.outputs:
        return False
    out = step.outputs[0].shape
    return len(out) > 1 and min(out[-2:]) > 1 and all(record.shape != out for record in step.inputs)


def has_cache(flow: Flow, stack: Stack) -> bool:
    """Whether keys are joined to those of earlier calls."""
    return any(
        part.kind == "cache"
        for site in stack.sites[:1]
        for part in cut_way(flow, site.key, shared=False, is_key=True, d_k=0)
    )


def name_passes(flows: Sequence[Flow], sides: Sequence[Sides], family: Family) -> list[tuple[PassKind, int]]:
    """The kind and number of each retold pass, each pair only once."""
    given = [(flow.one_pass.kind, flow.one_pass.number) for flow in flows]
    if any(kind != "forward" for kind, _ in given):
        return number_apart(given)
    kinds: list[PassKind] = []
    encoded = family == "encoder-decoder" and any(side.decoder is None for side in sides)
    grows = family == "decoder-only" and is_growing(flows, sides)
    for flow, side in zip(flows, sides, strict=True):
        if encoded or grows:
            kinds.append("encode" if side.decoder is None else "decode")
        else:
            kinds.append("training" if any(step.op in BACKWARD for step in flow.steps) else "forward")
    return number_apart([(kind, 0) for kind in kinds])


def is_growing(flows: Sequence[Flow], sides: Sequence[Sides]) -> bool:
    """Whether each pass reads more keys than the one before it, as a generation loop does."""
    if len(flows) < 2:
        return False
    spans = []
    for flow, side in zip(flows, sides, strict=True):
        stack = side.decoder or side.encoder
        if stack is None:
            return False
        queries, keys = flow.output(stack.sites[0].softmax).shape[-2:]
        spans.append((queries, keys))
    longer = all(later[1] > before[1] for before, later in pairwise(spans))
    static = all(queries == 1 and keys == spans[0][1] for queries, keys in spans[1:]) and spans[0][1] > 1
    return longer or static


def number_apart(named: Sequence[tuple[PassKind, int]]) -> list[tuple[PassKind, int]]:
    """Decode turns numbered from 1, other kinds from 0, none twice."""
    counts: dict[PassKind, int] = {}
    found: list[tuple[PassKind, int]] = []
    unique = len(set(named)) == len(named) and all((kind == "decode") == (number > 0) for kind, number in named)
    for kind, number in named:
        place = counts.get(kind, 0)
        counts[kind] = place + 1
        found.append((kind, number) if unique else (kind, place + (kind == "decode")))
    return found


__all__ = ["CARRYING", "Family", "Sides", "choose_sides", "is_causal", "name_family", "name_passes"]
