"""Beginnings: what a stream goes through once before its first branch, and the branch with it, is none of a layer."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, SUMS, TURNS
from xray.story.recognition.between import does_mix
from xray.story.streams.asides import find_branch
from xray.story.streams.chains import Chain
from xray.story.streams.joints import Joint
from xray.story.streams.rejoined_rows import find_rejoined, takes_rows_alone
from xray.story.streams.scaled_streams import find_before_both
from xray.story.streams.shortcuts import SHORTENING, is_learned


def begin_behind_moves(flow: Flow, chains: Sequence[Chain]) -> list[Chain]:
    """The chains of a tower, each begun behind the moves and pools that its first branch shares with the way past it.

    So a layer begins with what it reads: the rows whose axes were swapped before all layers (FSMT), the map that was
    made smaller between two (Informer, Funnel), or before the first (ResNet), rows that go on alone (CrossViT). What
    each layer does anew is its own.
    """
    joints = [joint for chain in chains for joint in chain.joints]
    sums = {joint.add for joint in joints}
    starts = {joint.stream: list_shared(flow, list_begun(chains, joint.stream)) for joint in joints}
    first = joints[0].stream
    others = {where_of(flow, node) for stream, moves in starts.items() if stream != first for node in moves}

    def is_once(stream: int | None, moves: Sequence[int]) -> bool:
        turns, drops = any(flow.op(node) in TURNS for node in moves), drops_axis(flow, moves)
        if cuts := [node for node in moves if takes_rows_alone(flow, node)]:
            ends = [joint.add for joint in joints if joint.stream == stream]
            return stream != first and not any(find_rejoined(flow, end, cuts[0]) for end in ends)
        if stream == first:
            return (turns or not drops) and others.isdisjoint(where_of(flow, node) for node in moves)
        return (turns or drops) and stream is not None and stream not in sums and is_worked_on(flow, stream)

    moved = {stream: moves for stream, moves in starts.items() if moves and is_once(stream, moves)}

    def begin(joint: Joint) -> Joint:
        moves = moved.get(joint.stream)
        return begin_at(joint, moves) if moves else joint

    return [Chain(list(map(begin, chain.joints)), list(map(begin, chain.skips))) for chain in chains]


def begin_with_moved(flow: Flow, chains: Sequence[Chain]) -> list[Chain]:
    """The chains of a tower, the first begun with the sum that makes its stream, where that is the layer's own.

    It adds what a branch made to what came in and was moved alone, in a block of the sum behind it (Conformers of
    torchaudio).
    """
    first, *rest = chains
    joint = find_moved(flow, first)
    return list(chains) if joint is None else [replace(first, joints=[joint, *first.joints]), *rest]


def find_moved(flow: Flow, chain: Chain) -> Joint | None:
    """The sum that makes the stream of a chain in a block of the next one that does not hold the last one too."""
    made = chain.start
    if made is None or flow.op(made) not in SUMS or len(flow.makers[made]) != 2:
        return None
    shared = {*flow.parents(made)} & {*flow.parents(chain.joints[0].add)}
    if shared.issubset(flow.parents(chain.joints[-1].add)):
        return None
    for stream, branch in (flow.makers[made], flow.makers[made][::-1]):
        if stream is None or branch is None or flow.op(stream) not in CARRYING or flow.carried_from(stream) is not None:
            continue
        region = find_branch(flow, stream, branch)
        if region is not None and does_mix(flow, region.inner):
            return Joint(made, stream, region)
    return None


def is_worked_on(flow: Flow, stream: int) -> bool:
    """Whether a stream begins with what something was done to between two layers: a pool, a convolution."""
    return flow.op(stream) in SHORTENING or is_learned(flow, stream)


def list_begun(chains: Sequence[Chain], stream: int | None) -> list[Joint]:
    """The sums to whose branches a step leads first, those that reach over several layers included."""
    return [joint for chain in chains for joint in (*chain.joints, *chain.skips) if joint.stream == stream]


def list_shared(flow: Flow, joints: Sequence[Joint]) -> tuple[int, ...]:
    """The moves and pools, one behind the other, through which alone what some sums read comes from their stream.

    Or the learned numbers that shift and multiply it before both ways (Zaya).
    """
    within = {joint.add for joint in joints}.union(*(joint.region.inner for joint in joints))
    stream = joints[0].stream
    moves = tuple(follow(flow, stream, within, {joint.add for joint in joints}))
    if stream is None or not moves:
        return list_learned_before(flow, joints)
    turns = any(flow.op(node) in TURNS for node in moves)
    changes = turns or list_long(flow, stream) != list_long(flow, moves[-1]) or drops_axis(flow, moves)
    return moves if changes else ()


def drops_axis(flow: Flow, moves: Sequence[int]) -> bool:
    """Whether moves, one behind the other, do no more than to take axes of 1 off: of rows pooled as a map (Funnel)."""
    before = next((record.shape for record in flow.steps[moves[0]].inputs), ())
    after = flow.output(moves[-1]).shape
    return len(after) < len(before) and [one for one in before if one > 1] == [one for one in after if one > 1]


def list_learned_before(flow: Flow, joints: Sequence[Joint]) -> tuple[int, ...]:
    """The steps that shift and multiply a stream by learned numbers before some sums and all their branches read it."""
    ends = {find_before_both(flow, joint) for joint in joints}
    end = next(iter(ends)) if len(ends) == 1 else None
    return () if end is None else (*sorted(flow.behind(end, within=joints[0].region.inner.__contains__)), end)


def list_long(flow: Flow, node: int) -> tuple[int, ...]:
    """The axes of what a step made, those of length 1 left out."""
    return tuple(size for size in flow.output(node).shape if size > 1)


def follow(flow: Flow, here: int | None, within: Collection[int], sums: Collection[int]) -> Iterator[int]:
    """The steps behind one, as long as each is a move, a pool or a cut and the only one that reads the one before."""
    while here is not None:
        readers = [reader for reader in flow.readers.get(here, ()) if reader in within]
        if len(readers) != 1 or readers[0] in sums or not goes_on(flow, readers[0]):
            return
        here = readers[0]
        yield here


def goes_on(flow: Flow, node: int) -> bool:
    """Whether a step moves all numbers that it is given, pools neighbours, or takes some rows out."""
    step = flow.steps[node]
    if len(step.outputs) != 1 or not step.inputs:
        return False
    is_whole = prod(step.inputs[0].shape) == prod(step.outputs[0].shape)
    is_move = flow.op(node) in CARRYING and is_whole
    return is_move or flow.op(node) in SHORTENING or takes_rows_alone(flow, node)


def where_of(flow: Flow, node: int) -> tuple[str, str | None]:
    """What a step does, and the line that does it: a line that runs for each layer does it anew."""
    return flow.op(node), flow.steps[node].location


def begin_at(joint: Joint, moves: Sequence[int]) -> Joint:
    """A sum whose stream and branch begin behind some moves that both go through."""
    region, gone = joint.region, frozenset(moves)
    begun = replace(region, start=moves[-1], inner=region.inner - gone, beside=region.beside - gone)
    return replace(joint, stream=moves[-1], region=begun, past=joint.past - gone)
