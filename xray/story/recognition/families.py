"""Which stack is the encoder and which the decoder, and what family that makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xray.story.recognition.dataflow import Flow
from xray.story.recognition.scored_parts import list_behind, read_scored
from xray.story.recognition.stacks import Stack
from xray.story.recognition.way_parts import cut_way

Family = Literal["encoder-decoder", "decoder-only", "encoder-only"]
COMPARISONS = frozenset({"le", "lt", "ge", "gt"})


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
