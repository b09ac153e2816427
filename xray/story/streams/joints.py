"""Residual sums: those that add what a branch made to the tensor that the branch began at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, FINDINGS, LOOKUPS, PLACING, REPEATS, SIDE_BY_SIDE, SUMS
from xray.story.branches.rows import moves_rows
from xray.story.recognition.between import Region, does_mix, find_region, is_linear, strip_plain
from xray.story.recognition.mixed_streams import Mixing, Weighing, find_mixing, list_weighings
from xray.story.recognition.norms import find_norm
from xray.story.streams.asides import (
    begins_asking,
    find_branch,
    find_longest_part,
    goes_past,
    is_aside,
    is_for_all,
    is_of_most,
    is_part,
    lies_along,
)
from xray.story.streams.shortcuts import (
    LONGEST_SHORTCUT,
    before_added,
    before_mixed_in,
    before_places,
    before_split,
    is_learned,
    is_shortcut,
    start_before_norm,
    step_back,
)

PICKING = frozenset({"index", "slice", "narrow"})
MOST_AT_ONE_POINT = 4
"""No stream has more sums than this at one point of it: such a point is a tensor that many steps look back to."""
MOST_SUMS_OF_A_BRANCH, MOST_SINCE = 2, 6
"""Within so many sums of a stream a branch that began before them is added."""
MOST_ASKING = 40
FARTHEST_BESIDE = 600
"""Within so many steps a branch that stands beside another one is looked for."""


@dataclass(frozen=True)
class Joint:
    """A residual sum: `add` adds what `region` made to the stream that `stream` made (None: it came from outside).

    Where the stream is several ones side by side, `mixing` says how they become one row for the branch, and it them.
    Where stream and branch are each multiplied by a gate first, `weighing` says by which. `past` are the steps that the
    stream goes through on its way past the branch, where these make it shorter or wider (ResNet, Hiera). One that
    `replaces` adds nothing: what the branch makes at `add` takes the stream's place (SAM). `nested` are the sums of a
    stream of its own that goes along the branch (MobileBERT). `since` is how many sums stand between where the branch
    began and its own, where others are added first (the experts of LongCat); it is `normed` where it begins behind a
    norm that another branch goes through too.
    """

    add: int
    stream: int | None
    region: Region
    mixing: Mixing | None = None
    weighing: Weighing | None = None
    past: frozenset[int] = frozenset()
    replaces: bool = False
    nested: tuple["Joint", ...] = ()
    since: int = 0
    normed: bool = False


def find_joints(flow: Flow, sites: Sequence[Site] = ()) -> list[Joint]:
    """Every residual sum of a pass, in order; what is added to scores, queries or keys of an attention is none."""
    found: dict[int, Joint] = {}
    scored = {place for site in sites for place in (*site.scored, *list_asking(flow, site))}
    for place, step in enumerate(flow.steps):
        if step.op in SUMS | PLACING and place not in scored:
            joint = read_joint(flow, place, found) if step.op in SUMS else read_put_back(flow, place)
            joint = joint or read_for_all_rows(flow, place, found, sites)
            if joint is None or any(begins_asking(flow, joint.stream, joint.region, site) for site in sites):
                continue
            if not mixes_earlier(flow, joint) and not goes_past(flow, joint.stream, place):
                before = [add for add in found if add in joint.region.inner and adds_to_another_row(flow, add, joint)]
                found[place] = leave_out(flow, joint, before)
                for add in before:
                    del found[add]
    crossing, begun = list_crossing(found), count_begun(found)
    own = Counter(joint.stream for add, joint in found.items() if add not in crossing)

    def stands(add: int, stream: int | None) -> bool:
        if add in crossing:
            return begun[stream] <= MOST_AT_ONE_POINT and not is_looked_up(flow, stream)
        return stream is None or begun[stream] <= MOST_AT_ONE_POINT or own[stream] == 1

    return [joint for add, joint in found.items() if stands(add, joint.stream)]


def count_begun(joints: Mapping[int, Joint]) -> Counter[int | None]:
    """How many sums begin at each point, those of pieces within the branch of the last left out (MISSFormer)."""
    begun = Counter(joint.stream for joint in joints.values())
    for stream in (one for one, count in begun.items() if count > MOST_AT_ONE_POINT):
        *inside, last = (add for add, joint in joints.items() if joint.stream == stream)
        if all(joints[one].region.inner.isdisjoint(inside) for one in inside):
            begun[stream] -= len(joints[last].region.inner.intersection(inside))
    return begun


def mixes_earlier(flow: Flow, joint: Joint) -> bool:
    """Whether a branch is one linear layer alone that mixes an earlier stream in, beside its own (Transfusion).

    It stands between layers, and is none of these.
    """
    inner = [node for node in joint.region.inner if flow.is_leaf(node)]
    linears = [node for node in inner if is_linear(flow, node)]
    joins = {flow.carried_from(flow.makers[node][0]) for node in linears} if len(linears) == 1 else set()
    join = joins.pop() if joins else None
    is_alone = all(flow.op(node) in CARRYING or node in (*linears, join) for node in inner)
    if join is None or flow.op(join) not in SIDE_BY_SIDE or not is_alone:
        return False
    others = [maker for maker in flow.makers[join] if strip_plain(flow, maker) != joint.stream]
    shapes = {record.shape for record in flow.steps[join].inputs}
    return len(others) == 1 and len(shapes) == 1 and (others[0] is None or others[0] < (joint.stream or 0))


def is_looked_up(flow: Flow, stream: int | None) -> bool:
    """Whether a stream begins as rows of a table: words may be put into the values of many layers anew (NeoMME)."""
    root = root_of(flow, stream)
    return root is not None and flow.op(root) in LOOKUPS


def list_crossing(joints: Mapping[int, Joint]) -> set[int]:
    """The sums inside the branch of another one that add to what was there before that branch."""
    crossing: set[int] = set()
    for add in sorted(joints, reverse=True):
        stream, inside = joints[add].stream, joints[add].region.inner & joints.keys()
        if add not in crossing and stream is not None:
            crossing |= {one for one in inside if (begun := joints[one].stream) is not None and begun < stream}
    return crossing


def root_of(flow: Flow, stream: int | None) -> int | None:
    """Where a stream comes from, norms left out."""
    here = strip_plain(flow, stream)
    norm = find_norm(flow, here)
    return strip_plain(flow, norm.origin) if norm is not None else here


def list_asking(flow: Flow, site: Site) -> list[int]:
    """The sums of two linear layers by which queries or keys are made, as of content and place (Conditional DETR)."""
    found: list[int] = []

    def is_made(one: int) -> bool:
        return is_linear(flow, one) or flow.op(one) in FINDINGS

    for here in flow.behind(*flow.makers[site.scores], most=MOST_ASKING, ends=is_made):
        makers = [flow.carried_from(maker) for maker in flow.makers[here]]
        if flow.op(here) in SUMS and all(maker is not None and is_linear(flow, maker) for maker in makers):
            found.append(here)
    return found


def read_joint(flow: Flow, place: int, known: Mapping[int, Joint]) -> Joint | None:
    """The residual sum at a step; None if it adds anything else.

    A second branch may have begun where the one before it did: attention and feed-forward side by side, added one after
    the other (Cohere).
    """
    step = flow.steps[place]
    if len(step.inputs) != 2 or not step.outputs or len(step.outputs[0].shape) < 2 or not flow.is_leaf(place):
        return None
    shape = step.outputs[0].shape
    if is_aside(flow, place) or not step.outputs[0].is_float:
        return None
    is_short = [is_for_all(record.shape, shape) for record in step.inputs]
    along = [one or lies_along(record.shape, shape) for one, record in zip(is_short, step.inputs, strict=True)]
    if not all(along) or all(is_short) or step.is_given_weights:
        return None
    other = read_mixed(flow, place) or read_weighed(flow, place)
    if other is not None:
        return other
    for stream_number in (0, 1):
        maker = flow.makers[place][stream_number]
        branch = flow.makers[place][1 - stream_number]
        stream = strip_plain(flow, maker)
        if stream is None and maker is not None:
            stream = find_learned_start(flow, maker)
        if branch is None or (stream is None and maker is not None):  # nothing that is moved from outside is a stream
            continue
        if is_short[1 - stream_number] or (is_short[stream_number] and strip_plain(flow, branch) in known):
            continue  # places that are added to a stream anew (YOLOS)
        region = None
        if stream is None or stream < branch:
            region = find_branch(flow, stream, branch, step.inputs[stream_number])
        if region is None and stream is not None and stream in known and place - stream < FARTHEST_BESIDE:
            beside = known[stream]
            stream = beside.stream
            if stream is None or stream < branch:
                region = find_branch(flow, stream, branch, step.inputs[stream_number])
            if region is not None and does_mix(flow, region.inner & beside.region.inner):
                region = None  # it goes on from the other branch, and does not stand beside it (Autoformer)
        part = None if stream is None else find_longest_part(flow, stream)
        whole = None if part is None or part >= branch else find_branch(flow, part, branch)
        if whole is not None and stream is not None and is_of_most(flow, stream, whole, region):
            stream, region = whole.start, whole
        if before_mixed_in(flow, place) in known or (
            region is not None and is_part(flow, place, stream_number, region)
        ):
            continue
        if region is not None and does_mix(flow, region.inner) and not is_other_stream(flow, branch, region, known):
            return Joint(place, stream, region)
    return None if any(is_short) else read_begun_before(flow, place, known) or read_projected(flow, place, known)


def read_for_all_rows(flow: Flow, place: int, known: Mapping[int, Joint], sites: Sequence[Site]) -> Joint | None:
    """The residual sum at a step that adds to all rows what an attention gives that was asked with one of them.

    So the last layer of FT-Transformer, whose first row looks at all.
    """
    shape, given = flow.output(place).shape, list(flow.given(place))
    if flow.op(place) not in SUMS or len(given) != 2 or len(shape) != len(("batch", "row", "width")):
        return None
    (whole, stream), (row, branch) = given
    if stream not in known or branch is None or whole.shape != shape or row.shape != (shape[0], 1, shape[2]) != shape:
        return None
    region = find_branch(flow, stream, branch)
    looking = [site.softmax for site in sites if region is not None and site.softmax in region.inner]
    asked = [node for node in looking if flow.output(node).shape[-2:] == (1, shape[1])]
    return Joint(place, stream, region) if region is not None and len(looking) == len(asked) == 1 else None


def read_begun_before(flow: Flow, place: int, known: Mapping[int, Joint]) -> Joint | None:
    """The residual sum at a step whose branch began at the same stream, some sums before, and reads no later one."""
    for stream, branch in (flow.makers[place], flow.makers[place][::-1]):
        before: int | None = stream
        for since in range(1, MOST_SINCE + 1):
            before = None if before is None or before not in known else strip_plain(flow, known[before].stream)
            region = None if before is None or branch is None else find_branch(flow, before, branch)
            if region is not None:
                if since == 1 or not region.inner.isdisjoint(known) or not does_mix(flow, region.inner):
                    return None
                later = leave_norm(flow, region, known)
                return Joint(place, stream, later or region, since=since, normed=later is not None)
    return None


def leave_norm(flow: Flow, region: Region, known: Mapping[int, Joint]) -> Region | None:
    """A region from behind the norm in which another branch begins too; None if not all of it is worked out of one."""
    norms = (find_norm(flow, node) for joint in known.values() for node in joint.region.inner & region.inner)
    ends = {norm.end for norm in norms if norm is not None and strip_plain(flow, norm.origin) == region.start}
    return leave_before(flow, region, max(ends)) if ends else None


def leave_before(flow: Flow, region: Region, node: int) -> Region | None:
    """A region from behind one of its steps; None if not all of it is worked out of what that step makes."""
    later = find_region(flow, node, region.end)
    before = set(flow.behind(node, within=region.inner.__contains__))
    return later if later is not None and region.inner <= before | later.inner else None


def read_mixed(flow: Flow, place: int) -> Joint | None:
    """The residual sum at a step whose stream is several ones side by side (DeepSeek-V4)."""
    mixing = find_mixing(flow, place)
    if mixing is None or not does_mix(flow, mixing.region.inner):
        return None
    region = replace(mixing.region, beside=mixing.region.beside | mixing.nodes)
    return Joint(place, mixing.stream, region, mixing)


def read_weighed(flow: Flow, place: int) -> Joint | None:
    """The residual sum at a step that weighs stream and branch against each other by gates (D-FINE)."""
    for weighing in list_weighings(flow, place):
        stream = strip_plain(flow, weighing.kept)
        region = find_region(flow, stream, weighing.given) if stream is not None and stream < weighing.given else None
        if region is not None and does_mix(flow, region.inner):
            return Joint(place, stream, replace(region, beside=region.beside | weighing.nodes), weighing=weighing)
    return None


def read_put_back(flow: Flow, place: int) -> Joint | None:
    """The residual sum at a step that puts some of several streams back, the same added to each (Gemma 3n)."""
    rows, index = flow.carried_from(flow.makers[place][-1]), flow.steps[place].settings.get("index")
    if rows is None or flow.op(rows) not in SUMS or len(flow.makers[rows]) != 2 or not flow.is_leaf(place):
        return None
    cut, branch = flow.makers[rows]
    if cut is None or branch is None or flow.op(cut) != "index" or flow.steps[cut].settings.get("index") != index:
        return None
    stream = strip_plain(flow, flow.makers[cut][0])
    if stream is None or flow.output(stream).shape != flow.output(place).shape:
        return None
    region = find_branch(flow, stream, branch) if flow.output(branch).shape == flow.output(cut).shape[1:] else None
    if region is None or not does_mix(flow, region.inner):
        return None
    return Joint(place, stream, replace(region, beside=region.beside | {cut, rows}))


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
    behind an attention (Inkling). With more sums than a branch has it is a stack of layers (HRM). What is added before
    each layer anew was added to other rows first (Point-MAE).
    """
    stream = region.start
    norm = find_norm(flow, strip_plain(flow, branch))
    here = strip_plain(flow, branch if norm is None else norm.origin)
    if stream is None or here not in known:
        return False
    root, sums = here, 0
    while here is not None and here > stream:
        sums += here in known
        other = None if here in known else before_added(flow, here, stream)
        if other is not None and other not in region.inner:
            return True
        onward = known[here].stream if here in known else step_back(flow, here) or before_places(flow, here) or other
        root, here = here, onward
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
    """The residual sum at a step whose stream is made wider or shorter on its way past the branch (ResNet, Hiera).

    It may begin with such a step too, before which nothing stands: a linear layer of what comes in.
    """
    for stream_number in (0, 1):
        here, branch = flow.makers[place][stream_number], flow.makers[place][1 - stream_number]
        if here is None or branch is None or not is_shortcut(flow, here):
            continue
        way = here
        for _ in range(LONGEST_SHORTCUT):
            norm = find_norm(flow, here)
            onward = before_split(flow, here) or next(iter(flow.makers[here]), None) if norm is None else norm.origin
            if onward is None or (norm is None and not is_shortcut(flow, here)):
                break
            here = onward
            begins = not is_shortcut(flow, here) or (norm is None and {*flow.makers[here]} == {None})
            region = find_region(flow, here, branch) if here < branch and begins else None
            if region is not None and (
                is_part(flow, place, stream_number, region)
                or leave_before(flow, region, way)
                or is_other_stream(flow, branch, region, known)
            ):
                break
            if region is not None and sum(is_learned(flow, node) for node in region.inner) > 1:
                start = start_before_norm(flow, here, place)
                region = region if start == here else find_region(flow, start, branch) or region
                past = find_region(flow, region.start, way) or replace(region, inner=frozenset(), beside=frozenset())
                beside = region.beside | past.inner | past.beside
                return Joint(place, region.start, replace(region, beside=beside), past=past.inner)
    return None
