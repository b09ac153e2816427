"""Bridges: what stands between two layers of a tower, as the joining of neighbours into one wider row (Swin)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, NORMS, PLACING, SIDE_BY_SIDE, SUMS, TRANSPOSED
from xray.ir.flow.projections import PICKS, is_product
from xray.story.anatomy.beside_layers import Bridge
from xray.story.body.scale import find_bend_behind
from xray.story.body.widths import end_of, find_width
from xray.story.branches.convolutions import looks_back
from xray.story.cutting.patterns import Layer
from xray.story.passages.added_places import describe_sum, name_addition
from xray.story.passages.channels import find_channels
from xray.story.passages.joined_rows import describe_joining, multiplies_earlier, read_merging
from xray.story.passages.ordered_rows import (
    EACH_REPEATED,
    RowCounts,
    find_counts,
    label_first_row,
    name_repeated,
    repeats_rows,
)
from xray.story.passages.pools import is_pool
from xray.story.passages.rows_between import find_earlier, moved_from
from xray.story.recognition.between import (
    Region,
    does_mix,
    find_region,
    list_reading_data,
    read_sizes,
    works_on_weights,
)
from xray.story.recognition.norms import find_norm
from xray.story.recognition.resamplers import count_heads_at, count_rows
from xray.story.streams.put_beside import (
    RowsBeside,
    find_rows_beside,
    list_left_behind,
)
from xray.story.streams.rejoined_rows import takes_rows_alone
from xray.story.wording import plural, spell_steps

MOST_STEPS = 60
FILTER_NORMS = NORMS | {"batch_norm", "instance_norm"}


@dataclass(frozen=True)
class Bridging:
    """A bridge with its steps, what it begins with, the last of them, which the next layer reads, and an attention.

    `rows` are those that are put beside the stream there, where it does nothing else. `aside` are steps that work out
    rows for the next layers to look at, while the stream goes on with others. `counts` say how often rows are repeated.
    """

    bridge: Bridge
    nodes: frozenset[int]
    start: int
    end: int
    site: Site | None = None
    rows: RowsBeside | None = None
    aside: frozenset[int] = frozenset()
    counts: RowCounts | None = None


def find_bridges(
    flow: Flow,
    layers: Sequence[Layer],
    sites: Sequence[Site],
    turns: Collection[int] = (),
    others: Collection[int] = (),
) -> tuple[Bridging, ...]:
    """What stands between layers that follow one another and makes rows fewer, is learned, adds rows up or repeats any.

    Factors and norms alone are none, nor is what holds several attentions or one with a way past it, or more than can
    be drawn. Rows that are left out change nothing, but where the next layer begins with the others as they are, nor do
    rows that are put beside them, but where any of those is learned, came before the layers, or had been left out.
    Before the first layers of `turns`, in which stacks run again, all is one. None goes beyond what `others` gave.
    """
    found: list[Bridging] = []
    sums = {joint.add for layer in layers for one in layer for joint in one.joints}
    for number, before, start, region in list_between(flow, layers):
        nodes = region.inner
        leaves = [node for node in nodes if flow.is_leaf(node)]
        looking = [site for site in sites if site.softmax in nodes]
        if are_many(flow, leaves) or len(looking) > 1 or any(goes_past(flow, before, start, one) for one in looking):
            continue
        d_in, d_out = width_at(flow, before, layers[number - 1]), width_at(flow, start, layers[number])
        goes_on = flow.output(find_cut(flow, before, leaves) or before)
        joined = count_joined(goes_on.shape, flow.output(start).shape, d_in, d_out)
        is_learnt = any(flow.steps[node].is_learned and does_mix(flow, [node]) for node in leaves)
        is_other = adds_rows_up(flow, before, start, leaves) or repeats_rows(flow, before, start, leaves)
        is_other = (
            is_other or pools_rows(flow, before, start, leaves) or number in turns or takes_rows_alone(flow, start)
        )
        put = list_put_among(flow, before, leaves, others)
        is_other = is_other or bool(put)
        earlier = find_put_back(flow, nodes, before, layers[: number - 1])
        ends = [end_of(layer) for layer in layers[:number]]
        rows = find_rows_beside(flow, before, start, sums, layers[0][0].joints[0].stream, ends[:-1])
        if rows is not None:
            bridge = Bridge(number, None, d_in, d_out, beside=rows.count)
            found.append(Bridging(bridge, nodes | rows.nodes, before, start, rows=rows))
        elif joined or is_learnt or is_other or earlier is not None:
            site = next(iter(looking), None)
            heads = None if site is None else count_heads_at(flow, site)
            nodes |= {*flow.behind(start, within=(nodes | region.beside).difference(others).__contains__)}
            is_added = find_residual(flow, before, start) is not None
            counts = find_counts(flow, ends, leaves)
            counted = None if counts is None else counts.layer
            told = None if mixes_all(flow, before, leaves, looking) or chooses_rows(flow, leaves) else joined
            bridge = Bridge(number, told, d_in, d_out, heads=heads, added=is_added, counted=counted, earlier=earlier)
            cut = find_cut(flow, before, leaves)
            aside = frozenset[int]()
            if cut is not None:
                aside = list_left_behind(flow, before, start, nodes, list_beside(layers[number]))
            nodes |= put | (aside if counts is None else aside | counts.nodes)
            found.append(Bridging(bridge, nodes, before, start, site, aside=aside, counts=counts))
    return tuple(found)


def are_many(flow: Flow, leaves: Collection[int]) -> bool:
    """Whether steps are more than can be drawn; those that move rows or drop some have no box."""
    return sum(flow.op(node) not in CARRYING | DROPOUTS for node in leaves) > MOST_STEPS


def find_put_back(
    flow: Flow, nodes: Collection[int], before: int, layers: Sequence[Layer]
) -> tuple[int, Literal["gave", "read"]] | None:
    """Which of some layers gave, or read, what is laid beside the stream before the next layer."""
    found = [one for node, one in find_earlier(flow, nodes, before, layers).items() if flow.op(node) not in SUMS]
    if len(found) != 1:
        return None
    ((number, made),) = found
    return number, "read" if layers[number][0].joints[0].stream == made else "gave"


def only_puts_back(flow: Flow, bridging: Bridging) -> bool:
    """Whether all that is done between two layers is to lay beside the stream what was there before."""
    leaves = [node for node in bridging.nodes if flow.is_leaf(node) and node != bridging.end]
    return bridging.bridge.earlier is not None and all(moved_from(flow, node) != node for node in leaves)


def list_beside(layer: Layer) -> frozenset[int]:
    """The steps of a layer that work on anything beside the stream."""
    return frozenset[int]().union(*(joint.region.beside | joint.region.inner for one in layer for joint in one.joints))


def list_between(flow: Flow, layers: Sequence[Layer]) -> Iterator[tuple[int, int, int, Region]]:
    """What stands between two layers: which is the next, from 0, what ends the first and what the next reads."""
    for number, (before, layer) in enumerate(pairwise(layers), 1):
        end, start = end_of(before), layer[0].joints[0].stream
        region = None if start is None or start <= end else find_region(flow, end, start)
        if start is not None and region is not None:
            yield number, end, start, region


def find_cut(flow: Flow, before: int, leaves: Collection[int]) -> int | None:
    """The step that takes some rows of each sequence with which alone a way goes on; None where others do, too."""
    moved = {before}
    firsts = list[int]()
    for node in sorted(leaves):
        if moved.isdisjoint(flow.makers[node]):
            continue
        if flow.op(node) in CARRYING and not takes_rows_alone(flow, node):
            moved.add(node)
        else:
            firsts.append(node)
    return firsts[0] if len(firsts) == 1 and takes_rows_alone(flow, firsts[0]) else None


def find_residual(flow: Flow, before: int, start: int) -> int | None:
    """The sum with which a bridge ends that adds what it makes of the stream to the stream as it came, if one does."""
    add = flow.carried_from(start)
    makers = [] if add is None or flow.op(add) not in SUMS else [flow.carried_from(one) for one in flow.makers[add]]
    return add if len(makers) == 2 and None not in makers and makers.count(before) == 1 else None


def goes_past(flow: Flow, before: int, start: int, site: Site) -> bool:
    """Whether there is a way from one step to a later one past an attention between them."""
    ways = flow.behind(start, within=lambda one: one > before and one != site.weighted_sum)
    return any(before in flow.makers[one] for one in ways)


def list_put_among(flow: Flow, before: int, leaves: Collection[int], others: Collection[int]) -> set[int]:
    """The steps that put rows of the stream, and rows made elsewhere, among those of a tensor of another length.

    With what makes the latter, of few steps, and is read by nothing else (MiniMax H3: films and sounds beside a text).
    """
    put = {one for one in leaves if flow.op(one) in PLACING and flow.output(one).shape != flow.output(before).shape}
    found, walls = {*put}, {before, *leaves, *others}
    todo = [maker for node in put for maker in flow.makers[node] if maker is not None]
    for here in todo:
        if here not in walls and found.issuperset(flow.leaf_readers(here)):
            found.add(here)
            todo += [maker for maker in flow.makers[here] if maker is not None]
    return found if len(found) <= MOST_STEPS else put


def adds_rows_up(flow: Flow, before: int, start: int, leaves: Collection[int]) -> bool:
    """Whether sequences become fewer on a way on which tensors of that shape are added up (SegGPT's two halves)."""
    rows, left = flow.output(before).shape, flow.output(start).shape
    is_fewer = rows[1:] == left[1:] and rows[:1] > left[:1]
    return is_fewer and any(flow.op(node) in SUMS and len(flow.steps[node].inputs) > 1 for node in leaves)


def pools_rows(flow: Flow, before: int, start: int, leaves: Collection[int]) -> bool:
    """Whether rows become fewer by a pool, be it that they are not divided evenly (Funnel: 5 rows become 3)."""
    return prod(flow.output(start).shape) < prod(flow.output(before).shape) and any(
        is_pool(flow, one) for one in leaves
    )


def list_changes(flow: Flow, layers: Sequence[Layer]) -> list[Bridge]:
    """Where the stream becomes shorter or wider inside a layer, on its way past the first sublayer (Hiera, MaxViT)."""
    found = []
    for number, (before, layer) in enumerate(pairwise(layers), 1):
        joint, end = layer[0].joints[0], end_of(before)
        start = end if joint.stream == end else find_bend_behind(flow, end)
        if start is None:
            continue
        shapes = flow.output(start).shape, flow.output(joint.add).shape
        d_in, d_out = width_at(flow, start, before), width_at(flow, joint.add, layer)
        joined = count_joined(*shapes, d_in, d_out)
        if joint.past and joint.stream == start and (joined or d_in != d_out):
            found.append(Bridge(number, joined, d_in, d_out, within=True))
    return found


def width_at(flow: Flow, place: int, layer: Layer) -> int:
    """How wide the rows are that a step makes: as its own layers say, else as the layer has them."""
    shape, axis = flow.output(place).shape, find_channels(flow, place)
    own = flow.output(layer[0].joints[0].add).shape
    if (axis is None and len(own) != len(shape)) or (axis is not None and shape[axis] == 1):
        # it is laid out anew (MobileViTV2), or pooled as a map of one channel (Funnel)
        return own[find_width(flow, layer)]
    return shape[find_width(flow, layer) if axis is None else axis]


def mixes_all(flow: Flow, before: int, leaves: Collection[int], looking: Sequence[Site]) -> bool:
    """Whether products make new rows of all that came, as a few learned rows ask for them (PatchMerger)."""
    asks = (before in flow.behind(*site.query.nodes) for site in looking)
    return any(is_product(flow, node) for node in leaves) and not any(asks)


def chooses_rows(flow: Flow, leaves: Collection[int]) -> bool:
    """Whether rows go on that are chosen by what was worked out of data (TransFG): several do not become one."""
    picks = (list(flow.given(node)) for node in leaves if flow.op(node) in PICKS)
    data = list_reading_data(flow)
    chosen = ((rows, maker) for (rows, _), *ids in filter(None, picks) for _, maker in ids)
    return any(rows.is_float and maker in data for rows, maker in chosen)


def count_joined(before: Sequence[int], after: Sequence[int], d_in: int, d_out: int) -> int | None:
    """How many rows become one; None where it is no whole number, the same number of them, or all with no axis left."""
    if before[0] != after[0] or not d_in or not d_out:
        return None
    rows, left = prod(before) // d_in, prod(after) // d_out
    if left == before[0] and len(after) < len(before):
        return None
    return rows // left if rows > left and rows % left == 0 else None


def label_bridge(flow: Flow, bridging: Bridging) -> dict[int, str]:
    """What steps of a bridge are called: where neighbours come side by side, and what came before beside it."""
    residual = find_residual(flow, bridging.start, bridging.end)
    labels = {} if residual is None else {residual: "ADD"}
    for node in sorted(bridging.nodes.difference(labels)):
        if in_front := label_first_row(flow, node, bridging.nodes):
            labels[node] = in_front
        elif multiplies_earlier(flow, node, bridging.nodes):
            labels[node] = "MULTIPLIED"
        elif flow.op(node) == EACH_REPEATED and flow.output(node).is_float:
            labels[node] = name_repeated(flow, node)
        elif flow.op(node) in SUMS and next(describe_sum(flow, node, ()), None) is not None:
            labels[node] = name_addition(flow, node, None)
    if bridging.site is not None:
        labels[end_of_site(bridging.site)] = label_looking(flow, bridging.site)
    joining = find_joining(flow, bridging)
    if joining is not None:
        width, joined = bridging.bridge.d_in, bridging.bridge.joined or 1
        told = read_merging(flow, flow.output(joining), joining)[1]
        told = told or describe_joining(flow, sorted(bridging.nodes), joined)
        labels[joining] = told if ":" in told else f"{told}: {width}·{joined} = {width * joined}"
    return labels


def label_looking(flow: Flow, site: Site) -> str:
    """How many places an attention without a skip looks at how many others with (LeViT)."""
    rows, seen = count_rows(flow, site, site.query), count_rows(flow, site, site.key)
    if rows is None or seen is None:
        return "ATTENTION"
    return f"{rows:,} PLACES LOOK AT {seen:,}{label_heads(count_heads_at(flow, site))}"


def label_heads(heads: int | None) -> str:
    """With how many heads an attention that is one box looks, where that is known."""
    return f" WITH {plural(heads, 'head').upper()}" if heads else ""


def end_of_site(site: Site) -> int:
    """The step behind which the heads of an attention stand side by side again."""
    return site.concat[-1] if site.concat else site.weighted_sum


def fold_site(flow: Flow, bridging: Bridging) -> dict[int, tuple[int, ...]]:
    """The steps of a bridge that make an attention, by the last of them: they stand in one box."""
    if bridging.site is None:
        return {}
    end = end_of_site(bridging.site)
    return {end: tuple(sorted({end, *flow.behind(end, within=bridging.nodes.__contains__)}))}


def label_convolution(flow: Flow, node: int) -> str:
    """A convolution with its kernel, how far apart that reads places, and by how many of them it moves on."""
    stride, apart = read_sizes(flow, node, "stride"), read_dilation(flow, node)
    told = name_convolution(flow, node)
    told = told if apart == 1 else f"{told}, {apart} APART"
    told = f"{told}, STEP {spell_steps(stride)}" if stride and set(stride) != {1} else told
    return f"{told}, OF NORMED WEIGHTS" if has_normed_weights(flow, node) else told


def has_normed_weights(flow: Flow, node: int) -> bool:
    """Whether the filters of a convolution are brought to mean 0 and variance 1 before they meet the map (BiT)."""
    made = [flow.carried_from(maker, CARRYING) for maker in flow.makers[node][1:2]]
    own = [one for one in made if one is not None and works_on_weights(flow, one)]
    return any(flow.op(one) in FILTER_NORMS or find_norm(flow, one) is not None for one in own)


def read_dilation(flow: Flow, node: int) -> int:
    """How far apart the places are that a convolution reads, which are neighbours where that is 1."""
    found = () if flow.op(node) in TRANSPOSED else read_sizes(flow, node, "dilation")
    return max(found, default=1) if max(read_sizes(flow, node, "kernel_size"), default=1) > 1 else 1


def name_convolution(flow: Flow, node: int) -> str:
    """A convolution with its kernel, and how it parts channels; one that makes maps larger is called so."""
    kernel = read_sizes(flow, node, "kernel_size")
    told = "TRANSPOSED CONVOLUTION" if flow.op(node) in TRANSPOSED else "CONVOLUTION"
    told = f"{told} {'OF THE LAST ' * looks_back(flow, node)}{'×'.join(map(str, kernel))}" if kernel else told
    groups = next(iter(read_sizes(flow, node, "groups")), 1)
    channels = flow.steps[node].inputs[0].shape[1:2]
    return told if groups == 1 else f"{told} BY CHANNEL" if (groups,) == channels else f"{told} IN {groups:,} GROUPS"


def find_joining(flow: Flow, bridging: Bridging) -> int | None:
    """The move behind which as many rows as are joined stand side by side in one; None where none does that."""
    joined, wide = bridging.bridge.joined, bridging.bridge.d_in
    if joined is None:
        return None
    for node in sorted(bridging.nodes):
        if not flow.is_leaf(node) or flow.output(node).shape[-1:] != (joined * wide,):
            continue
        is_cut = flow.op(node) in SIDE_BY_SIDE and all(flow.op(one) in CARRYING for one in flow.makers[node] if one)
        if is_cut or (flow.op(node) in CARRYING and read_merging(flow, flow.output(node), node)[1]):
            return node
    return None
