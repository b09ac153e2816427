"""What tells a branch from another kind that looks like it: by what its steps do, beyond which steps there are."""

from collections import Counter
from collections.abc import Sequence
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DROPOUTS,
    FINDINGS,
    PRODUCTS,
    REPEATS,
    SCALINGS,
    SOFTMAXES,
    TURNS,
)
from xray.ir.flow.projections import data_input, is_product
from xray.ir.flow.softmax_axis import read_axis
from xray.ir.turns import swaps_last_two
from xray.story.anatomy.branches import (
    ChannelAttention,
    Context,
    CurvedAttention,
    FeedForward,
    PlaceMixing,
    Projection,
    StreamMixing,
)
from xray.story.branches.convolutions import describe_convolution
from xray.story.branches.feed_forward import describe_feed_forward, name_activation
from xray.story.branches.lengths import read_mixing
from xray.story.branches.rows import lays_numbers_across, meets_places
from xray.story.branches.scored.caps import name_bend
from xray.story.passages.channels import lay_last, reads_places
from xray.story.recognition.between import (
    Region,
    does_mix,
    is_linear,
    makes_rows,
    name_groups,
    projections_in,
    strip_plain,
    width_in,
    width_out,
)
from xray.story.recognition.curved_sites import find_curved
from xray.story.recognition.values.value_shapes import number

ALONG_PLACES = ("lstm", "gru", "rnn", "cum", "logcumsumexp", "fft_")
"""How operations are called that mix all places of a row, or a state that is changed from place to place."""
MOST_PICKED = 4


def mixes_more(flow: Flow, nodes: frozenset[int]) -> bool:
    """Whether a branch mixes rows by more than convolutions: by products, along all places, or place after place."""
    picked = Counter(flow.makers[node][0] for node in nodes if takes_one(flow, node))
    return max(picked.values(), default=0) > MOST_PICKED or any(
        is_product(flow, node)
        or flow.op(node).startswith(ALONG_PLACES)
        or (flow.op(node) == "unbind" and len(flow.steps[node].outputs) > MOST_PICKED)
        or (is_linear(flow, node) and flow.op(node) not in FINDINGS and reads_places(flow, node))
        for node in nodes
    )


def takes_one(flow: Flow, node: int) -> bool:
    """Whether a step takes one place of an axis, which is gone then."""
    given = flow.steps[node].inputs[:1]
    return flow.op(node) in ("index", "select") and len(flow.output(node).shape) < len(given[0].shape)


def describe_plain(flow: Flow, region: Region, nodes: frozenset[int]) -> FeedForward | None:
    """The facts of a feed-forward; None if there is none, or it stands behind or before a convolution (ConvNeXt)."""
    if is_across_places(flow, region) or any(lays_numbers_across(flow, node) for node in region.inner):
        return None
    found = describe_feed_forward(flow, region, nodes)
    if found is None or (found.kernel is None and describe_convolution(flow, nodes) is not None):
        return None
    if not (found.kernel or found.joined or found.best_again) and meets_places(flow, region):
        return None
    if found.kernel is not None and is_around_convolution(flow, found, nodes):
        return None
    return found


def describe_projection(flow: Flow, region: Region) -> Projection | None:
    """The facts of linear layers by themselves, none of which reads another one; None where more is done."""
    linear = {node for node in projections_in(flow, region.inner) if flow.op(node) not in FINDINGS}
    others = region.inner - linear
    behind = {node: set(flow.behind(*flow.makers[node], within=region.inner.__contains__)) for node in linear}
    is_alone = all(linear.isdisjoint(one) for one in behind.values())
    bends = any(flow.op(node) in CURVES | SOFTMAXES for node in others)
    if not linear or not is_alone or bends or does_mix(flow, others) or is_across_places(flow, region):
        return None
    shape = flow.output(region.end).shape
    others_wide = {*shape[1:-1]} - {shape[-1]}  # what reads as many may work along another axis (AltUp's streams)
    if meets_places(flow, region) or any(width_in(flow, one) == width_out(flow, one) in others_wide for one in linear):
        return None
    widths = {width_out(flow, node) for node in linear}
    return Projection(widths.pop() if len(widths) == 1 else None, len(linear))


def describe_mixing(flow: Flow, region: Region) -> StreamMixing | None:
    """How many streams a branch mixes by a matrix that it works out of them; None where it does anything else.

    The streams stand on the first axis; with the matrix each of them becomes a weighed sum of all (Gemma 3n).
    """
    end, shape = flow.carried_from(region.end), flow.output(region.end).shape
    if end not in region.inner or flow.op(end) not in PRODUCTS or len(shape) != 4 or shape[0] < 2:
        return None
    (rows, streams), (matrix, weights) = flow.given(end)
    is_theirs = matrix.shape[-2:] == (shape[0], shape[0]) and rows.shape == (*shape[1:], shape[0])
    is_whole = strip_plain(flow, streams) == region.start and weights in region.inner
    return StreamMixing(shape[0], reads_one(flow, region, weights)) if is_theirs and is_whole else None


def reads_one(flow: Flow, region: Region, weights: int | None) -> bool:
    """Whether what a step gives is worked out of one of several streams alone: all that reads them takes the same."""
    own = flow.behind(weights, within=region.inner.__contains__)
    taken = [flow.steps[node] for node in own if region.start in flow.makers[node]]
    places = {str(step.settings.get("index", "")) for step in taken}
    return len(places) == 1 and places.pop().isdecimal() and all(step.op == "index" for step in taken)


def describe_context(flow: Flow, region: Region) -> Context | None:
    """Places that are summed up by weight, where the sum multiplies each of them; None where that is not so."""
    for node in sorted(region.inner):
        product = flow.carried_from(next(iter(flow.makers[node]), None))
        if flow.op(node) != "sum" or product not in region.inner or flow.op(product) not in SCALINGS:
            continue
        axis = flow.steps[node].settings.get("dim")
        rows = flow.output(product).shape
        if not isinstance(axis, int):
            continue
        weighed = shares_out(flow, product, axis % len(rows) - len(rows))
        if weighed is not None:
            moved = flow.ahead(*flow.readers.get(node, ()), within=lambda one: flow.op(one) in CARRYING | REPEATS)
            readers = {reader for way in (node, *moved) for reader in flow.readers.get(way, ())}
            if any(flow.op(one) in SCALINGS and flow.output(one).shape == rows for one in readers & region.inner):
                return Context(rows[axis], weighed, count_sums(flow, product, axis))
    return None


def count_sums(flow: Flow, product: int, axis: int) -> int | None:
    """How many sums of places there are, of maps whose places are laid out in sets; None where there is one.

    So the first places of all patches are one set, the second ones another (MobileViTV2).
    """
    rows = flow.output(product).shape
    shapes = (record.shape for record, _ in flow.given(product))
    weights = next((one for one in shapes if len(one) == len(rows) and one[1] == 1 < rows[1]), None)
    several = 1 if weights is None else prod(weights) // (weights[0] * weights[axis])
    return several if several > 1 else None


def shares_out(flow: Flow, product: int, axis: int) -> bool | None:
    """Whether a step multiplies rows by weights of their places, of which all along an axis sum to 1.

    False where each of these is the softmax of one number alone, which is 1 (SwiftFormer); None where it is otherwise.
    """
    for record, maker in flow.given(product):
        weights = flow.carried_from(maker, CARRYING | DROPOUTS)
        is_shared = prod(record.shape) < prod(flow.output(product).shape) and record.shape[axis] > 1
        if weights is not None and is_shared and flow.op(weights) in SOFTMAXES:
            along = read_axis(flow.steps[weights])
            if along == axis:
                return True
            return False if flow.output(weights).shape[along] == 1 else None
    return None


def is_around_convolution(flow: Flow, found: FeedForward, nodes: frozenset[int]) -> bool:
    """Whether linear layers serve the convolution between them: rows grow no wider, or are normalised on the way.

    So it is in a Conformer and in an EfficientNet, and not in a SegFormer.
    """
    last = projections_in(flow, nodes)[-1]
    is_narrow = found.d_ff is not None and found.d_ff <= width_out(flow, last)
    return is_narrow or any(flow.op(node).startswith("batch_norm") for node in nodes)


def is_across_places(flow: Flow, region: Region) -> bool:
    """Whether the linear layers of a branch multiply columns of places, and not each place by itself (MLP-Mixer)."""
    return any(
        read_mixing(flow, one) is not None or convolves_rows(flow, one) or reads_places(flow, one, alone=True)
        for one in projections_in(flow, region.inner)
    )


def convolves_rows(flow: Flow, node: int) -> bool:
    """Whether a convolution of one place takes rows for channels, whose numbers a step just before has laid last."""
    made = next(iter(flow.makers[node]), None)
    is_single = flow.op(node) in FINDINGS and is_linear(flow, node) and not name_groups(flow, node)
    if not is_single or made is None or not makes_rows(flow, made):
        return False
    return len(flow.output(node).shape) == 3 and flow.output(made).shape == flow.steps[node].inputs[0].shape


def describe_convolved_rows(flow: Flow, region: Region, nodes: frozenset[int]) -> PlaceMixing | None:
    """The facts of convolutions of one place, one or two, that take rows for channels; None for any others."""
    shape, own = flow.output(region.end).shape, projections_in(flow, region.inner)
    if len(own) not in (1, 2) or any(flow.op(node) not in FINDINGS for node in own) or not convolves_rows(flow, own[0]):
        return None
    if any(flow.op(node) in TURNS for node in region.inner) or flow.output(own[-1]).shape != shape:
        return None
    found = describe_feed_forward(flow, region, nodes)
    activation = None if found is None else found.activation
    return PlaceMixing(shape[1], width_out(flow, own[0]) if own[1:] else None, activation)


def describe_square(flow: Flow, region: Region) -> PlaceMixing | None:
    """The facts of one learned square by which a branch mixes places, beside layers over each of them (gMLP)."""
    mixing = [node for node in projections_in(flow, region.inner) if read_mixing(flow, node) is not None]
    places = flow.output(region.end).shape[-2:-1]
    if len(mixing) != 1 or read_mixing(flow, mixing[0]) != places * 2:
        return None
    is_one = any(prod(record.shape) == prod(places * 2) for record in flow.steps[mixing[0]].inputs)
    return PlaceMixing(places[0], None, None) if is_one else None


def describe_place_mixing(flow: Flow, region: Region, nodes: frozenset[int]) -> PlaceMixing | None:
    """The facts of linear layers along the places of rows that were turned for them, and are turned back; else None."""
    if (told := describe_convolved_rows(flow, region, nodes) or describe_square(flow, region)) is not None:
        return told
    shape = flow.output(region.end).shape
    own = [node for node in projections_in(flow, region.inner) if flow.op(node) not in FINDINGS]
    if len(shape) < 3 or not own or not is_across_places(flow, region):
        return None
    before = flow.makers[own[0]][0] if flow.makers[own[0]] else None
    is_turned = before is not None and flow.op(before) in TURNS and swaps_last_two(flow.steps[before])
    back: int | None = region.end
    while back is not None and flow.op(back) in CARRYING - TURNS | DROPOUTS | SCALINGS:
        back = next((maker for maker in flow.makers[back] if maker in region.inner), None)
    is_back = back is not None and flow.op(back) in TURNS and swaps_last_two(flow.steps[back])
    if not is_turned or not is_back or width_in(flow, own[0]) != shape[-2] or not are_along(flow, own, shape[-1]):
        return None
    found = describe_feed_forward(flow, region, nodes)
    bends = [node for node in sorted(nodes) if own[0] < node < own[-1] and flow.op(node) in CURVES]
    activation = name_activation(flow, bends, {own[0]}) if found is None and len(bends) == 1 else None
    activation = activation if found is None else found.activation
    wide = width_out(flow, own[0]) if len(own) > 1 else None
    return PlaceMixing(shape[-2], wide, activation)


def are_along(flow: Flow, layers: Sequence[int], rows: int) -> bool:
    """Whether linear layers all read so many rows, and none of these are turned between the first and the last."""
    read = [flow.steps[one].inputs[number].shape for one in layers if (number := data_input(flow, one)) is not None]
    turns = [one for one in flow.behind(layers[-1], within=lambda one: one > layers[0]) if flow.op(one) in TURNS]
    return len(read) == len(layers) and all(shape[-2:-1] == (rows,) for shape in read) and not turns


def is_across_channels(flow: Flow, site: Site, region: Region) -> bool:
    """Whether an attention scores channels by what they are at all places, rows of the batch, or heads of a place."""
    shape, scores = lay_last(flow, region.end), flow.output(site.scores).shape
    if are_among_heads(flow, site):
        return True
    if len(scores) == 2 < len(shape) - 1 and shape[0] == scores[0] > 1:
        return True  # rows of the batch score each other, and no places (CSATv2)
    places = prod(shape[1:-1])
    if len(shape) < len(("batch", "place", "width")) or scores[-2] != scores[-1] or scores[-1] == places:
        return False
    return site.query.end.shape[-1] == places and shape[-1] % scores[-1] == 0


def are_among_heads(flow: Flow, site: Site) -> bool:
    """Whether heads of one place score each other, as where they were not brought before the places."""
    axes = flow.output(site.scores).axes
    return flow.op(site.scores) != "einsum" and axes[-2:] == ("heads", "heads")


def describe_channels(flow: Flow, site: Site, region: Region) -> ChannelAttention | None:
    """The facts of an attention of channels, where each group of them scores its own (XCiT); None for any other."""
    shape, scores = lay_last(flow, region.end), flow.output(site.scores).shape
    groups = shape[-1] // scores[-1]
    is_grouped = len(shape) >= len(("batch", "place", "width")) and prod(scores[:-2]) == shape[0] * groups
    return ChannelAttention(groups, scores[-1]) if is_grouped and not are_among_heads(flow, site) else None


def describe_curved(flow: Flow, region: Region) -> CurvedAttention | None:
    """The facts of an attention that bends its scores by a curve and has no softmax; None where none is proven.

    Every place must be scored by every other: the scores are as many as the stream has places, on both sides.
    """
    site = find_curved(flow, region.inner)
    stream, scores = flow.output(region.end).shape, () if site is None else flow.output(site.scores).shape
    if site is None or len(stream) < 3 or scores[-2:] != (prod(stream[1:-1]),) * 2:
        return None
    d_k, d_v = site.query.end.shape[-1], flow.output(site.weighted_sum).shape[-1]
    wide = width_in(flow, site.output) or 0
    heads = wide // d_v if wide % d_v == 0 and prod(scores[:-2]) == stream[0] * (wide // d_v) else None
    curve = list_curve(flow, [node for node in site.curve if node not in site.masks])
    return CurvedAttention("self", heads, d_k, curve, is_masked=bool(site.masks))


def list_curve(flow: Flow, steps: Sequence[int]) -> tuple[tuple[str, float | None], ...]:
    """What some steps do to each score, each with the number by which it does so, if it has one."""
    bent = [node for node in steps if flow.op(node) not in CARRYING | DROPOUTS]
    return tuple((name_bend(flow.steps[node]), number(flow.steps[node], "other", "arg1", "exponent")) for node in bent)
