"""Deformable attention: a query says at which points of maps values are sampled, and how much each sample counts."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from xray.ir.flow.attention_sites import seek_output
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS, SIDE_BY_SIDE, SOFTMAXES
from xray.story.anatomy.attentions import DeformableAttention
from xray.story.recognition.between import Region, is_linear, width_in

LAID = CARRYING | DROPOUTS | SIDE_BY_SIDE | {"stack"}
MOST_BETWEEN, FAR = 24, 400


@dataclass(frozen=True)
class Sampling:
    """One deformable attention by its steps.

    `samples` are the steps that sample, one for each map; `offsets` and `scores` are the linear layers that say of each
    query where, and how much each sample counts once `softmax` has made weights of it. `values` are the steps by which
    the maps are made, as far back as their linear layer, `projection`, where there is one; `origin` made what they are
    made of. `weighted_sum` sums up the samples times their weights, `concat` and `output` lead back to the stream.
    """

    samples: tuple[int, ...]
    offsets: int
    scores: int
    softmax: int
    values: frozenset[int]
    projection: int | None
    origin: int | None
    weighted: int
    weighted_sum: int
    concat: tuple[int, ...]
    output: int | None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The steps that each has."""
        ends = (self.projection, self.output)
        return (*self.samples, self.offsets, self.scores, self.softmax, *(one for one in ends if one is not None))


def find_sampling(flow: Flow, region: Region) -> Sampling | None:
    """The deformable attention that a branch is; None where one of its steps is not there."""
    samples = tuple(node for node in sorted(region.inner) if flow.op(node).startswith("grid_sample"))
    if not samples:
        return None
    pairs = ((node, find_weights(flow, node, samples, region.inner)) for node in sorted(region.inner))
    weighted, softmax = next(((node, weights) for node, weights in pairs if weights is not None), (None, None))
    if weighted is None or softmax is None:
        return None
    summed = find_reader(flow, weighted, region.inner)
    scores = find_linear(flow, flow.makers[softmax][0], region.inner)
    offsets = {find_linear(flow, flow.makers[node][1], region.inner) for node in samples}
    if summed is None or scores is None or len(offsets) != 1 or (offset := offsets.pop()) is None or offset == scores:
        return None
    values = follow_values(flow, samples, region)
    projection = next((node for node in sorted(values) if is_linear(flow, node)), None)
    first = projection if projection is not None else min(values, default=samples[0])
    concat, output = seek_output(flow, summed, region.inner)
    origin = flow.carried_from(flow.makers[first][0])
    return Sampling(samples, offset, scores, softmax, values, projection, origin, weighted, summed, concat, output)


def find_weights(flow: Flow, node: int, samples: Collection[int], inner: Collection[int]) -> int | None:
    """The softmax by which a step multiplies all that was sampled; None if it does not."""
    if flow.op(node) not in SCALINGS or len(flow.makers[node]) != 2:
        return None
    for one, other in (flow.makers[node], flow.makers[node][::-1]):
        laid = set(flow.behind(one, within=inner.__contains__, ends=lambda here: flow.op(here) not in LAID))
        weights = flow.carried_from(other, CARRYING | DROPOUTS)
        if laid.issuperset(samples) and weights in inner and weights is not None and flow.op(weights) in SOFTMAXES:
            return weights
    return None


def find_reader(flow: Flow, weighted: int, inner: Collection[int]) -> int | None:
    """The step that sums up what was weighed over its last axis."""
    for reader in flow.readers.get(weighted, ()):
        is_shorter = flow.output(reader).shape == flow.output(weighted).shape[:-1]
        if reader in inner and flow.op(reader) == "sum" and is_shorter:
            return reader
    return None


def find_linear(flow: Flow, place: int | None, inner: Collection[int]) -> int | None:
    """The one linear layer of the branch that something is worked out by, others before it left out."""
    behind = flow.behind(place, within=inner.__contains__, ends=lambda here: is_linear(flow, here))
    found = [node for node in behind if is_linear(flow, node)]
    return found[0] if len(found) == 1 else None


def follow_values(flow: Flow, samples: Collection[int], region: Region) -> frozenset[int]:
    """The steps of a branch that make the maps that are sampled, back to a linear layer, or while rows are moved."""
    inside = region.inner | region.beside
    found: set[int] = set()
    todo = [flow.makers[node][0] for node in samples]
    while todo and len(found) < MOST_BETWEEN * len(samples):
        here = todo.pop()
        if here is None or here in found or here not in inside:
            continue
        if is_linear(flow, here):
            found.add(here)
        elif flow.op(here) in CARRYING | DROPOUTS | {"masked_fill", "masked_fill_"}:
            found.add(here)
            todo.append(flow.makers[here][0])
    return frozenset(found)


def describe_sampling(flow: Flow, found: Sampling, region: Region, towers: Mapping[int, str]) -> DeformableAttention:
    """The facts of a deformable attention."""
    sampled, given = flow.output(found.samples[0]).shape, flow.steps[found.samples[0]].inputs[0].shape
    d_v = given[1] if len(given) == len(("batch and heads", "d_v", "height", "width")) else None
    width = flow.output(region.end).shape[-1] if found.output is None else width_in(flow, found.output)
    heads = width // d_v if width and d_v and width % d_v == 0 else None
    points = {flow.output(node).shape[-1] for node in found.samples}
    weights = flow.output(found.softmax).shape[-1:]
    levels = len(found.samples)
    is_each = len(points) == 1 and weights == (levels * sampled[-1],)
    return DeformableAttention(
        source=name_source(flow, found, region, towers),
        heads=heads,
        d_v=d_v,
        levels=levels,
        points=points.pop() if is_each else None,
    )


def name_source(flow: Flow, found: Sampling, region: Region, towers: Mapping[int, str]) -> str | None:
    """Where the values come from: the stream itself, or the tower that ends last of those that lead to them."""
    if found.origin is not None and (found.origin in region.inner or found.origin == flow.carried_from(region.start)):
        return "self"
    return next((towers[node] for node in sorted(list_ends(flow, found.origin, towers), reverse=True)), None)


def list_ends(flow: Flow, origin: int | None, towers: Mapping[int, str]) -> Iterator[int]:
    """The steps of towers that lead to a tensor through no other tower."""
    behind = flow.behind(origin, most=FAR, ends=towers.__contains__)
    return (node for node in behind if node in towers and towers[node] != "self")
