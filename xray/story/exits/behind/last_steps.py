"""Which steps are the last of a tower: its head or norm, what goes on behind it, and what several heads join in."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CASTING,
    CURVES,
    DROPOUTS,
    FINDINGS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.story.body.ends import is_convolved
from xray.story.body.towers import Towering
from xray.story.exits.loss_chart import is_loss
from xray.story.recognition.between import is_linear
from xray.story.streams.shortcuts import find_any_norm

JOINING = SIDE_BY_SIDE | {"stack"}
MASKED_DOWN = "WHAT A MASK NAMES PUSHED FAR DOWN"
"""It may name none."""


def find_last(flow: Flow, towering: Towering, others: Collection[int]) -> int | None:
    """The last step that is worked out of a tower's result: the loss, if there is one, else the last head or norm.

    What goes on through convolutions is no head (VITS): there, the last norm is the last, but where one convolution
    alone ends all (VibeVoice's encoder); or the last of a row of them, where there is neither (Mimi's decoder). A head
    that reads what other towers end with too is not the tower's own, where it has one (PE-AV). None where its own ones
    make no more than what others work on: keys and values (QCNet).
    """
    end = towering.last_layer
    reached, shared = reach_behind(flow, end, others)
    heads = [place for place in sorted(reached) if place > end and is_head(flow, place)]
    heads = [place for place in heads if not is_cast_norm(flow, towering, place)]
    before = set() if towering.final is None else set(flow.behind(towering.final.end, within=reached.__contains__))
    finders = [place for place in reached - before if flow.op(place) in FINDINGS]
    if len(finders) == 1 and ends_all(flow, finders[0], heads, reached - shared):
        bends = [place for place in reached if flow.op(place) in CURVES]
        return next((bend for bend in bends if flow.carried_from(flow.makers[bend][0]) == finders[0]), finders[0])
    ends = [one for one in reversed(heads) if is_last_norm(flow, towering, one) or not is_convolved(flow, one)]
    taken = [one for one in ends if one not in shared and is_worked_on(flow, towering, one, reached, shared)]
    own = next((one for one in ends if one not in shared and one not in taken), None)
    if taken and own is None:
        return None
    is_own = own is not None and is_linear(flow, own) and not any(is_loss(flow, one) for one in ends)
    last = own if is_own else next(iter(ends), None)
    if last is None:
        beside = list_beside_each_other(flow, end, finders)
        largest = max(beside, key=lambda place: flow.steps[place].params, default=None)
        return find_convolved_end(flow, finders, reached) if largest is None else largest
    return find_joined_heads(flow, last, heads) or last


def ends_all(flow: Flow, finder: int, heads: Collection[int], own: Collection[int]) -> bool:
    """Whether a convolution of a tower's own stands behind all heads, if there are any (Nemotron's diarization)."""
    return not heads or (finder in own and set(heads) <= set(flow.behind(finder, within=own.__contains__)))


def is_worked_on(flow: Flow, towering: Towering, head: int, reached: Collection[int], shared: Collection[int]) -> bool:
    """Whether weights work on what a head gives once it has met what other towers end with, and not in a product.

    A last norm is the tower's own all the same, and so is what scales or shifts all rows of others, or is so by theirs.
    """
    ahead = [*flow.ahead(head, within=reached.__contains__)]
    own = {one for one in ahead if one not in shared}
    met = [one for one in ahead if one in shared and not own.isdisjoint(flow.makers[one])]
    are_products = any(is_product(flow, one) for one in met)
    is_own = are_products or is_last_norm(flow, towering, head) or all(scales_all(flow, one) for one in met)
    return not is_own and any(one in shared and is_linear(flow, one) for one in ahead)


def scales_all(flow: Flow, node: int) -> bool:
    """Whether a step multiplies numbers by others of which there are fewer, or adds such (what times say of rows)."""
    sizes = {prod(record.shape) for record, _ in flow.given(node)}
    return flow.op(node) in SCALINGS | SUMS and len(sizes) > 1 and max(sizes) == prod(flow.output(node).shape)


def reach_behind(flow: Flow, end: int, others: Collection[int]) -> tuple[set[int], set[int]]:
    """The steps that work on a tower's result, itself first, and those of them that read what other towers end with."""
    reached, foreign, shared = {end}, list_worked_out(flow, others, end), set[int]()
    for place in range(end + 1, len(flow.steps)):
        makers = {maker for maker in flow.makers[place] if maker is not None}
        if place in others or not flow.is_leaf(place) or reached.isdisjoint(makers):
            foreign |= set() if foreign.isdisjoint(makers) or place in reached else {place}
            continue
        reached.add(place)
        shared |= set() if (foreign | shared).isdisjoint(makers) else {place}
    return reached, shared


def is_head(flow: Flow, place: int) -> bool:
    """Whether a step may be the last of a tower: a linear layer, a loss, a norm, or where the pass failed."""
    failed = flow.steps[place].error is not None
    return failed or is_linear(flow, place) or is_loss(flow, place) or find_any_norm(flow, place) is not None


def is_cast_norm(flow: Flow, towering: Towering, place: int) -> bool:
    """Whether a step gives another type to what a norm of the last stage makes, so that it is no norm of its own."""
    made = flow.carried_from(place, CASTING)
    return made != place and any(norm.end == made for norm in towering.stagings[-1].norms)


def list_beside_each_other(flow: Flow, end: int, others: Collection[int]) -> list[int]:
    """The convolutions among some steps that each read what a tower ends with, if these are all of them (UnivNet)."""
    finders = [place for place in others if flow.op(place) in FINDINGS]
    return finders if all(flow.carried_from(flow.makers[place][0]) == end for place in finders) else []


def find_convolved_end(flow: Flow, finders: Collection[int], reached: Collection[int]) -> int | None:
    """The convolution that ends all that a tower gives, where that goes through a row of them (Mimi's decoder).

    None where several end it.
    """
    last = max(finders, default=None)
    if last is None:
        return None
    way = set(flow.behind(last, within=reached.__contains__))
    return last if way.issuperset(finders) else None


def find_maker_in(flow: Flow, place: int, number: int, end: int) -> int | None:
    """The step that works out one input of another, behind what only moves numbers."""
    makers = flow.makers[place]
    here = makers[number] if number < len(makers) else None
    while here is not None and here > end and flow.op(here) in CARRYING and flow.makers[here]:
        here = flow.makers[here][0]
    return here if here is not None and here >= end else None


def find_sum(flow: Flow, last: int, end: int) -> int:
    """The sum that adds the last step to what it was worked out of, as at the end of a pooling head; else that step.

    Between them its numbers may be moved, as where convolutions work on what a linear layer gives (FastSpeech 2). So
    the sum with which all ends, where both sides are worked out of what the tower gives (the first RWKV).
    """
    here, within = last, end.__le__
    while True:
        readers = flow.leaf_readers(here)
        for reader in readers:
            makers = [maker for maker in flow.makers[reader] if maker is not None]
            others = [maker for maker in makers if maker != here]
            if flow.op(reader) in SUMS and len(makers) == 2 and len(others) == 1 and others[0] > end:
                is_end = not flow.leaf_readers(reader) and end in flow.behind(others[0], within=within)
                return reader if is_end or others[0] in flow.behind(last, within=within) else last
        if len(readers) != 1 or flow.op(readers[0]) not in CARRYING | DROPOUTS:
            return last
        here = readers[0]


def list_worked_out(flow: Flow, others: Collection[int], end: int) -> set[int]:
    """What was worked out of other towers before a tower ended, and not for this tower."""
    found, own = set(others), set(flow.behind(end))
    for place in range(min(found, default=end), end):
        if place not in own and any(maker in found for maker in flow.makers[place]):
            found.add(place)
    return found


def find_joined_heads(flow: Flow, last: int, heads: Collection[int]) -> int | None:
    """The step that puts what several heads of one kind give together: of each book of codes, say (MusicGen)."""
    for reader in flow.readers.get(last, ()):
        joined = {record.shape for record in flow.steps[reader].inputs} if flow.op(reader) in JOINING else set()
        makers = set(flow.makers[reader])
        if joined == {flow.output(last).shape} and len(makers) > 1 and makers <= {*heads}:
            return reader
    return None


def is_last_norm(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a step ends the norm of a tower's last sum."""
    norm = find_any_norm(flow, node)
    return norm is not None and towering.final is not None and norm.origin == towering.final.origin


def is_normed_again(flow: Flow, norm: int, nodes: Collection[int]) -> bool:
    """Whether another norm, among some steps, works on what a norm gives: the first is not the last (Muse Spark's)."""
    behind = flow.ahead(norm, within=nodes.__contains__)
    own = find_any_norm(flow, norm)
    found = [find_any_norm(flow, one) for one in behind if one != norm]
    return own is not None and any(one is not None and one.origin != own.origin for one in found)
