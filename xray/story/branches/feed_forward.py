"""What a feed-forward is: how wide, how bent, gated or not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    DIFFERENCES,
    DROPOUTS,
    FINDINGS,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SPLITS,
    SUMS,
)
from xray.ir.flow.projections import data_input, is_product
from xray.ir.flow.written_bends import list_snake
from xray.ir.records import TensorRecord
from xray.story.anatomy.branches import FeedForward
from xray.story.branches.before_last import name_inner_norm
from xray.story.branches.convolutions import count_groups
from xray.story.branches.scored.caps import name_bend
from xray.story.entrance.tables import PICKING
from xray.story.experts.held_gates import find_held
from xray.story.passages.added_places import learned_source
from xray.story.passages.ordered_rows import shifts_places
from xray.story.recognition.between import Region, is_linear, projections_in, read_sizes, width_in, width_out
from xray.story.recognition.chosen_rows import list_choice
from xray.story.recognition.norms import find_norm
from xray.story.recognition.values.known_curves import find_curves

XIELU = frozenset({"gt", "where", "min", "expm1", "sub", "mul", "add"})
"""The operations of which that is written."""
LEAST_OF_XIELU = 4
"""A square and a slope where numbers are above 0, a slope and a factor of an exponential below (Huang et al. 2024)."""
PLAIN = CARRYING | CLAMPS | DROPOUTS | FINDINGS | SCALINGS | SUMS
"""What may be done to wide rows besides, told by itself or in no box, and bends none of their numbers."""
RELUS = frozenset({"relu", "relu_"})
SPLITTERS = SPLITS | {"unbind"}


def describe_feed_forward(flow: Flow, region: Region, nodes: Collection[int]) -> FeedForward | None:
    """The facts of a feed-forward among steps; None if they are none."""
    linear = projections_in(flow, nodes)
    projections = [node for node in linear if not is_shared_out(flow, node, nodes)]
    bends = [node for node in sorted(nodes) if is_bend(flow, node)]
    if len(projections) < 2 or not bends or any(is_product(flow, node) and node not in projections for node in nodes):
        return None
    if all(flow.op(node) == "pow" for node in bends) and not works_between(flow, nodes, linear):
        return None  # the powers are of norms before or behind
    behind = {node: steps_behind(flow, node, nodes) - {node} for node in projections}
    closing = [node for node in projections if behind[node] & set(projections) and behind[node] & set(bends)]
    last = closing[-1] if closing else projections[-1]
    number = data_input(flow, last)
    if number is None or reads_picked_beside(flow, region, projections[0]):
        return None
    is_open = bool(closing) and any(node not in behind[last] for node in projections if node != last)
    shape = flow.steps[last].inputs[number].shape
    d_ff = shape[1] if flow.op(last).startswith("conv") else shape[-1]
    wide = [node for node in projections[:-1] if width_out(flow, node) in (d_ff, 2 * d_ff)]
    if not wide:
        return None
    inner = [node for node in sorted(nodes) if wide[0] < node < last and node not in projections]
    gates = [node for node in inner if is_gate(flow, node, set(nodes), wide)]
    is_plain = region.start is not None and inner_kernel(flow, inner) is None
    if is_plain and not leads_on(flow, last, inner, wide, gates, d_ff):
        return None
    gated = bool(gates)
    doubled = [node for node in wide if width_out(flow, node) == 2 * d_ff]
    is_fused = None if len(doubled) > 1 else bool(doubled) and len(wide) == 1  # a sum of several is no one layer's
    best_again = takes_best(flow, region, behind)
    is_beside = is_open or linear != projections or meets_others(flow, inner, wide) or meets_part(flow, inner)
    found = FeedForward(
        d_ff=None if best_again or joins_unlike(flow, closing, nodes) else d_ff,
        activation=name_activation(flow, [node for node in inner if not gates or node < gates[-1]], wide),
        gated=gated if gated or not is_beside else None,
        fused=is_fused if gated else None,
        kernel=inner_kernel(flow, inner) or shift_kernel(flow, [node for node in nodes if node < wide[0]]),
        inner_norm=name_inner_norm(flow, last, inner),
        joined=count_joined(flow, region, projections[0], last),
        threshold=True if list_threshold(flow, inner, wide) else None,
        gates_beside=True if not gated and find_rows_beside(flow, region, inner) is not None else None,
        best_again=best_again or None,
    )
    return with_held(flow, found, gates, inner)


def joins_unlike(flow: Flow, closing: Collection[int], nodes: Collection[int]) -> bool:
    """Whether a step puts together what last layers make of rows of several widths, one each (MISSFormer's scales)."""
    joined = (
        {width_in(flow, one) for one in closing if one in map(flow.carried_from, flow.makers[node])}
        for node in nodes
        if flow.op(node) in SIDE_BY_SIDE
    )
    return any(len(widths) > 1 for widths in joined)


def reads_picked_beside(flow: Flow, region: Region, first: int) -> bool:
    """Whether a linear layer reads rows of another stream, picked for each row, beside those of its own (ProteinMPNN).

    Such rows are of other places.
    """
    moved = CARRYING | SIDE_BY_SIDE
    laid = {*flow.behind(*flow.makers[first], within=lambda node: flow.op(node) in moved | PICKING)}
    own = {node for node in laid if flow.op(node) in SIDE_BY_SIDE and node in region.inner}
    picks = (node for node in laid if flow.op(node) in PICKING and len(flow.steps[node].inputs) > 1)
    return bool(own) and region.start is not None and any(node not in region.inner for node in picks)


def leads_on(flow: Flow, last: int, inner: Sequence[int], wide: Sequence[int], gates: Sequence[int], d_ff: int) -> bool:
    """Whether all that wide rows come to goes through one gate, of which a factor is bent and not the product.

    Without a gate, whether they are as wide as what is led back, each layer behind the other, or all in one sum.
    """
    if not gates:
        beside = any(wide[0] not in flow.behind(one, within=lambda node: node >= wide[0]) for one in wide)
        return width_out(flow, wide[0]) == d_ff and (not beside or are_summed(flow, last, inner, wide))
    before = set(flow.behind(*flow.makers[gates[-1]], within=inner.__contains__))
    past = flow.behind(*flow.makers[last], within=lambda node: node in inner and node != gates[-1])
    bends = [is_bend(flow, node) and find_norm(flow, node) is None for node in inner if node < gates[-1]]
    behind = [flow.op(node) in CURVES for node in inner if node > gates[-1]]
    is_one = any(bends) and not any(behind) and before.isdisjoint(gates)
    is_one = is_one and gates[-1] in flow.behind(*flow.makers[last], within=inner.__contains__)
    return is_one and all({*wide}.isdisjoint(flow.makers[node]) for node in past)


def are_summed(flow: Flow, last: int, inner: Collection[int], wide: Collection[int]) -> bool:
    """Whether all that some layers make goes through one sum of theirs (an adapter beside a layer)."""
    for node in inner:
        if flow.op(node) in SUMS and {flow.carried_from(maker) for maker in flow.makers[node]} == {*wide}:
            past = flow.behind(*flow.makers[last], within={*inner}.difference({node}).__contains__)
            return all({*wide}.isdisjoint(flow.makers[one]) for one in past)
    return False


def with_held(flow: Flow, each: FeedForward, gates: Sequence[int], inner: Collection[int]) -> FeedForward:
    """A feed-forward, with what is done to the factors of its gate before they meet."""
    held = find_held(flow, gates[-1], inner) if gates and each.gated else None
    return each if held is None else replace(each, held_gate=held.gate, held_bent=held.bent, held_up=held.up)


def takes_best(flow: Flow, region: Region, behind: Mapping[int, Collection[int]]) -> bool:
    """Whether layers work on those rows of a stream alone that score best, and others, beside them, on all of them."""
    whole = () if region.start is None else flow.output(region.start).shape  # an expert alone begins with no stream
    best = [node for node, before in behind.items() if any(scores_each(flow, one, whole) for one in before)]
    others = [node for node in behind if node not in best and flow.output(node).shape == whole]
    return any(other not in behind[node] for node in best for other in others)


def scores_each(flow: Flow, here: int, whole: Sequence[int]) -> bool:
    """Whether a step picks the best of rows that have one score each, not what each expert chose for itself."""
    choice = list_choice(flow, here)
    return bool(choice) and prod(flow.steps[choice[-1]].inputs[0].shape) == prod(whole[:-1])


def list_threshold(flow: Flow, inner: Collection[int], wide: Collection[int]) -> list[int]:
    """The steps that take off a row what follows from its mean and spread, and leave nothing below it; if there are."""
    for node in sorted(inner):
        taken = next(iter(flow.makers[node]), None) if flow.op(node) in RELUS else None
        if taken is None or flow.op(taken) not in DIFFERENCES or len(flow.makers[taken]) != 2:
            continue
        row, limit = flow.makers[taken]
        way = set(flow.behind(limit, within=lambda place: place in inner))
        ops = {flow.op(place) for place in way if row in flow.makers[place]}
        if row in wide and flow.steps[taken].inputs[1].shape[-1:] == (1,) and ops == {"mean", "std"}:
            return sorted({*way, taken, node})
    return []


def count_joined(flow: Flow, region: Region, first: int, last: int) -> int | None:
    """How many rows of the stream the first linear layer reads side by side, the last one making one of them."""
    if region.start is None:
        return None
    times, rest = divmod(width_in(flow, first) or 0, width_out(flow, last))
    before, after = (flow.output(node).shape for node in (region.start, region.end))
    are_rows = before[-1:] == after[-1:] == (width_out(flow, last),)
    return times if are_rows and times > 1 and not rest and prod(before) == times * prod(after) else None


def find_rows_beside(flow: Flow, region: Region, inner: Collection[int]) -> int | None:
    """The step that multiplies wide rows by rows that are not worked out of the stream; None if none does."""
    for node in sorted(inner):
        given = flow.steps[node].inputs
        if flow.op(node) in SCALINGS and len(given) == 2 and given[0].shape == given[1].shape:
            makers = [maker in region.inner for maker in flow.makers[node]]
            if makers in ([True, False], [False, True]) and None not in flow.makers[node]:
                return node
    return None


def meets_others(flow: Flow, inner: Collection[int], wide: Collection[int]) -> bool:
    """Whether wide rows are multiplied by rows from elsewhere, as by what a table holds for each word (Gemma 3n)."""
    own = {*inner, *wide}
    return any(
        flow.op(node) in SCALINGS
        and len(flow.steps[node].inputs) == 2
        and flow.steps[node].inputs[0].shape == flow.steps[node].inputs[1].shape
        and any(record.role != "parameter" and maker not in own for record, maker in flow.given(node))
        for node in inner
    )


def meets_part(flow: Flow, inner: Collection[int]) -> bool:
    """Whether parts of the wide rows, cut from one another, are multiplied after more was done to them (MambaOut)."""
    cuts = [node for node in inner if flow.op(node) in SPLITTERS]
    for node in inner:
        makers = [maker for maker in flow.makers[node] if maker is not None]
        if flow.op(node) in SCALINGS and len(makers) == 2:
            behind = [steps_behind(flow, maker, inner) for maker in makers]
            if any(all(cut in one for one in behind) for cut in cuts):
                return True
    return False


def is_shared_out(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether what a linear layer makes becomes shares by which others are multiplied (PatchTSMixer)."""
    readers = (reader for reader in flow.readers.get(node, ()) if reader in nodes)
    return any(flow.op(reader) in SOFTMAXES for reader in readers)


def steps_behind(flow: Flow, end: int, nodes: Collection[int]) -> set[int]:
    """The steps among some that lead to one, itself included."""
    return set(flow.behind(end, within=nodes.__contains__))


def inner_kernel(flow: Flow, inner: Collection[int]) -> tuple[int, ...] | None:
    """The size of a convolution of each channel by itself among the steps between the linear layers."""
    for node in inner:
        if flow.op(node) in FINDINGS and count_groups(flow, node) == width_out(flow, node):
            kernel = read_sizes(flow, node, "kernel_size")
            if max(kernel, default=1) > 1:
                return kernel
    return None


def shift_kernel(flow: Flow, nodes: Collection[int]) -> tuple[int, ...] | None:
    """As a kernel: rows that are shifted by one place before the linear layers, and mixed with themselves (RWKV)."""
    return (2,) if any(shifts_places(flow, node) for node in nodes) else None


def is_norm_of_maps(flow: Flow, node: int) -> bool:
    """Whether one step normalises channels over places, or over groups of these."""
    return flow.op(node).startswith(("batch_norm", "group_norm", "instance_norm"))


def is_bend(flow: Flow, node: int) -> bool:
    """Whether a step bends numbers: an activation that is known, or a power."""
    return flow.is_leaf(node) and (flow.op(node) in CURVES or flow.op(node) == "pow")


def works_between(flow: Flow, nodes: Collection[int], linear: Collection[int]) -> bool:
    """Whether a step does more than move what one linear layer makes for another: LAuReL has none (Gemma 3n)."""
    plain = CARRYING | DROPOUTS
    working = (one for one in nodes if flow.is_leaf(one) and one not in linear and flow.op(one) not in plain)
    ways = ((steps_behind(flow, node, nodes), {*flow.ahead(node, within=nodes.__contains__)}) for node in working)
    return any(not behind.isdisjoint(linear) and not ahead.isdisjoint(linear) for behind, ahead in ways)


def is_gate(flow: Flow, node: int, nodes: set[int], wide: Collection[int]) -> bool:
    """Whether a step multiplies two tensors that both come from the wide linear layers, one of them as it is."""
    step = flow.steps[node]
    if step.op not in SCALINGS or len(step.inputs) != 2 or step.inputs[0].shape != step.inputs[1].shape:
        return False
    makers = flow.makers[node]
    if any(maker is None or maker not in nodes for maker in makers):
        return False
    roots = [strip_bias(flow, maker) for maker in makers]
    straight = [is_of_layers(flow, root, wide) for root in roots]
    if roots[0] == roots[1]:
        return len({name_numbers(flow, *one) for one in flow.given(node)}) == len(makers)
    if straight.count(True) != 1:
        return all(straight)
    plain, other = (list(flow.given(node))[straight.index(is_plain)] for is_plain in (True, False))
    return not comes_from_same_numbers(flow, plain, other, nodes)


def is_of_layers(flow: Flow, root: int | None, wide: Collection[int]) -> bool:
    """Whether numbers are what one of some layers makes, or the sum of what several do (Zamba 2's adapters)."""
    is_sum = root is not None and root not in wide and flow.op(root) in SUMS and None not in flow.makers[root]
    parts = [flow.carried_from(maker) for maker in flow.makers[root]] if is_sum and root is not None else [root]
    return all(part in wide for part in parts)


def strip_shift(flow: Flow, maker: int | None) -> int | None:
    """What a factor is before it is held between bounds, and one number added to all of it (gpt-oss)."""
    here = flow.carried_from(maker, CARRYING | CLAMPS)
    is_shift = here is not None and flow.op(here) in SUMS and len(flow.steps[here].inputs) == 1
    return flow.carried_from(flow.makers[here][0], CARRYING | CLAMPS) if is_shift and here is not None else here


def strip_bias(flow: Flow, maker: int | None) -> int | None:
    """The same before a learned row is added, be it one that an expert picked out of those of all (gpt-oss)."""
    here = strip_shift(flow, maker)
    given = list(flow.given(here)) if here is not None and flow.op(here) in SUMS else []
    layers = [one for _, one in given if (layer := flow.carried_from(one)) is not None and is_linear(flow, layer)]
    rows = [record for record, one in given if one not in layers and learned_source(flow, record, one) is not None]
    is_bias = len(given) == 2 and len(layers) == 1 and len(rows) == 1 and prod(rows[0].shape) == rows[0].shape[-1]
    return flow.carried_from(layers[0]) if is_bias else here


def comes_from_same_numbers(
    flow: Flow, plain: tuple[TensorRecord, int | None], other: tuple[TensorRecord, int | None], nodes: set[int]
) -> bool:
    """Whether the bent factor is worked out of the very numbers of the plain one, as in x times sigmoid(x)."""
    wanted = name_numbers(flow, *plain)
    way = flow.behind(other[1], within=lambda node: node in nodes and (node, None) != wanted)
    return any(
        name_numbers(flow, *one) == wanted for one in (other, *(one for node in way for one in flow.given(node)))
    )


def name_numbers(flow: Flow, record: TensorRecord, maker: int | None) -> tuple[object, ...]:
    """What numbers are known by: the step that made them and which of its parts they are, be that cut out twice."""
    if maker is not None and flow.op(maker) == "index" and len(flow.makers[maker]) == 1:
        return (flow.makers[maker], *flow.steps[maker].settings.items())
    return maker, record.output


def list_bending(flow: Flow, nodes: Collection[int], activation: str | None) -> list[int]:
    """The steps among some by which numbers are bent, as their activation is told."""
    if activation is None:
        return []
    if activation == "xielu":
        return [node for node in sorted(nodes) if flow.is_leaf(node) and flow.op(node).rstrip("_") in XIELU]
    curves, others = find_curves(flow, nodes)
    written = (list_snake(flow, node) for node in nodes) if activation == "snake" else ()
    own = {node for one in curves if one.name == activation for node in one.nodes}
    return sorted(own.union(*written) or (node for node in others if flow.op(node) in CURVES))


def name_activation(flow: Flow, inner: Collection[int], wide: Collection[int]) -> str | None:
    """How numbers are bent, by all that is done to them and not by one operation alone; None if that is not known.

    The cut of a threshold is no bend of this, nor is a norm.
    """
    own = {*inner, *wide}
    reached = (set(flow.ahead(*wide, within=own.__contains__)) if wide else own).intersection(inner)
    ops = [flow.op(node).rstrip("_") for node in sorted(reached) if flow.is_leaf(node)]
    if ops.count("mul") >= LEAST_OF_XIELU and {*ops} >= {"gt", "where", "expm1", "sub", "add"}:
        return "xielu"
    if any(list_snake(flow, node) for node in reached):
        return "snake"
    norms = (find_norm(flow, node) for node in reached)
    apart = {node for norm in norms if norm is not None for node in norm.nodes} | {*list_threshold(flow, inner, wide)}
    curves, others = find_curves(flow, reached - apart)
    known = frozenset[int]().union(apart, *(one.nodes for one in curves))
    rest = [node for node in reached - known if flow.is_leaf(node)]
    if not all(
        flow.op(node) in PLAIN | CURVES or is_linear(flow, node) or is_norm_of_maps(flow, node) for node in rest
    ):
        return None
    meet = [node for node in rest if sum(one in own for one in flow.makers[node]) > 1]
    names = {one.name for one in curves}
    if not names and len(others) == 1 and flow.op(others[0]) in CURVES and not meet:
        return name_bend(flow.steps[others[0]])
    products = [node for node in meet if flow.op(node) in SCALINGS and not is_gate(flow, node, set(inner), wide)]
    return names.pop() if len(names) == 1 and not others and not products else None
