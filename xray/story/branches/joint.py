"""Joint attention: keys of another stream that stand beside a branch's own, and which stream they are of.

So what makes keys for the attentions of other towers alone, and is none of one's own.
"""

from collections.abc import Iterator, Mapping, Sequence

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE
from xray.ir.flow.projections import is_product
from xray.story.branches.operands.sides import Side
from xray.story.recognition.between import Region, is_linear
from xray.story.recognition.turning import is_rotary

MOST_BEHIND = 80
ANOTHER = "another stream"
"""What a stream is called of which no tower is known."""


def name_beside(flow: Flow, key: Side, region: Region, towers: Mapping[int, str]) -> str | None:
    """The tower whose keys stand beside a branch's own; None where all keys are its own, or from another tower."""
    maker = find_beside(flow, key, region)
    if maker is None:
        return None
    found = next((towers[here] for here in flow.behind(maker, most=MOST_BEHIND) if here in towers), ANOTHER)
    return None if found == "self" else found  # what stands beside is a part of the stream itself: a class token


def find_beside(flow: Flow, key: Side, region: Region) -> int | None:
    """The step that made the keys that are put beside a branch's own, by a linear layer of theirs."""
    return next((maker for _, maker in find_joins(flow, key, region)), None)


def leaves_unturned(flow: Flow, key: Side, region: Region) -> bool:
    """Whether keys that are put beside a branch's own come from their linear layer without a turn by their places.

    Nor are they turned with the own ones, where both stand side by side (Flux).
    """
    join, maker = next(find_joins(flow, key, region), (None, None))
    if join is None or is_rotary(flow, {*flow.ahead(join, within=key.nodes.__contains__)}):
        return False
    way = {*flow.behind(maker, most=MOST_BEHIND, ends=lambda here: is_linear(flow, here))}
    made = {*flow.ahead(*(here for here in way if is_linear(flow, here)), within=way.__contains__)}
    return bool(made) and not is_rotary(flow, made)


def find_own_keys(flow: Flow, key: Side, region: Region) -> slice | None:
    """Which of the keys that two streams give together are a branch's own; None where that is not known."""
    node = next((node for node, _ in find_joins(flow, key, region)), None)
    if node is None:
        return None
    mine, given, whole = region.inner | {region.start}, list(flow.given(node)), flow.output(node).shape
    own = [place for place, (_, maker) in enumerate(given) if maker in mine]
    shapes = [record.shape for record, _ in given]
    if len(own) != 1 or any(len(shape) != len(whole) for shape in shapes):
        return None
    axes = [axis for axis, size in enumerate(whole) if all(shape[axis] < size for shape in shapes)]
    if len(axes) != 1:
        return None
    start = sum(shape[axes[0]] for shape in shapes[: own[0]])
    return slice(start, start + shapes[own[0]][axes[0]])


def find_joins(flow: Flow, key: Side, region: Region) -> Iterator[tuple[int, int]]:
    """The steps that put keys of another stream beside a branch's own, each with the step that made those."""
    if not key.is_own:
        return
    for node in sorted(key.nodes):
        if flow.op(node) not in SIDE_BY_SIDE:
            continue
        given = list(flow.given(node))
        mine = region.inner | {region.start}
        own = [record for record, maker in given if maker in mine]
        filled = [maker for record, maker in given if 0 not in record.shape]
        others = [maker for maker in filled if maker is not None and maker not in mine]
        for maker in others:
            is_longer = bool(own) and flow.output(node).shape[-1:] == own[0].shape[-1:]
            if is_longer and is_worked_out(flow, maker):
                yield node, maker


def is_worked_out(flow: Flow, maker: int) -> bool:
    """Whether a linear layer of data stands near behind a step, so that it is no table and no parameter."""
    return any(is_linear(flow, here) for here in flow.behind(maker, most=MOST_BEHIND))


def scores_own_keys_too(flow: Flow, site: Site, region: Region) -> bool:
    """Whether one softmax shares its weights out among keys of another stream and the branch's own (Pegasus-X)."""
    steps = list(flow.behind(site.softmax, most=MOST_BEHIND, ends=lambda place: is_product(flow, place)))
    products = [node for node in steps if is_product(flow, node) and node != site.scores]
    joined = any(flow.op(node) in SIDE_BY_SIDE for node in steps)
    return joined and any(region.inner.issuperset(flow.makers[node][-2:]) for node in products)


def list_looked_at(
    flow: Flow, regions: Sequence[Region], theirs: Sequence[Region], sites: Sequence[Site]
) -> frozenset[int]:
    """The steps that make keys and values for attentions of other towers alone, from their linear layers on (LTX-2).

    `regions` are those of a tower's own sums, `theirs` those of all others.
    """
    own, inner = (frozenset[int]().union(*(region.inner for region in some)) for some in (regions, theirs))
    looking = [site for site in sites if site.weighted_sum in inner - own]
    ways = [way.nodes for site in looking for way in (site.key, site.value)]
    lasts = (max((node for node in way if is_linear(flow, node)), default=len(flow.steps)) for way in ways)
    return frozenset(node for way, last in zip(ways, lasts, strict=True) for node in way if node >= last) - own
