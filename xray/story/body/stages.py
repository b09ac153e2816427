"""Stages: what one residual sum adds to the stream, branch by branch, and which norm stands before or after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from xray.ir.flow.attention_sites import Site, end_within
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, JOINS, SCALINGS, SUMS
from xray.ir.flow.projections import data_input, is_product
from xray.story.anatomy.branches import Branch, Unknown
from xray.story.anatomy.tree import Norm, Stage
from xray.story.body.merged import describe_half, split_merged
from xray.story.body.scale import find_bend_behind, name_scale
from xray.story.branches.attention import describe_attention
from xray.story.branches.convolutions import describe_convolution
from xray.story.branches.distinctions import (
    describe_channels,
    describe_context,
    describe_curved,
    describe_mixing,
    describe_place_mixing,
    describe_plain,
    describe_projection,
    is_across_channels,
    mixes_more,
)
from xray.story.branches.sampled import Sampling, describe_sampling, find_sampling
from xray.story.branches.sequences import split_sequence
from xray.story.branches.states import describe_linear_attention, describe_recurrence
from xray.story.branches.unlearned import describe_fourier, describe_pool
from xray.story.branches.weighed import looks_at_scores, weighs_no_values
from xray.story.experts.experts import describe_experts
from xray.story.passages.modulation import is_adaptive, past_factors
from xray.story.passages.pools import is_pool
from xray.story.recognition.added_rows import AddedRows, find_added_rows
from xray.story.recognition.between import (
    Region,
    cut_region,
    does_mix,
    is_linear,
    is_scale,
    strip_plain,
)
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.recognition.norms import name_norm
from xray.story.recognition.statistics import is_of_weights
from xray.story.streams.joints import Joint
from xray.story.streams.rejoined_rows import RejoinedRows
from xray.story.streams.scaled_streams import list_learned_past, name_factors_past
from xray.story.streams.shortcuts import before_normed_rows, find_any_norm, name_past

MOST_PATHS, MOST_PASSED = 6, 12


@dataclass(frozen=True)
class Branching:
    """A branch with the steps that it consists of."""

    branch: Branch
    region: Region
    site: Site | None = None
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Staging:
    """A stage with the sums and steps that it was read from; `added` are rows put beside the stream before it.

    `behind` are the steps that scale and shift the stream by learned numbers behind its sum, `past` those on its way
    past the branches. `taken` takes the rows that it alone works on, `rejoined` puts others beside these behind it. A
    bend behind it that others alike do not have is `left` to what comes behind the layers.
    """

    stage: Stage
    joints: tuple[Joint, ...]
    branches: tuple[Branching, ...]
    norms: tuple[FoundNorm, ...]
    added: AddedRows | None = None
    behind: tuple[int, ...] = ()
    past: tuple[int, ...] = ()
    taken: int | None = None
    rejoined: RejoinedRows | None = None
    left: bool = False

    @property
    def nodes(self) -> set[int]:
        """Every step that belongs to it."""
        found = {*self.behind, *self.past, *(joint.add for joint in self.joints)}
        for joint in self.joints:
            found |= joint.region.inner | joint.region.beside
        for norm in self.norms:
            found |= set(norm.nodes)
        found |= set() if self.taken is None else {self.taken}
        found |= set() if self.rejoined is None else self.rejoined.nodes
        return found | (set() if self.added is None else self.added.nodes)


def change_branches(staging: Staging, change: Callable[[Branching], Branch]) -> Staging:
    """A stage with other facts of its branches."""
    found = tuple(replace(one, branch=change(one)) for one in staging.branches)
    return replace(staging, stage=replace(staging.stage, branches=tuple(one.branch for one in found)), branches=found)


def read_stage(
    flow: Flow,
    joints: Sequence[Joint],
    after: Sequence[FoundNorm],
    sites: Sequence[Site],
    towers: Mapping[int, str],
) -> Staging:
    """What is added at one or more sums that began at one point of the stream.

    `after` are the norms that the stream goes through behind the sum, one behind the other.
    """
    found: list[Branching] = []
    norms: list[FoundNorm] = [*after]
    before: list[FoundNorm] = []
    behind: list[FoundNorm] = []
    together, merged = 0, 0
    for joint in joints:
        halves = split_merged(flow, joint.region, tuple(sites))
        if halves is not None and (half := describe_half(flow, halves[1])) is not None:
            found += [read_branch(flow, halves[0], sites, towers), Branching(half, halves[1])]
            before += [norm for norm in opening_norms(flow, joint.region, joint.region.start) if norm not in before]
            together, merged = together + 2, merged + 2
            continue
        for region in sorted(split_parallel(flow, joint.region, sites), key=lambda one: one.end):
            ending = find_ending(flow, region)
            behind += [ending] if ending is not None else []
            found += [
                read_branch(flow, one, sites, towers) for one in split_sequence(flow, region, sites, joint.nested)
            ]
            together += 1
            before += [norm for norm in opening_norms(flow, region, region.start) if norm not in before]
            before += [norm for norm in norms_before_one(flow, joint) if norm not in before]
    norms += [*before, *behind]
    inside = [] if norms else [one for joint in joints for one in list_norms_within(flow, joint.region)]
    mixed = [norm for joint in joints for norm in inside if reads_mixed(flow, norm.origin, joint.region)]
    stage = Stage(
        branches=tuple(one.branch for one in found),
        parallel=together > 1,
        norm=describe_norm(flow, [*list_left(flow, joints), *before, *mixed], behind, after)
        if mixed or not (inside or any(before_normed_rows(flow, joint.stream) is not None for joint in joints))
        else Norm(None, None),
        scale="gates" if joints[-1].weighing else name_scale(flow, joints[-1].region.end, joints[-1].region.inner),
        replaces=joints[-1].replaces or None,
        stream_scale=name_factors_past(flow, joints),
        beside=None if together > 1 else list_beside(flow, found),
        past=name_past(flow, joints[0].past),
        since=joints[0].since or None,
        merged=(merged > 0 and merged == together) or None,
    )
    past = tuple(node for joint in joints for node in list_learned_past(flow, joint))
    return Staging(stage, tuple(joints), tuple(found), tuple(norms), find_added_rows(flow, joints[0].stream), past=past)


def list_left(flow: Flow, joints: Sequence[Joint]) -> list[FoundNorm]:
    """The norms behind which branches begin that read the stream some sums before: others begin there too."""
    starts = (joint.region.start for joint in joints if joint.normed)
    norms = (find_any_norm(flow, start) for start in starts if start is not None)
    return [norm for norm in norms if norm is not None]


def list_beside(flow: Flow, found: Sequence[Branching]) -> tuple[int, ...] | None:
    """Which branches the next one does not read, though what follows does; None where each reads the one before it."""
    regions = [one.region for one in found]
    beside = (number for number, pair in enumerate(pairwise(regions)) if not reads_any(flow, *pair))
    return tuple(beside) or None


def reads_any(flow: Flow, one: Region, other: Region) -> bool:
    """Whether anything of one region leads to the end of another."""
    first = min(one.inner)
    return not one.inner.isdisjoint(flow.behind(other.end, within=lambda place: place >= first))


def split_parallel(flow: Flow, region: Region, sites: Sequence[Site]) -> list[Region]:
    """The branches whose sum a region ends with, if each of them does something of its own; else the region itself."""
    here: int | None = region.end
    while here is not None and here in region.inner:
        if flow.op(here) in SUMS and len(flow.steps[here].inputs) == 2:
            makers = [maker for maker in flow.makers[here] if maker is not None and maker in region.inner]
            parts = [part for maker in makers if (part := cut_region(flow, region, maker)) is not None]
            own = [part.inner - other.inner for part, other in zip(parts, reversed(parts), strict=True)]
            if len(parts) == 2 and all(does_mix(flow, nodes) for nodes in own):
                kinds = [name_kind(flow, nodes, sites) for nodes in own]
                is_apart = kinds[0] != kinds[1] or are_whole(flow, parts)
                if "experts" not in kinds and is_apart:
                    return [piece for part in parts for piece in split_parallel(flow, part, sites)]
            if len(parts) == 2 and any(
                record.role == "parameter" or len(record.shape) < 2 for record in flow.steps[here].inputs
            ):
                here = makers[0]
                continue
            return [region]
        inside = [maker for maker in flow.makers[here] if maker is not None and maker in region.inner]
        is_gated = flow.op(here) in SCALINGS and len(inside) == 1
        if flow.op(here) not in CARRYING | DROPOUTS and not is_scale(flow, here) and not is_gated:
            return [region]
        here = next(iter(inside), None)
    return [region]


def are_whole(flow: Flow, parts: Sequence[Region]) -> bool:
    """Whether parts share nothing and begin with a norm each: sublayers of one kind side by side, no terms of one."""
    shared = frozenset[int].intersection(*(part.inner for part in parts))
    return not shared and all(opening_norms(flow, part, part.start) for part in parts)


def name_kind(flow: Flow, nodes: frozenset[int], sites: Sequence[Site]) -> str:
    """What some steps are, roughly: enough to tell branches side by side from the terms of one."""
    if any(site.softmax in nodes for site in sites):
        return "attention"
    if any(flow.op(node) in ("topk", "argmax") for node in nodes):
        return "experts"
    if any(is_product(flow, node) for node in nodes):
        return "products"
    return "recurrence" if describe_recurrence(flow, nodes) is not None else "feed_forward"


def read_branch(flow: Flow, region: Region, sites: Sequence[Site], towers: Mapping[int, str]) -> Branching:
    """What a branch is, by what it computes."""
    nodes = region.inner
    own = [end_within(flow, site, nodes) for site in sites if site.weighted_sum in nodes and site.softmax in nodes]
    own = [site for site in own if not any(looks_at_scores(flow, site, one) for one in own)]
    if own and is_across_channels(flow, own[0], region):
        return Branching(describe_channels(flow, own[0], region) or Unknown(list_paths(flow, nodes), True), region)
    if own and weighs_no_values(flow, own, region):
        return Branching(Unknown(list_paths(flow, nodes), True), region)
    if own:
        return Branching(describe_attention(flow, own, region, towers), region, own[0])
    sampling = find_sampling(flow, region)
    if sampling is not None:
        return Branching(describe_sampling(flow, sampling, region, towers), region, None, sampling)
    found = (
        describe_experts(flow, region, nodes)
        or describe_recurrence(flow, nodes)
        or describe_plain(flow, region, nodes)
        or (None if mixes_more(flow, nodes) else describe_convolution(flow, nodes))
        or describe_projection(flow, region)
        or describe_place_mixing(flow, region, nodes)
        or describe_mixing(flow, region)
        or describe_context(flow, region)
        or describe_curved(flow, region)
        or describe_fourier(flow, region)
        or describe_pool(flow, region)
    )
    return Branching(found or describe_unknown(flow, region), region)


def describe_unknown(flow: Flow, region: Region) -> Unknown:
    """What little is told of a branch that is drawn by its operations."""
    paths = list_paths(flow, region.inner)
    if not any(is_product(flow, node) for node in region.inner):
        return Unknown(paths)
    found = describe_linear_attention(flow, region)
    return Unknown(paths, True) if found is None else replace(found, paths=paths)


def list_paths(flow: Flow, nodes: frozenset[int]) -> tuple[str, ...]:
    """The paths of the learned steps of a branch that is not known."""
    paths = dict.fromkeys(flow.steps[node].path for node in sorted(nodes) if flow.steps[node].params)
    if not paths:
        blocks = [flow.places.get(flow.steps[node].parent or "") for node in sorted(nodes) if does_mix(flow, [node])]
        paths = dict.fromkeys(flow.steps[block].path for block in blocks if block is not None)
    return tuple(paths)[:MOST_PATHS]


def opening_norms(flow: Flow, region: Region, stream: int | None) -> list[FoundNorm]:
    """The norms with which a branch begins; none where a layer reads the bare stream beside them (RepMixer)."""
    if stream is not None and any(reads_bare(flow, node, stream) for node in region.inner):
        return []
    found = []
    taken: set[int] = set()
    for node in sorted(region.inner, reverse=True):
        if node in taken:
            continue
        norm = find_any_norm(flow, node)
        if norm is not None and starts_at(flow, norm, region, stream):
            found.append(norm)
            taken |= set(norm.nodes)
    return found


def reads_bare(flow: Flow, node: int, stream: int) -> bool:
    """Whether a linear layer or a convolution reads the stream as it is."""
    number = data_input(flow, node) if is_linear(flow, node) or flow.op(node) in FINDINGS else None
    maker = None if number is None else flow.makers[node][number]
    return maker is not None and stream in (maker, strip_plain(flow, maker))


def norms_before_one(flow: Flow, joint: Joint) -> list[FoundNorm]:
    """The norm through which several streams go before they become one row."""
    weighed = None if joint.mixing is None else flow.makers[joint.mixing.gather][0]
    makers = () if weighed is None else (flow.carried_from(maker) for maker in flow.makers[weighed])
    pairs = ((find_any_norm(flow, one), strip_plain(flow, one)) for one in makers if one is not None)
    norms = [norm or (None if plain is None else find_any_norm(flow, plain)) for norm, plain in pairs]
    return [norm for norm in norms if norm is not None and strip_plain(flow, norm.origin) == joint.stream]


def starts_at(flow: Flow, norm: FoundNorm, region: Region, stream: int | None) -> bool:
    """Whether a norm reads the stream itself."""
    if stream is None:
        return norm.origin is None or strip_plain(flow, norm.origin) not in region.inner
    if norm.origin is None or stream in (norm.origin, strip_plain(flow, norm.origin)):
        return norm.origin is not None
    if norm.origin in region.inner and strip_plain(flow, norm.origin) == strip_plain(flow, stream):
        return True  # a stream may itself begin as laid out anew (XCiT)
    beside = flow.makers[norm.origin] if flow.op(norm.origin) in JOINS else ()  # the stream beside something else
    begun = {stream, strip_plain(flow, stream)}  # the same where that is laid out anew first
    return any(maker == stream or strip_plain(flow, maker) in begun for maker in beside)


def list_norms_within(flow: Flow, region: Region) -> list[FoundNorm]:
    """The norms that end at steps of a branch."""
    return [norm for node in sorted(region.inner) if (norm := find_any_norm(flow, node)) is not None]


def reads_mixed(flow: Flow, node: int | None, region: Region) -> bool:
    """Whether a norm reads the stream beside what was made before, or pooled alone (CoAtNet)."""
    pool = None if node is None else strip_plain(flow, node)
    if pool is None or pool not in region.inner or not is_pool(flow, pool):
        return mixes_stream(flow, node, region)
    pooled = flow.makers[pool][0]
    return region.start in (pooled, strip_plain(flow, pooled))


def mixes_stream(flow: Flow, node: int | None, region: Region) -> bool:
    """Whether a step adds to the stream what was made before, each times one number at most (NeoMME)."""
    makers = flow.makers[node] if node in region.inner and flow.op(node) in SUMS else ()
    roots = [strip_numbers(flow, maker) for maker in makers]
    return len(roots) == 2 and region.start in roots and region.inner.isdisjoint(roots)


def strip_numbers(flow: Flow, node: int | None) -> int | None:
    """The step whose numbers others only move, or multiply by one number."""
    while node is not None and flow.makers[node] and (flow.op(node) in CARRYING or is_scale(flow, node)):
        shape = flow.output(node).shape
        node = next((maker for record, maker in flow.given(node) if prod(record.shape) == prod(shape)), None)
    return node


def find_ending(flow: Flow, region: Region) -> FoundNorm | None:
    """The norm with which a branch ends."""
    here: int | None = region.end
    for _ in range(MOST_PASSED):
        if here is None:
            return None
        norm = find_any_norm(flow, here)
        if norm is not None and norm.origin is not None and norm.origin in region.inner:
            return norm
        if flow.op(here) not in CARRYING | DROPOUTS | SCALINGS:
            return None
        here = next((maker for maker in flow.makers[here] if maker is not None and maker in region.inner), None)
    return None


def describe_norm(
    flow: Flow, before: Sequence[FoundNorm], behind: Sequence[FoundNorm], after: Sequence[FoundNorm]
) -> Norm:
    """Where the norms of a stage stand, and of what kind they are; kinds that differ are not told."""
    kinds = {name_norm(flow, norm) for norm in (*before, *behind, *after)}
    kind = kinds.pop() if len(kinds) == 1 else None
    ends = [*behind, *after]
    if not before and not ends:
        return Norm(None, "none")
    place = "both" if before and ends else "before" if before else "after"
    on = None if not ends else "both" if behind and after else "branch" if behind else "stream"
    are = {is_adaptive(flow, past_factors(flow, norm)) for norm in (*before, *ends)}
    adaptive = max(are, key=(False, None, True).index, default=False)
    learned = None if any(has_learned(flow, norm) for norm in (*before, *ends)) else False
    many = len(after) if len(after) > 1 else None
    first = any(norm.weighs_first for norm in (*before, *ends)) or None
    return Norm(kind, place, on, adaptive, many, learned, first)  # type: ignore[arg-type]


def has_learned(flow: Flow, norm: FoundNorm) -> bool:
    """Whether a norm has numbers of its own, or what it gives is multiplied by such behind it."""
    own = any(flow.steps[node].params for node in norm.nodes)
    behind = (one for one in flow.readers.get(norm.end, ()) if flow.op(one) in SCALINGS)
    return own or any(is_of_weights(flow, *given) for node in (*norm.nodes, *behind) for given in flow.given(node))


def find_own_bend(flow: Flow, staging: Staging) -> int | None:
    """The bend behind the sum of a stage through which all goes that it gives, if nothing else stands between."""
    last, stage = staging.joints[-1].add, staging.stage
    is_normed = stage.norm.is_behind_sum and any(norm.end > last for norm in staging.norms)
    is_plain = not (staging.left or is_normed or staging.behind or stage.stream_scale or stage.replaces)
    return find_bend_behind(flow, last) if is_plain else None
