"""Convolutions: over how many places they mix, and how far back, in branches of their own or beside heads."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CURVES, FINDINGS, SIDE_BY_SIDE, SUMS, TRANSPOSED
from xray.ir.flow.projections import is_product
from xray.story.anatomy.branches import Convolution
from xray.story.branches.before_last import find_uncut
from xray.story.branches.operands.sides import Side
from xray.story.branches.rows import SWAPS
from xray.story.passages.channels import find_channels, spreads_both
from xray.story.passages.pools import is_mean_of_map
from xray.story.recognition.between import Region, is_linear, read_sizes
from xray.story.recognition.values.value_shapes import number

LAYING = frozenset({"view", "reshape", "unsafe_view", "reshape_alias", "view_as", "reshape_as", "unflatten", "flatten"})
"""What lays numbers out anew, in the order in which they lie."""


def list_other_way(flow: Flow, region: Region, site: Site) -> frozenset[int]:
    """The steps of a convolution whose rows are put beside what the heads found, and that no head needs (ConvBERT)."""
    return list_way_beside(flow, region, site, lambda one: convolves(flow, one))


def convolves(flow: Flow, maker: int | None) -> bool:
    """Whether a step gives what a convolution made of neighbours, be its weights worked out anew (ConvBERT)."""
    made = flow.carried_from(maker)
    if made is None or flow.op(made) in FINDINGS:
        return made is not None and not is_linear(flow, made)
    read = map(flow.carried_from, flow.makers[made])
    return is_product(flow, made) and any(one is not None and flow.op(one) == "unfold" for one in read)


def list_way_beside(
    flow: Flow, region: Region, site: Site, is_asked: Callable[[int], bool] = lambda _: True
) -> frozenset[int]:
    """The steps that make what is put beside what the heads found, of such makers as are asked, and no head needs."""
    inside = region.inner | region.beside
    own = set(flow.behind(site.weighted_sum, within=inside.__contains__))
    reached = {site.weighted_sum}
    found: set[int] = set()
    for node in sorted(one for one in region.inner if one > site.weighted_sum):
        if reached.isdisjoint(maker for maker in flow.makers[node] if maker is not None):
            continue
        reached.add(node)
        for maker in flow.makers[node] if flow.op(node) in SIDE_BY_SIDE else ():
            if maker is not None and maker not in reached and is_asked(maker):
                found |= set(flow.behind(maker, within=inside.__contains__)) - own
    return frozenset(found)


def count_convolved(flow: Flow, site: Site, region: Region) -> int | None:
    """Over how many places a convolution mixes the values, whose result is added to what the heads found of them.

    None where there is none, or another one: each head is a channel by itself, and of two axes it goes along places.
    """
    values = find_uncut(flow, *[*flow.given(site.weighted_sum)][-1])
    for node in sorted(one for one in region.inner if one > site.weighted_sum and flow.op(one) in SUMS):
        added = [flow.carried_from(maker) for maker in flow.makers[node]]
        made = next((one for one in added if one is not None and flow.op(one) in FINDINGS), None)
        if made is None or site.weighted_sum not in added or find_uncut(flow, *next(flow.given(made))) != values:
            continue
        kernel, read = read_sizes(flow, made, "kernel_size"), flow.steps[made].inputs[0].shape
        is_of_heads = read == flow.output(site.weighted_sum).shape and count_groups(flow, made) == read[1]
        if is_of_heads and len(kernel) == 2 and kernel[0] > 1 == kernel[1]:
            return kernel[0]
    return None


def count_mixed_anew(flow: Flow, site: Site, region: Region) -> int | None:
    """Over how many places rows are mixed beside the heads by weights that a linear layer and softmax make of each.

    None where they are mixed by nothing, or by learned weights.
    """
    way = list_way_beside(flow, region, site)
    for node in sorted(one for one in way if is_product(flow, one)):
        sides = {flow.op(one): one for maker in flow.makers[node] if (one := flow.carried_from(maker)) is not None}
        if {*sides} != {"softmax", "unfold"}:
            continue
        places, dim = (
            prod(read_sizes(flow, sides["unfold"], "kernel_size")),
            number(flow.steps[sides["softmax"]], "dim"),
        )
        weights = flow.carried_from(flow.makers[sides["softmax"]][0])
        is_over = dim is not None and flow.output(sides["softmax"]).shape[int(dim)] == places
        if is_over and weights in way and weights is not None and is_linear(flow, weights):
            are_each = prod(flow.output(weights).shape) == prod(flow.output(sides["softmax"]).shape)
            return places if are_each else None
    return None


def count_mixed_before(flow: Flow, nodes: Collection[int]) -> int | None:
    """How many places before its own each row gets something of, by convolutions one behind the other among steps.

    Rows are made longer in front alone, by so many as the convolutions take off again; None where it is otherwise.
    """
    found = [node for node in sorted(nodes) if flow.op(node) in FINDINGS - TRANSPOSED]
    padded = next((flow.carried_from(flow.makers[node][0]) for node in found), None)
    if padded is None or flow.op(padded) != "pad" or any(len(flow.output(node).shape) != 3 for node in found):
        return None
    if any(flow.carried_from(flow.makers[after][0]) != before for before, after in pairwise(found)):
        return None
    front, *behind = read_sizes(flow, padded, "pad") or (0,)
    lengths = [flow.steps[padded].inputs[0].shape[-1], flow.output(found[-1]).shape[-1]]
    steps = {size for node in found for size in read_sizes(flow, node, "stride")}
    sides = {size for node in found for size in read_sizes(flow, node, "padding")}
    is_back = behind == [0] and steps <= {1} and sides <= {0} and lengths[0] == lengths[1]
    return front or None if is_back else None


def count_before(flow: Flow, nodes: Collection[int]) -> tuple[int, int] | None:
    """How many numbers of the rows that steps make, of how many, are those of the place before; None where none are."""
    shifted = {node for node in nodes if flow.op(node) == "cat" and takes_place_before(flow, node)}
    for node in sorted(nodes):
        beside = [flow.carried_from(maker) for maker in flow.makers[node]]
        if flow.op(node) in SIDE_BY_SIDE and len(shifted.intersection(beside)) == 1 < len(beside):
            wide = next(flow.output(one).shape[-1] for one in beside if one in shifted)
            whole = flow.output(node).shape[-1]
            return (wide, whole) if wide < whole else None
    return None


def takes_place_before(flow: Flow, node: int) -> bool:
    """Whether a step puts one row in front of all others of a sequence but the last."""
    given, made = flow.steps[node].inputs, flow.output(node).shape
    last = flow.makers[node][-1]
    if len(given) != 2 or len(made) != 3 or last is None or flow.op(last) not in ("index", "narrow"):
        return False
    whole = flow.steps[last].inputs[0].shape
    is_cut = str(flow.steps[last].settings.get("index", "")).removesuffix(", :") == ":, :-1"
    return is_cut and whole == made and given[0].shape == (made[0], 1, made[2])


def describe_convolution(flow: Flow, nodes: Collection[int]) -> Convolution | None:
    """The facts of the widest convolution among steps; None if there is none that looks beyond its own place."""
    found: Convolution | None = None
    for node in sorted(nodes):
        if flow.op(node) not in FINDINGS or goes_along_numbers(flow, node):
            continue
        kernel = read_sizes(flow, node, "kernel_size")
        groups = count_groups(flow, node)
        if kernel and max(kernel) > 1 and (found is None or max(kernel) > max(found.kernel or (0,))):
            mixed = lays_anew(flow, node)
            looks = looks_back(flow, node) and not mixed
            found = Convolution(kernel, groups, causal=looks or None, is_wide=mixed or is_wide(flow, node))
    if found is not None and any(flow.op(node) in SWAPS for node in nodes):
        found = replace(found, causal=None)  # what stands before a place there came after it
    return found if found is None else replace(found, adds_mean=adds_mean(flow, nodes) or None)


def goes_along_numbers(flow: Flow, node: int) -> bool:
    """Whether a convolution goes along the numbers of rows, and takes their places for channels: no turn before it.

    Or along the sequences of a batch: a turn of another kind.
    """
    maker, made = flow.makers[node][0], flow.output(node)
    is_plain = maker is not None and len(made.shape) == 3 and find_channels(flow, maker) == 2
    return is_plain or "batch" in made.axes[2:]


def adds_mean(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether some of these steps add to each place of a map the mean of all its places, be it bent and scaled."""
    means = (node for node in nodes if is_mean_of_map(flow, node))
    way = flow.ahead(*means, within=lambda one: one in nodes and goes_on(flow, one))
    sums = [one for here in way for one in flow.leaf_readers(here) if one in nodes and flow.op(one) in SUMS]
    return any(prod(flow.output(one).shape[2:]) > 1 for one in sums)


def goes_on(flow: Flow, node: int) -> bool:
    """Whether a step only takes a mean of places, bends it, moves it, or multiplies it by a number of each place."""
    return flow.op(node) in CARRYING | CURVES | {"mean"} or spreads_both(flow, node)


def lays_anew(flow: Flow, node: int) -> bool:
    """Whether rows are laid out before a convolution across their axes, so that others than neighbours meet there.

    So sequences and places of one size together become other ones, without a turn (OmniTokenizer's own "to fix").
    """
    here = flow.makers[node][0]
    while here is not None and flow.makers[here] and flow.op(here) in {*CARRYING, "pad"}:
        if flow.op(here) in LAYING and cuts_across(flow.steps[here].inputs[0].shape, flow.output(here).shape):
            return True
        here = flow.makers[here][0]
    return False


def cuts_across(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether some axes in a row, none of which is one alone, become several others that are not parts of these."""
    one, two = ({*accumulate(shape, mul)} for shape in (before, after))
    ends = sorted({1} | (one & two))
    return any(
        any(low < end < high for end in one) and any(low < end < high for end in two) for low, high in pairwise(ends)
    )


def is_wide(flow: Flow, node: int) -> bool | None:
    """Whether a convolution reaches over as many places as what it makes has, along some axis; None where it does not.

    A map of few places in a small picture may be so narrow.
    """
    sizes = [read_sizes(flow, node, name) for name in ("kernel_size", "dilation")]
    made = flow.output(node).shape[2:]
    kernel, apart = (own if len(own) == len(made) else own[:1] * len(made) for own in sizes)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, apart or (1,) * len(made), strict=False)]
    return any(one >= many for one, many in zip(reach, made, strict=False)) or None


def looks_back(flow: Flow, node: int) -> bool:
    """Whether a convolution over a row reads a place and those just before it, and none behind it.

    Either the row is made longer in front alone, or on both sides, and what is made of its end is cut off, be it behind
    what works on each place by itself. One that moves on by several places reads none behind the last of these.
    """
    read = (read_sizes(flow, node, name) for name in ("kernel_size", "stride", "padding", "dilation"))
    kernel, stride, padding, dilation = (sizes[0] if len(sizes) == 1 else None for sizes in read)
    length, made = (one.shape[2:] for one in (flow.steps[node].inputs[0], flow.output(node)))
    if kernel in (None, 1) or len(length) != 1 or flow.op(node) in TRANSPOSED:
        return False
    stride, before = stride or 1, (kernel - 1) * (dilation or 1)
    if padding in (0, None):
        maker = flow.makers[node][0]
        front, *behind = (0,) if maker is None else read_sizes(flow, maker, "pad") or (0,)
        return behind == [0] and max(1, before + 1 - stride) <= front <= before
    parts = {
        str(flow.steps[one].settings.get("index", "")).rpartition(", ")[2]
        for one in flow.leaf_readers(pass_pointwise(flow, node))
    }
    is_cut = bool(parts) and parts <= {f":{length[0]}", f":-{before}"}
    return stride == 1 and padding == before and made[0] == length[0] + before and is_cut


def find_shortened(flow: Flow, node: int) -> int:
    """The step that alone reads what a convolution made longer, and cuts off its end; else the convolution (Mimi).

    So one may look back alone: what it made of places behind the last is left out (LFM2).
    """
    readers = flow.leaf_readers(node)
    begun: int | None = node
    while begun is not None and flow.op(begun) in FINDINGS and is_linear(flow, begun):
        begun = flow.makers[begun][0]
    is_back = begun is not None and flow.op(begun) in FINDINGS and looks_back(flow, begun)
    is_longer = flow.op(node) in TRANSPOSED or (flow.op(node) in FINDINGS and is_back)
    if not is_longer or len(readers) != 1 or flow.op(readers[0]) not in ("index", "narrow"):
        return node
    before, after = flow.output(node).shape, flow.output(readers[0]).shape
    is_shorter = len(before) == len(after) and before[:-1] == after[:-1] and after[-1] < before[-1]
    return readers[0] if is_shorter else node


def pass_pointwise(flow: Flow, node: int) -> int:
    """The last of the convolutions behind a step that read it alone, each place by itself (Phi-4 multimodal)."""
    readers = flow.leaf_readers(node)
    while len(readers) == 1 and flow.op(readers[0]) in FINDINGS and is_linear(flow, readers[0]):
        (node,) = readers
        readers = flow.leaf_readers(node)
    return node


def lets_neighbours_in(flow: Flow, node: int) -> bool:
    """Whether a step is a convolution that reads more than one place."""
    return flow.op(node) in FINDINGS and max(read_sizes(flow, node, "kernel_size"), default=1) > 1


def list_mixed_back(flow: Flow, site: Site, sides: Sequence[Side], region: Region) -> tuple[str, ...]:
    """Which rows of an attention convolutions mix with those just before them, what it gives last (Inkling)."""
    ahead = flow.ahead(site.weighted_sum, within=region.inner.__contains__)
    names = ("queries", "keys", "values", "what attention gives")
    ways = zip(names, (*(one.nodes for one in sides), ahead), strict=True)
    mixing = [(name, [node for node in nodes if lets_neighbours_in(flow, node)]) for name, nodes in ways]
    return tuple(name for name, own in mixing if own and all(looks_back(flow, node) for node in own))


def count_groups(flow: Flow, node: int) -> int | None:
    """Into how many groups a convolution cuts its channels: by its settings, else by the shape of its weights."""
    step = flow.steps[node]
    told = step.settings.get("groups")
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    if len(step.inputs) < 2 or "transpose" in step.op:
        return None
    rows, weights = step.inputs[0].shape, step.inputs[1].shape
    if len(weights) != len(rows) or len(rows) < 3 or not weights[1]:
        return None
    return rows[1] // weights[1]
