"""Asides: places that are added to a stream for what asks and is asked alone, and what branches have besides."""

from collections.abc import Collection, Sequence
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS, SIDE_BY_SIDE, SPLITS, SUMS
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.recognition.between import (
    Region,
    does_mix,
    find_region,
    is_linear,
    list_reading_data,
    strip_plain,
    width_out,
)
from xray.story.recognition.norms import find_norm

MOST_OF_A_BOX = 10
"""So many numbers tell a place in a picture, a box, or its middle and four corners."""
CHOICES = frozenset({"topk", "argmax"})
MIXING = frozenset({"addcmul", "lerp", "sub"})
"""What mixes a stream and what a branch made of it, by shares."""


def find_branch(flow: Flow, stream: int | None, end: int, entry: TensorRecord | None = None) -> Region | None:
    """What lies between a stream and what is added to it.

    What was predicted from the stream and is taken for given from there on, as the boxes that tell a decoder's queries
    their places (RT-DETR), is no part of it: a detached tensor stands for numbers alone. What it chooses is (ZAYA).
    """
    region = find_region(flow, stream, end, entry)
    if region is None:
        return None
    placed = [place for node in region.inner if (place := find_place(flow, node, stream)) is not None]
    walls = [
        node
        for node in (*placed, *(node for node in region.inner if flow.op(node) == "detach"))
        if (before := find_region(flow, stream, node, entry)) is not None
        and (predicts_boxes(flow, before.inner) if node in placed else does_mix(flow, before.inner))
        and (behind := find_region(flow, node, end)) is not None
        and all(flow.op(one) not in CHOICES for one in behind.inner)
    ]
    return (find_region(flow, stream, end, entry, walls) if walls else None) or region


def predicts_boxes(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether a linear layer among steps makes so few numbers of each row that they tell a place or a box."""
    return any(is_linear(flow, node) and width_out(flow, node) <= MOST_OF_A_BOX for node in nodes)


def find_place(flow: Flow, add: int, stream: int | None) -> int | None:
    """What a sum adds to a stream for what asks and is asked alone: places; None if a sum is no such one."""
    makers = flow.makers[add] if flow.op(add) in SUMS else ()
    own = [stream is not None and flow.carried_from(maker) == stream for maker in makers]
    return makers[own.index(False)] if own in ([True, False], [False, True]) and is_aside(flow, add) else None


def is_aside(flow: Flow, place: int) -> bool:
    """Whether a sum is made for linear layers alone, while something that it adds goes on in another sum.

    So places are added anew to what asks and is asked (RT-DETR, SAM).
    """
    readers = list_carried_readers(flow, place, SIDE_BY_SIDE)
    if not readers or not all(is_linear(flow, reader) for reader in readers):
        return False
    makers = {one for maker in flow.makers[place] for one in (maker, flow.carried_from(maker)) if one is not None}
    others = {reader for maker in makers for reader in (*flow.readers.get(maker, ()), *list_joined(flow, maker))}
    return any(flow.op(reader) in SUMS for reader in others - {place})


def list_joined(flow: Flow, maker: int) -> list[int]:
    """The steps that read what a step made beside other rows (OmDet-Turbo)."""
    joins = [reader for reader in flow.readers.get(maker, ()) if flow.op(reader) in SIDE_BY_SIDE]
    return [reader for join in joins for reader in flow.readers.get(join, ())]


def list_carried_readers(flow: Flow, place: int, besides: Collection[str] = ()) -> list[int]:
    """The steps that read what a step made, be it moved before, or put beside other things where that is said."""
    found: list[int] = []
    todo = [place]
    for here in todo:
        for reader in flow.readers.get(here, ()):
            (todo if flow.op(reader) in CARRYING | DROPOUTS | set(besides) else found).append(reader)
    return found


def goes_past(flow: Flow, stream: int | None, add: int) -> bool:
    """Whether a sum adds to a branch's normed rows, and the stream goes on past it into a mixture and no sum (Mega)."""
    norm = find_norm(flow, stream)
    readers = () if norm is None or norm.origin is None else flow.leaf_readers(norm.origin)
    past = {flow.op(one) for one in readers if one > add}
    return not past.isdisjoint(MIXING) and SUMS.isdisjoint(past)


def is_part(flow: Flow, add: int, number: int, region: Region) -> bool:
    """Whether a branch reads other parts of each row that a step cuts than the one it is added to (T2T-ViT, Mega).

    Of what is cut otherwise it reads others alone: the shift of an adaptive norm is no stream (AnyFlow).
    """
    (record, here), *_ = list(flow.given(add))[number:]
    while here is not None and here != region.start and flow.makers[here]:
        step = flow.steps[here]
        if len(step.outputs) > 1 and prod(step.outputs[0].shape) < prod(step.inputs[0].shape):
            inside = (node for node in flow.leaf_readers(here) if node in region.inner)
            read = {one.output for node in inside for one, maker in flow.given(node) if maker == here}
            is_of_rows = step.outputs[0].shape[-1] < step.inputs[0].shape[-1]
            return bool(read - {record.output}) and (is_of_rows or record.output not in read)
        record, here = next(flow.given(here))
    return False


def begins_asking(flow: Flow, stream: int | None, region: Region, site: Site) -> bool:
    """Whether a branch begins with queries that a layer made, which are added to what they find (Set Transformer).

    What that layer was given is no part of such a branch, be keys made of it too.
    """
    asked = site.query.nodes
    moved = all(flow.op(node) in CARRYING | SPLITS | SIDE_BY_SIDE | SCALINGS for node in asked[1:])
    return site.scores in region.inner and stream in asked and moved and stream not in site.key.nodes


def is_of_most(flow: Flow, join: int, whole: Region, other: Region | None) -> bool:
    """Whether a branch began at the most of joined rows: no `other` way leads there, or less of a product does."""
    if other is None:
        return not reads_another(flow, join, whole)
    return any(is_product(flow, one) for one in whole.inner & other.beside)


def reads_another(flow: Flow, join: int, branch: Region) -> bool:
    """Whether a branch that began at one part of joined rows works on another too, which that is not made of (TFT)."""
    data = list_reading_data(flow).difference([branch.start], () if branch.start is None else flow.behind(branch.start))
    others = {strip_plain(flow, maker) for maker in flow.makers[join]} & data
    read = (strip_plain(flow, maker) for node in branch.inner | branch.beside for maker in flow.makers[node])
    return any(one in others for one in read)


def lies_along(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether a tensor has the shape of another one, first axes of length 1 left out (MiniMax M3)."""
    missing = len(whole) - len(shape)
    return missing >= 0 and tuple(shape) == tuple(whole[missing:]) and all(size == 1 for size in whole[:missing])


def is_for_all(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether a tensor has one sequence for all of a batch, as learned queries that were not repeated (BLIP-2)."""
    return len(shape) == len(whole) > 2 and tuple(shape) == (1, *whole[1:]) != tuple(whole)


def find_longest_part(flow: Flow, stream: int) -> int | None:
    """Of rows put behind a few others, such as a class token, the step that made the most; None if none were."""
    if flow.op(stream) not in SIDE_BY_SIDE:
        return None
    width, length = flow.output(stream).shape[-1:], flow.output(stream).shape[1:2]
    parts = [(record.shape[1], maker) for record, maker in flow.given(stream) if record.shape[-1:] == width]
    most, maker = max(parts, key=lambda one: one[0], default=(0, None))
    return strip_plain(flow, maker) if len(parts) > 1 and length and 2 * most > length[0] else None
