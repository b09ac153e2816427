"""The residual stream: sums that add a branch to the tensor that the branch began at, chained from end to start."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, DROPOUTS, FINDINGS, REPEATS, SUMS
from xray.story.branches.rows import moves_rows
from xray.story.recognition.between import Region, does_mix, find_region, is_linear, is_scale, strip_plain
from xray.story.recognition.mixed_streams import Mixing, find_mixing
from xray.story.recognition.norms import Norm, find_norm

FARTHEST = 24
LONGEST_SHORTCUT = 10
SHORTENING = frozenset({"max", "max_pool2d", "avg_pool2d", "mean", "max_pool1d", "amax"})
PICKING = frozenset({"index", "slice", "narrow"})
MOST_AT_ONE_POINT = 4
"""No stream has more sums than this at one point of it: such a point is a tensor that many steps look back to."""
MOST_SUMS_OF_A_BRANCH = 2
FARTHEST_BESIDE = 600
"""Within so many steps a branch that stands beside another one is looked for."""
POOLS = frozenset(
    ["mean", "avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"]
) | frozenset(["interpolate", "cat", "index_select", "gather", "masked_select", "pad", "roll", "repeat", "expand"])
"""What a stream may go through on its way and stay the stream, besides moves, norms and bends."""


@dataclass(frozen=True)
class Joint:
    """A residual sum: `add` adds what `region` made to the stream that `stream` made (None: it came from outside).

    Where the stream is several ones side by side, `mixing` says how they become one row for the branch, and it them.
    """

    add: int
    stream: int | None
    region: Region
    mixing: Mixing | None = None


@dataclass
class Chain:
    """Joints that follow each other on one stream, in order; `skips` are sums that reach over several of them."""

    joints: list[Joint]
    skips: list[Joint]

    @property
    def start(self) -> int | None:
        """The step that made what the first branch and the first sum read."""
        return self.joints[0].stream

    @property
    def end(self) -> int:
        """The last sum."""
        return max([self.joints[-1].add, *(skip.add for skip in self.skips)])


def find_joints(flow: Flow, sites: Sequence[Site] = ()) -> list[Joint]:
    """Every residual sum of a pass, in order; what is added to the scores of an attention is none."""
    found: dict[int, Joint] = {}
    scored = {place for site in sites for place in site.scored}
    for place, step in enumerate(flow.steps):
        if step.op in SUMS and place not in scored:
            joint = read_joint(flow, place, found)
            if joint is not None:
                before = [add for add in found if add in joint.region.inner and adds_to_another_row(flow, add, joint)]
                found[place] = leave_out(flow, joint, before)
                for add in before:
                    del found[add]
    begun = Counter(joint.stream for joint in found.values())
    return [one for one in found.values() if one.stream is None or begun[one.stream] <= MOST_AT_ONE_POINT]


def read_joint(flow: Flow, place: int, known: Mapping[int, Joint]) -> Joint | None:
    """The residual sum at a step; None if it adds anything else.

    A second branch may have begun where the one before it did: attention and feed-forward side by side, added one after
    the other (Cohere).
    """
    step = flow.steps[place]
    if len(step.inputs) != 2 or not step.outputs or len(step.outputs[0].shape) < 2 or not flow.is_leaf(place):
        return None
    shape = step.outputs[0].shape
    if any(record.shape != shape or record.role == "parameter" for record in step.inputs):
        return None
    if not shape or not step.outputs[0].dtype.startswith(("float", "bfloat")):
        return None
    mixed = read_mixed(flow, place)
    if mixed is not None:
        return mixed
    for stream_number in (0, 1):
        maker = flow.makers[place][stream_number]
        branch = flow.makers[place][1 - stream_number]
        stream = strip_plain(flow, maker)
        if stream is None and maker is not None:
            stream = find_learned_start(flow, maker)
        if branch is None or (stream is None and maker is not None):  # nothing that is moved from outside is a stream
            continue
        region = None
        if stream is None or stream < branch:
            region = find_region(flow, stream, branch, step.inputs[stream_number])
        if region is None and stream is not None and stream in known and place - stream < FARTHEST_BESIDE:
            beside = known[stream]
            stream = beside.stream
            if stream is None or stream < branch:
                region = find_region(flow, stream, branch, step.inputs[stream_number])
            if region is not None and does_mix(flow, region.inner & beside.region.inner):
                region = None  # it goes on from the other branch, and does not stand beside it (Autoformer)
        if region is not None and does_mix(flow, region.inner) and not is_other_stream(flow, branch, region, known):
            return Joint(place, stream, region)
    return read_projected(flow, place, known)


def read_mixed(flow: Flow, place: int) -> Joint | None:
    """The residual sum at a step whose stream is several ones side by side (DeepSeek-V4)."""
    mixing = find_mixing(flow, place)
    if mixing is None or not does_mix(flow, mixing.region.inner):
        return None
    region = replace(mixing.region, beside=mixing.region.beside | mixing.nodes)
    return Joint(place, mixing.stream, region, mixing)


def adds_to_another_row(flow: Flow, add: int, joint: Joint) -> bool:
    """Whether a sum inside a branch adds to a row of the batch that was picked out of the same stream as the branch's.

    The halves of a pair take turns then, with the same weights (EfficientLoFTR).
    """
    start = joint.stream
    if start is None:
        return False
    mine, other = (
        {maker for maker in flow.makers[one] if maker is not None and maker > start and moves_rows(flow, maker, start)}
        for one in (joint.add, add)
    )
    return bool(mine) and bool(other) and mine != other


def leave_out(flow: Flow, joint: Joint, sums: Sequence[int]) -> Joint:
    """A joint whose branch begins behind some of the sums inside it; what led to these stands beside it."""
    apart = frozenset(flow.behind(*sums, within=joint.region.inner.__contains__))
    region = joint.region
    return replace(joint, region=replace(region, inner=region.inner - apart, beside=region.beside | apart))


def is_other_stream(flow: Flow, branch: int, region: Region, known: Mapping[int, Joint]) -> bool:
    """Whether what is added is itself a stream that began elsewhere: places added anew (DETR).

    One that began at the stream, or that was first worked out of it, is none: a convolution with a sum of its own
    behind an attention (Inkling). With more sums than a branch has it is a stack of layers (HRM).
    """
    stream = region.start
    norm = find_norm(flow, strip_plain(flow, branch))
    here = strip_plain(flow, branch if norm is None else norm.origin)
    if stream is None or here not in known:
        return False
    root, sums = here, 0
    while here is not None and here > stream:
        sums += here in known
        root, here = here, known[here].stream if here in known else step_back(flow, here)
    is_own = (
        not (here is not None and here < stream and begins_learned(flow, here, known))
        and root in region.inner
        and does_mix(flow, {one for one in region.inner if one <= root})
    )
    return here != stream and not (is_own and sums <= MOST_SUMS_OF_A_BRANCH)


def begins_learned(flow: Flow, here: int | None, known: Mapping[int, Joint]) -> bool:
    """Whether a stream begins with learned rows, as the queries of a decoder do (LW-DETR)."""
    while here is not None and find_learned_start(flow, here) is None:
        here = known[here].stream if here in known else step_back(flow, here)
    return here is not None


def find_learned_start(flow: Flow, maker: int) -> int | None:
    """The step that repeats learned rows for every sequence, if that is all that was done to them: a class token.

    The rows may be the first ones of a table (the queries of LW-DETR).
    """
    way = [maker]
    while flow.makers[way[-1]] and (before := flow.makers[way[-1]][0]) is not None:
        way.append(before)
    step = flow.steps[way[-1]]
    if not step.inputs or step.inputs[0].role != "parameter":
        return None
    if step.op in REPEATS:
        return way[-1]
    moves = all(flow.op(one) in CARRYING | REPEATS | PICKING for one in way)
    return maker if moves and any(flow.op(one) in REPEATS for one in way) else None


def read_projected(flow: Flow, place: int, known: Mapping[int, Joint]) -> Joint | None:
    """The residual sum at a step whose stream is made wider or shorter on its way past the branch (ResNet, Hiera)."""
    for stream_number in (0, 1):
        here, branch = flow.makers[place][stream_number], flow.makers[place][1 - stream_number]
        if here is None or branch is None or not is_shortcut(flow, here):
            continue
        for _ in range(LONGEST_SHORTCUT):
            norm = find_norm(flow, here)
            onward = norm.origin if norm is not None else next(iter(flow.makers[here]), None)
            if onward is None or (norm is None and not is_shortcut(flow, here)):
                break
            here = onward
            region = find_region(flow, here, branch) if here < branch and not is_shortcut(flow, here) else None
            if region is not None and is_other_stream(flow, branch, region, known):
                break
            if region is not None and sum(is_learned(flow, node) for node in region.inner) > 1:
                past = find_region(flow, here, flow.makers[place][stream_number] or 0)
                beside = region.beside | (past.inner if past is not None else frozenset())
                return Joint(place, here, replace(region, beside=beside))
    return None


def is_learned(flow: Flow, place: int) -> bool:
    """Whether a step is a linear layer or a convolution."""
    return is_linear(flow, place) or flow.op(place) in FINDINGS


def is_shortcut(flow: Flow, place: int) -> bool:
    """Whether a step is one that a stream may go through beside a branch: a linear layer, a pool, a norm, a move."""
    op = flow.op(place)
    return (
        is_linear(flow, place)
        or op in CARRYING | DROPOUTS | SHORTENING
        or is_batch_norm(flow, place) is not None
        or find_norm(flow, place) is not None
    )


def find_chains(flow: Flow, sites: Sequence[Site] = ()) -> list[Chain]:
    """The residual streams of a pass that are not inside a branch of another, in the order of their first sums."""
    joints = {joint.add: joint for joint in find_joints(flow, sites)}
    before: dict[int, int | None] = {add: find_before(flow, joint.stream, joints) for add, joint in joints.items()}
    roots = {add: root_of(flow, joint.stream) for add, joint in joints.items()}
    nested: set[int] = set()
    skips: dict[int, int] = {}
    for add, joint in joints.items():
        inside = [other for other in joints if other in joint.region.inner]
        if not inside:
            continue
        begun = [
            other
            for other in inside
            if before[other] == before[add] and (before[add] is not None or roots[other] == roots[add])
        ]
        last = follow(begun[0], set(inside), before) if begun else None
        if last is not None and not goes_on(flow, joint, last):
            skips[add] = last
            nested |= set(inside) - chain_behind(last, before)
        else:
            nested |= set(inside)
    chains: list[Chain] = []
    ends: dict[int, Chain] = {}
    for add, joint in joints.items():
        if add in nested:
            continue
        if add in skips:
            chain = ends.get(skips[add])
            if chain is not None:
                chain.skips.append(joint)
                ends[add] = chain
            continue
        previous = before[add]
        chain = next((one for one in reversed(chains) if is_beside(flow, one, joint)), None)
        if chain is None and previous is not None:
            chain = ends.get(previous)
            chain = None if chain is not None and chain.end != previous else chain
        if chain is None:
            chain = Chain([], [])
            chains.append(chain)
        chain.joints.append(joint)
        ends[add] = chain
    return chains


def goes_on(flow: Flow, joint: Joint, last: int) -> bool:
    """Whether a branch does more behind the last sum inside it, so that it is no way past that chain (Zamba)."""
    return does_mix(flow, [node for node in joint.region.inner if node > last])


def is_beside(flow: Flow, chain: Chain, joint: Joint) -> bool:
    """Whether a sum adds a second branch that began where the chain's last one did."""
    if not chain.joints or chain.joints[-1].stream != joint.stream:
        return False
    return not are_parts(flow, joint.stream, chain.joints[-1].add, joint.add)


def are_parts(flow: Flow, stream: int | None, one: int, other: int) -> bool:
    """Whether two sums are as long as the parts that one tensor was cut in, as rows of text and film (CogVideoX)."""
    whole, first, second = (flow.output(place).shape if place is not None else () for place in (stream, one, other))
    if not len(whole) == len(first) == len(second):
        return False
    axes = [axis for axis, size in enumerate(whole) if (first[axis], second[axis]) != (size, size)]
    return len(axes) == 1 and first[axes[0]] + second[axes[0]] == whole[axes[0]]


def follow(first: int, inside: set[int], before: dict[int, int | None]) -> int:
    """The last of the sums that follow one another within a branch."""
    last = first
    while True:
        onward = [add for add in inside if before[add] == last]
        if not onward:
            return last
        last = onward[-1]


def chain_behind(last: int, before: dict[int, int | None]) -> set[int]:
    """A sum and all before it on its stream."""
    found: set[int] = set()
    here: int | None = last
    while here is not None and here not in found:
        found.add(here)
        here = before[here]
    return found


def root_of(flow: Flow, stream: int | None) -> int | None:
    """Where a stream comes from, norms left out."""
    here = strip_plain(flow, stream)
    norm = find_norm(flow, here)
    return strip_plain(flow, norm.origin) if norm is not None else here


def find_before(flow: Flow, stream: int | None, joints: dict[int, Joint]) -> int | None:
    """The sum that a stream comes from, through norms, moves, bends and pools; None if it begins elsewhere."""
    here = stream
    for _ in range(FARTHEST):
        if here is None:
            return None
        if here in joints:
            return here
        here = step_back(flow, here)
    return None


def step_back(flow: Flow, here: int) -> int | None:
    """The step before one that a stream goes through; None if the step is no such one."""
    norm = find_norm(flow, here)
    if norm is not None:
        return norm.origin
    if not flow.makers[here]:
        return None
    if is_scale(flow, here):
        return strip_plain(flow, here)
    if flow.op(here) in CARRYING | DROPOUTS | CURVES | POOLS:
        return next((maker for maker in flow.makers[here] if maker is not None), None)
    return is_batch_norm(flow, here)


def is_batch_norm(flow: Flow, here: int) -> int | None:
    """The step before a norm over the batch or over groups; None if the step is none."""
    if flow.op(here).startswith(("batch_norm", "group_norm", "instance_norm")):
        return flow.makers[here][0]
    return None


def stream_norm(flow: Flow, joint: Joint, following: Joint | None) -> Norm | None:
    """The norm through which the stream goes on behind a sum; None if it goes on without."""
    if following is None:
        return None
    here = following.stream
    while here is not None and here > joint.add:
        norm = find_norm(flow, here)
        if norm is not None:
            return norm if strip_plain(flow, norm.origin) == joint.add else None
        here = step_back(flow, here)
    return None
